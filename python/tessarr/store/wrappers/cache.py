"""Stores that cache the values of another store in memory."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

from tessarr import _engine
from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module
from tessarr.store.wrappers.wrapper import WrapperStore, open_wrapped_store

if TYPE_CHECKING:
    from tessarr._engine import Store
    from tessarr.store.resolve import StoreLike

__all__ = ["CachePool", "LRUStoreCache", "PooledCacheStore"]


class LRUStoreCache(WrapperStore, _engine.CachedStore):
    """A store that caches the values of another store in memory.

    The cache holds encoded values, parts of values (the subchunks of a shard), the absence of
    keys, and listings. It evicts the least recently used entries first.

    Parameters
    ----------
    store : StoreLike
        The other store, as for `tessarr.open`.
    max_size : int or None
        The size of the cache in bytes; None means unlimited.
    max_age_s : float, optional
        The age in seconds after which the cache requests an entry again; by default never.

    Notes
    -----
    All users of this object see its changes immediately. Changes go to the other store, which
    checks their preconditions. Changes that bypass this object become visible only when the cache
    drops an entry: call `invalidate`, or set ``max_age_s``. A pickle does not contain the cache.

    Examples
    --------
    >>> cache = LRUStoreCache({"a": b"1"}, max_size=2**28)
    >>> cache.get("a"), cache.get("a"), cache.hits, cache.misses
    (b'1', b'1', 1, 1)
    """

    def __new__(
        cls, store: StoreLike, max_size: int | None, *, max_age_s: float | None = None
    ) -> Self:
        if max_size is not None and (type(max_size) is not int or max_size < 0):
            raise ArgumentError(f"max_size must be a number of bytes or None, not {max_size!r}")
        opened = open_wrapped_store(store)
        arguments: dict[str, Any] = {"store": opened, "max_size": max_size, "max_age_s": max_age_s}
        limit = 2**64 - 1 if max_size is None else min(max_size, 2**64 - 1)
        return cls._build(arguments, opened, limit, max_age_s)

    def __eq__(self, other: object) -> bool:
        return self is other  # each object has its own cache

    def __hash__(self) -> int:
        return id(self)

    @property
    def hits(self) -> int:
        """The number of cache hits."""
        return self.counts()["hits"]

    @property
    def misses(self) -> int:
        """The number of cache misses."""
        return self.counts()["misses"]

    @property
    def current_size(self) -> int:
        """The number of bytes in the cache."""
        return self.counts()["bytes"]

    def invalidate(self) -> None:
        """Empty the cache."""
        self.forget()

    invalidate_values = invalidate
    invalidate_keys = invalidate


class PooledCacheStore(WrapperStore):
    """A store that caches documents of another store in one pool, and other values in a second.

    Parameters
    ----------
    store : Store
        The other store.
    metadata, data : CachePool or None
        The pools; None disables caching.
    metadata_since, data_since : float
        The argument ``since`` of `CachePool.store`.
    """

    _pools: tuple[CachePool | None, CachePool | None]
    _data_since: float

    def __new__(
        cls,
        store: Store,
        *,
        metadata: CachePool | None,
        data: CachePool | None,
        metadata_since: float,
        data_since: float,
    ) -> Self:
        first = store if metadata is None else metadata.store(store, since=metadata_since)
        others = combined = first
        if metadata is not data or metadata_since != data_since:
            others = store if data is None else data.store(store, since=data_since)
            combined = _engine.SplitStore(first, others, single_node=True)
        pooled = cls._build({"store": store}, combined)
        pooled._pools, pooled._data_since = (metadata, data), data_since
        return pooled

    @property
    def base_store(self) -> Store:
        """The other store, which adapts the user's object."""
        store: Store = self._arguments["store"]
        return store

    @property
    def pools(self) -> frozenset[CachePool]:
        """The pools."""
        return frozenset(filter(None, self._pools))

    @property
    def max_data_bytes(self) -> int:
        """The size in bytes of the pool for other values than documents."""
        others = self._pools[1]
        return 0 if others is None else others.max_bytes

    def with_revalidation(self, since: float | None = None) -> PooledCacheStore:
        """Return a store with the same pools that revalidates cached documents.

        Parameters
        ----------
        since
            The argument ``data_since``; by default that of this store.
        """
        (documents, others), now = self._pools, float("inf")
        return PooledCacheStore(
            self.base_store,
            metadata=documents,
            data=others,
            metadata_since=now,
            data_since=self._data_since if since is None else since,
        )

    def __reduce__(self) -> Any:
        return _unpickle_store, (self.base_store,)


def _unpickle_store(store: Store) -> Store:
    return store  # a pickle does not contain the cache


class CachePool:
    """A cache that several stores share.

    Parameters
    ----------
    max_bytes : int
        The size of the cache; it evicts the least recently used entries first.

    Examples
    --------
    >>> from tessarr.store import MemoryStore
    >>> from tessarr.store.wrappers.instrumented import CountingStore
    >>> store = CountingStore(MemoryStore({"a": b"1"}))
    >>> cached = CachePool(10**6).store(store, since=float("-inf"))
    >>> cached.get("a"), cached.get("a"), store.counts()["opens"]
    (b'1', b'1', 1)
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._pool = _engine.CachePool(max_bytes)
        self._numbers: dict[Any, int] = {}

    def store(self, store: Store, *, since: float) -> Store:
        """Return a store that caches the values of `store`.

        Parameters
        ----------
        store
            The other store. Equal stores share their cache entries.
        since
            The time, in seconds since 1970, before which entries need revalidation: minus infinity
            for no entries, infinity for all.
        """
        number = self._numbers.setdefault(store, len(self._numbers))
        if since == float("-inf"):
            return self._pool.store(store, number, None)
        return self._pool.store(store, number, max(0.0, time.time() - since))

    def has_store(self, store: Store) -> bool:
        """Return whether the pool may hold entries of a store or of an equal store."""
        return store in self._numbers

    def counts(self) -> dict[str, int]:
        """Return the numbers of hits and misses, and the size in bytes."""
        return self._pool.counts()

    def forget(self) -> None:
        """Empty the cache."""
        self._pool.forget()


set_public_module("tessarr.stores", LRUStoreCache)
