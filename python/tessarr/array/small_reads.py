"""The choice of the thread for small reads: a hand-off to a worker takes longer than the read."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from tessarr.codec import ShardingIndexed
from tessarr.store import LocalStore, MemoryStore, Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr._engine import PreparedRead
    from tessarr.metadata.node import ArrayMeta
    from tessarr.types import Shape

__all__ = ["FEW_CHUNKS", "SmallReads", "small_chunk_shape"]

_SMALL_CHUNK_BYTES: Final = 1 << 16
_SMALL_INDEX_BYTES: Final = 1 << 18
_INDEX_ENTRY_BYTES: Final = 16

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


def _has_hidden_work(meta: ArrayMeta) -> bool:
    """Return whether a read may decode much more than its chunks or subchunks.

    Elements may have any length, codecs may enclose a large shard, and its index may be long.
    """
    has_hidden_work: bool | None = meta.derived.get(_has_hidden_work)
    if has_hidden_work is None:
        has_hidden_work = meta.data_type.elements is not None or _has_large_shards(meta)
        meta.derived[_has_hidden_work] = has_hidden_work
    return has_hidden_work


def _has_large_shards(meta: ArrayMeta) -> bool:
    chain, spec = meta.codecs, meta.chunk_spec
    index_bytes, is_whole = 0, False
    while isinstance(sharding := chain.array_bytes, ShardingIndexed):
        is_whole |= bool(chain.bytes_bytes)
        shard = chain.encoded_spec(spec)
        spec = sharding.subchunk_spec(shard)
        index_bytes += _INDEX_ENTRY_BYTES * prod(shard.shape) // prod(spec.shape)
        chain = sharding.codecs
    is_large = is_whole and meta.chunk_spec.size_bytes > _SMALL_CHUNK_BYTES
    return is_large or index_bytes > _SMALL_INDEX_BYTES


class SmallReads:
    """Decides whether a small read of an array runs at once in the calling thread.

    A caller that holds the futures of the last two reads starts many reads before it waits. Then
    worker threads read. If the caller waits for each read, its own thread reads. Reads from memory
    always run at once. Those of stores that wait for other machines, and those that may decode much
    more than their chunks, never do.

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

    def runs_at_once(self, meta: ArrayMeta) -> bool:
        """Return whether the calling thread performs the next small read of an array."""
        is_next = self.in_memory or (self.is_local and self._previous() is None)
        return is_next and not _has_hidden_work(meta)

    def record(self, future: object) -> None:
        """Record the future of a read that has started."""
        if not self.in_memory:
            self._previous, self._last = self._last, ref(future)


def _no_future() -> None:
    """Return None in the position of a weak reference to a future."""
