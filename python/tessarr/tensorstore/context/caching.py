"""Caches behind the members ``cache_pool`` and ``recheck_…`` of specs."""

from __future__ import annotations

from _thread import allocate_lock
from collections import OrderedDict
from dataclasses import dataclass
from itertools import compress, repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import ref

from tessarr.store.wrappers.cache import CachePool, PooledCacheStore
from tessarr.tensorstore.json.parse import expected_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from tessarr.flow.run import KnownDocument
    from tessarr.metadata.node import ArrayMeta
    from tessarr.store import Store
    from tessarr.tensorstore.context.context import Resource

__all__ = [
    "CachedChunk",
    "CachedMetadata",
    "ChunkCache",
    "SharedCaches",
    "SharedChunkCache",
    "caches_of",
    "staleness_bound",
    "with_cache",
]

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

    def put(self, key: Any, chunk: CachedChunk) -> None:
        """Add a chunk; the caller must not modify the chunk afterwards."""
        if chunk[0].nbytes > self.limit:
            return
        room = self.limit - self.others()
        with self._lock:
            self._drop(key)
            self._chunks[key] = chunk
            self._bytes += chunk[0].nbytes
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


_DOCUMENTS_BYTES: Final = 1 << 20


@dataclass(slots=True, weakref_slot=True)
class CachedMetadata:
    """The metadata that all open handles of one array share.

    Parameters
    ----------
    meta
        The metadata.
    checked_s
        The time of the last check, in seconds since 1970.
    seen
        The document that contains them.
    """

    meta: ArrayMeta
    checked_s: float
    seen: KnownDocument

    def update_metadata(self, meta: ArrayMeta, checked_s: float) -> None:
        """Set the metadata and the time of the check."""
        self.meta, self.checked_s = meta, checked_s


class SharedCaches:
    """The caches of a resource ``cache_pool``.

    Parameters
    ----------
    json
        The full JSON of the resource.
    """

    __slots__ = ("_known", "_room", "chunks", "documents", "pool")

    pool: CachePool | None
    """The cache of values of stores; None if its limit is 0."""

    documents: CachePool
    """The cache of metadata documents: `pool`, or a second pool if `pool` is small.

    Chunks do not evict the documents of a second pool. Without a limit, each use of a document
    checks it, but reads only changed documents again."""

    chunks: SharedChunkCache
    """The cache of chunks that users' functions return."""

    def __init__(self, json: dict[str, Any]) -> None:
        limit = json["total_bytes_limit"]
        self.pool = pool = CachePool(limit) if limit else None
        self.chunks = SharedChunkCache(limit, lambda: 0 if pool is None else pool.counts()["bytes"])
        self.documents = CachePool(_DOCUMENTS_BYTES)
        if pool is not None and limit >= _DOCUMENTS_BYTES:
            self.documents = pool
        self._known: dict[Any, ref[Any]] = {}
        self._room = 64

    def find(self, where: Any) -> Any:
        """Return the cached metadata of an open array, or None."""
        known = self._known.get(where)
        return None if known is None else known()

    def add(self, where: Any, known: Any) -> None:
        """Add cached metadata; the entry lasts as long as a handle is open."""
        if len(self._known) >= self._room:
            self._known = {key: value for key, value in self._known.items() if value() is not None}
            self._room = max(64, 2 * len(self._known))
        self._known[where] = ref(known)


def caches_of(resource: Resource) -> SharedCaches:
    """Return the caches of a resource ``cache_pool``."""
    result: SharedCaches = resource._get_or_build(SharedCaches)
    return result


def staleness_bound(recheck: Any, opened: float) -> float:
    """Return the staleness bound in seconds since 1970: a cached value is fresh if checked later.

    Parameters
    ----------
    recheck : bool, "open" or float
        True: check on every access. False: never check. "open": the time when the store was
        opened. A number is the bound itself.
    opened : float
        The time when the store was opened.

    Raises
    ------
    ArgumentError
        If `recheck` is something else.
    """
    if recheck is True or recheck is False:
        return float("inf") if recheck else float("-inf")
    if isinstance(recheck, str) and recheck == "open":
        return opened
    if isinstance(recheck, (int, float)) and recheck == recheck:  # noqa: PLR0124 (no NaN)
        return float(recheck)
    raise expected_error('boolean, number, or "open"', recheck)


def with_cache(
    store: Store,
    memory: SharedCaches | None,
    data: CachePool | None,
    sinces: tuple[float, float],
    now: float,
) -> Store:
    """Return a store that caches values of `store`, if a cache has room.

    Parameters
    ----------
    store
        The store to wrap.
    memory, data
        The caches of documents and of chunks.
    sinces
        The staleness bounds of documents and of chunks; see `staleness_bound`.
    now
        The current time.
    """
    metadata_since, data_since = sinces
    metadata = None
    if memory is not None and (memory.pool is not None or metadata_since > now):
        metadata = memory.documents
    if data is None and metadata is None:
        return store
    return PooledCacheStore(
        store,
        metadata=metadata,
        data=data,
        metadata_since=metadata_since,
        data_since=data_since,
    )
