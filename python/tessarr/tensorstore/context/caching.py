"""Caches behind the members ``cache_pool`` and ``recheck_…`` of specs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from tessarr.store.wrappers.cache import CachePool, PooledCacheStore
from tessarr.tensorstore.context.chunk_cache import SharedChunkCache
from tessarr.tensorstore.json.object_members import expected_error

if TYPE_CHECKING:
    from tessarr.flow.run import KnownDocument
    from tessarr.metadata.node import ArrayMeta
    from tessarr.store import Store
    from tessarr.tensorstore.context.context import Resource

_DOCUMENTS_BYTES: Final = 1 << 20

_UNLIMITED: Final = {float("-inf"), float("inf")}

__all__ = [
    "CachedMetadata",
    "SharedCaches",
    "caches_of",
    "pool_of",
    "staleness_bound",
    "with_cache",
]


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

    __slots__ = ("_documents", "_known", "_room", "chunks", "document_pool", "pool")

    pool: CachePool | None
    """The cache of values of stores; None if its limit is 0."""

    document_pool: CachePool | None
    """The cache of metadata documents, or None if it has no room.

    It is `pool`, or a second pool if `pool` is small, so that chunks do not evict documents."""

    chunks: SharedChunkCache
    """The cache of chunks that users' functions return."""

    def __init__(self, json: dict[str, Any]) -> None:
        limit = json["total_bytes_limit"]
        self.pool = pool = CachePool(limit) if limit else None
        self.chunks = SharedChunkCache(limit, lambda: 0 if pool is None else pool.counts()["bytes"])
        is_small = pool is not None and limit < _DOCUMENTS_BYTES
        self.document_pool = CachePool(_DOCUMENTS_BYTES) if is_small else pool
        self._documents = self.document_pool
        self._known: dict[Any, ref[Any]] = {}
        self._room = 64

    def documents(self) -> CachePool:
        """Return the cache of documents, which avoids a second read of unchanged documents.

        Without a limit, the cache holds a few documents and checks each of them on use.
        """
        if self._documents is None:
            self._documents = CachePool(_DOCUMENTS_BYTES)
        return self._documents

    def find(self, where: Any) -> Any:
        """Return the cached metadata of an open array, or None."""
        result = self._known.get(where)
        return None if result is None else result()

    def add(self, where: Any, known: Any) -> None:
        """Add cached metadata; the entry lasts as long as a handle is open."""
        if len(self._known) >= self._room:
            self._known = {key: one for key, one in self._known.items() if one() is not None}
            self._room = max(64, 2 * len(self._known))
        self._known[where] = ref(known)


def caches_of(resource: Resource) -> SharedCaches:
    """Return the caches of a resource ``cache_pool``."""
    result: SharedCaches = resource._get_or_build(SharedCaches)
    return result


def pool_of(resource: Resource | None) -> CachePool | None:
    """Return the cache of values of a resource; None if its limit is 0."""
    return None if resource is None else caches_of(resource).pool


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
    if memory is not None:
        metadata = memory.documents() if metadata_since > now else memory.document_pool
    if data is None and metadata is None:
        return store

    def make() -> Store:
        return PooledCacheStore(
            store,
            metadata=metadata,
            data=data,
            metadata_since=metadata_since,
            data_since=data_since,
        )

    one = data if metadata is None else metadata
    stays = data in {None, one} or (memory is not None and data is memory.pool)
    if one is None or not stays or not _UNLIMITED.issuperset(sinces):
        return make()  # one pool must not keep another pool alive
    return one.get_or_create((store, data is None, metadata is None, sinces), make)
