"""Chunks that user functions read and write."""

from __future__ import annotations

import time
from _thread import allocate_lock
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from tessarr.errors import ArgumentError
from tessarr.index_space import IndexDomain
from tessarr.tensorstore.drivers.virtual_chunked.functions import (
    Functions,
    VirtualChunkedReadParameters,
    VirtualChunkedWriteParameters,
    read_stamp,
)
from tessarr.tensorstore.future.combine import run_after
from tessarr.tensorstore.future.executor import while_waiting
from tessarr.tensorstore.future.future import Future, finished

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from tessarr.index_space import View
    from tessarr.tensorstore.context.chunk_cache import CachedChunk, ChunkCache
    from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812

__all__ = ["Chunks", "PendingRead"]

_EMPTY_ELEMENTS: Final[dict[str, Any]] = {"string": b"", "ustring": "", "json": None}


class PendingRead(NamedTuple):
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

    __slots__ = ("_axes", "_dtype", "_functions", "_lock", "_order")

    def __init__(self, functions: Functions, dtype: DataType, order: Sequence[int]) -> None:
        self._functions = functions
        self._dtype = dtype
        plain = list(range(len(order)))
        self._order = order
        self._axes = None if list(order) == plain else [order.index(k) for k in plain]
        self._lock = allocate_lock()

    def new(self, box: View, *, clear: bool = True) -> npt.NDArray[Any]:
        """Return an array for a chunk, with its axes in the order of the layout."""
        order, shape, kind = self._order, box.shape, self._dtype
        chunk = (np.zeros if clear else np.empty)([shape[axis] for axis in order], kind.dtype)
        if clear and kind.name in _EMPTY_ELEMENTS:
            chunk[...] = _EMPTY_ELEMENTS[kind.name]
        return chunk if self._axes is None else chunk.transpose(self._axes)

    def read(
        self,
        cache: ChunkCache,
        box: View,
        parameters: VirtualChunkedReadParameters,
        cached: CachedChunk | None,
    ) -> PendingRead:
        """Start to read a chunk; the cache can have a stale one."""
        if cached is not None:
            parameters = VirtualChunkedReadParameters(
                parameters.batch, cached[1], parameters.staleness_bound
            )
        function = self._functions.read
        if function is None:
            raise ArgumentError("a function that reads chunks is missing")
        chunk = self.new(box)
        called = self._functions.begin(function, IndexDomain._of_view(box), chunk, parameters)
        return PendingRead(cache, box, chunk, called, cached)

    def _write(
        self, cache: ChunkCache, box: View, chunk: npt.NDArray[Any], expected: bytes
    ) -> _PendingWrite:
        """Start to write a chunk."""
        function = self._functions.write
        assert function is not None
        chunk.flags.writeable = False
        parameters = VirtualChunkedWriteParameters(expected)
        called = self._functions.begin(function, IndexDomain._of_view(box), chunk, parameters)
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
        if cached is None and self._functions.read is None:
            raise ArgumentError(
                "parts of chunks cannot be written without a function that reads chunks"
            )
