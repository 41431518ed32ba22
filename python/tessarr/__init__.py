"""Tessarr: N-dimensional, chunked, compressed arrays in the Zarr formats 2 and 3."""

from __future__ import annotations

from tessarr import codecs, errors, storage, stores
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
from tessarr.drive import Future
from tessarr.group import Group
from tessarr.options import Options, configure, options

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
