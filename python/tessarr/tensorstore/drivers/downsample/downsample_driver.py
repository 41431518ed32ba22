"""The driver ``downsample``: a view with one element for each block.

Theory
------
The element at position ``p`` of a dimension with factor ``f`` reduces the elements of the base from
``p * f`` up to ``(p + 1) * f``, clipped to its bounds. A read takes the set of positions that a
view has along each dimension, reads their blocks as one product of indices, reduces them, and
orders the result for the view. If index arrays vary together, so that the product is much larger
than the view, the driver reads the block of each point instead. The engine computes the product.

Large views are read and reduced in slabs of a limited size.
"""

from __future__ import annotations

from math import prod
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.errors import ArgumentError, SelectionError
from tessarr.index_space import (
    Blocks,
    BlockSource,
    Dim,
    IndexDomain,
    IndexTransform,
    OutputIndexMap,
)
from tessarr.index_space.output_index_map import evaluate_map
from tessarr.tensorstore.driver import Driver, OperationScope, StorageQuery
from tessarr.tensorstore.drivers.array.array_driver import array
from tessarr.tensorstore.drivers.downsample.blocks import BlockGrid, check_factors
from tessarr.tensorstore.drivers.downsample.reduction import AxisBlocks, check_method, reduce
from tessarr.tensorstore.future.combine import convert_result
from tessarr.tensorstore.future.future import Future, failed, finished, spawn
from tessarr.tensorstore.handle.handle import TensorStore, build_handle
from tessarr.tensorstore.ndarray_views import (
    check_finite,
    empty,
    out_of_bounds_error,
    start_view,
    take_elements,
)
from tessarr.tensorstore.schema.chunk_layout import ChunkLayout
from tessarr.tensorstore.schema.layout_constraints import propagate_layout
from tessarr.tensorstore.schema.propagate import check_fits, propagate_bounds

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tessarr.tensorstore.batch import ExpectedRead
    from tessarr.tensorstore.transaction.transaction import Transaction

__all__ = ["DownsampleDriver", "downsample_handle"]

_SLAB_BYTES: Final = 64 << 20
_MAX_WASTE: Final = 4


def downsample_handle(base: TensorStore, factors: Sequence[int], method: str) -> TensorStore:
    """Return a view of a handle with one element for each block.

    Raises
    ------
    ArgumentError
        If the factors do not fit, or the data type does not support the method.
    """
    if not base.readable:
        raise ArgumentError("a handle that was opened for writing only cannot be downsampled")
    return build_handle(DownsampleDriver(base, factors, method), None, "r", base.transaction)


