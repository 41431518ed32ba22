"""The driver ``stack``: several handles as layers of one domain.

A position belongs to the last layer whose domain contains it. The engine splits a view among the
layers and copies elements in memory; other layers are read or written concurrently.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from tessarr.errors import ArgumentError, ReadOnlyError
from tessarr.index_space import IndexDomain, IndexTransform, LayerStack, View, VisibleLayers
from tessarr.tensorstore.batch import ExpectedRead, ReadGroup
from tessarr.tensorstore.driver import NO_SCOPE, Driver, OperationScope
from tessarr.tensorstore.future.combine import (
    chain_future,
    convert_result,
    join_futures,
    join_writes,
)
from tessarr.tensorstore.future.future import Future, failed
from tessarr.tensorstore.future.write_futures import WriteFutures
from tessarr.tensorstore.handle.handle import TensorStore
from tessarr.tensorstore.ndarray_views import (
    allocation_error,
    assign_elements,
    call_checked,
    empty,
    find_memory,
    select_elements,
)
from tessarr.tensorstore.opening import open_spec
from tessarr.tensorstore.schema.chunk_layout import ChunkLayout
from tessarr.tensorstore.spec.driver_spec import OpenRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

    from tessarr.array import Array
    from tessarr.tensorstore.context.references import References
    from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812
    from tessarr.tensorstore.transaction.transaction import Transaction

__all__ = ["Layer", "StackDriver", "common_units"]

Layer: TypeAlias = Any
"""A `TensorStore`, or a `Spec` with a domain, which is opened on first use."""


class StackDriver(Driver):
    """Combines layers of one domain.

    Parameters
    ----------
    layers
        The layers, from the lowest to the topmost.
    placed
        The positions of the layers in the domain.
    dtype
        The data type of all layers.
    units
        The unit of each dimension, or None.
    references
        The resources of the spec.
    """

    __slots__ = ("_arrays", "_engine_layers", "_layers", "_units", "references")

    name = "stack"

    def __init__(
        self,
        layers: Sequence[Layer],
        placed: LayerStack,
        dtype: DataType,
        units: Sequence[Any] | None,
        references: References,
    ) -> None:
        self._layers = layers
        self._engine_layers = placed
        self.dtype = dtype
        self._units = units
        self.references = references
        self._arrays: dict[bool, list[npt.NDArray[Any] | None]] = {}  # to read from, to write to

    @property
    def layers(self) -> list[Layer]:
        """The layers, each at its position."""
        views = self._engine_layers.views()
        return [layer._with_view(view) for layer, view in zip(self._layers, views, strict=True)]

    @property
    def domain(self) -> IndexDomain:
        """The domain of all layers."""
        return IndexTransform._of_view(self._engine_layers.domain).domain

    @property
    def chunk_layout(self) -> ChunkLayout:
        """An empty layout: layers can differ."""
        return ChunkLayout()

    @property
    def dimension_units(self) -> tuple[Any, ...]:
        """The units of the spec, or the layers' common units."""
        return common_units(self._units or (None,) * self.domain.rank, self.layers)

    def stale_documents(self, scope: OperationScope) -> list[ExpectedRead]:
        """Return the stale documents of the layers."""
        open_ones = [layer for layer in self._layers if isinstance(layer, TensorStore)]
        return [
            document
            for layer in open_ones
            for document in layer._driver.stale_documents(_layer_scope(scope))
        ]

    def with_staged_bounds(self, transaction: Transaction) -> Driver:
        """Return the layers in a transaction."""
        layers = [
            layer._in_transaction(transaction) if isinstance(layer, TensorStore) else layer
            for layer in self._layers
        ]
        return StackDriver(layers, self._engine_layers, self.dtype, self._units, self.references)

    def storage_ids(self) -> frozenset[Any]:
        """Return the storage identifiers of the layers."""
        ids: frozenset[Any] = frozenset()
        for layer in self._layers:
            if isinstance(layer, TensorStore):
                ids |= layer._driver.storage_ids()
        return ids

    def read(
        self, view: IndexTransform, out: npt.NDArray[Any] | None, scope: OperationScope
    ) -> Future[npt.NDArray[Any]]:
        """Read from each layer its part of the view."""
        try:
            split = self._split_view(view, scope, write=False)
            if split.is_single_remote:
                n, layer_view, _ = split.remote()[0]
                return self._read(n, layer_view, out, scope)
            result = empty(view.domain.shape, self.dtype.dtype) if out is None else out
            call_checked(split.take, result)
            stored = [_start_stored_read(split, result)] if split.has_stored else []
            own = ReadGroup() if scope.batch is None and scope.read_group is None else None
            part_scope = scope if own is None else OperationScope(scope.transaction, read_group=own)
            reads = [self._read_part(*part, result, part_scope) for part in split.remote()]
            if own is not None:
                own.begin()
        except Exception as error:  # noqa: BLE001 (the future reports it)
            return failed(allocation_error(error, view))
        if stored and not reads:
            return stored[0]
        return join_futures(stored + reads, lambda: result, begin=own is not None)

    def _read_part(
        self, n: int, view: View, target: View, result: npt.NDArray[Any], scope: OperationScope
    ) -> Future[Any]:
        if target.has_index_arrays:
            items = self._read(n, view, None, scope)
            return convert_result(items, lambda items: assign_elements(result, target, items))
        return self._read(n, view, select_elements(result, target), scope)

    def _read(
        self, n: int, view: View, out: npt.NDArray[Any] | None, scope: OperationScope
    ) -> Future[npt.NDArray[Any]]:
        layer = self._layers[n]
        if isinstance(layer, TensorStore):
            return _start_read(layer, view, out, scope)

        def start_operation(layer: TensorStore) -> Future[Any]:
            # The batch can be submitted before a layer is open.
            return _start_read(layer, view, out, OperationScope(scope.transaction))

        return self._with_open_layer(n, start_operation, scope, write=False)

    def write(
        self, view: IndexTransform, values: npt.NDArray[Any], scope: OperationScope
    ) -> WriteFutures:
        """Write to each layer its part of the view."""
        split = self._split_view(view, scope, write=True)
        others = split.remote()
        for n, *_ in others:
            layer = self._layers[n]
            if isinstance(layer, TensorStore) and not layer.writable:
                raise ArgumentError(f"layer {n} cannot be written")
        if split.is_single_remote:
            return self._write(others[0][0], others[0][1], values, scope)
        call_checked(split.put, values)
        return join_writes(
            [self._write(n, v, select_elements(values, target), scope) for n, v, target in others]
        )

    def _write(
        self, n: int, view: View, items: npt.NDArray[Any], scope: OperationScope
    ) -> WriteFutures:
        def start_operation(layer: TensorStore) -> WriteFutures:
            driver, layer_view = layer._driver.refresh_bounds(
                IndexTransform._of_view(view), _layer_scope(scope)
            )
            return driver.write(layer_view, items, scope)

        layer = self._layers[n]
        if isinstance(layer, TensorStore):
            return start_operation(layer)
        done = self._with_open_layer(
            n, lambda layer: start_operation(layer).commit, scope, write=True
        )
        return WriteFutures._of(done, done)

    def _with_open_layer(
        self,
        n: int,
        start_operation: Callable[[TensorStore], Future[Any]],
        scope: OperationScope,
        *,
        write: bool,
    ) -> Future[Any]:
        """Open a layer that is a spec, and call `start_operation` with it."""

        def check_layer(layer: TensorStore) -> Future[Any]:
            if layer.dtype != self.dtype:
                raise ArgumentError(f"layer {n} has {layer.dtype}, not {self.dtype}")
            return start_operation(layer)

        opening = OpenRequest(not write, write, scope.transaction)
        return chain_future(open_spec(self._layers[n], opening), check_layer)

    def _split_view(
        self, view: IndexTransform, scope: OperationScope, *, write: bool
    ) -> VisibleLayers:
        """Split a view among the layers.

        Raises
        ------
        ArgumentError
            If a position belongs to no layer.
        """
        find = partial(self._find_arrays, scope, write=write)
        return call_checked(self._engine_layers.visible, view._as_view(), find)

    def _find_arrays(
        self, scope: OperationScope, numbers: list[int], *, write: bool
    ) -> list[npt.NDArray[Any] | Array | None]:
        """Return the arrays that some layers are views of, for the engine.

        Stored arrays are included if several are read without a batch or transaction.
        """
        if scope.transaction is not None:
            return [None] * len(numbers)
        in_memory = self._memory_arrays(scope, write=write)
        if write or scope is not NO_SCOPE or len(numbers) == 1:
            return [in_memory[n] for n in numbers]
        return [self._stored_array(n) if in_memory[n] is None else in_memory[n] for n in numbers]

    def _stored_array(self, n: int) -> Array | None:
        layer = self._layers[n]
        if isinstance(layer, TensorStore) and "r" in layer._mode:
            return layer._driver.stored_array
        return None

    def _memory_arrays(
        self, scope: OperationScope, *, write: bool
    ) -> list[npt.NDArray[Any] | None]:
        """Return the array in memory that each layer is a view of, or None."""
        memory = self._arrays.get(write)
        if memory is None:
            letter = "w" if write else "r"
            memory = self._arrays[write] = [
                find_memory(layer._driver, scope, write=write)
                if isinstance(layer, TensorStore) and letter in layer._mode
                else None
                for layer in self._layers
            ]
        return memory


