"""The driver ``virtual_chunked``: user functions read and write the chunks."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import SelectionError
from tessarr.index_space import Dim, GridPartition, IndexDomain, IndexTransform, View
from tessarr.index_space.intervals import INFINITE
from tessarr.tensorstore.batch import Batch
from tessarr.tensorstore.context.caching import ChunkCache, SharedChunkCache, caches_of
from tessarr.tensorstore.driver import Driver, OperationScope
from tessarr.tensorstore.drivers.virtual_chunked.chunks import ChunkReader, Chunks, StagedChunks
from tessarr.tensorstore.drivers.virtual_chunked.functions import (
    Functions,
    VirtualChunkedReadParameters,
)
from tessarr.tensorstore.future.combine import join_futures
from tessarr.tensorstore.future.future import NOTHING, Future, failed, finished, spawn_future
from tessarr.tensorstore.future.write_futures import WriteFutures
from tessarr.tensorstore.ndarray_views import (
    assign_elements,
    check_finite,
    covers_chunk,
    empty,
    out_of_bounds_error,
    select_elements,
)
from tessarr.tensorstore.schema.choose_chunk_shape import (
    check_codec_chunk,
    choose_chunk_shapes,
    unified_chunks,
)
from tessarr.tensorstore.schema.chunk_layout import ChunkLayout

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.tensorstore.context.references import References
    from tessarr.tensorstore.schema.schema import Schema

__all__ = ["VirtualDriver"]

_STAGED_READ_BYTES: Final = 1 << 28
"""The size of a transaction's cache of chunks."""


