"""Stores that keep things between themselves and another one: changes, or answers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tessarr import _engine
from tessarr.store.mapping import StoreMapping

if TYPE_CHECKING:
    from tessarr._engine import Store

__all__ = ["CachePool", "StagedStore"]


class StagedStore(_engine.StagedStore, StoreMapping):
    """Another store, whose changes are kept aside until `commit`.

    Parameters
    ----------
    store : Store
        The store that is changed in the end.
    repeatable : bool
        Whether what is only read has to be the same in the end, too. What was read in order to
        decide a change has to be, anyway.

    Examples
    --------
    >>> from tessarr.stores import MemoryStore
    >>> store = MemoryStore()
    >>> staged = StagedStore(store, False)
    >>> staged["a"] = b"1"
    >>> staged["a"], "a" in store, staged.commit(True), store["a"]
    (b'1', False, None, b'1')
    """

    __slots__ = ()


class CachePool:
    """A memory that caches of several stores share.

    Parameters
    ----------
    max_bytes : int
        How much is remembered; what was used least recently goes first.

    Examples
    --------
    >>> from tessarr.store import CountingStore, MemoryStore
    >>> store = CountingStore(MemoryStore({"a": b"1"}))
    >>> cached = CachePool(10**6).store(store, since=float("-inf"))
    >>> cached.get("a"), cached.get("a"), store.counts()["opens"]
    (b'1', b'1', 1)
    """

    def __init__(self, max_bytes: int) -> None:
        self._pool = _engine.CachePool(max_bytes)
        self._places: dict[Any, int] = {}

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
        place = self._places.setdefault(store, len(self._places))
        if since == float("-inf"):
            return self._pool.store(store, place, None)
        return self._pool.store(store, place, max(0.0, time.time() - since))

    def counts(self) -> dict[str, int]:
        """Return how many answers were remembered (hits) or not (misses), and the bytes now."""
        return self._pool.counts()

    def forget(self) -> None:
        """Forget everything."""
        self._pool.forget()
