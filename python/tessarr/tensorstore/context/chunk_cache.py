"""A cache of decoded chunks with a limit on its bytes."""

from __future__ import annotations

from _thread import allocate_lock
from collections import OrderedDict
from itertools import compress, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

__all__ = ["CachedChunk", "ChunkCache", "SharedChunkCache"]

CachedChunk: TypeAlias = "tuple[npt.NDArray[Any], bytes, float]"
"""A chunk, its generation, and the time of its last check."""


class SharedChunkCache:
    """A cache that several handles share; it evicts the least recently used chunks first.

    Parameters
    ----------
    limit
        The maximum number of bytes.
    others
        Returns the number of bytes that other caches use.
    """

    __slots__ = ("_bytes", "_chunks", "_lock", "limit", "others")

    def __init__(self, limit: int, others: Callable[[], int]) -> None:
        self.limit = limit
        self.others = others
        self._bytes = 0
        self._chunks: OrderedDict[Any, CachedChunk] = OrderedDict()
        self._lock = allocate_lock()

    def find(self, keys: Sequence[Any]) -> list[CachedChunk | None]:
        """Return cached chunks with generations and times; None for each cache miss."""
        with self._lock:
            result = [*map(self._chunks.get, keys)]
            for key in compress(keys, result):
                self._chunks.move_to_end(key)
            return result

    def put(self, key: Any, kept: CachedChunk) -> None:
        """Add a chunk; the caller must not modify the chunk afterwards."""
        if kept[0].nbytes > self.limit:
            return
        room = self.limit - self.others()
        with self._lock:
            self._drop(key)
            self._chunks[key] = kept
            self._bytes += kept[0].nbytes
            while self._bytes > room and self._chunks:
                self._drop(next(iter(self._chunks)))

    def drop(self, key: Any) -> None:
        """Remove a chunk."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: Any) -> None:
        result = self._chunks.pop(key, None)
        if result is not None:
            self._bytes -= result[0].nbytes


class ChunkCache:
    """The cached chunks of one handle.

    Parameters
    ----------
    shelf
        The shared cache.
    """

    __slots__ = ("_shelf",)

    def __init__(self, shelf: SharedChunkCache) -> None:
        self._shelf = shelf

    @property
    def limit(self) -> int:
        """The maximum number of bytes of all handles' chunks."""
        return self._shelf.limit

    def get(self, key: Any) -> CachedChunk | None:
        """Return a chunk, its generation and the time of its last check."""
        return self.find([key])[0]

    def find(self, keys: Sequence[Any]) -> list[CachedChunk | None]:
        """Return cached chunks with generations and times; None for each cache miss."""
        if not self._shelf.limit:
            return [None] * len(keys)
        return self._shelf.find([*zip(repeat(self), keys, strict=False)])

    def put(self, key: Any, chunk: npt.NDArray[Any], generation: bytes, at: float) -> None:
        """Add a chunk; the caller must not modify the chunk afterwards."""
        self._shelf.put((self, key), (chunk, generation, at))

    def drop(self, key: Any) -> None:
        """Remove a chunk."""
        self._shelf.drop((self, key))
