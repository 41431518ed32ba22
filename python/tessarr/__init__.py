"""Tessarr: N-dimensional, chunked, compressed arrays in the Zarr formats 2 and 3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tessarr import errors
from tessarr.api.create import (
    array,
    create,
    create_array,
    create_group,
    empty,
    empty_like,
    from_array,
    full,
    full_like,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from tessarr.api.open import group, open, open_array, open_group, open_like
from tessarr.array import Array
from tessarr.group import Group
from tessarr.node.node import register_viewer
from tessarr.options import Options, configure, options

if TYPE_CHECKING:
    from tessarr import blosc, codecs, extensions, storage, stores
    from tessarr.api.buffered import buffered
    from tessarr.api.hierarchy import (
        consolidate_metadata,
        consolidated_differences,
        create_hierarchy,
        migrate_1to2,
        open_consolidated,
        remove_consolidated,
        tree,
    )
    from tessarr.api.ipython import load_ipython_extension
    from tessarr.api.read_many import read_many
    from tessarr.api.save import LazyLoader, load, save, save_array, save_group
    from tessarr.array.async_array import AsyncArray
    from tessarr.array.lazy import LazyArray
    from tessarr.array.summaries import ArrayStats, Histogram
    from tessarr.codecs import (
        BZ2,
        LZ4,
        LZMA,
        Blosc,
        Categorize,
        Delta,
        FixedScaleOffset,
        GZip,
        Quantize,
        Zlib,
        Zstd,
    )
    from tessarr.codecs import PackBitsV2 as PackBits
    from tessarr.copying import copy, copy_all, copy_store, copy_to
    from tessarr.copying.convert import convert
    from tessarr.flow.future import Future
    from tessarr.node.node import Unreadable
    from tessarr.node.synchronizer import ProcessSynchronizer, ThreadSynchronizer
    from tessarr.stores import (
        DictStore,
        DirectoryStore,
        FSStore,
        KVStore,
        LRUStoreCache,
        MemoryStore,
        NestedDirectoryStore,
        SQLiteStore,
        TempStore,
        ZipStore,
    )
    from tessarr.web.store.server import StoreServer, serve

__all__ = [
    "BZ2",
    "LZ4",
    "LZMA",
    "Array",
    "ArrayStats",
    "AsyncArray",
    "Blosc",
    "Categorize",
    "Delta",
    "DictStore",
    "DirectoryStore",
    "FSStore",
    "FixedScaleOffset",
    "Future",
    "GZip",
    "Group",
    "Histogram",
    "KVStore",
    "LRUStoreCache",
    "LazyArray",
    "LazyLoader",
    "MemoryStore",
    "NestedDirectoryStore",
    "Options",
    "PackBits",
    "ProcessSynchronizer",
    "Quantize",
    "SQLiteStore",
    "StoreServer",
    "TempStore",
    "ThreadSynchronizer",
    "Unreadable",
    "ZipStore",
    "Zlib",
    "Zstd",
    "array",
    "blosc",
    "buffered",
    "codecs",
    "configure",
    "consolidate_metadata",
    "consolidated_differences",
    "convert",
    "copy",
    "copy_all",
    "copy_store",
    "copy_to",
    "create",
    "create_array",
    "create_group",
    "create_hierarchy",
    "empty",
    "empty_like",
    "errors",
    "extensions",
    "from_array",
    "full",
    "full_like",
    "group",
    "load",
    "load_ipython_extension",
    "migrate_1to2",
    "ones",
    "ones_like",
    "open",
    "open_array",
    "open_consolidated",
    "open_group",
    "open_like",
    "options",
    "read_many",
    "remove_consolidated",
    "save",
    "save_array",
    "save_group",
    "serve",
    "storage",
    "stores",
    "tree",
    "zeros",
    "zeros_like",
]


_LAZY_NAMES = {
    "ArrayStats": "array.summaries",
    "AsyncArray": "array.async_array",
    "Histogram": "array.summaries",
    "LazyArray": "array.lazy",
    "DictStore": "stores",
    "DirectoryStore": "stores",
    "FSStore": "stores",
    "KVStore": "stores",
    "LRUStoreCache": "stores",
    "MemoryStore": "stores",
    "NestedDirectoryStore": "stores",
    "SQLiteStore": "stores",
    "StoreServer": "web.store.server",
    "TempStore": "stores",
    "ZipStore": "stores",
    "BZ2": "codecs",
    "LZ4": "codecs",
    "LZMA": "codecs",
    "Blosc": "codecs",
    "Categorize": "codecs",
    "Delta": "codecs",
    "FixedScaleOffset": "codecs",
    "Future": "flow.future",
    "ProcessSynchronizer": "node.synchronizer",
    "ThreadSynchronizer": "node.synchronizer",
    "GZip": "codecs",
    "LazyLoader": "api.save",
    "Quantize": "codecs",
    "Unreadable": "node.node",
    "Zlib": "codecs",
    "Zstd": "codecs",
    "buffered": "api.buffered",
    "consolidate_metadata": "api.hierarchy",
    "consolidated_differences": "api.hierarchy",
    "convert": "copying.convert",
    "copy": "copying",
    "copy_all": "copying",
    "copy_store": "copying",
    "copy_to": "copying",
    "create_hierarchy": "api.hierarchy",
    "load": "api.save",
    "load_ipython_extension": "api.ipython",
    "migrate_1to2": "api.hierarchy",
    "open_consolidated": "api.hierarchy",
    "read_many": "api.read_many",
    "remove_consolidated": "api.hierarchy",
    "save": "api.save",
    "save_array": "api.save",
    "save_group": "api.save",
    "serve": "web.store.server",
    "tree": "api.hierarchy",
}


def _show_node(node: Any, height: int) -> Any:
    from importlib import import_module

    return import_module("tessarr.web.viewer.show").show(node, height)


register_viewer(_show_node)


def __getattr__(name: str) -> Any:
    # Lazy imports keep `import tessarr` fast.
    from importlib import import_module

    if name in _LAZY_NAMES:
        return getattr(import_module(f"tessarr.{_LAZY_NAMES[name]}"), name)
    if name == "PackBits":  # as zarr-python 2 has it; that of format 3 is another codec
        return import_module("tessarr.codecs").PackBitsV2
    if name in ("blosc", "codecs", "extensions", "storage", "stores"):
        return import_module(f"tessarr.{name}")
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("tessarr")
        except PackageNotFoundError:
            return "0.0.0+source"  # run from a checkout, not installed
    import sys

    # With `name` and `obj`, Python suggests similar names.
    raise AttributeError(
        f"module 'tessarr' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
    )


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
