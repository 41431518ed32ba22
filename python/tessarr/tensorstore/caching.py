"""Caches of stores, as the members ``cache_pool`` and ``recheck_…`` of specs mean them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from tessarr.store import MemoryStore
from tessarr.store.kept import CachePool, RememberingStore
from tessarr.tensorstore.resources import expected

if TYPE_CHECKING:
    from tessarr.store import Store
    from tessarr.tensorstore.context import Resource

_DOCUMENTS_BYTES: Final = 1 << 20

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
    store: Store,
    pool: Resource | None,
    recheck: Any,
    *,
    metadata_pool: Resource | None = None,
    recheck_metadata: Any = "open",
    opened: float | None = None,
) -> Store:
    """Return a store that remembers in pools what `store` answers; `store` if they have no room.

    Parameters
    ----------
    store
        Where nothing is to be waited for, in memory, nothing is remembered either.
    pool, metadata_pool
        Resources ``cache_pool``: of chunks, and of documents; the latter by default the former.
    recheck, recheck_metadata
        The members ``recheck_cached_data`` and ``recheck_cached_metadata`` of a spec.
    opened
        When the store was opened, in seconds since 1970; by default now.
    """
    now = time.time() if opened is None else opened
    since, metadata_since = bound_of(recheck, now), bound_of(recheck_metadata, now)
    data = pool_of(pool)
    metadata = data if metadata_pool is None else pool_of(metadata_pool)
    if metadata is None and metadata_since > now:
        metadata = CachePool(_DOCUMENTS_BYTES)  # so that documents that stay are not read again
    if (data is None and metadata is None) or isinstance(store, MemoryStore):
        return store
    return RememberingStore(
        store,
        metadata=metadata,
        data=data,
        metadata_since=metadata_since,
        data_since=since,
    )
