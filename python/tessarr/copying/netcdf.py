"""Conventions of netCDF-4 files: attributes, axis names and fill values, as xarray reads them.

netCDF-4 files are HDF5 files with conventions. A dimension scale that is attached to an axis
names it. An attribute of one number has the shape ``(1,)``. Elements that equal the attribute
``_FillValue`` are missing.

xarray expects the same information in other members of a Zarr array. Format 3 has axis names in
``dimension_names`` and the missing value in an encoded attribute ``_FillValue``. Format 2 has axis
names in the attribute ``_ARRAY_DIMENSIONS`` and the missing value in ``fill_value``.
"""

from __future__ import annotations

import base64
import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.errors import NotJSONError
from tessarr.format import json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from collections.abc import Set as AbstractSet

    from tessarr.types import ZarrFormat

__all__ = [
    "array_attributes",
    "convert_attributes",
    "dimension_length",
    "encode_fill_value",
    "enum_members",
    "get_zarr_settings",
    "group_attributes",
    "has_scales",
    "is_bare_dimension",
    "is_h5py",
    "is_netcdf",
    "is_netcdf_coordinate",
    "is_netcdf_file",
    "member_name",
    "read_dimension_names",
    "read_fill_value",
    "to_json",
]

FILL_VALUE: Final = "_FillValue"

_ENUMS: Final = "_nc_enums"
"""The attribute of a group that holds the enumerations of its variables.

xarray hides attributes of this prefix, so that a variable has the same attributes as in the file.
"""

_INTERNAL: Final = frozenset(
    (
        "DIMENSION_LABELS",
        "DIMENSION_LIST",
        "REFERENCE_LIST",
        "_NCProperties",
        "_Netcdf4Coordinates",
        "_Netcdf4Dimid",
        "_nc3_strict",
    )
)
"""Attributes with which HDF5 and netCDF-4 store dimensions and versions."""

_SCALE: Final = frozenset(("CLASS", "NAME"))
"""Internal attributes of dimension scales; other libraries use these names differently."""

_BARE_DIMENSION: Final = "This is a netCDF dimension but not a netCDF variable"

_NOT_A_COORDINATE: Final = "_nc4_non_coord_"
"""The prefix of a variable that has the name of a dimension but is not its coordinate."""


def is_netcdf(node: Any) -> bool:
    """Return whether an array or a group is in a netCDF file.

    Files of the netCDF library since 2016 have an attribute for this. In older files, and those of
    h5py, dimension scales of the array or its siblings indicate netCDF.
    """
    in_netcdf: bool | None = getattr(node, "in_netcdf", None)
    if in_netcdf is not None or not is_h5py(node):
        return bool(in_netcdf)
    if is_netcdf_file(node.file):
        return True
    arrays = [node, *_arrays_in(node.parent)] if hasattr(node, "shape") else _arrays_in(node)
    return any(map(has_scales, arrays))


def is_netcdf_file(file: Any) -> bool:
    """Return whether a file of h5py has an attribute of netCDF."""
    return "_NCProperties" in file.attrs or "_nc3_strict" in file.attrs


def has_scales(array: Any) -> bool:
    """Return whether a dataset of h5py is a dimension scale or has some."""
    return (
        "DIMENSION_LIST" in array.attrs
        or "_Netcdf4Dimid" in array.attrs
        or "_Netcdf4Coordinates" in array.attrs
        or _is_scale(array)
    )


def is_netcdf_coordinate(array: Any) -> bool:
    """Return whether a dataset of h5py is a dimension scale of a netCDF library."""
    if "_Netcdf4Dimid" in array.attrs or "_Netcdf4Coordinates" in array.attrs:
        return True
    return _is_scale(array) and _decode_internal(array.attrs.get("NAME", "")) == _base_name(array)


def _arrays_in(group: Any) -> list[Any]:
    """Return the readable arrays of a group."""
    arrays = []
    for name in group:
        try:
            child = group.get(name)
        except (OSError, KeyError, RuntimeError, ValueError):
            continue
        if hasattr(child, "shape"):
            arrays.append(child)
    return arrays


def member_name(name: str, node: Any) -> str:
    """Return the netCDF name of a member with the HDF5 name `name`."""
    if name.startswith(_NOT_A_COORDINATE) and hasattr(node, "shape"):
        return name.removeprefix(_NOT_A_COORDINATE)
    return name


def is_bare_dimension(array: Any) -> bool:
    """Return whether a dataset only represents a dimension, without coordinates."""
    if not is_h5py(array) or "NAME" not in array.attrs:
        return False
    name = _decode_internal(array.attrs["NAME"])
    return isinstance(name, str) and name.startswith(_BARE_DIMENSION)


def read_dimension_names(array: Any) -> tuple[str | None, ...] | None:
    """Return the names of the axes, from labels or dimension scales."""
    names: Any = getattr(array, "dimensions", None)
    if isinstance(names, tuple):
        return names
    if not is_h5py(array):
        return None
    if _is_scale(array) and array.ndim == 1:
        return (_base_name(array),)
    if _is_scale(array) and "_Netcdf4Coordinates" in array.attrs:
        numbers = np.ravel(array.attrs["_Netcdf4Coordinates"]).tolist()
        names_by_number = _find_dimension_names(array)
        return tuple(names_by_number.get(number) for number in numbers)
    labels = tuple(dim.label or (_base_name(dim[0]) if len(dim) else None) for dim in array.dims)
    return labels if any(labels) else None


