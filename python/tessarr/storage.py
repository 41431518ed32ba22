"""Store classes and functions under zarr-python's module name (public facade).

``default_compressor``
    The compression of new arrays by default. Setting it has the same effect as
    ``tessarr.configure(compressor=…)``.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from tessarr.api.create import create, create_group
from tessarr.api.hierarchy import migrate_1to2
from tessarr.codec import to_codec, to_list
from tessarr.codec.blosc import Blosc
from tessarr.flow import open as open_flow
from tessarr.flow.run import run_flow
from tessarr.format.node_path import normalize_path
from tessarr.metadata.node import ArrayMeta, GroupMeta
from tessarr.options import configure, current
from tessarr.store.resolve import locate_node
from tessarr.stores import (
    DictStore,
    DirectoryStore,
    ForeignStore,
    FsspecStore,
    FSStore,
    KVStore,
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

if TYPE_CHECKING:
    from tessarr.types import ShapeLike, ZarrFormat

__all__ = [
    "DictStore",
    "DirectoryStore",
    "FSStore",
    "ForeignStore",
    "FsspecStore",
    "KVStore",
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
    "contains_array",
    "contains_group",
    "getsize",
    "init_array",
    "init_group",
    "listdir",
    "migrate_1to2",
    "normalize_storage_path",
    "rename",
    "rmdir",
]


class _StorageModule(ModuleType):
    """A module whose attribute `default_compressor` is a property."""

    @property
    def default_compressor(self) -> Any:
        compressor = current().compressor
        return Blosc() if isinstance(compressor, str) and compressor == "auto" else compressor

    @default_compressor.setter
    def default_compressor(self, compressor: Any) -> None:
        if not isinstance(compressor, str) or compressor != "auto":
            for codec in to_list(compressor):
                to_codec(codec)  # an invalid codec raises here, before an array is created
        configure(compressor=compressor)


sys.modules[__name__].__class__ = _StorageModule


def init_array(  # noqa: PLR0917 (the order that zarr-python 2 has)
    store: StoreLike,
    shape: ShapeLike,
    chunks: Any = True,  # noqa: FBT002
    dtype: Any = None,
    compressor: Any = "default",
    fill_value: Any = None,
    order: Literal["C", "F"] = "C",
    overwrite: bool = False,  # noqa: FBT002
    path: str | None = None,
    chunk_store: StoreLike = None,
    filters: Any = None,
    **settings: Any,
) -> None:
    """Create an array in a store; `tessarr.create_array` also returns the array.

    Parameters
    ----------
    store, shape, chunks, dtype, compressor, order, overwrite, path, chunk_store, filters, \
    **settings
        As for `tessarr.create`.
    fill_value
        The value of elements that were never written. None means undefined in format 2 and
        zero in format 3.

    Examples
    --------
    >>> store = {}
    >>> init_array(store, shape=(10000, 10000), chunks=(1000, 1000), zarr_format=2)
    >>> sorted(store)
    ['.zarray', '.zattrs']
    """
    zarr_format = settings.get("zarr_format") or current().zarr_format
    if fill_value is None and zarr_format == 3:
        fill_value = "auto"
    create(
        shape,
        chunks,
        dtype,
        "auto" if compressor == "default" else compressor,
        fill_value,
        order,
        store,
        None,
        overwrite,
        path,
        chunk_store,
        "auto" if filters is None else filters,
        **settings,
    )


def init_group(
    store: StoreLike,
    overwrite: bool = False,  # noqa: FBT002
    path: str | None = None,
    chunk_store: StoreLike = None,
    *,
    zarr_format: ZarrFormat | None = None,
) -> None:
    """Create a group in a store; `tessarr.create_group` also returns the group.

    Parameters
    ----------
    store, overwrite, path, chunk_store, zarr_format
        As for `tessarr.create_group`.

    Examples
    --------
    >>> store = {}
    >>> init_group(store, path="a", zarr_format=2)
    >>> sorted(store)
    ['.zattrs', '.zgroup', 'a/.zattrs', 'a/.zgroup']
    """
    create_group(
        store, path=path, overwrite=overwrite, chunk_store=chunk_store, zarr_format=zarr_format
    )


def contains_array(store: StoreLike, path: str | None = None) -> bool:
    """Return whether a store has an array at a path, in any format.

    Examples
    --------
    >>> contains_array({}), contains_group({})
    (False, False)
    """
    return isinstance(_find_metadata(store, path), ArrayMeta)


def contains_group(store: StoreLike, path: str | None = None) -> bool:
    """Return whether a store has a group at a path, in any format."""
    return isinstance(_find_metadata(store, path), GroupMeta)


def _find_metadata(store: StoreLike, path: str | None) -> Any:
    opened, normal_path = locate_node(store, "r", path)
    return run_flow(open_flow.find_node(normal_path), opened)


def listdir(store: StoreLike, path: str | None = None) -> list[str]:
    """Return the names directly below a path of a store: see `StoreMapping.listdir`.

    Examples
    --------
    >>> listdir({"a/b": b"1", "c": b"2"}), getsize({"a/b": b"1", "c": b"2"}, "a")
    (['a', 'c'], 1)
    """
    mapping, normal_path = _open_mapping(store, path, "r")
    return mapping.listdir(normal_path)


def rmdir(store: StoreLike, path: str | None = None) -> None:
    """Remove every key below a path of a store: see `StoreMapping.rmdir`."""
    mapping, normal_path = _open_mapping(store, path, "r+")
    mapping.rmdir(normal_path)


def getsize(store: StoreLike, path: str | None = None) -> int:
    """Return the number of bytes stored below a path: see `StoreMapping.getsize`."""
    mapping, normal_path = _open_mapping(store, path, "r")
    return mapping.getsize(normal_path)


def rename(store: StoreLike, src_path: str, dst_path: str) -> None:
    """Move all keys below a path of a store to another path: see `StoreMapping.rename`.

    Examples
    --------
    >>> store = {"a/b": b"1"}
    >>> rename(store, "a", "c/d")
    >>> store
    {'c/d/b': b'1'}
    """
    mapping, normal_path = _open_mapping(store, src_path, "r+")
    mapping.rename(normal_path, _open_mapping(store, dst_path, "r+")[1])


def _open_mapping(store: StoreLike, path: str | None, mode: str) -> tuple[StoreMapping, str]:
    opened, normal_path = locate_node(store, mode, path)
    assert isinstance(opened, StoreMapping)  # every store that locate_node returns is one
    return opened, normal_path


def normalize_storage_path(path: str | bytes | None) -> str:
    r"""Return the normal form of a path by the rules of format 2.

    Examples
    --------
    >>> normalize_storage_path("/foo//bar/"), normalize_storage_path("a\\b")
    ('foo/bar', 'a/b')
    """
    text = path.decode("ascii") if isinstance(path, bytes) else path or ""
    return normalize_path(text, 2)
