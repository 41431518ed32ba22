"""The driver ``stack``: several handles as layers of one domain.

A position belongs to the last layer whose domain has it. Reading and writing cut the view into the
parts that belong to each layer (`tessarr.tensorstore.parts`), the topmost first, and do all at
once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tessarr.errors import ArgumentError
from tessarr.tensorstore.after import all_done, attempt, chained, written
from tessarr.tensorstore.chunk_layout import ChunkLayout
from tessarr.tensorstore.driver import Driver
from tessarr.tensorstore.driver_spec import Opening
from tessarr.tensorstore.future import WriteFutures, converted, failed
from tessarr.tensorstore.in_memory import check_finite
from tessarr.tensorstore.opening import open_spec
from tessarr.tensorstore.parts import Cutter, Part
from tessarr.tensorstore.store import TensorStore, handle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from tessarr.space import IndexDomain, IndexTransform
    from tessarr.tensorstore.data_type import dtype as DataType  # noqa: N812
    from tessarr.tensorstore.driver import Using
    from tessarr.tensorstore.future import Future

__all__ = ["Layer", "StackDriver"]

Layer: TypeAlias = Any
"""A `TensorStore`, or a `Spec` with a domain, which is opened when it is needed."""


class StackDriver(Driver):
    """Layers.

    Parameters
    ----------
    layers
        From the lowest to the topmost, each where it belongs in the domain.
    data_type
        That of all layers.
    domain
        That of the whole.
    units
        The unit of each dimension, as far as it is given.
    context
        What layers that are specs are opened with.
    """

    __slots__ = ("_bounds", "_boxes", "_context", "_data_type", "_domain", "_units", "layers")

    name = "stack"

    def __init__(
        self,
        layers: Sequence[Layer],
        data_type: DataType,
        domain: IndexDomain,
        units: Sequence[Any] | None,
        context: Any,
    ) -> None:
        self.layers = tuple(layers)
        self._data_type = data_type
        self._domain = domain
        self._units = units
        self._context = context
        self._boxes = [
            [(dim.inclusive_min, dim.exclusive_max) for dim in layer.domain.dims]
            for layer in layers
        ]
        # Less than what a view reaches, where a layer has positions of it.
        ends = [[low for low, _ in box] + [-high for _, high in box] for box in self._boxes]
        self._bounds = np.array(ends, "i8").reshape(len(ends), 2 * domain.rank)

    @property
    def dtype(self) -> DataType:
        """The data type of all layers."""
        return self._data_type

    @property
    def domain(self) -> IndexDomain:
        """That of the whole."""
        return self._domain

    @property
    def chunk_layout(self) -> ChunkLayout:
        """Nothing: layers may differ."""
        return ChunkLayout()

    @property
    def dimension_units(self) -> tuple[Any, ...]:
        """What is said, or what the layers agree upon."""
        given = self._units or (None,) * self._domain.rank
        found = [layer.dimension_units for layer in self.layers]
        said = [{units[k] for units in found if units and units[k]} for k in range(len(given))]
        return tuple(
            unit or (those.pop() if len(those) == 1 else None)
            for unit, those in zip(given, said, strict=True)
        )

    def storages(self) -> frozenset[Any]:
        """Tell where elements are: where those of the layers are."""
        found: frozenset[Any] = frozenset()
        for layer in self.layers:
            if isinstance(layer, TensorStore):
                found |= layer._driver.storages()
        return found

    def read(
        self, view: IndexTransform, out: npt.NDArray[Any] | None, using: Using
    ) -> Future[npt.NDArray[Any]]:
        """Read from each layer what belongs to it."""
        try:
            check_finite(view)
            cutter = Cutter(view) if view.size else None
            parts = [] if cutter is None else self._parts(cutter)
            if len(parts) == 1:  # all of the view
                return self._read(parts[0][0], view, out, using)
            result = np.empty(view.domain.shape, self._data_type.dtype) if out is None else out
            reads = (
                []
                if cutter is None
                else [self._read_part(n, part, cutter, result, using) for n, part in parts]
            )
        except Exception as error:  # noqa: BLE001 (the future tells it)
            return failed(error)
        return all_done(reads, lambda: result)

    def _read_part(
        self, n: int, part: Part, cutter: Cutter, result: npt.NDArray[Any], using: Using
    ) -> Future[Any]:
        place = cutter.place(result, part)
        found = self._read(n, cutter.view_of(part), place, using)
        if place is not None:
            return found
        return converted(found, lambda items: cutter.put(result, part, items))

    def _read(
        self, n: int, view: IndexTransform, out: npt.NDArray[Any] | None, using: Using
    ) -> Future[npt.NDArray[Any]]:
        def begin(layer: TensorStore) -> Future[Any]:
            # A batch may be over when a layer that had to be opened is there.
            batch = using.batch if layer is self.layers[n] else None
            return _seen(layer, view, using).read(batch=batch, out=out)

        return self._with(n, begin, using, write=False)

    def write(self, view: IndexTransform, values: npt.NDArray[Any], using: Using) -> WriteFutures:
        """Write to each layer what belongs to it."""
        check_finite(view)
        if view.size == 0:
            done = attempt(lambda: None)
            return WriteFutures._of(done, done)
        cutter = Cutter(view)
        parts = self._parts(cutter)
        for n, _ in parts:
            layer = self.layers[n]
            if isinstance(layer, TensorStore) and not layer.writable:
                raise ArgumentError(f"layer {n} cannot be written")
        if len(parts) == 1:  # all of the view
            return self._write(parts[0][0], view, values, using)
        return written(
            [
                self._write(n, cutter.view_of(part), cutter.items(values, part), using)
                for n, part in parts
            ]
        )

    def _write(
        self, n: int, view: IndexTransform, items: npt.NDArray[Any], using: Using
    ) -> WriteFutures:
        def begin(layer: TensorStore) -> WriteFutures:
            return _seen(layer, view, using).write(items, batch=using.batch)

        layer = self.layers[n]
        if isinstance(layer, TensorStore):
            return begin(layer)
        done = self._with(n, lambda layer: begin(layer).commit, using, write=True)
        return WriteFutures._of(done, done)

    def _with(
        self, n: int, begin: Callable[[TensorStore], Future[Any]], using: Using, *, write: bool
    ) -> Future[Any]:
        """Do something with a layer, which is opened if it is a spec."""
        layer = self.layers[n]
        if isinstance(layer, TensorStore):
            return begin(layer)

        def opened(found: TensorStore) -> Future[Any]:
            if found.dtype != self._data_type:
                raise ArgumentError(f"layer {n} has {found.dtype}, not {self._data_type}")
            return begin(found)

        opening = Opening(not write, write, using.transaction)
        return chained(open_spec(layer, opening, self._context), opened)

    def _parts(self, cutter: Cutter) -> list[tuple[int, Part]]:
        """Return the parts of a view, with the layers that they belong to.

        Raises
        ------
        ArgumentError
            If a position belongs to none.
        """
        reach = cutter.reach()
        limits = [most for _, most in reach] + [-least for least, _ in reach]
        touched = np.flatnonzero((self._bounds < limits).all(axis=1))
        left = [cutter.whole]
        found: list[tuple[int, Part]] = []
        for n in touched[::-1].tolist():
            box = self._boxes[n]
            rest: list[Part] = []
            for part in left:
                inner, others = cutter.split(part, box)
                if inner is not None:
                    found.append((n, inner))
                rest += others
            left = rest
            if not left:
                return found
        where = tuple(one.offset for one in self._corner(cutter, left[0]))
        raise ArgumentError(f"no layer has position {where}")

    def _corner(self, cutter: Cutter, part: Part) -> Any:
        view = cutter.view_of(part)
        return view[view.domain.origin].output


def _seen(layer: TensorStore, view: IndexTransform, using: Using) -> TensorStore:
    """Return what a view of the whole is of a layer."""
    transaction = layer.transaction if using.transaction is None else using.transaction
    return handle(layer._driver, layer._view[view], layer.mode, transaction)
