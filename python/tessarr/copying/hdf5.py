"""What there is to know of arrays and groups of h5py, and of what looks like them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["attributes_of", "check_type", "dimension_names_of", "members", "open_file"]

_OF_HDF5: Final = ("CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS")
_OF_NETCDF: Final = ("_NCProperties", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_nc3_strict")
_OWN: Final = frozenset((*_OF_HDF5, *_OF_NETCDF))
"""Attributes by which HDF5 and netCDF-4 note what the names of axes say."""

_BARE_DIMENSION: Final = "This is a netCDF dimension but not a netCDF variable"


def open_file(path: Any) -> Any:
    """Open a file of HDF5 for reading."""
    from importlib import import_module

    try:
        h5py = import_module("h5py")
    except ImportError as error:
        raise UnsupportedError(
            f"cannot open {str(path)!r}, which is HDF5, without the package h5py: pip install h5py",
            kind="missing_package",
            extension="h5py",
        ) from error
    return h5py.File(path, "r")


def members(group: Any, path: str = "", above: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield all that is below a group, each after the group that it is in, with its path.

    Links that lead nowhere, or to a group that they are in, and what is neither an array nor a
    group, are left out.
    """
    above = (*above, group)
    for name in sorted(group):
        child = group.get(name)
        if child is None or not (hasattr(child, "shape") or hasattr(child, "keys")):
            continue
        if hasattr(child, "shape") and (child.shape is None or _is_bare_dimension(child)):
            continue
        if not hasattr(child, "shape") and child in above:
            continue
        at = f"{path}/{name}" if path else name
        yield at, child
        if not hasattr(child, "shape"):
            yield from members(child, at, above)


def _is_bare_dimension(array: Any) -> bool:
    name = _text(getattr(array, "attrs", {}).get("NAME", ""))
    return isinstance(name, str) and name.startswith(_BARE_DIMENSION)


def attributes_of(node: Any) -> dict[str, Any]:
    """Return the attributes of an array or a group, without those that name its axes."""
    attrs: Any = getattr(node, "attrs", {})
    found: dict[str, Any] = {}
    for name in attrs:
        if name not in _OWN:
            try:
                value = attrs[name]
            except (OSError, TypeError):  # of a type that NumPy does not have
                continue
            plain = _text(value)
            if plain is not None:
                found[name] = plain
    return found


def _text(value: Any) -> Any:
    """Return a value with its bytes as text; None for references and for no value."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, np.ndarray):
        return _text(value.tolist())
    if isinstance(value, list):
        items = [_text(item) for item in value]
        return None if any(item is None for item in items) else items
    if type(value).__module__.partition(".")[0] == "h5py":
        return None
    return value


def dimension_names_of(array: Any) -> tuple[str | None, ...] | None:
    """Return the names of the axes, as labels or dimension scales give them."""
    dims = getattr(array, "dims", None)
    if dims is None or type(array).__module__.partition(".")[0] != "h5py":
        return None
    if array.ndim == 1 and getattr(array, "is_scale", False):
        return (array.name.rpartition("/")[2],)
    found = tuple(
        dim.label or (dim[0].name.rpartition("/")[2] if len(dim) else None) for dim in dims
    )
    return found if any(found) else None


def check_type(array: Any, path: str) -> None:
    """Check that the elements are data: references to other objects mean nothing elsewhere."""
    metadata = getattr(array.dtype, "metadata", None) or {}
    if "ref" in metadata:
        raise UnsupportedError(
            f"cannot copy {path!r}: its elements are references to other objects of the file",
            kind="unsupported_data_type",
            path=path,
        )
