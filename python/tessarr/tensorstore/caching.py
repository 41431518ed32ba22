"""Caches of stores, as the members ``cache_pool`` and ``recheck_…`` of specs mean them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tessarr.store import MemoryStore
from tessarr.store.kept import CachePool
from tessarr.tensorstore.resources import expected

if TYPE_CHECKING:
    from tessarr.store import Store
    from tessarr.tensorstore.context import Resource

__all__ = ["bound_of", "cached", "pool_of"]


def pool_of(resource: Resource | None) -> CachePool | None:
    """Return the memory that a resource ``cache_pool`` stands for; None: it has no room."""
    if resource is None or not resource.to_json(include_defaults=True)["total_bytes_limit"]:
        return None
    pool: CachePool = resource._made(lambda json: CachePool(json["total_bytes_limit"]))
    return pool


def bound_of(recheck: Any, opened: float) -> float:
    """Return since when an answer must be known to hold, in seconds since 1970.

    Parameters
    ----------
    recheck : bool, "open" or float
        True: now, whenever it is asked for. False: any time will do. "open": when the store was
        opened. A number is that time itself.
    opened : float
        When the store was opened.

    Raises
    ------
    ArgumentError
        If it is something else.
    """
    if recheck is True or recheck is False:
        return float("inf") if recheck else float("-inf")
    if isinstance(recheck, str) and recheck == "open":
        return opened
    if isinstance(recheck, (int, float)) and recheck == recheck:  # noqa: PLR0124 (no NaN)
        return float(recheck)
    raise expected('boolean, number, or "open"', recheck)


def cached(
    store: Store, pool: Resource | None, recheck: Any, *, opened: float | None = None
) -> Store:
    """Return a store that remembers in a pool what `store` answers; `store` if that has no room.

    Parameters
    ----------
    store
        Where nothing is to be waited for, in memory, nothing is remembered either.
    pool
        A resource ``cache_pool``.
    recheck
        The member ``recheck_cached_data`` or ``recheck_cached_metadata`` of a spec.
    opened
        When the store was opened, in seconds since 1970; by default now.
    """
    since = bound_of(recheck, time.time() if opened is None else opened)
    memory = pool_of(pool)
    if memory is None or isinstance(store, MemoryStore):
        return store
    return memory.store(store, since=since)
