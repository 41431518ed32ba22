"""Tessarr: N-dimensional, chunked, compressed arrays in the Zarr formats 2 and 3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tessarr import errors
from tessarr.api import (
    array,
    create_array,
    create_group,
    empty,
    full,
    ones,
    open,
    open_array,
    open_group,
    zeros,
)
from tessarr.array import Array
from tessarr.group import Group
from tessarr.options import Options, configure, options

if TYPE_CHECKING:
    from tessarr import codecs, extensions, storage, stores
    from tessarr.converting import convert
    from tessarr.future import Future
    from tessarr.hierarchy import (
        consolidate_metadata,
        consolidated_differences,
        migrate_1to2,
        open_consolidated,
        remove_consolidated,
    )
    from tessarr.node import Unreadable
    from tessarr.synchronizer import ProcessSynchronizer, ThreadSynchronizer

__all__ = [
    "Array",
    "Future",
    "Group",
    "Options",
    "ProcessSynchronizer",
    "ThreadSynchronizer",
    "Unreadable",
    "array",
    "codecs",
    "configure",
    "consolidate_metadata",
    "consolidated_differences",
    "convert",
    "create_array",
    "create_group",
    "empty",
    "errors",
    "extensions",
    "full",
    "migrate_1to2",
    "ones",
    "open",
    "open_array",
    "open_consolidated",
    "open_group",
    "options",
    "remove_consolidated",
    "storage",
    "stores",
    "zeros",
]


_ELSEWHERE = {
    "Future": "future",
    "ProcessSynchronizer": "synchronizer",
    "ThreadSynchronizer": "synchronizer",
    "Unreadable": "node",
    "convert": "converting",
    "consolidate_metadata": "hierarchy",
    "consolidated_differences": "hierarchy",
    "migrate_1to2": "hierarchy",
    "open_consolidated": "hierarchy",
    "remove_consolidated": "hierarchy",
}


def __getattr__(name: str) -> Any:
    # Loaded when asked for, to keep the import light.
    from importlib import import_module

    if name in _ELSEWHERE:
        return getattr(import_module(f"tessarr.{_ELSEWHERE[name]}"), name)
    if name in ("codecs", "extensions", "storage", "stores"):
        return import_module(f"tessarr.{name}")
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("tessarr")
        except PackageNotFoundError:
            return "0.0.0+source"  # run from a checkout, not installed
    raise AttributeError(f"module 'tessarr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