def _find_dimension_names(array: Any) -> dict[int, str]:
    """Return the names of dimensions by number, of the group and of all groups above."""
    names: dict[int, str] = {}
    group = array.parent
    while True:
        for scale in _arrays_in(group):
            if _is_scale(scale) and "_Netcdf4Dimid" in scale.attrs:
                names.setdefault(int(scale.attrs["_Netcdf4Dimid"]), _base_name(scale))
        if group.name == "/":
            return names
        group = group.parent


def dimension_length(scale: Any) -> int:
    """Return the length of the dimension of a one-dimensional dimension scale.

    The netCDF library does not extend the scale of an unlimited dimension: the longest variable has
    the length of the dimension.
    """
    length = int(scale.shape[0])
    for item in scale.attrs.get("REFERENCE_LIST", ()):
        try:
            variable = scale.file[item["dataset"]]
            length = max(length, int(variable.shape[int(item["dimension"])]))
        except (KeyError, ValueError, TypeError, IndexError, OSError, RuntimeError):
            continue  # a reference to a deleted object
    return length


def _base_name(array: Any) -> str:
    name: str = array.name.rpartition("/")[2]
    return name.removeprefix(_NOT_A_COORDINATE)


def _is_scale(array: Any) -> bool:
    return bool(array.is_scale)


