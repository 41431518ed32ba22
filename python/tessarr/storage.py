"""The stores, by the module name that users of zarr-python know."""

from __future__ import annotations

from tessarr.stores import (
    ForeignStore,
    LocalStore,
    MemoryStore,
    Store,
    StoreLike,
    StoreProtocol,
)

__all__ = [
    "ForeignStore",
    "LocalStore",
    "MemoryStore",
    "Store",
    "StoreLike",
    "StoreProtocol",
]
