"""The stores, by the module name that users of zarr-python know."""

from __future__ import annotations

from tessarr.stores import (
    DirectoryStore,
    ForeignStore,
    FsspecStore,
    FSStore,
    LatencyStore,
    LocalStore,
    LoggingStore,
    LRUStoreCache,
    MemoryStore,
    NestedDirectoryStore,
    PrefixStore,
    ReadOnlyStore,
    SQLiteStore,
    Store,
    StoreLike,
    StoreMapping,
    StoreProtocol,
    TempStore,
    WrapperStore,
)

__all__ = [
    "DirectoryStore",
    "FSStore",
    "ForeignStore",
    "FsspecStore",
    "LRUStoreCache",
    "LatencyStore",
    "LocalStore",
    "LoggingStore",
    "MemoryStore",
    "NestedDirectoryStore",
    "PrefixStore",
    "ReadOnlyStore",
    "SQLiteStore",
    "Store",
    "StoreLike",
    "StoreMapping",
    "StoreProtocol",
    "TempStore",
    "WrapperStore",
]
