"""Chunks that user functions read and write, and the staged chunks of a transaction."""

from __future__ import annotations

import time
from _thread import LockType, allocate_lock
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from tessarr.errors import ArgumentError
from tessarr.index_space import GridPartition, IndexDomain, View
from tessarr.tensorstore.drivers.virtual_chunked.functions import (
    Functions,
    VirtualChunkedReadParameters,
    VirtualChunkedWriteParameters,
    read_stamp,
)
from tessarr.tensorstore.future.combine import run_after
from tessarr.tensorstore.future.executor import while_waiting
from tessarr.tensorstore.future.future import Future, finished, spawn_future
from tessarr.tensorstore.ndarray_views import assign_elements, call_checked, select_elements

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from tessarr.tensorstore.context.caching import CachedChunk, ChunkCache
    from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812

__all__ = ["ChunkReader", "Chunks", "StagedChunks"]

_EMPTY_ELEMENTS: Final[dict[str, Any]] = {"string": b"", "ustring": "", "json": None}


class _PendingRead(NamedTuple):
    """A pending read of a chunk."""

    cache: ChunkCache
    box: View
    chunk: npt.NDArray[Any]
    called: Future[Any] | None
    """Ends with the call; None if the function has returned."""
    cached: CachedChunk | None
    """The cached chunk."""

    def end(self) -> tuple[npt.NDArray[Any], bytes]:
        """Wait for the chunk; return it, and its generation."""
        chunk, cached = self.chunk, self.cached
        generation, time_s = read_stamp(self.called and self.called.result())
        if cached is not None and cached[1] and generation in (b"", cached[1]):
            chunk, generation = cached[0], cached[1]
        self.cache.put(self.box.origin, chunk, generation, time_s)
        return chunk, generation


class _PendingWrite(NamedTuple):
    """A pending write of a chunk."""

    cache: ChunkCache
    box: View
    chunk: npt.NDArray[Any]
    called: Future[Any] | None
    expected: bytes
    """The generation before."""

    def end(self) -> bool:
        """Wait for the chunk; return whether the replaced generation was the expected one."""
        try:
            result = self.called and self.called.result()
            generation, time_s = read_stamp(result)
        except BaseException:
            self.cache.drop(self.box.origin)
            raise
        if result is not None and not generation:
            self.cache.drop(self.box.origin)
            return not self.expected
        self.cache.put(self.box.origin, self.chunk, generation, time_s)
        return True


@dataclass(frozen=True, slots=True)
class Chunks:
    """The chunks of a driver.

    Parameters
    ----------
    functions
        Read and write the chunks.
    dtype
        The type of their elements.
    order
        Their axes, in memory from the outermost to the innermost.
    """

    functions: Functions
    dtype: DataType
    order: Sequence[int]
    _lock: LockType = field(default_factory=allocate_lock)

    def new(self, box: View, *, clear: bool = True) -> npt.NDArray[Any]:
        """Return an array for a chunk, with its axes in the order of the layout."""
        kind, order = self.dtype, self.order
        chunk = (np.zeros if clear else np.empty)([box.shape[axis] for axis in order], kind.dtype)
        if clear and kind.name in _EMPTY_ELEMENTS:
            chunk[...] = _EMPTY_ELEMENTS[kind.name]
        return chunk.transpose(np.argsort(order))

    def read(
        self,
        cache: ChunkCache,
        box: View,
        parameters: VirtualChunkedReadParameters,
        cached: CachedChunk | None,
    ) -> _PendingRead:
        """Start to read a chunk; the cache can have a stale one."""
        if cached is not None:
            parameters = VirtualChunkedReadParameters(
                parameters.batch, cached[1], parameters.staleness_bound
            )
        function = self.functions.read
        if function is None:
            raise ArgumentError("a function that reads chunks is missing")
        chunk = self.new(box)
        called = self.functions.begin(function, IndexDomain._of_view(box), chunk, parameters)
        return _PendingRead(cache, box, chunk, called, cached)

    def _write(
        self, cache: ChunkCache, box: View, chunk: npt.NDArray[Any], expected: bytes
    ) -> _PendingWrite:
        """Start to write a chunk."""
        function = self.functions.write
        assert function is not None
        chunk.flags.writeable = False
        parameters = VirtualChunkedWriteParameters(expected)
        called = self.functions.begin(function, IndexDomain._of_view(box), chunk, parameters)
        return _PendingWrite(cache, box, chunk, called, expected)

    def store(self, cache: ChunkCache, box: View, chunk: npt.NDArray[Any]) -> Future[bool]:
        """Write a chunk."""
        writing = self._write(cache, box, chunk, b"")
        return run_after([writing.called], lambda: finished(writing.end()))

    def change(
        self,
        cache: ChunkCache,
        box: View,
        change: Callable[[npt.NDArray[Any]], None],
    ) -> None:
        """Read a chunk, change a part of it and write it, until no other writer interferes."""
        parameters = VirtualChunkedReadParameters()
        with while_waiting(), self._lock:  # other threads may be needed to finish the call
            cached, last_generation = cache.get(box.origin), None
            while True:
                if cached is None or cached[2] < parameters.staleness_bound:
                    self.check_readable(None)
                    before, generation = self.read(cache, box, parameters, cached).end()
                else:
                    before, generation, _ = cached
                chunk = self.new(box, clear=False)
                chunk[...] = before
                change(chunk)
                if self._write(cache, box, chunk, generation).end():
                    return
                # A function may omit a chunk of the same generation once.
                cached, last_generation = (
                    (before, generation, -inf) if generation != last_generation else None,
                    generation,
                )
                parameters = VirtualChunkedReadParameters(staleness_bound=time.time())

    def check_readable(self, cached: CachedChunk | None) -> None:
        """Raise an error for a partial write to an uncached chunk that cannot be read."""
        if cached is None and self.functions.read is None:
            raise ArgumentError(
                "parts of chunks cannot be written without a function that reads chunks"
            )


