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
    from tessarr import codecs, storage, stores
    from tessarr.future import Future

__all__ = [
    "Array",
    "Future",
    "Group",
    "Options",
    "array",
    "codecs",
    "configure",
    "create_array",
    "create_group",
    "empty",
    "errors",
    "full",
    "ones",
    "open",
    "open_array",
    "open_group",
    "options",
    "storage",
    "stores",
    "zeros",
]


def __getattr__(name: str) -> Any:
    # Loaded when asked for, to keep the import light.
    from importlib import import_module

    if name == "Future":
        return import_module("tessarr.future").Future
    if name in ("codecs", "storage", "stores"):
        return import_module(f"tessarr.{name}")
    raise AttributeError(f"module 'tessarr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
