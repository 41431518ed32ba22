"""Limits and retries of stores from resources of a context."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from tessarr.tensorstore.json.durations import parse_seconds

if TYPE_CHECKING:
    from tessarr.store import Store
    from tessarr.tensorstore.context.context import Resource

__all__ = ["concurrency_limit", "limit_concurrency", "limit_copies", "limit_rate", "retry_requests"]

_SHARED_LIMIT: Final = 32
_shared: dict[str, Any] = {}


def concurrency_limit(resource: Resource) -> int:
    """Return the maximum number of concurrent requests of a concurrency resource."""
    limit = _limit(resource)
    return _shared_limit(resource) if limit is None else min(limit, 1 << 16)


def _limit(resource: Resource) -> int | None:
    limit: int | None = resource._json.get("limit")  # absent by default: the limit is shared
    return limit


def _shared_limit(resource: Resource) -> int:
    """Return the maximum number of concurrent requests of the process, without a limit."""
    name = f"TENSORSTORE_{resource._kind.name.upper()}"
    try:
        return max(1, int(os.environ[name]))
    except (KeyError, ValueError):
        return _SHARED_LIMIT


def limit_concurrency(store: Store, resource: Resource) -> Store:
    """Return a store with the concurrency limit of a resource.

    Without a limit, all remote stores of a kind share 32 concurrent requests. The engine limits
    requests to files.
    """
    from tessarr.store.wrappers.wrapper import LimitedStore, Limits

    if _limit(resource) is not None:
        limits = resource._get_or_build(lambda json: Limits(concurrency=json["limit"]))
    elif resource._kind.name == "file_io_concurrency":
        return store
    else:
        new = Limits(concurrency=_shared_limit(resource))
        limits = _shared.setdefault(resource._kind.name, new)
    return LimitedStore(store, limits)


def limit_copies(store: Store, resource: Resource) -> Store:
    """Return a store with the limit of ``data_copy_concurrency`` on concurrently decoded chunks.

    Without a limit, each thread of the engine decodes one chunk at a time.
    """
    if _limit(resource) is None:
        return store
    from tessarr.store.wrappers.wrapper import LimitedStore, Limits

    return LimitedStore(store, resource._get_or_build(lambda json: Limits(chunks=json["limit"])))


def limit_rate(store: Store, resource: Resource) -> Store:
    """Return a store with the request rates of a rate limiter."""
    from tessarr.store.wrappers.wrapper import LimitedStore, Limits

    def read_limits(json: Any) -> Limits:
        doubling = parse_seconds(json["doubling_time"]) if "doubling_time" in json else 0
        return Limits(
            reads_per_s=json.get("read_rate") or None,
            writes_per_s=json.get("write_rate") or None,
            doubling_s=doubling or None,
        )

    return LimitedStore(store, resource._get_or_build(read_limits))


def retry_requests(store: Store, resource: Resource) -> Store:
    """Return a store that retries requests by the settings of a retry resource."""
    from tessarr.store.wrappers.wrapper import RetryingStore

    json = resource.to_json(include_defaults=True)
    timing = {
        "first_delay_s": max(0.0, parse_seconds(json["initial_delay"])),
        "max_delay_s": max(0.0, parse_seconds(json["max_delay"])),
    }
    return RetryingStore(store, max_retries=json["max_retries"], **timing)
