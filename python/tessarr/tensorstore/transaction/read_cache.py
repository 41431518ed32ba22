"""`TransactionReadCache`: caches the reads of an open transaction."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from tessarr.store import MemoryStore
from tessarr.store.wrappers.cache import CachePool, PooledCacheStore
from tessarr.store.wrappers.staged import StagedStore
from tessarr.store.wrappers.wrapper import WrapperStore

if TYPE_CHECKING:
    from tessarr.store import Store

__all__ = ["TransactionReadCache"]

_MAX_BYTES: Final = 1 << 28
_SMALL_BYTES: Final = 1 << 26  # caches with more room also hold reads of transactions
_NOW: Final = float("inf")
_NO_POOLS: Final[frozenset[CachePool]] = frozenset()


class TransactionReadCache:
    """Stages with cached reads.

    The array's own cache holds the reads. If it is small or missing, the transaction caches up to
    256 MiB.

    Parameters
    ----------
    atomic, repeatable
        The modes of the transaction. Callers hold its lock.
    """

    __slots__ = (
        "_atomic",
        "_began",
        "_committed",
        "_keys",
        "_last_stores",
        "_memory",
        "_pools",
        "_repeatable",
        "_views",
    )

    def __init__(self, *, atomic: bool, repeatable: bool) -> None:
        self._atomic, self._repeatable = atomic, repeatable
        self._began = time.time()
        self._memory: CachePool | None = None
        # Keyed by the ids of stages and stores; references to the stores keep the ids unique.
        self._views: dict[tuple[int, int, float], tuple[Store, StagedStore]] = {}
        self._last_stores: dict[int, tuple[Store, Store]] = {}
        self._keys: dict[int, StagedStore] = {}
        self._pools: dict[int, frozenset[CachePool]] = {}
        self._committed: list[StagedStore] = []

    # Stages

    def array(self, stage: StagedStore, store: Store, location: Store, since: float) -> StagedStore:
        """Return the stage for an array.

        Parameters
        ----------
        stage
            The stage for keys of the same store.
        store, location
            The array's store outside the transaction, and the store below its caches.
        since
            The time from which cached chunks count as fresh, in seconds since 1970.
        """
        number = stage.number
        cached = self._views.get((number, id(store), since))
        if cached is None:
            view, pools = self._stage_over(stage, store, location, since), _find_pools(store)
            if view is not stage and (pools or number not in self._last_stores):
                self._last_stores[number] = store, location
                self._keys.pop(number, None)
            self._add_pools(number, pools)
            cached = self._views[number, id(store), since] = store, view
        return cached[1]

    def keys(self, stage: StagedStore) -> StagedStore:
        """Return the stage for keys, which compares cached values with the store."""
        number = stage.number
        keys_stage, last = self._keys.get(number), self._last_stores.get(number)
        if keys_stage is None and last is not None:
            keys_stage = self._keys[number] = self._stage_over(stage, *last, _NOW, caches=True)
        return keys_stage or stage

    def chunk_stage(self, stage: StagedStore) -> StagedStore:
        """Return the stage for chunks at commit.

        With repeatable reads, it does not repeat reads of the transaction.
        """
        last = self._last_stores.get(stage.number)
        if last is None or not self._repeatable:
            return self.keys(stage)
        return self._stage_over(stage, *last, self._began, caches=True)

    def _stage_over(
        self,
        stage: StagedStore,
        store: Store,
        location: Store,
        since: float,
        *,
        caches: bool = False,
    ) -> StagedStore:
        """Return a stage over a cache; with `caches`, `since` also applies to the array's cache."""
        if isinstance(location, MemoryStore) and store == location:
            return stage
        below = self._cached_store(store, location, since, caches=caches)
        return StagedStore(below, False, stage.owner, sharing=stage)

    def _cached_store(self, store: Store, location: Store, since: float, *, caches: bool) -> Store:
        """Return a store that caches the reads of another one."""
        if isinstance(store, MemoryStore):
            return store
        if self._memory is None:
            self._memory = CachePool(_MAX_BYTES)
        if type(store) is PooledCacheStore:
            store = store.with_revalidation(since if caches else None)
            if store.max_data_bytes >= _SMALL_BYTES:
                return store
        elif isinstance(store, WrapperStore) and store != location:
            arguments = store._arguments
            below = self._cached_store(arguments["store"], location, since, caches=caches)
            return type(store)(**(arguments | {"store": below}))
        return PooledCacheStore(
            store,
            metadata=self._memory,
            data=self._memory,
            metadata_since=_NOW,
            data_since=since,
        )

    # Commit

    def register_pools(self, stage: StagedStore, store: Store) -> None:
        """Record the caches of a store in the transaction."""
        self._add_pools(stage.number, _find_pools(store))

    def _add_pools(self, number: int, pools: frozenset[CachePool]) -> None:
        if pools:
            self._pools[number] = self._pools.get(number, _NO_POOLS) | pools

    def commit_stage(self, stage: StagedStore, *, compares: bool) -> StagedStore:
        """Return the stage that commits keys; if it commits one by one, caches keep the new values.

        Parameters
        ----------
        stage
            The stage with the changes.
        compares
            Whether keys that were only read are compared.
        """
        if not (compares or self._repeatable or stage.count_changes()):
            return stage
        last = stage if self._atomic else self.keys(stage)
        self._committed.append(last)
        return last

    def below(self, view: StagedStore) -> Store:
        """Return the store that receives chunks, without an empty cache."""
        self._committed.append(view)
        below = view.below
        if self._bytes or type(below) is not PooledCacheStore:
            return below
        if all(pool is self._memory for pool in below.pools):
            return below.base_store
        return below

    @property
    def _bytes(self) -> int:
        """The size of the transaction's own cache."""
        return 0 if self._memory is None else self._memory.counts()["bytes"]

    def forget(self) -> None:
        """Invalidate caches that can have missed committed changes."""
        for view in self._committed if self._pools else ():
            for pool in self._pools.get(view.number, _NO_POOLS) - _find_pools(view.below):
                pool.forget()

    def invalidate(self) -> None:
        """Invalidate all caches, after a read that did not repeat."""
        for pool in _NO_POOLS.union(*self._pools.values()):
            pool.forget()

    def clear(self) -> None:
        """Discard all cached reads."""
        if self._memory is not None:
            self._memory.forget()
        for mapping in (self._views, self._last_stores, self._keys, self._pools):
            mapping.clear()
        self._committed.clear()


def _find_pools(store: Store) -> frozenset[CachePool]:
    """Return the caches of a store, which also see the changes made through it."""
    pools = _NO_POOLS
    while isinstance(store, WrapperStore):
        if isinstance(store, PooledCacheStore):
            pools |= store.pools
        store = store._arguments["store"]
    return pools