class VirtualDriver(Driver):
    """Reads and writes chunks through user functions.

    Parameters
    ----------
    functions
        Read and write the chunks.
    schema
        The schema, with a data type and a rank.
    references
        The resources; a ``cache_pool`` with a limit caches chunks.
    """

    __slots__ = (
        "_cache",
        "_chunks",
        "_domain",
        "_layout",
        "_origin",
        "_schema",
        "_shape",
        "functions",
        "references",
    )

    name = "virtual_chunked"

    def __init__(self, functions: Functions, schema: Schema, references: References) -> None:
        assert schema.rank is not None
        assert schema.dtype is not None
        self.functions = functions
        self.references = references
        self._schema = schema
        self.dtype = schema.dtype
        self._cache = ChunkCache(caches_of(references.resource("cache_pool")).chunks)
        domain = schema.domain
        if domain is None:
            domain = IndexDomain(schema.rank)
        self._domain = IndexDomain._of(
            tuple(Dim._of(d.inclusive_min, d.exclusive_max, d.label) for d in domain._dims)
        )
        layout = schema.chunk_layout
        layout_json = layout.to_json()
        check_codec_chunk(schema._layout)
        extent = self._domain._as_view()
        self._shape, _ = choose_chunk_shapes(unified_chunks(schema._layout), extent, extent.rank)
        origin = layout.grid_origin or (None,) * schema.rank
        self._origin = tuple(
            _grid_origin(dim, size) if start is None else start
            for start, dim, size in zip(origin, self._domain._dims, self._shape, strict=True)
        )
        order = layout_json.get("inner_order", layout_json.get("inner_order_soft_constraint"))
        order = tuple(range(schema.rank) if order is None else order)
        self._chunks = Chunks(functions, schema.dtype, order)
        self._layout = ChunkLayout(
            inner_order=order, grid_origin=self._origin, chunk_shape=self._shape
        )

    @property
    def domain(self) -> IndexDomain:
        """The domain."""
        return self._domain

    @property
    def readable(self) -> bool:
        """Whether a function reads chunks."""
        return self.functions.read is not None

    @property
    def writable(self) -> bool:
        """Whether a function writes chunks."""
        return self.functions.write is not None

    @property
    def chunk_layout(self) -> ChunkLayout:
        """The chunks."""
        return self._layout

    @property
    def dimension_units(self) -> tuple[Any, ...]:
        """The units of the schema."""
        return tuple(self._schema.dimension_units or (None,) * self._domain.rank)

    def read(
        self, view: IndexTransform, out: npt.NDArray[Any] | None, scope: OperationScope
    ) -> Future[npt.NDArray[Any]]:
        """Copy cached chunks, and read the others."""
        return scope.start(partial(self._read, view, out, batched=scope.batch is not None))

    def _read(
        self,
        view: IndexTransform,
        out: npt.NDArray[Any] | None,
        scope: OperationScope,
        *,
        batched: bool,
    ) -> Future[npt.NDArray[Any]]:
        try:
            check_finite(view)
            result = empty(view.domain.shape, self.dtype.dtype) if out is None else out
            if view.size == 0:
                return finished(result)
            staged = self._staged_chunks(scope)
            cache = self._cache if staged is None else staged.cache
            # The batch of the read is submitted; a new one collects the reads of the functions.
            batch = Batch() if batched else None
            parameters = VirtualChunkedReadParameters(batch, staleness_bound=time.time())
            cells = self._cells(view)
            return ChunkReader(self._chunks, cells, result, cache, staged, parameters).begin()
        except Exception as error:  # noqa: BLE001 (the future reports it)
            return failed(error)

    def write(
        self, view: IndexTransform, values: npt.NDArray[Any], scope: OperationScope
    ) -> WriteFutures:
        """Write each chunk; partly written chunks are read first."""
        staged = self._staged_chunks(scope)

        def work() -> Future[None]:
            check_finite(view)
            if view.size == 0:
                return NOTHING
            chunks = [(*cell, covers_chunk(cell[1], cell[0])) for cell in self._cells(view)]
            if staged is not None:
                assert scope.transaction is not None
                for box, inside, target, _ in chunks:
                    staged.put(box, inside, select_elements(values, target))
                scope.transaction._check_single_target()
                return NOTHING
            for box, *_, whole in chunks:
                if not whole:
                    self._chunks.check_readable(self._cache.get(box.origin))
            ends = []
            for box, inside, target, whole in chunks:
                items = select_elements(values, target)
                if whole:
                    chunk = self._chunks.new(box, clear=False)
                    assign_elements(chunk, inside, items)
                    ends.append(self._chunks.store(self._cache, box, chunk))
                else:
                    self._chunks.change(self._cache, box, partial(_assign_items, inside, items))
            return join_futures(ends, lambda: None)

        done = spawn_future(work)
        return WriteFutures._of(done, done)

    def _cells(self, view: IndexTransform) -> GridPartition:
        """Return each chunk's domain, the part of the view in it, and its position in the view."""
        try:
            return GridPartition(
                view._as_view(), self._domain._as_view(), self._origin, self._shape
            )
        except SelectionError as error:
            raise out_of_bounds_error(error) from error

    def _staged_chunks(self, scope: OperationScope) -> StagedChunks | None:
        """Return the staged chunks of a transaction."""
        if scope.transaction is None:
            return None
        staged: StagedChunks = scope.transaction._staging.join_changes(
            self, self._new_staged_chunks
        )
        return staged

    def _new_staged_chunks(self) -> StagedChunks:
        """Return new staged chunks, with a cache of reads if the driver has none."""
        cache = self._cache
        if not cache.limit:
            cache = ChunkCache(SharedChunkCache(_STAGED_READ_BYTES, int))
        return StagedChunks(self._chunks, cache)


def _assign_items(inside: View, items: npt.NDArray[Any], chunk: npt.NDArray[Any]) -> None:
    assign_elements(chunk, inside, items)


def _grid_origin(dim: Dim, size: int) -> int:
    """Return the grid origin: an offset from 0 such that a chunk starts at the lower bound."""
    return dim.inclusive_min % size if dim.inclusive_min > -INFINITE else 0
