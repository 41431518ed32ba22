"""`ChunkReader`: one read of several chunks through a user function."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from tessarr.tensorstore.batch.batch import Batch
from tessarr.tensorstore.drivers.virtual_chunked.functions import (
    VirtualChunkedReadParameters,
)
from tessarr.tensorstore.future.combine import run_after
from tessarr.tensorstore.future.future import Future, finished
from tessarr.tensorstore.future.spawn import spawn_future
from tessarr.tensorstore.ndarray_views import assign_elements, call_checked, select_elements

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.index_space import GridPartition, View
    from tessarr.tensorstore.context.chunk_cache import ChunkCache
    from tessarr.tensorstore.drivers.virtual_chunked.chunks import Chunks, PendingRead
    from tessarr.tensorstore.drivers.virtual_chunked.write_buffer import StagedChunks

__all__ = ["ChunkReader"]

_Cell: TypeAlias = "tuple[View, View, View]"
"""The domain of a chunk, the part of a view in it, and the position of this part in the view."""


class ChunkReader:
    """A read of several chunks.

    Parameters
    ----------
    chunks
        Reads them.
    cells
        The chunks, and the parts of them to read.
    result
        The output array.
    cache
        Caches chunks.
    staged
        The chunks that the transaction has written.
    batched
        Whether the read is part of a batch.
    """

    __slots__ = ("_cache", "_cells", "_chunks", "_parameters", "_result", "_staged")

    def __init__(
        self,
        chunks: Chunks,
        cells: GridPartition,
        result: npt.NDArray[Any],
        cache: ChunkCache,
        staged: StagedChunks | None,
        *,
        batched: bool,
    ) -> None:
        self._chunks = chunks
        self._cells = cells
        self._result = result
        self._cache = cache
        self._staged = staged
        # The batch of the read is already submitted; a new one collects the reads of the functions.
        batch = Batch() if batched else None
        self._parameters = VirtualChunkedReadParameters(batch, b"", time.time())

    def begin(self) -> Future[npt.NDArray[Any]]:
        """Return the future of the result.

        Cached chunks are copied immediately; another thread calls the functions.
        """
        missing: list[_Cell] | None = []
        if self._cache.limit:
            missing = self._missing_cells()
            if missing is None:
                return finished(self._result)
        return spawn_future(partial(self._read, missing))

    def _missing_cells(self) -> list[_Cell] | None:
        """Copy cached chunks; return cells up to the first missing one, or None at the end."""
        while True:
            missing = call_checked(self._cells.copy_known, self._cached_chunks, self._result)
            if missing is None or missing:
                return missing

    def _cached_chunks(self, origins: list[tuple[int, ...]]) -> list[npt.NDArray[Any] | None]:
        """Return the cached chunks at some origins; None for missing ones."""
        bound, staged = self._parameters.staleness_bound, self._staged
        cached = self._cache.find(origins)
        chunks = [entry[0] if entry and entry[2] >= bound else None for entry in cached]
        if staged is None:
            return chunks
        return [
            staged.complete_chunk(origin) if chunk is None else staged.merge_onto(origin, chunk)
            for origin, chunk in zip(origins, chunks, strict=True)
        ]

    def _read(self, missing: list[_Cell] | None) -> Future[npt.NDArray[Any]]:
        """Read chunks, starting with missing cells."""
        pending_reads: list[tuple[PendingRead, View, View]] = []
        parameters, cache = self._parameters, self._cache
        while missing is not None:
            for box, inside, target in missing:
                reading = self._chunks.read(cache, box, parameters, cache.get(box.origin))
                if reading.called is None:
                    self._copy(reading, inside, target)
                else:
                    pending_reads.append((reading, inside, target))
            missing = self._missing_cells()
        if parameters.batch is not None:
            parameters.batch._begin()  # a called function may wait for its own reads

        def finish() -> Future[npt.NDArray[Any]]:
            for pending in pending_reads:
                self._copy(*pending)
            return finished(self._result)

        return run_after([reading.called for reading, *_ in pending_reads], finish)

    def _copy(self, reading: PendingRead, inside: View, target: View) -> None:
        """Wait for a chunk, and copy the selected part."""
        chunk, _ = reading.end()
        if self._staged is not None:
            chunk = self._staged.merge_onto(reading.box.origin, chunk)
        assign_elements(self._result, target, select_elements(chunk, inside))
