"""Store classes (public facade)."""

from __future__ import annotations

from tessarr.store import ForeignStore, LocalStore, MemoryStore, Store, StoreLike, StoreMapping
from tessarr.store.fsspec.store import FsspecStore, FSStore
from tessarr.store.protocol import StoreProtocol
from tessarr.store.sqlite import SQLiteStore
from tessarr.store.wrappers.cache import LRUStoreCache
from tessarr.store.wrappers.instrumented import LatencyStore, LoggingStore
from tessarr.store.wrappers.limits import LimitedStore, Limits
from tessarr.store.wrappers.prefix import PrefixStore
from tessarr.store.wrappers.read_only import ReadOnlyStore
from tessarr.store.wrappers.retry import RetryingStore
from tessarr.store.wrappers.wrapper import WrapperStore
from tessarr.store.zarr2_dicts import DictStore, KVStore
from tessarr.store.zarr2_dirs import DirectoryStore, NestedDirectoryStore, TempStore
from tessarr.store.zip import ZipStore

__all__ = [
    "DictStore",
    "DirectoryStore",
    "FSStore",
    "ForeignStore",
    "FsspecStore",
    "KVStore",
    "LRUStoreCache",
    "LatencyStore",
    "LimitedStore",
    "Limits",
    "LocalStore",
    "LoggingStore",
    "MemoryStore",
    "NestedDirectoryStore",
    "PrefixStore",
    "ReadOnlyStore",
    "RetryingStore",
    "SQLiteStore",
    "Store",
    "StoreLike",
    "StoreMapping",
    "StoreProtocol",
    "TempStore",
    "WrapperStore",
    "ZipStore",
]
