"""The choice of the thread for small reads: a hand-off to a worker takes longer than the read."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from tessarr.store import LocalStore, MemoryStore, Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr._engine import PreparedRead
    from tessarr.metadata.node import ArrayMeta
    from tessarr.types import Shape

__all__ = ["FEW_CHUNKS", "SmallReads", "small_chunk_shape"]

_SMALL_CHUNK_BYTES: Final = 1 << 16

FEW_CHUNKS: Final = 4
"""A small read touches at most this number of chunks."""


def small_chunk_shape(meta: ArrayMeta) -> Shape:
    """Return the shape of chunks or subchunks; an empty one if they are too large for small reads.

    Examples
    --------
    >>> import tessarr
    >>> small_chunk_shape(tessarr.zeros(10**6, chunks=1000).metadata)
    (1000,)
    >>> small_chunk_shape(tessarr.zeros(10**6, chunks=10**6).metadata)
    ()
    """
    shape: Shape | None = meta.derived.get(small_chunk_shape)
    if shape is None:
        chunk = meta.chunk_shape
        is_small = prod(chunk) * meta.data_type.item_bytes <= _SMALL_CHUNK_BYTES
        shape = meta.derived[small_chunk_shape] = chunk if is_small else ()
    return shape


class SmallReads:
    """Decides whether a small read of an array runs at once in the calling thread.

    A caller that holds the futures of the last two reads starts many reads before it waits. Then
    worker threads read. If the caller waits for each read, its own thread reads. Reads from memory
    always run at once, and those of stores that wait for other machines never do.

    Parameters
    ----------
    store
        The store of the array, below caches.
    """

    __slots__ = ("_last", "_previous", "in_memory", "is_local")

    def __init__(self, store: Store) -> None:
        self.in_memory: Final = isinstance(store, MemoryStore)
        """Whether requests need no I/O."""
        self.is_local: Final = self.in_memory or isinstance(store, LocalStore)
        """Whether requests do not wait for other machines."""
        self._previous: Callable[[], Any] = _no_future
        self._last: Callable[[], Any] = _no_future

    def is_small(self, read: PreparedRead, meta: ArrayMeta) -> bool:
        """Return whether a read of an array touches so few chunks that a hand-off takes longer."""
        chunk_shape = small_chunk_shape(meta)
        return bool(chunk_shape) and read.touches_at_most(chunk_shape, FEW_CHUNKS)

    def runs_at_once(self) -> bool:
        """Return whether the calling thread performs the next small read."""
        return self.in_memory or (self.is_local and self._previous() is None)

    def record(self, future: object) -> None:
        """Record the future of a read that has started."""
        if not self.in_memory:
            self._previous, self._last = self._last, ref(future)


def _no_future() -> None:
    """Return None in the position of a weak reference to a future."""