class DownsampleDriver(Driver):
    """Reduces each block of a base to one element.

    Parameters
    ----------
    of
        The base.
    factors
        The length of blocks along each dimension.
    method
        The reduction of a block.
    """

    __slots__ = ("_block_bytes", "_blocks", "_engine_blocks", "base", "method")

    name = "downsample"

    def __init__(self, of: TensorStore, factors: Sequence[int], method: str) -> None:
        check_factors(factors, of.rank)
        check_method(method, of.dtype)
        self.base = of
        self.dtype = of.dtype
        self.method = method
        self._blocks = BlockGrid(of.domain, factors, method)
        self._engine_blocks = Blocks(of._as_view(), self._blocks.domain._as_view(), self.factors)
        sizes = map(min, self._blocks.factors, [dim.size for dim in of.domain._dims])
        self._block_bytes = prod(sizes) * of.dtype.dtype.itemsize

    factors: Any = property(attrgetter("_blocks.factors"))
    domain: Any = property(attrgetter("_blocks.domain"))
    readable: Any = property(attrgetter("base.readable"))
    codec: Any = property(attrgetter("base.codec"))
    kvstore: Any = property(attrgetter("base.kvstore"))

    @property
    def writable(self) -> bool:
        """False, because a downsampled view cannot write."""
        return False

    def storage_ids(self) -> frozenset[Any]:
        """Return the storage identifiers of the base."""
        return self.base._driver.storage_ids()

    def refresh_bounds(
        self, view: IndexTransform, scope: OperationScope
    ) -> tuple[Driver, IndexTransform]:
        """Return a view with the current bounds of the base."""
        of = self.base._with_current_bounds(
            scope._replace(rechecks_bounds=True)
        )  # also for a layer
        if of._driver.memory is None:  # the bounds of an array in memory do not change
            check_fits(of._view, of._driver.domain)  # also if no missing element is read
        driver = self if of is self.base else DownsampleDriver(of, self.factors, self.method)
        if driver is self and not view._has_implicit_bounds:
            return self, view
        return driver, propagate_bounds(view, driver.domain)

    def stale_documents(self, scope: OperationScope) -> list[ExpectedRead]:
        """Return the stale documents of the base."""
        return self.base._driver.stale_documents(scope._replace(rechecks_bounds=True))

    def with_staged_bounds(self, transaction: Transaction) -> Driver:
        """Return the view of the base in a transaction."""
        return DownsampleDriver(self.base._in_transaction(transaction), self.factors, self.method)

    def resolve(self, scope: OperationScope) -> Future[Driver]:
        """Read the current bounds of the base."""
        return convert_result(
            self.base.resolve(batch=scope.batch),
            lambda of: DownsampleDriver(of, self.factors, self.method),
        )

    @property
    def chunk_layout(self) -> Any:
        """The chunk layout of the base, in blocks."""
        view = self._blocks.first_elements_view(IndexTransform(self._blocks.domain))
        return ChunkLayout._of(propagate_layout(self.base.chunk_layout._constraints, view))

    @property
    def fill_value(self) -> npt.NDArray[Any] | None:
        """The fill value of the base, downsampled unless it is a scalar."""
        fill: npt.NDArray[Any] | None = self.base.fill_value
        if fill is None or fill.ndim == 0:
            return fill
        inner = slice(self.base.rank - fill.ndim, None)
        alike = array(fill, self.dtype).translate_to[self.base.origin[inner]]
        return downsample_handle(alike, self.factors[inner], self.method).read().result()

    @property
    def dimension_units(self) -> tuple[Any, ...]:
        """The units of the base, times the factors."""
        return tuple(
            None if unit is None else unit * factor
            for unit, factor in zip(self.base.dimension_units, self.factors, strict=True)
        )

    def base_of(self, view: IndexTransform) -> TensorStore | None:
        """Return the handle of the elements that a view depends on.

        Blocks that do not form a box add a dimension. None if their sizes differ.
        """
        self._blocks.check(view)
        return self._base_handle(view)

    def _base_handle(self, view: IndexTransform) -> TensorStore | None:
        base_view = self._blocks.base_view(view)
        return None if base_view is None else self.base[base_view]

    def storage_statistics(
        self, view: IndexTransform, query: StorageQuery, scope: OperationScope
    ) -> Future[tuple[bool, bool]]:
        """Return the storage statistics of the elements that a view depends on."""
        try:
            base = self._base_handle(view)
        except SelectionError as error:
            return failed(out_of_bounds_error(error))
        if base is None:
            self._raise_unsupported("return storage statistics of blocks of several sizes")
        return base._driver.storage_statistics(base._view, query, scope)

    def read(
        self, view: IndexTransform, out: npt.NDArray[Any] | None, scope: OperationScope
    ) -> Future[npt.NDArray[Any]]:
        """Read blocks, and reduce them."""
        try:
            if self.method == "stride":
                check_finite(view)
                strided = self.base._view[self._blocks.first_elements_view(view)]
                return self.base._driver.read(strided, out, scope)
            product = self._engine_blocks.source(view._as_view())
            if product is None:
                return finished(empty(view.domain.shape, self.dtype.dtype) if out is None else out)
            if prod(product.counts) > _MAX_WASTE * view.size + 1000:
                return self._read_points(view, out, scope)
            return self._read_product(product, out, scope)
        except SelectionError as error:
            return failed(out_of_bounds_error(error))
        except Exception as error:  # noqa: BLE001 (the future reports it)
            return failed(error)

    def _read_product(
        self, product: BlockSource, out: npt.NDArray[Any] | None, scope: OperationScope
    ) -> Future[npt.NDArray[Any]]:
        """Read the blocks of the product of positions along each dimension."""
        counts, order = product.counts, product.order
        values = out if order is None else None
        if values is None:
            values = empty(counts, self.dtype.dtype)
        rows = counts[0] if counts else 1
        most = max(1, _SLAB_BYTES * rows // max(1, prod(counts) * self._block_bytes))
        if rows <= most:
            reduced = self._read_rows(product, 0, rows, values, scope)
        else:
            reduced = spawn(self._read_slabs, product, most, values, scope)
        return (
            reduced
            if order is None
            else convert_result(reduced, lambda them: take_elements(them, order, out))
        )

    def _read_slabs(
        self, product: BlockSource, most: int, values: npt.NDArray[Any], scope: OperationScope
    ) -> npt.NDArray[Any]:
        """Read and reduce slabs of rows one after another, to limit memory."""
        before: Future[Any] | None = None
        for first in range(0, len(values), most):
            last = min(first + most, len(values))
            reading = self._read_rows(product, first, last, values[first:last], scope)
            reading.force()  # concurrently with the reduction of the previous slab
            if before is not None:
                before.result()
            before = reading
        if before is not None:
            before.result()
        return values

    def _read_rows(
        self,
        product: BlockSource,
        first: int,
        last: int,
        out: npt.NDArray[Any],
        scope: OperationScope,
    ) -> Future[npt.NDArray[Any]]:
        """Read and reduce the blocks of some rows of the product."""
        view, cuts = product.part(first, last)
        blocks = [AxisBlocks(*cut) for cut in cuts]
        read = start_view(self.base._driver, IndexTransform._of_view(view), scope)
        return convert_result(read, lambda values: reduce(values, blocks, self.method, out))

    def _read_points(
        self, view: IndexTransform, out: npt.NDArray[Any] | None, scope: OperationScope
    ) -> Future[npt.NDArray[Any]]:
        """Read the block of each point of the view."""
        rank = view.output_rank
        points = [
            np.broadcast_to(evaluate_map(index_map, view.domain._dims), view.domain.shape).reshape(
                -1
            )
            for index_map in view.output
        ]
        edges = [self._blocks.block_bounds(k, points[k]) for k in range(rank)]
        shapes = np.stack([most - least for least, most in edges], axis=1)
        kinds, group = np.unique(shapes, axis=0, return_inverse=True)

        def work() -> npt.NDArray[Any]:
            result = empty((len(points[0]),), self.dtype.dtype)
            for kind, lengths in enumerate(kinds.tolist()):
                chosen = np.flatnonzero(group.reshape(-1) == kind)
                most = max(1, _SLAB_BYTES // (prod(lengths) * 8 * rank))
                for first in range(0, len(chosen), most):
                    group_indices = chosen[first : first + most]
                    least = [edge[0][group_indices] for edge in edges]
                    result[group_indices] = self._read_blocks(least, lengths, scope)
            values = result.reshape(view.domain.shape)
            if out is None:
                return values
            out[...] = values
            return out

        return spawn(work)

    def _read_blocks(
        self, least: list[npt.NDArray[np.int64]], lengths: list[int], scope: OperationScope
    ) -> npt.NDArray[Any]:
        """Read blocks of one shape that start at several points, and reduce each."""
        rank = len(lengths)
        count = len(least[0])
        dims = (Dim._of(0, count), *(Dim._of(0, length) for length in lengths))
        maps = []
        for k, first in enumerate(least):
            shape = [1] * (rank + 1)
            shape[k + 1] = lengths[k]
            inside = np.arange(lengths[k]).reshape(shape)
            maps.append(OutputIndexMap._by_array(first.reshape(count, *[1] * rank) + inside))
        view = IndexTransform._of(IndexDomain._of(dims), tuple(maps))
        values = start_view(self.base._driver, self.base._view[view], scope).result()
        blocks = [AxisBlocks(0, 1, count, 0), *(AxisBlocks(0, length, 1, 0) for length in lengths)]
        return reduce(values, blocks, self.method).reshape(-1)
