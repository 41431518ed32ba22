"""Sources of a copy: nodes in a Zarr store, or arrays and groups of another library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from tessarr.api.open import open as open_node
from tessarr.api.open import open_group
from tessarr.array import Array, bind_array
from tessarr.copying import hdf5, netcdf, netcdf3
from tessarr.copying.journal import fingerprint
from tessarr.copying.member_filter import ALL_MEMBERS, MemberFilter
from tessarr.errors import ArgumentError, DataError, NotFoundError, StoreError, TessarrError
from tessarr.flow import walk
from tessarr.flow.open import prefix_of
from tessarr.flow.run import run_flow
from tessarr.format.node_path import join
from tessarr.group import Group
from tessarr.metadata.node import ArrayMeta, GroupMeta
from tessarr.store import file_signatures
from tessarr.store.adapt import close_user_store
from tessarr.store.paths import expand_user

if TYPE_CHECKING:
    from tessarr.copying.report import CopiedLink, Skipped
    from tessarr.store import Store
    from tessarr.types import ZarrFormat

__all__ = ["CopySource", "ForeignSource", "StoredSource", "open_source"]


@dataclass
class StoredSource:
    """An array or a group of Zarr, with all nodes below.

    Parameters
    ----------
    store, path
        The store, and the path of the node.
    meta
        The metadata of the node.
    """

    store: Store
    path: str
    meta: ArrayMeta | GroupMeta
    links: list[CopiedLink] = field(default_factory=list, init=False)
    skipped: list[Skipped] = field(default_factory=list, init=False)

    @property
    def zarr_format(self) -> ZarrFormat:
        """The format of the node; 2 for format 1."""
        return self.meta.zarr_format

    @property
    def is_consolidated(self) -> bool:
        """Whether the group has consolidated metadata."""
        if not isinstance(self.meta, GroupMeta):
            return False
        if self.zarr_format == 2:
            return self.store.size(prefix_of(self.path) + ".zmetadata") is not None
        return self.meta.consolidated is not None

    def nodes(self, member_filter: MemberFilter = ALL_MEMBERS) -> dict[str, Any]:
        """Return the metadata of included nodes by path from the top node, whose path is "".

        Raises
        ------
        MetadataError, UnsupportedError
            If the metadata of a node cannot be read.
        ArgumentError
            If no node is included.
        """
        metas: dict[str, Any] = {"": self.meta}
        if isinstance(self.meta, GroupMeta):
            prefix = len(prefix_of(self.path))
            metas.update((path[prefix:], meta) for path, meta in self._find_members().items())
        selected = member_filter.select_nodes(metas)
        for meta in selected.values():
            if isinstance(meta, TessarrError):
                raise meta
        return selected

    def _find_members(self) -> dict[str, Any]:
        """Return the metadata of all nodes below by complete path.

        If the store refuses listings, they come from consolidated metadata.
        """
        flow = walk.list_members(self.path, self.zarr_format, max_depth=None)
        try:
            return run_flow(flow, self.store)
        except StoreError as error:
            if error.retryable or not self.is_consolidated:
                raise
        group = open_group(self.store, "r", path=self.path, use_consolidated=True)
        return {node.path: getattr(node, "_metadata", node) for _, node in group.members(None)}

    def array(self, path: str, meta: ArrayMeta) -> Array:
        """Return an array of the source."""
        return bind_array(meta, self.store, join(self.path, path), read_only=True)

    def chunk_keys_of(self, path: str, meta: ArrayMeta) -> list[str]:
        """Return the keys of an array; without listings, those of all possible chunks."""
        prefix = prefix_of(join(self.path, path))
        if self._keys is None:
            encode = meta.chunk_key_encoding.encode
            return [prefix + encode(cell) for cell in np.ndindex(meta.grid_shape)]
        return [key for key in self._keys if key.startswith(prefix)]

    def fingerprint(self) -> str | None:
        """Return a hash of the keys and cheap properties of all stored values.

        The result is None if the store refuses listings.
        """
        if self._keys is None:
            return None
        return fingerprint(self.store, prefix_of(self.path), self._keys)

    def close(self) -> None:
        """Close the store, if it needs closing."""
        close_user_store(self.store)

    @cached_property
    def _keys(self) -> list[str] | None:
        try:
            return self.store.list(prefix_of(self.path))
        except StoreError as error:
            if error.retryable:
                raise
            return None


@dataclass
class ForeignSource:
    """An array or a group of another library, such as h5py or Dask.

    Parameters
    ----------
    node
        A node with a shape, or keys.
    zarr_format
        The Zarr format of the node; None for other libraries.
    """

    node: Any
    zarr_format: ZarrFormat | None = None
    _top: Any = field(default=None, init=False)
    links: list[CopiedLink] = field(default_factory=list, init=False)
    skipped: list[Skipped] = field(default_factory=list, init=False)

    @property
    def is_consolidated(self) -> bool:
        """Whether the copy gets consolidated metadata, which applies to netCDF files."""
        return self._top is not None and netcdf.is_netcdf(self._top)

    def nodes(self, member_filter: MemberFilter = ALL_MEMBERS) -> dict[str, Any]:
        """Return the included nodes by path from the top node, whose path is "".

        Raises
        ------
        UnsupportedError
            If the top node is an array that cannot be copied.
        ArgumentError
            If no node is included.
        """
        if hasattr(self.node, "shape"):
            hdf5.check_copyable(self.node)
            return member_filter.select_nodes({"": hdf5.wrap_dataset(self.node)})
        contents = hdf5.read_contents(self.node)
        self._top = contents.nodes[""]
        selected = member_filter.select_nodes(contents.nodes)
        self.links = [link for link in contents.links if link.path in selected]
        self.skipped = [
            skipped for skipped in contents.skipped if member_filter.is_included(skipped.path)
        ]
        return selected

    def array(self, path: str, node: Any) -> Any:
        """Return an array of the source."""
        return node

    def fingerprint(self) -> str | None:
        """Return a hash of the file of the node; None without a file."""
        import os

        file = getattr(getattr(self.node, "file", self.node), "filename", None)
        if not isinstance(file, str | os.PathLike) or not os.path.isfile(file):  # noqa: PTH113
            return None
        status = os.stat(file)  # noqa: PTH116 (as it is given)
        return f"{status.st_size} {status.st_mtime_ns} {getattr(self.node, 'name', '')}"

    def close(self) -> None:
        """Close the file of the node."""
        file: Any = getattr(self.node, "file", None)
        if file is not None:
            file.close()


CopySource: TypeAlias = "StoredSource | ForeignSource"


def open_source(source: Any, path: str | None) -> CopySource:
    """Return the source of a copy.

    Parameters
    ----------
    source
        An array or group of Tessarr, h5py or zarr-python; an array of another library; a file
        of HDF5, of netCDF, or of NumPy (``.npy``); or a store, as for `tessarr.open`.
    path
        The path of the node in the source.
    """
    form = file_signatures.detect_format(source)
    if form is not None:
        source = _OPENERS[form](expand_user(source))
    node = source
    if isinstance(source, Array | Group):
        if path and isinstance(source, Group):
            node = source[path]
        elif path:
            raise ArgumentError(f"an array has no node at path {path!r}")
    elif form is not None or _is_foreign(source):
        try:
            node = _get_node(source, path) if path else source
        except BaseException:
            if form is not None and hasattr(source, "close"):
                source.close()
            raise
    else:
        node = open_node(source, "r", path=path, use_consolidated=False)
    if isinstance(node, Array | Group):
        return StoredSource(node._store, node.path, node._metadata)
    zarr_format: Any = getattr(getattr(node, "metadata", None), "zarr_format", None)
    return ForeignSource(node, zarr_format)


def _get_node(source: Any, path: str) -> Any:
    if hasattr(source, "shape"):
        raise ArgumentError(f"an array has no node at path {path!r}")
    try:
        return source[path]
    except KeyError as error:
        raise NotFoundError(
            f"there is no array or group at path {path!r} of {source!r}",
            kind="node_not_found",
            path=path,
        ) from error


def _open_numpy_file(path: Any) -> np.ndarray[Any, Any]:
    """Open a file of NumPy's format as a memory map."""
    try:
        array: np.ndarray[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise DataError(f"cannot read {str(path)!r} as a file of NumPy: {error}") from error
    return array


_OPENERS: Final[dict[str, Callable[[Any], Any]]] = {
    "HDF5": hdf5.open_file,
    "NumPy": _open_numpy_file,
    "netCDF-3": netcdf3.open_file,
}


def _is_foreign(source: Any) -> bool:
    if hasattr(source, "shape") and hasattr(source, "dtype"):
        return True
    top = type(source).__module__.partition(".")[0]
    return top in ("h5py", "zarr") and hasattr(source, "attrs") and hasattr(source, "keys")
