"""Decoded chunks in memory, as many as there is room for."""

from __future__ import annotations

from _thread import allocate_lock
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["ChunkCache"]


class ChunkCache:
    """Chunks that were read.

    Parameters
    ----------
    limit
        The most bytes.
    """

    __slots__ = ("_bytes", "_chunks", "_lock", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._bytes = 0
        self._chunks: OrderedDict[Any, tuple[npt.NDArray[Any], bytes, float]] = OrderedDict()
        self._lock = allocate_lock()

    def get(self, key: Any) -> tuple[npt.NDArray[Any], bytes, float] | None:
        """Return a chunk, its generation, and when it was that."""
        if not self.limit:
            return None
        with self._lock:
            found = self._chunks.get(key)
            if found is not None:
                self._chunks.move_to_end(key)
            return found

    def put(self, key: Any, chunk: npt.NDArray[Any], generation: bytes, at: float) -> None:
        """Keep a chunk, which is not changed any more."""
        if chunk.nbytes > self.limit:
            return
        with self._lock:
            self._drop(key)
            self._chunks[key] = (chunk, generation, at)
            self._bytes += chunk.nbytes
            while self._bytes > self.limit:
                self._drop(next(iter(self._chunks)))

    def drop(self, key: Any) -> None:
        """Forget a chunk."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: Any) -> None:
        found = self._chunks.pop(key, None)
        if found is not None:
            self._bytes -= found[0].nbytes

    def __reduce__(self) -> tuple[Any, ...]:
        return ChunkCache, (self.limit,)
