"""The drivers ``file``, ``memory`` and ``tessarr``."""

from __future__ import annotations

import re
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import ArgumentError
from tessarr.store import LocalStore, MemoryStore, open_store
from tessarr.tensorstore.json.durations import parse_seconds
from tessarr.tensorstore.json.parse import boolean
from tessarr.tensorstore.kvstore.kvstore_driver import Driver, quote_path
from tessarr.tensorstore.kvstore.limits import limit_concurrency, retry_requests
from tessarr.tensorstore.kvstore.values import StoreLocation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr.store import Store
    from tessarr.tensorstore.context.references import References

__all__ = ["FILE", "MEMORY", "TESSARR", "is_fast_to_write", "waits_for_disk"]


def is_fast_to_write(store: Store) -> bool:
    """Return whether a small write takes less time than to start it in another thread."""
    return isinstance(store, (MemoryStore, LocalStore)) and not store.write_concurrency


def waits_for_disk(store: Store) -> bool:
    """Return whether writes wait for the disk; several concurrent writes take as long as one."""
    result: Any = store
    while result is not None and not isinstance(result, LocalStore):
        result = getattr(result, "store", None)  # the inner store of a wrapper
    return result is not None and result.durable


# Files


_BAD_PATH: Final = re.compile(r"\0|//|(?:\A|/)\.\.?(?:/|\Z)|\.__lock(?:/|\Z)")


def _file_path(path: str) -> str:
    # Most paths pass these checks, which take less time than the regular expression.
    hidden = "/." in path or ".__" in path or path[:1] == "."
    if (hidden or "//" in path or "\0" in path) and _BAD_PATH.search(path):
        raise ArgumentError(f'Invalid file path: "{path}"')
    return path


def _open_file(resources: References, _: Any, __: Any, path: str) -> StoreLocation:
    root = "" if path.startswith("/") else f"{Path.cwd().as_posix().rstrip('/')}/"
    sync, mode, locking, retries = (
        resources.resource(f"file_io_{name}").to_json(include_defaults=True)
        for name in ("sync", "mode", "locking", "retries")
    )
    store: Store = LocalStore(
        "/",
        durable=sync,
        reading=mode.get("mode", "default"),
        locking=locking.get("mode", "os"),
        lock_timeout_s=max(0.0, parse_seconds(locking.get("acquire_timeout", "1m"))),
    )
    store = limit_concurrency(store, resources.resource("file_io_concurrency"))
    if retries["max_retries"]:
        store = retry_requests(store, resources.resource("file_io_retries"))
    return StoreLocation(store, root, strip_slash=True)


def _file_url(_: Mapping[str, Any], path: str) -> str:
    if not path.startswith("/"):
        raise ArgumentError(f'file: URIs do not support relative paths: "{path}"')
    return f"file:///{quote_path(path.lstrip('/'), plain='@')}"


_FILE_RESOURCES: Final = ("concurrency", "locking", "mode", "retries", "sync")

FILE: Final = Driver(
    name="file",
    open=_open_file,
    kinds={f"file_io_{name}": f"file_io_{name}" for name in _FILE_RESOURCES},
    url=_file_url,
    path=_file_path,
    at_once=1 << 16,
)


# Memory


def _open_memory(resources: References, *_: Any) -> StoreLocation:
    return StoreLocation(resources.resource("memory_key_value_store")._get_or_build(_new_memory))


def _new_memory(_: Any) -> Store:
    return MemoryStore(any_keys=True)


MEMORY: Final = Driver(
    name="memory",
    open=_open_memory,
    members={"atomic": boolean},
    defaults={"atomic": True},
    kinds={"memory_key_value_store": "memory_key_value_store"},
    url=lambda _, path: f"memory://{quote_path(path)}",
    at_once=inf,
)


# Tessarr stores


def _open_tessarr(_: References, members: Mapping[str, Any], *__: Any) -> StoreLocation:
    store, inside = open_store(members["store"])
    return StoreLocation(store, f"{inside}/" if inside else "")


TESSARR: Final = Driver(
    name="tessarr", open=_open_tessarr, members={"store": lambda store: store}, needs=("store",)
)