@dataclass(frozen=True, slots=True)
class _StagedChunk:
    """A chunk, and a mask of its written elements."""

    box: View
    values: npt.NDArray[Any]
    written: npt.NDArray[np.bool_]

    def copy_onto(self, chunk: npt.NDArray[Any]) -> None:
        """Copy the written elements into a chunk."""
        np.copyto(chunk, self.values, where=self.written)


@dataclass(frozen=True, slots=True)
class StagedChunks:
    """Partly written chunks of a transaction.

    Parameters
    ----------
    chunks
        Creates, reads and writes chunks.
    cache
        Caches reads.
    """

    chunks: Chunks
    cache: ChunkCache
    _staged: dict[tuple[int, ...], _StagedChunk] = field(default_factory=dict)
    _lock: LockType = field(default_factory=allocate_lock)

    def put(self, box: View, inside: View, items: npt.NDArray[Any]) -> None:
        """Stage items at the positions of a view of a chunk."""
        with self._lock:
            entry = self._staged.get(box.origin)
            if entry is None:
                entry = _StagedChunk(box, self.chunks.new(box), np.zeros(box.shape, bool))
                self._staged[box.origin] = entry
            assign_elements(entry.values, inside, items)
            assign_elements(entry.written, inside, np.broadcast_to(np.True_, inside.shape))

    def complete_chunk(self, origin: tuple[int, ...]) -> npt.NDArray[Any] | None:
        """Return a completely written chunk, or None."""
        with self._lock:
            entry = self._staged.get(origin)
            return entry.values.copy() if entry is not None and entry.written.all() else None

    def merge_onto(self, origin: tuple[int, ...], chunk: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a chunk with the written elements."""
        with self._lock:
            entry = self._staged.get(origin)
            if entry is None:
                return chunk
            merged = chunk.copy()
            entry.copy_onto(merged)
            return merged

    # Commit

    def count_targets(self) -> int:
        """Return the number of chunks."""
        return len(self._staged)

    def commit(self) -> None:
        """Store all chunks; partly written ones are merged with the current chunks."""
        for entry in self._staged.values():
            if entry.written.all():
                self.chunks.store(self.cache, entry.box, entry.values).result()
            else:
                self.chunks.change(self.cache, entry.box, entry.copy_onto)


_Cell: TypeAlias = "tuple[View, View, View]"
"""The domain of a chunk, the part of a view in it, and the position of this part in the view."""


@dataclass(frozen=True, slots=True)
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
    parameters
        The parameters of the functions.
    """

    chunks: Chunks
    cells: GridPartition
    result: npt.NDArray[Any]
    cache: ChunkCache
    staged: StagedChunks | None
    parameters: VirtualChunkedReadParameters

    def begin(self) -> Future[npt.NDArray[Any]]:
        """Return the future of the result.

        Cached chunks are copied immediately; another thread calls the functions.
        """
        missing: list[_Cell] | None = []
        if self.cache.limit:
            missing = self._missing_cells()
            if missing is None:
                return finished(self.result)
        return spawn_future(partial(self._read, missing))

    def _missing_cells(self) -> list[_Cell] | None:
        """Copy cached chunks; return cells up to the first missing one, or None at the end."""
        while True:
            missing = call_checked(self.cells.copy_known, self._cached_chunks, self.result)
            if missing is None or missing:
                return missing

    def _cached_chunks(self, origins: list[tuple[int, ...]]) -> list[npt.NDArray[Any] | None]:
        """Return the cached chunks at some origins; None for missing ones."""
        bound, staged = self.parameters.staleness_bound, self.staged
        cached = self.cache.find(origins)
        chunks = [entry[0] if entry and entry[2] >= bound else None for entry in cached]
        if staged is None:
            return chunks
        return [
            staged.complete_chunk(origin) if chunk is None else staged.merge_onto(origin, chunk)
            for origin, chunk in zip(origins, chunks, strict=True)
        ]

    def _read(self, missing: list[_Cell] | None) -> Future[npt.NDArray[Any]]:
        """Read chunks, starting with missing cells."""
        pending_reads: list[tuple[_PendingRead, View, View]] = []
        parameters, cache = self.parameters, self.cache
        while missing is not None:
            for box, inside, target in missing:
                reading = self.chunks.read(cache, box, parameters, cache.get(box.origin))
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
            return finished(self.result)

        return run_after([reading.called for reading, *_ in pending_reads], finish)

    def _copy(self, reading: _PendingRead, inside: View, target: View) -> None:
        """Wait for a chunk, and copy the selected part."""
        chunk, _ = reading.end()
        if self.staged is not None:
            chunk = self.staged.merge_onto(reading.box.origin, chunk)
        assign_elements(self.result, target, select_elements(chunk, inside))
