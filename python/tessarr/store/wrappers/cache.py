"""Stores that cache the values of another store in memory."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

from tessarr import _engine
from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module
from tessarr.store.wrappers.prefix import open_wrapped_store
from tessarr.store.wrappers.wrapper import WrapperStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr._engine import Store
    from tessarr.store.resolve import StoreLike

__all__ = ["CachePool", "LRUStoreCache", "PooledCacheStore"]


class LRUStoreCache(WrapperStore, _engine.CachedStore):
    """Another store, whose answers are remembered in memory.

    Values, parts of values (the subchunks of a shard), their absence and listings are
    kept as they are stored. Those that were used least recently go first.

    Parameters
    ----------
    store : StoreLike
        The store, or what `tessarr.open` takes as one.
    max_size : int or None
        How many bytes may be kept; None sets no limit.
    max_age_s : float, optional
        After how many seconds an answer is asked for again; by default never.

    Notes
    -----
    Everybody who uses this object sees its changes at once, and nothing is changed by what it
    remembers: changes are decided by the store below. What others change below it shows
    only when the answer is forgotten: call `invalidate`, or set ``max_age_s``.
    A pickle holds no answers.

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
        return self is other  # what it remembers is its own

    def __hash__(self) -> int:
        return id(self)

    @property
    def hits(self) -> int:
        """How many answers were remembered."""
        return self.counts()["hits"]

    @property
    def misses(self) -> int:
        """How many answers the store below had to give."""
        return self.counts()["misses"]

    @property
    def current_size(self) -> int:
        """How many bytes are kept now."""
        return self.counts()["bytes"]

    def invalidate(self) -> None:
        """Forget everything."""
        self.forget()

    invalidate_values = invalidate
    invalidate_keys = invalidate


class PooledCacheStore(WrapperStore):
    """Another store, whose answers pools remember: of documents one, of everything else one.

    Parameters
    ----------
    store : Store
        The store that is asked.
    metadata, data : CachePool or None
        Where answers are remembered; None: nowhere.
    metadata_since, data_since : float
        As `CachePool.store` has ``since``.
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
        """The store that is asked, which stands for the object that was given."""
        store: Store = self._arguments["store"]
        return store

    @property
    def pools(self) -> frozenset[CachePool]:
        """Where answers are remembered."""
        return frozenset(filter(None, self._pools))

    @property
    def max_data_bytes(self) -> int:
        """How many bytes of what is no document may be remembered."""
        others = self._pools[1]
        return 0 if others is None else others.max_bytes

    def with_revalidation(self, since: float | None = None) -> PooledCacheStore:
        """Return a store with the same memory that compares documents with those of `store`.

        Parameters
        ----------
        since
            What holds for everything else; by default what does here.
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
    return store  # a pickle remembers nothing


class CachePool:
    """A memory that caches of several stores share.

    Parameters
    ----------
    max_bytes : int
        How much is remembered; what was used least recently goes first.

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
        self._stores: dict[Any, Store] = {}

    def store(self, store: Store, *, since: float) -> Store:
        """Return a store that remembers what `store` answers.

        Parameters
        ----------
        store
            Equal ones are the same place, and what is remembered of one is so of the other.
        since
            What was asked for before that, in seconds since 1970, is compared with the store
            again: minus infinity for nothing, infinity for everything.
        """
        number = self._numbers.setdefault(store, len(self._numbers))
        if since == float("-inf"):
            return self._pool.store(store, number, None)
        return self._pool.store(store, number, max(0.0, time.time() - since))

    def has_store(self, store: Store) -> bool:
        """Return whether answers of a store, or of an equal one, may be remembered."""
        return store in self._numbers

    def get_or_create(self, key: Any, make: Callable[[], Store]) -> Store:
        """Return the store that was made for a key, so that it is made once."""
        store = self._stores.get(key)
        return self._stores.setdefault(key, make()) if store is None else store

    def counts(self) -> dict[str, int]:
        """Return how many answers were remembered (hits) or not (misses), and the bytes now."""
        return self._pool.counts()

    def forget(self) -> None:
        """Forget everything."""
        self._pool.forget()


set_public_module("tessarr.stores", LRUStoreCache)