def get_zarr_settings(
    array: Any, zarr_format: ZarrFormat, overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings of a Zarr array that a dataset stores differently."""
    settings: dict[str, Any] = {}
    if zarr_format == 3:
        settings["dimension_names"] = read_dimension_names(array)
    if is_netcdf(array) and not {"fill_value", "fillvalue"} & set(overrides):
        settings["fill_value"] = read_fill_value(array, zarr_format)
    return settings


def read_fill_value(array: Any, zarr_format: ZarrFormat) -> Any:
    """Return the fill value of a netCDF variable as an array of Zarr.

    In format 2 xarray treats elements with the fill value as missing. So a variable without
    ``_FillValue`` gets no fill value in format 2.
    """
    marked = _missing_mark(array)
    if marked is not None:
        return marked
    return None if zarr_format == 2 else _to_element(array.fillvalue, array.dtype)


def _missing_mark(array: Any) -> Any:
    if FILL_VALUE not in array.attrs:
        return None
    value = array.attrs[FILL_VALUE]
    if isinstance(value, np.ndarray):
        value = value.ravel()[0] if value.size == 1 else None
    is_text = isinstance(value, str | bytes)
    if is_text and array.dtype.kind not in "SOT":
        return None
    return _to_element(value, array.dtype)


def _to_element(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a value as an element of a data type: h5py reads text as bytes."""
    is_text = isinstance(value, bytes) and dtype.kind == "O"
    return value.decode("utf-8", "replace") if is_text else value


def encode_fill_value(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return the attribute ``_FillValue`` as xarray encodes it in format 3; None if it cannot.

    Examples
    --------
    >>> encode_fill_value(np.nan, np.dtype("f4")), encode_fill_value(-99.0, np.dtype("i2"))
    ('AAAAAAAA+H8=', -99)
    """
    if value is None:
        return None
    try:
        if dtype.kind == "f":
            return _to_base64(float(value))
        if dtype.kind == "c":
            number = complex(value)
            return [_to_base64(number.real), _to_base64(number.imag)]
        if dtype.kind in "iu":
            return int(value)
        return bool(value) if dtype.kind == "b" else None
    except (TypeError, ValueError, OverflowError):
        return None


def _to_base64(number: float) -> str:
    return base64.standard_b64encode(struct.pack("<d", number)).decode("ascii")


def array_attributes(
    array: Any,
    dtype: np.dtype[Any],
    zarr_format: ZarrFormat,
    skip: Callable[[str, str], None],
    *,
    is_single_array: bool = False,
) -> dict[str, Any]:
    """Return the attributes of a copy of an array.

    Parameters
    ----------
    array
        An array of any library.
    dtype
        The data type of the copy.
    zarr_format
        The format of the copy.
    skip
        Called with the name of an attribute that cannot be copied, and the reason.
    is_single_array
        Whether the copy excludes the group of the array, which would hold enumerations.
    """
    in_netcdf = is_netcdf(array)
    attributes = convert_attributes(array, skip, without={FILL_VALUE} if in_netcdf else set())
    members = enum_members(array)
    if members is not None and (is_single_array or not in_netcdf):
        attributes = {**_flag_attributes(members), **attributes}
    if in_netcdf and FILL_VALUE in array.attrs:
        mark = _missing_mark(array)
        encoded = encode_fill_value(mark, dtype)
        if mark is None:
            skip(FILL_VALUE, "its value is no element of the array")
        elif zarr_format == 3 and encoded is not None:
            attributes[FILL_VALUE] = encoded
    names = read_dimension_names(array)
    if zarr_format == 2 and names is None and not array.shape and in_netcdf:
        names = ()
    if zarr_format == 2 and names is not None and None not in names:
        attributes["_ARRAY_DIMENSIONS"] = list(names)
    return attributes


def group_attributes(group: Any, skip: Callable[[str, str], None]) -> dict[str, Any]:
    """Return the attributes of a copy of a group, with the enumerations of a netCDF group."""
    attributes = convert_attributes(group, skip)
    if not is_h5py(group) or not is_netcdf(group):
        return attributes
    enums = {
        member_name(array.name.rpartition("/")[2], array): members
        for array in _arrays_in(group)
        if (members := enum_members(array)) is not None
    }
    return {**attributes, _ENUMS: enums} if enums else attributes


def enum_members(array: Any) -> dict[str, int] | None:
    """Return the members of an HDF5 enumeration; None for other data types."""
    try:
        members: Mapping[str, Any] | None = (array.dtype.metadata or {}).get("enum")
    except (AttributeError, TypeError):
        return None
    return None if members is None else {name: int(value) for name, value in members.items()}


def _flag_attributes(members: Mapping[str, int]) -> dict[str, Any]:
    """Return the attributes of the CF conventions for an enumeration."""
    ordered = sorted(members.items(), key=lambda member: member[1])
    return {
        "flag_values": [value for _, value in ordered],
        "flag_meanings": " ".join("_".join(name.split()) for name, _ in ordered),
    }


def convert_attributes(
    node: Any, skip: Callable[[str, str], None], without: AbstractSet[str] = frozenset()
) -> dict[str, Any]:
    """Return the attributes of a node as JSON, except internal and excluded ones."""
    attrs: Any = getattr(node, "attrs", {})
    in_netcdf = is_netcdf(node)
    internal = _INTERNAL | _SCALE if is_h5py(node) and _has_scale_class(attrs) else _INTERNAL
    converted: dict[str, Any] = {}
    for name in attrs:
        if name in internal or name in without:
            continue
        try:
            value = attrs[name]
        except (OSError, TypeError, ValueError, RuntimeError) as error:
            skip(name, f"h5py cannot read it: {error}")
            continue
        try:
            converted[name] = to_json(value, in_netcdf=in_netcdf)
        except NotJSONError as error:
            skip(name, error.message)
    return converted


def _has_scale_class(attrs: Any) -> bool:
    return "CLASS" in attrs and _decode_internal(attrs["CLASS"]) == "DIMENSION_SCALE"


def _decode_internal(value: Any) -> Any:
    """Return an internal attribute of HDF5 as text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def to_json(value: Any, *, in_netcdf: bool = False) -> Any:
    """Return the value of an attribute as JSON.

    Parameters
    ----------
    value
        The value, as h5py reads it.
    in_netcdf
        Whether an array of one element becomes a scalar, and an empty value becomes text.

    Raises
    ------
    NotJSONError
        If JSON cannot represent the value.

    Examples
    --------
    >>> to_json(np.array([0.5])), to_json(np.array([0.5]), in_netcdf=True), to_json(b"m")
    ([0.5], 0.5, 'm')
    """
    if is_h5py(value):
        if not hasattr(value, "dtype") or type(value).__name__ != "Empty":
            raise NotJSONError("a reference to another object of the file")
        if value.dtype.kind in "SO" and in_netcdf:
            return ""
        return [] if in_netcdf else None
    if in_netcdf and isinstance(value, np.ndarray) and value.shape == (1,):
        return to_json(value[0], in_netcdf=True)
    text = to_text(value)
    json.to_plain(text, "", _raise_not_json, note_non_finite=_accept_non_finite)
    return text


def _raise_not_json(_: str, message: str) -> None:
    raise NotJSONError(message)


def _accept_non_finite(_: str, __: float) -> None:
    """Accept NaN and infinities: the document of the attribute warns about them."""


def to_text(value: Any) -> Any:
    """Return a value with its bytes as text, and its arrays as lists.

    Raises
    ------
    NotJSONError
        If the value is opaque or a reference, or if its text is not UTF-8.
    """
    if isinstance(value, bytes | str):
        # h5py decodes variable-length text; invalid UTF-8 becomes surrogates.
        encoded = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        try:
            return encoded.decode("utf-8")
        except UnicodeDecodeError:
            raise NotJSONError("its text is not UTF-8") from None
    if isinstance(value, np.ndarray | np.void):
        if value.dtype.kind == "V" and value.dtype.names is None:
            raise NotJSONError("an opaque value")
        return to_text(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [to_text(item) for item in value]
    if is_h5py(value):
        raise NotJSONError("a reference to another object of the file")
    return value


def is_h5py(node: Any) -> bool:
    """Return whether a node is of h5py, or a wrapper of such a node."""
    """Return whether an object belongs to h5py, or is a `tessarr.copying.hdf5.Dataset`."""
    return type(node).__module__.partition(".")[0] == "h5py" or hasattr(node, "from_hdf5")
