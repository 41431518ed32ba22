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
from tessarr.store.sqlite import SQLiteStore
from tessarr.store.wrap import (
    LatencyStore,
    LoggingStore,
    LRUStoreCache,
    PrefixStore,
    ReadOnlyStore,
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
