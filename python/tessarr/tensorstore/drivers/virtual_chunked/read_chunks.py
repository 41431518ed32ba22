"""One read of chunks by functions: what is known is copied, all else is asked for."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from tessarr.tensorstore.batch.batch import Batch
from tessarr.tensorstore.drivers.virtual_chunked.functions import (
    VirtualChunkedReadParameters,
)
from tessarr.tensorstore.future.combine import after
from tessarr.tensorstore.future.future import Future, finished
from tessarr.tensorstore.future.spawn import begun
from tessarr.tensorstore.ndarray_views import assign_elements, call_checked, select_elements

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.index_space import Cells, View
    from tessarr.tensorstore.context.chunk_cache import ChunkCache
    from tessarr.tensorstore.drivers.virtual_chunked.chunks import Chunks, PendingRead
    from tessarr.tensorstore.drivers.virtual_chunked.write_buffer import StagedChunks

__all__ = ["ChunkReader"]

_Cell: TypeAlias = "tuple[View, View, View]"
"""The domain of a chunk, the part of a view in it, and where that is in the view."""


class ChunkReader:
    """A read of several chunks.

    Parameters
    ----------
    chunks
        Reads them.
    cells
        Which, and what of them.
    result
        Where that goes.
    cache
        Keeps chunks.
    aside
        What a transaction has written of them.
    batched
        Whether the read is part of a batch.
    """

    __slots__ = ("_cache", "_cells", "_chunks", "_parameters", "_result", "_staged")

    def __init__(
        self,
        chunks: Chunks,
        cells: Cells,
        result: npt.NDArray[Any],
        cache: ChunkCache,
        aside: StagedChunks | None,
        *,
        batched: bool,
    ) -> None:
        self._chunks = chunks
        self._cells = cells
        self._result = result
        self._cache = cache
        self._staged = aside
        # That of the read is submitted by now: what functions read is collected by another.
        batch = Batch() if batched else None
        self._parameters = VirtualChunkedReadParameters(batch, b"", time.time())

    def begin(self) -> Future[npt.NDArray[Any]]:
        """Return the future of the result.

        Chunks in a cache are copied at once, as what is in memory is; functions are called in
        another thread.
        """
        rest: list[_Cell] | None = []
        if self._cache.limit:
            rest = self._missing_cells()
            if rest is None:
                return finished(self._result)
        return begun(partial(self._read, rest))

    def _missing_cells(self) -> list[_Cell] | None:
        """Return cells of which nothing is known, when all before are copied; None: all are."""
        while True:
            rest = call_checked(self._cells.unknown, self._cached_chunks, self._result)
            if rest is None or rest:
                return rest

    def _cached_chunks(self, origins: list[tuple[int, ...]]) -> list[npt.NDArray[Any] | None]:
        """Return the chunks that begin at origins: None for those that have to be read."""
        bound, aside = self._parameters.staleness_bound, self._staged
        kept = self._cache.find(origins)
        found = [one[0] if one and one[2] >= bound else None for one in kept]
        if aside is None:
            return found
        return [
            aside.complete_chunk(origin) if chunk is None else aside.merge_onto(origin, chunk)
            for origin, chunk in zip(origins, found, strict=True)
        ]

    def _read(self, rest: list[_Cell] | None) -> Future[npt.NDArray[Any]]:
        """Have chunks read, first some of which nothing is known."""
        under_way: list[tuple[PendingRead, View, View]] = []
        parameters, cache = self._parameters, self._cache
        while rest is not None:
            for box, inside, place in rest:
                reading = self._chunks.read(cache, box, parameters, cache.get(box.origin))
                if reading.called is None:
                    self._copy(reading, inside, place)
                else:
                    under_way.append((reading, inside, place))
            rest = self._missing_cells()
        if parameters.batch is not None:
            parameters.batch._begin()  # who was called may wait for what it reads

        def finish() -> Future[npt.NDArray[Any]]:
            for one in under_way:
                self._copy(*one)
            return finished(self._result)

        return after([reading.called for reading, *_ in under_way], finish)

    def _copy(self, reading: PendingRead, inside: View, place: View) -> None:
        """Wait for a chunk, and copy what is wanted of it."""
        chunk, _ = reading.end()
        if self._staged is not None:
            chunk = self._staged.merge_onto(reading.box.origin, chunk)
        assign_elements(self._result, place, select_elements(chunk, inside))
