"""Shared reads: the stores through which the reads of a group share requests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

from tessarr._engine import CoalescingStore
from tessarr.store import MemoryStore
from tessarr.store.wrappers.cache import PooledCacheStore

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from tessarr.store import Store

__all__ = ["ExpectedRead", "SharedReads"]


class ExpectedRead(NamedTuple):
    """A read that will follow.

    Parameters
    ----------
    place : Store
        The store below caches and transactions.
    key : str
        A key of `place`.
    span : tuple, optional
        The first byte, and the byte after the last one; by default the whole value.
    """

    place: Store
    key: str
    span: tuple[int, int | None] | None = None


class SharedReads:
    """The stores of a read group, which share fetched values between its reads.

    Later reads share nothing with the group, because stored values may have changed.

    Parameters
    ----------
    expected
        Reads that will follow, except chunk reads.
    """

    __slots__ = ("_found", "_stores", "began_s")

    began_s: float
    """The time at which the reads start, in seconds since 1970."""

    def __init__(self, expected: Iterable[ExpectedRead] = ()) -> None:
        self.began_s = time.time()
        self._stores: dict[Hashable, CoalescingStore] = {}
        self._found: dict[int, tuple[Store, tuple[Store, CoalescingStore] | None]] = {}
        for place, key, span in expected:
            shared = self._shared(place)
            if shared is not None:
                shared.expect(key, span)

    def _shared(self, place: Store) -> CoalescingStore | None:
        """Return the coalescing store of `place`; None for memory, which needs no requests."""
        if type(place) is PooledCacheStore:
            place = place.base_store
        if type(place) is MemoryStore:
            return None
        return self._stores.setdefault(place, CoalescingStore(place))

    @property
    def expects(self) -> bool:
        """Whether reads may share requests to any store."""
        return bool(self._stores)

    def of(self, store: Store, place: Store) -> tuple[Store, CoalescingStore] | None:
        """Return the store below `store` that equals `place`, and its coalescing store."""
        result = self._found.get(id(store))
        if result is None:  # the memo holds the store, so that its id stays unique
            shared = self._shared(place)
            inside = None if shared is None else (_find_inner_store(store, place), shared)
            result = self._found[id(store)] = store, inside
        return result[1]

    def through(self, store: Store, place: Store) -> Store:
        """Return `store` with the coalescing store of `place` in the position of `place`."""
        result = self.of(store, place) if self._stores else None
        return store if result is None else result[1].substitute(store, result[0])


def _find_inner_store(store: Store, place: Store) -> Store:
    """Return the store below `store` that equals `place`."""
    if type(place) is PooledCacheStore:
        place = place.base_store
    result: Any = store
    while not (result is place or result == place):
        for name in ("asked", "below", "store"):
            inner = getattr(result, name, None)
            if inner is not None:
                break
        else:
            return place
        result = inner
    inside: Store = result
    return inside
