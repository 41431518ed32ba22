"""Limits and retries of stores from resources of a context."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from tessarr.tensorstore.json.durations import parse_seconds

if TYPE_CHECKING:
    from tessarr.store import Store
    from tessarr.tensorstore.context.context import Resource

__all__ = ["concurrency_limit", "limit_concurrency", "limit_copies", "limit_rate", "retry_requests"]

_FAR: Final = 32
_shared: dict[str, Any] = {}


def concurrency_limit(resource: Resource) -> int:
    """Return how many requests may be under way at a time, as a resource of concurrency says."""
    limit = _limit(resource)
    return _shared_limit(resource) if limit is None else min(limit, 1 << 16)


def _limit(resource: Resource) -> int | None:
    limit = resource._json.get("limit")  # absent where it is shared, as by default
    return None if limit is None else int(limit)


def _shared_limit(resource: Resource) -> int:
    """Return how many requests may be under way in the process, where nothing is said."""
    name = f"TENSORSTORE_{resource._kind.name.upper()}"
    try:
        return max(1, int(os.environ[name]))
    except (KeyError, ValueError):
        return _FAR


def limit_concurrency(store: Store, resource: Resource) -> Store:
    """Return a store of which no more is asked at a time than a resource of concurrency allows.

    What all share where nothing is said are 32 requests to stores that are far away; of files
    it is the engine that decides.
    """
    from tessarr.store.wrappers.limits import LimitedStore, Limits

    if _limit(resource) is not None:
        limits = resource._get_or_build(lambda json: Limits(concurrency=json["limit"]))
    elif resource._kind.name == "file_io_concurrency":
        return store
    else:
        new = Limits(concurrency=_shared_limit(resource))
        limits = _shared.setdefault(resource._kind.name, new)
    return LimitedStore(store, limits)


def limit_copies(store: Store, resource: Resource) -> Store:
    """Return a store whose chunks are decoded as many at a time as ``data_copy_concurrency`` says.

    Where nothing is said, that is what the engine does: one per thread.
    """
    if _limit(resource) is None:
        return store
    from tessarr.store.wrappers.limits import LimitedStore, Limits

    return LimitedStore(store, resource._get_or_build(lambda json: Limits(chunks=json["limit"])))


def limit_rate(store: Store, resource: Resource | None) -> Store:
    """Return a store of which no more is asked in a second than a limiter of rates allows."""
    if resource is None:
        return store
    from tessarr.store.wrappers.limits import LimitedStore, Limits

    def read_limits(json: Any) -> Limits:
        doubling = parse_seconds(json["doubling_time"]) if "doubling_time" in json else 0
        return Limits(
            reads_per_s=json.get("read_rate") or None,
            writes_per_s=json.get("write_rate") or None,
            doubling_s=doubling or None,
        )

    return LimitedStore(store, resource._get_or_build(read_limits))


def retry_requests(store: Store, resource: Resource) -> Store:
    """Return a store that is asked again as often as a resource of retries says."""
    from tessarr.store.wrappers.retry import RetryingStore

    json = resource.to_json(include_defaults=True)
    timing = {
        "first_delay_s": max(0.0, parse_seconds(json["initial_delay"])),
        "max_delay_s": max(0.0, parse_seconds(json["max_delay"])),
    }
    return RetryingStore(store, max_retries=json["max_retries"], **timing)