def _start_stored_read(split: VisibleLayers, result: npt.NDArray[Any]) -> Future[npt.NDArray[Any]]:
    """Start to read stored layers, with one call of the engine."""
    future: Future[npt.NDArray[Any]] = Future._pending()
    future._work = call_checked(split.read, result, future).help
    return future


def common_units(spec_units: Sequence[Any], layers: Iterable[Layer]) -> tuple[Any, ...]:
    """Return the unit of each dimension from the spec, or the layers' common unit."""
    layer_units = [layer.dimension_units for layer in layers]
    known_units = [
        [units[k] for units in layer_units if units and units[k]] for k in range(len(spec_units))
    ]
    return tuple(
        unit or (those[0] if those and those.count(those[0]) == len(those) else None)
        for unit, those in zip(spec_units, known_units, strict=True)
    )


def _start_read(
    layer: TensorStore, view: View, out: npt.NDArray[Any] | None, scope: OperationScope
) -> Future[npt.NDArray[Any]]:
    """Start to read a view of a layer's base."""
    if not layer.readable:
        return failed(ReadOnlyError("a layer was opened for writing only: it cannot be read"))
    driver, base_view = layer._driver.refresh_bounds(
        IndexTransform._of_view(view), _layer_scope(scope)
    )
    return driver.read(base_view, out, scope)


def _layer_scope(scope: OperationScope) -> OperationScope:
    """Return a scope that keeps the layers' bounds, since the stack's domain is fixed."""
    return scope if scope.transaction is not None else scope._replace(rechecks_bounds=False)
