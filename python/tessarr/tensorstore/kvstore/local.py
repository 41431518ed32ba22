"""The drivers ``file``, ``memory`` and ``tessarr``."""

from __future__ import annotations

import re
from functools import cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import ArgumentError
from tessarr.store import LocalStore, MemoryStore, open_store
from tessarr.tensorstore.json.durations import parse_seconds
from tessarr.tensorstore.json.object_members import boolean
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
    return _in_files(path) if resources.plain else _in_files(path, _files(resources))


def _in_files(path: str, files: Store | None = None) -> StoreLocation:
    here = "" if path.startswith("/") else f"{Path.cwd().as_posix().rstrip('/')}/"
    return StoreLocation(_root() if files is None else files, here, strip_slash=True)


@cache
def _root() -> Store:
    return LocalStore("/", durable=True)


def _files(resources: References) -> Store:
    def of(member: str) -> Any:
        return resources.resource(member).to_json(include_defaults=True)

    locking = of("file_io_locking")
    store: Store = LocalStore(
        "/",
        durable=of("file_io_sync"),
        reading=of("file_io_mode").get("mode", "default"),
        locking=locking.get("mode", "os"),
        lock_timeout_s=max(0.0, parse_seconds(locking.get("acquire_timeout", "1m"))),
    )
    store = limit_concurrency(store, resources.resource("file_io_concurrency"))
    retries = resources.resource("file_io_retries")
    return retry_requests(store, retries) if of("file_io_retries")["max_retries"] else store


def _file_url(_: Mapping[str, Any], path: str) -> str:
    if not path.startswith("/"):
        raise ArgumentError(f'file: URIs do not support relative paths: "{path}"')
    return f"file:///{quote_path(path.lstrip('/'), plain='@')}"


_FILE_RESOURCES: Final = (
    "file_io_concurrency",
    "file_io_locking",
    "file_io_mode",
    "file_io_retries",
    "file_io_sync",
)

FILE: Final = Driver(
    name="file",
    open=_open_file,
    kinds={name: name for name in _FILE_RESOURCES},
    url=_file_url,
    path=_file_path,
    at_once=1 << 16,
)


# Memory


def _open_memory(resources: References, *_: Any) -> StoreLocation:
    return StoreLocation(resources.resource("memory_key_value_store")._get_or_build(_new_memory))


def _new_memory(_: Any) -> Store:
    return StoreLocation.in_memory().store


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


def _open_tessarr(_: References, given: Mapping[str, Any], *__: Any) -> StoreLocation:
    store, inside = open_store(given["store"])
    return StoreLocation(store, f"{inside}/" if inside else "")


TESSARR: Final = Driver(
    name="tessarr", open=_open_tessarr, members={"store": lambda store: store}, needs=("store",)
)
