"""The stores, by the module name that users of zarr-python know.

``default_compressor``
    The compression of new arrays where none is given. To set it is the same as
    ``tessarr.configure(compressor=…)``.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from tessarr.codec.blosc import Blosc
from tessarr.options import configure, current
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
    ZipStore,
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
    "ZipStore",
]


class _Module(ModuleType):
    """Let the default compressor be a variable that takes effect."""

    @property
    def default_compressor(self) -> Any:
        compressor = current().compressor
        return Blosc() if isinstance(compressor, str) and compressor == "auto" else compressor

    @default_compressor.setter
    def default_compressor(self, compressor: Any) -> None:
        configure(compressor=compressor)


sys.modules[__name__].__class__ = _Module
