"""Key-value stores of this machine: files, memory, and every store of Tessarr's."""

from __future__ import annotations

import re
from functools import cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import ArgumentError
from tessarr.store import LocalStore, MemoryStore, open_store
from tessarr.tensorstore.kvstore.careful import limited, retried
from tessarr.tensorstore.kvstore.driver import Driver, Opening, boolean, quoted
from tessarr.tensorstore.kvstore.values import Place
from tessarr.tensorstore.notation.durations import seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr.store import Store

__all__ = ["FILE", "MEMORY", "TESSARR", "changes_at_once"]


def changes_at_once(store: Store) -> bool:
    """Return whether a small change takes less time than beginning it in another thread."""
    return isinstance(store, (MemoryStore, LocalStore)) and not store.write_concurrency


# Files


_BAD_PATH: Final = re.compile(r"\0|//|(?:\A|/)\.\.?(?:/|\Z)|\.__lock(?:/|\Z)")


def _file_path(path: str) -> str:
    # Most paths have no sign of it, which takes less time to see than to search them.
    hidden = "/." in path or ".__" in path or path[:1] == "."
    if (hidden or "//" in path or "\0" in path) and _BAD_PATH.search(path):
        raise ArgumentError(f'Invalid file path: "{path}"')
    return path


def _open_file(at: Opening) -> Place:
    here = "" if at.path.startswith("/") else f"{Path.cwd().as_posix().rstrip('/')}/"
    return Place(_root() if at.resources.plain else _files(at), here, rooted=True)


@cache
def _root() -> Store:
    return LocalStore("/", durable=True)


def _files(at: Opening) -> Store:
    def of(member: str) -> Any:
        return at.resources.resource(member).to_json(include_defaults=True)

    locking = of("file_io_locking")
    store: Store = LocalStore(
        "/",
        durable=of("file_io_sync"),
        reading=of("file_io_mode").get("mode", "default"),
        locking=locking.get("mode", "os"),
        lock_timeout_s=max(0.0, seconds(locking.get("acquire_timeout", "1m"))),
    )
    store = limited(store, at.resources.resource("file_io_concurrency"))
    return retried(store, at.resources.resource("file_io_retries"))


def _file_url(_: Mapping[str, Any], path: str) -> str:
    if not path.startswith("/"):
        raise ArgumentError(f'file: URIs do not support relative paths: "{path}"')
    return f"file:///{quoted(path.lstrip('/'))}"


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


def _open_memory(at: Opening) -> Place:
    return Place(at.resources.resource("memory_key_value_store")._made(_new_memory))


def _new_memory(_: Any) -> Store:
    return MemoryStore(any_keys=True)


MEMORY: Final = Driver(
    name="memory",
    open=_open_memory,
    members={"atomic": boolean},
    defaults={"atomic": True},
    kinds={"memory_key_value_store": "memory_key_value_store"},
    url=lambda _, path: f"memory://{quoted(path)}",
    at_once=inf,
)


# Any store of Tessarr's


def _open_tessarr(at: Opening) -> Place:
    store, inside = open_store(at.given["store"])
    return Place(store, f"{inside}/" if inside else "")


TESSARR: Final = Driver(
    name="tessarr", open=_open_tessarr, members={"store": lambda store: store}, needs=("store",)
)
