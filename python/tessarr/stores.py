"""The stores, for everything that takes a store."""

from __future__ import annotations

from tessarr.store import (
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
