"""Store classes (public facade)."""

from __future__ import annotations

from tessarr.store import ForeignStore, LocalStore, MemoryStore, Store, StoreLike, StoreMapping
from tessarr.store.fsspec.store import FsspecStore, FSStore
from tessarr.store.object.azure_store import AzureStore
from tessarr.store.object.connection import ConnectionSettings
from tessarr.store.object.gcs_store import GCSStore
from tessarr.store.object.http_store import HTTPStore
from tessarr.store.object.s3_store import S3Store
from tessarr.store.protocol import StoreProtocol
from tessarr.store.sqlite import SQLiteStore
from tessarr.store.wrappers.cache import LRUStoreCache
from tessarr.store.wrappers.instrumented import LatencyStore, LoggingStore
from tessarr.store.wrappers.wrapper import (
    LimitedStore,
    Limits,
    PrefixStore,
    ReadOnlyStore,
    RetryingStore,
    WrapperStore,
)
from tessarr.store.zarr2_dicts import DictStore, KVStore
from tessarr.store.zarr2_dirs import DirectoryStore, NestedDirectoryStore, TempStore
from tessarr.store.zip import ZipStore

__all__ = [
    "AzureStore",
    "ConnectionSettings",
    "DictStore",
    "DirectoryStore",
    "FSStore",
    "ForeignStore",
    "FsspecStore",
    "GCSStore",
    "HTTPStore",
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
    "S3Store",
    "SQLiteStore",
    "Store",
    "StoreLike",
    "StoreMapping",
    "StoreProtocol",
    "TempStore",
    "WrapperStore",
    "ZipStore",
]
