"""HDF5 files as the source of a copy: their datasets, groups and links."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.array.like import type_of
from tessarr.copying import netcdf
from tessarr.copying.report import CopiedLink, Skipped
from tessarr.errors import ArgumentError, DataError, StoreError, UnsupportedError
from tessarr.format.node_path import is_node_name, split
from tessarr.metadata.build import build_array_meta

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tessarr.types import ZarrFormat

__all__ = [
    "Contents",
    "Dataset",
    "Group",
    "check_copyable",
    "open_file",
    "read_contents",
    "reason_not_copyable",
    "wrap_dataset",
]

_MAX_LINKED: Final = 10_000
"""The maximum number of nodes to copy through links, because links in linked groups multiply."""


def open_file(path: Any) -> Any:
    """Open an HDF5 file for reading.

    Raises
    ------
    UnsupportedError
        If h5py is not installed.
    DataError
        If the file is damaged.
    StoreError
        If the operating system cannot open the file, for example because a writer has locked it.
    """
    from importlib import import_module

    try:
        h5py = import_module("h5py")
    except ImportError as error:
        raise UnsupportedError(
            f"cannot open {str(path)!r}, which is HDF5, without the package h5py: pip install h5py",
            kind="missing_package",
            extension="h5py",
        ) from error
    try:
        return h5py.File(path, "r")
    except OSError as error:
        if error.errno is not None:
            raise StoreError._of_system("open", str(path), error) from error
        raise DataError(f"cannot read {str(path)!r} as HDF5: {error}") from error


@dataclass
class Contents:
    """The content of a group.

    Parameters
    ----------
    nodes
        Arrays and groups by path, each after the group that holds it.
    links
        The links that become copies.
    skipped
        Nodes that cannot be copied.
    has_bare_dimensions
        Whether the file has netCDF dimensions without a variable.
    """

    nodes: dict[str, Any] = field(default_factory=dict)
    links: list[CopiedLink] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    has_bare_dimensions: bool = False

    @cached_property
    def in_netcdf(self) -> bool:
        """Whether a netCDF library has written the file."""
        arrays = [node.source for node in self.nodes.values() if isinstance(node, Dataset)]
        return self.has_bare_dimensions or any(map(netcdf.is_netcdf_coordinate, arrays))

    @cached_property
    def names(self) -> dict[str, list[str]]:
        """The names of the members of each group, by its path."""
        names_by_group: dict[str, list[str]] = {"": []}
        for path in filter(None, self.nodes):
            parent, name = split(path)
            names_by_group.setdefault(parent, []).append(name)
        return names_by_group


def read_contents(group: Any) -> Contents:
    """Return the content of a group of h5py, or of another library with its interface.

    The group itself has the path "".
    """
    contents = Contents()
    contents.nodes[""] = Group(group, contents) if _is_h5py(group) else group
    reader = _ContentsReader(contents)
    reader.visit(group, "", (), linked=False)
    return contents


@dataclass(slots=True)
class _ContentsReader:
    """Visits the members of groups and records them."""

    contents: Contents
    seen: dict[Any, str] = field(default_factory=dict)
    lengths: dict[Any, int] = field(default_factory=dict)
    linked: int = 0

    def visit(self, group: Any, path: str, above: tuple[Any, ...], *, linked: bool) -> None:
        """Visit the members of a group, and all nodes below them."""
        above = (*above, group)
        for name in sorted(group):
            try:
                link = group.get(name, getlink=True) if _is_h5py(group) else None
                child = group.get(name)
            except (OSError, KeyError, RuntimeError, ValueError, TypeError) as error:
                self._skip(_join_path(path, name), f"HDF5 cannot open it: {error}")
                continue
            child_path = _join_path(path, netcdf.member_name(name, child))
            kind, target = _describe_link(link)
            if child is None:
                article = "an" if kind == "external" else "a"
                self._skip(child_path, f"{article} {kind} link to {target}, which does not exist")
            elif _is_array(child) or hasattr(child, "keys"):
                self._visit_child(child, child_path, above, kind, target, linked=linked)

    def _visit_child(
        self, child: Any, path: str, above: tuple[Any, ...], kind: str, target: str, *, linked: bool
    ) -> None:
        is_array = _is_array(child)
        if not is_array and child in above:
            holder = above[above.index(child)].name
            self._skip(path, f"a link to {holder}, a group that holds it")
            return
        if is_array and netcdf.is_bare_dimension(child):
            self.contents.has_bare_dimensions = True
            return
        reason = reason_not_copyable(child) if is_array else None
        if reason is not None:
            self._skip(path, reason)
            return
        if kind == "hard" and not linked:
            first = self.seen.setdefault(child, f"/{path}")
            kind, target = ("", "") if first == f"/{path}" else ("hard", first)
        elif kind == "hard":
            kind = ""
        if (linked or kind) and not self._may_follow(path):
            return
        if kind:
            self.contents.links.append(CopiedLink(path, kind, target))
        self.contents.nodes[path] = self._wrap(child, path)
        if not is_array:
            self.visit(child, path, above, linked=linked or bool(kind))

    def _wrap(self, child: Any, path: str) -> Any:
        if not _is_h5py(child):
            return child
        if _is_array(child):
            return Dataset(child, self.lengths, self.contents)
        return Group(child, self.contents, path)

    def _may_follow(self, path: str) -> bool:
        self.linked += 1
        if self.linked > _MAX_LINKED:
            self._skip(path, f"links lead to more than {_MAX_LINKED:,} nodes")
        return self.linked <= _MAX_LINKED

    def _skip(self, path: str, reason: str) -> None:
        self.contents.skipped.append(Skipped(path, reason))


def _join_path(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _is_array(node: Any) -> bool:
    return hasattr(node, "shape")


def _is_h5py(node: Any) -> bool:
    return type(node).__module__.partition(".")[0] == "h5py"


def _describe_link(link: Any) -> tuple[str, str]:
    """Return the kind and the target of a link."""
    if hasattr(link, "filename"):
        return "external", f"{link.filename}:{link.path}"
    return ("soft", str(link.path)) if hasattr(link, "path") else ("hard", "")


def reason_not_copyable(array: Any) -> str | None:
    """Return the reason why a dataset cannot be copied; None if it can."""
    try:
        dtype = array.dtype
    except (TypeError, ValueError, OSError, RuntimeError) as error:
        return f"its data type has no form in NumPy: {error}"
    if array.shape is None:
        return "a null dataspace: it has no elements"
    if _has_references(dtype):
        return "its elements are references to other objects of the file"
    return _missing_filter(array) if _is_h5py(array) else None


def reason_not_storable(
    path: str, node: Any, zarr_format: ZarrFormat, dtype: Any = None
) -> str | None:
    """Return the reason why Zarr cannot store a node; None if it can.

    Parameters
    ----------
    path
        The path of the node in the copy.
    node
        An array or a group of another library.
    zarr_format
        The format of the copy.
    dtype
        The data type of the copy, if it differs.
    """
    for name in path.split("/") if path else ():
        if not is_node_name(name, zarr_format) or (zarr_format == 2 and "\\" in name):
            return f"format {zarr_format} of Zarr does not allow the name {name!r}"
    if not _is_array(node) or dtype is not None:
        return None
    if node.dtype.names and node.dtype.hasobject:
        return f"its data type {node.dtype} has fields of variable length"
    try:
        build_array_meta(shape=(), dtype=type_of(node), zarr_format=zarr_format)
    except (ArgumentError, UnsupportedError) as error:
        reason = error.message.removeprefix("cannot create an array: ").removeprefix("dtype: ")
        return f"its data type {node.dtype} cannot be stored: {reason}"
    return None


def check_copyable(array: Any) -> None:
    """Raise an error if an array cannot be copied."""
    reason = reason_not_copyable(array)
    if reason is not None:
        name = str(getattr(array, "name", ""))
        raise UnsupportedError(
            f"cannot copy {name!r}: {reason}", kind="unsupported_data_type", path=name
        )


def _has_references(dtype: np.dtype[Any]) -> bool:
    if dtype.subdtype is not None:
        return _has_references(dtype.subdtype[0])
    if dtype.names is not None:
        return any(_has_references(dtype[name]) for name in dtype.names)
    metadata: Mapping[str, Any] = dtype.metadata or {}
    items = metadata.get("vlen")
    return "ref" in metadata or (isinstance(items, np.dtype) and _has_references(items))


def _missing_filter(array: Any) -> str | None:
    """Return the missing HDF5 filter of a dataset, if any.

    The package hdf5plugin registers most filters that the HDF5 library lacks.
    """
    from importlib import import_module
    from importlib.util import find_spec

    h5z = import_module("h5py.h5z")
    pipeline = array.id.get_create_plist()
    for index in range(pipeline.get_nfilters()):
        number, _, _, name = pipeline.get_filter(index)
        if not h5z.filter_avail(number) and find_spec("hdf5plugin") is not None:
            import_module("hdf5plugin")
        if not h5z.filter_avail(number):
            filter_name = name.decode("utf-8", "replace").partition(";")[0]
            return (
                f"the HDF5 filter {number} ({filter_name}) is not installed: pip install hdf5plugin"
            )
    return None


def wrap_dataset(array: Any) -> Any:
    """Wrap a dataset of h5py as the source of a copy; return other arrays unchanged."""
    return Dataset(array) if _is_h5py(array) else array


class Group:
    """A group of h5py with the members that can be copied, as `read_contents` finds them.

    Parameters
    ----------
    group
        The group.
    contents
        The content of the top group.
    path
        The path from the top group.
    """

    from_hdf5: Final = True

    def __init__(self, group: Any, contents: Contents, path: str = "") -> None:
        self.source = group
        self.contents = contents
        self.path = path

    @property
    def in_netcdf(self) -> bool:
        """Whether it is in a netCDF file."""
        return netcdf.is_netcdf_file(self.source.file) or self.contents.in_netcdf

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.contents.names.get(self.path, ()))

    def __getitem__(self, name: str) -> Any:
        return self.contents.nodes[_join_path(self.path, name)]


class Dataset:
    """A dataset of h5py, extended to the length of its netCDF dimensions.

    Elements beyond the end of a variable, up to the length of its unlimited dimension, read as the
    fill value. All other attributes are those of the dataset.

    Parameters
    ----------
    dataset
        The dataset.
    lengths
        The known lengths of dimensions by their scale.
    contents
        The content of the top group.
    """

    from_hdf5: Final = True

    def __init__(
        self,
        dataset: Any,
        lengths: dict[Any, int] | None = None,
        contents: Contents | None = None,
    ) -> None:
        self.source = dataset
        self.contents = contents
        self.shape: tuple[int, ...] = _full_shape(dataset, {} if lengths is None else lengths)

    @cached_property
    def in_netcdf(self) -> bool:
        """Whether it is in a netCDF file."""
        if self.contents is None:
            return netcdf.is_netcdf(self.source)
        named = netcdf.is_netcdf_file(self.source.file) or self.contents.in_netcdf
        return named or netcdf.has_scales(self.source)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def __getitem__(self, key: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        """Return a part of the dataset.

        Raises
        ------
        DataError
            If HDF5 cannot read it.
        """
        try:
            values: np.ndarray[Any, Any] = np.asarray(self.source[key], self.source.dtype)
        except (OSError, RuntimeError, ValueError, TypeError) as error:
            name = self.source.name
            raise DataError(f"cannot read dataset {name!r} of HDF5: {error}", path=name) from error
        expected_shape = self._lengths(key)
        if values.shape == expected_shape:
            return values
        full = np.full(expected_shape, self.source.fillvalue, values.dtype)
        full[tuple(slice(length) for length in values.shape)] = values
        return full

    def _lengths(self, key: tuple[slice, ...]) -> tuple[int, ...]:
        pairs = zip(key, self.shape, strict=True)
        return tuple(len(range(*part.indices(length))) for part, length in pairs)


def _full_shape(dataset: Any, lengths: dict[Any, int]) -> tuple[int, ...]:
    """Return the shape of a dataset, extended to its unlimited netCDF dimensions."""
    shape: tuple[int, ...] = dataset.shape
    if None not in dataset.maxshape or not netcdf.has_scales(dataset):
        return shape
    if dataset.is_scale:
        scales = [dataset] if dataset.ndim == 1 else [None] * dataset.ndim
    else:
        scales = [dimension[0] if len(dimension) else None for dimension in dataset.dims]
    full_shape = list(shape)
    for axis, (max_length, scale) in enumerate(zip(dataset.maxshape, scales, strict=True)):
        if max_length is None and scale is not None and scale.ndim == 1:
            if scale not in lengths:
                lengths[scale] = netcdf.dimension_length(scale)
            full_shape[axis] = max(full_shape[axis], lengths[scale])
    return tuple(full_shape)
