"""The stores, by the module name that users of zarr-python know."""

from __future__ import annotations

from tessarr.stores import (
    ForeignStore,
    LatencyStore,
    LocalStore,
    LoggingStore,
    LRUStoreCache,
    MemoryStore,
    PrefixStore,
    ReadOnlyStore,
    SQLiteStore,
    Store,
    StoreLike,
    StoreProtocol,
    WrapperStore,
)

__all__ = [
    "ForeignStore",
    "LRUStoreCache",
    "LatencyStore",
    "LocalStore",
    "LoggingStore",
    "MemoryStore",
    "PrefixStore",
    "ReadOnlyStore",
    "SQLiteStore",
    "Store",
    "StoreLike",
    "StoreProtocol",
    "WrapperStore",
]
