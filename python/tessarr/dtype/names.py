"""Conversion of names, NumPy dtypes and metadata JSON to data types."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np

from tessarr.dtype.base import (
    MAX_ITEM_BYTES,
    DataType,
    find_family,
    find_kind,
    find_numpy_family,
    is_known,
    list_type_names,
)
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.format.validation import Problems, describe, read_extension

if TYPE_CHECKING:
    from tessarr.types import DTypeLike, JSONObject, ZarrFormat

__all__ = ["DataTypeLike", "from_json", "to_data_type"]

_UNSUPPORTED: Final = "unsupported_data_type"
_TYPESTR: Final = re.compile(r"([<>|=])?([A-Za-z])([0-9]*)(\[.*\])?", re.DOTALL)
_RAW: Final = re.compile("r-?[0-9]*")
_SIZES: Final = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16)}
_UNITS: Final = re.compile(r"\[(?:0*[1-9][0-9]{0,9})?(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\]")
_FLEXIBLE: Final[dict[type | str, str]] = {str: "string", "str": "string", bytes: "bytes"}
"""Python types for text and bytes of any length; NumPy converts these to types of length 0."""
_ONE_BYTE_ORDER: Final = frozenset("bSVO")  # kinds whose byte order is "|"


DataTypeLike: TypeAlias = "DTypeLike | JSONObject | DataType"
"""A data type, a value that NumPy accepts as one, or the JSON of format 3."""


def to_data_type(value: DataTypeLike) -> DataType:
    """Convert a user's value to a data type.

    Parameters
    ----------
    value : dtype_like, str, dict or DataType
        A data type, a value that NumPy accepts as one, or the JSON of format 3: a name, or an
        object with a name and a configuration.

    Raises
    ------
    ArgumentError
        If it is not a data type.
    UnsupportedError
        If the data type cannot be stored.

    Examples
    --------
    >>> to_data_type("i4").name, to_data_type(float).name
    ('int32', 'float64')
    >>> to_data_type("r16").numpy, to_data_type(np.dtype(">f8")).numpy
    (dtype('V2'), dtype('>f8'))
    >>> to_data_type({"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}}).numpy
    dtype('<U2')
    """
    if isinstance(value, DataType):
        return value
    if isinstance(value, type | str) and value in _FLEXIBLE:
        value = _FLEXIBLE[value]
    if isinstance(value, str) and value.startswith("array:"):
        return _ragged_type(value)
    named = isinstance(value, str) and (is_known(value) or re.fullmatch("r[0-9]+", value))
    if named or (isinstance(value, Mapping) and "name" in value):
        return _parse_json(value)
    try:
        dtype = np.dtype(cast("Any", value))
    except (TypeError, ValueError) as error:
        if isinstance(value, str) and find_family(value) is not None:
            return _parse_json(value)  # of a package that is installed
        from tessarr._safe_repr import safe_repr

        hint = _suggest_names(value)
        raise ArgumentError(f"{safe_repr(value)} is not a data type: {error}{hint}") from error
    family = find_numpy_family(dtype)
    known = dtype.isbuiltin == 2 or dtype.kind not in _SIZES or dtype.itemsize in _SIZES[dtype.kind]
    if family is None or not known or not 0 < dtype.itemsize <= MAX_ITEM_BYTES:
        raise UnsupportedError(
            f"data type {str(dtype)!r} is not supported", kind=_UNSUPPORTED, extension=str(dtype)
        )
    return family.from_numpy(dtype)


def _suggest_names(value: object) -> str:
    """Return the end of a message that suggests data types with similar names."""
    from tessarr.format.hints import did_you_mean

    if isinstance(value, list):  # of fields
        types = (item[1] for item in value if isinstance(item, list | tuple) and len(item) > 1)
        return next((hint for part in types if (hint := _suggest_names(part))), "")
    return did_you_mean(value, [*list_type_names(), "str", "int", "float", "complex", "object"])


def _ragged_type(name: str) -> DataType:
    from tessarr.dtype.objects import Ragged

    item = to_data_type(name.removeprefix("array:"))
    if item.elements is not None:
        raise ArgumentError(f"{name!r}: arrays of items that differ in length cannot be elements")
    return Ragged(item=item.numpy)


def _parse_json(value: Any) -> DataType:
    problems = Problems()
    data_type = from_json(value, 3, "", problems)
    try:
        problems.check_arguments(f"use data type {value!r}")
    except UnsupportedError as error:
        message = f"{error.message}{_suggest_names(error.extension)}"
        raise UnsupportedError(message, kind=error.kind, extension=error.extension) from None
    assert data_type is not None
    return data_type


def from_json(value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems) -> DataType | None:
    """Return the data type of its JSON in metadata; if invalid, add problems and return None.

    Parameters
    ----------
    value : JSON
        ``dtype`` of format 2 or ``data_type`` of format 3.
    zarr_format : {2, 3}
        The format.
    loc : str
        The JSON pointer of `value`.
    problems : Problems
        Collects the faults.

    Examples
    --------
    >>> problems = Problems()
    >>> from_json(">i4", 2, "/dtype", problems).numpy, from_json("|i4", 2, "/dtype", problems)
    (dtype('>i4'), None)
    >>> print(*problems.found)
    /dtype: '|i4' does not state the byte order of int32, '<' or '>'
    """
    return _from_v2(value, loc, problems) if zarr_format == 2 else _from_v3(value, loc, problems)


def _from_v3(value: Any, loc: str, problems: Problems) -> DataType | None:
    extension = read_extension(value, "data type", loc, problems)
    if extension is None:
        return None
    name = extension.name
    family = find_kind("V") if _RAW.fullmatch(name) else find_family(name)
    if family is None:
        problems.unsupported(loc, "data type", name, kind=_UNSUPPORTED)
        return None
    return family.from_v3(name, extension.configuration)


def _from_v2(value: Any, loc: str, problems: Problems) -> DataType | None:
    if isinstance(value, list):
        family = find_family("struct")
        return None if family is None else family.from_v2(value, loc, problems)
    named = find_family(value) if isinstance(value, str) else None
    if named is not None and value in named.v2_names:
        return named.from_v2(value, loc, problems)
    return _from_typestring(value, loc, problems)


def _from_typestring(value: Any, loc: str, problems: Problems) -> DataType | None:
    if not isinstance(value, str) or (match := _TYPESTR.fullmatch(value)) is None:
        problems.add(loc, f"{describe(value)} is not a NumPy typestring such as '<f8'")
        return None
    order, kind, digits, unit = match.groups()
    if kind not in "biufcmMSUVO" or (unit and kind not in "mM"):
        problems.add(loc, f"{describe(value)} is not a NumPy typestring such as '<f8'")
    elif not order:
        problems.add(loc, f"{describe(value)} has no byte order, '<', '>' or '|'")
    elif kind in "mM" and (digits != "8" or not unit or not _UNITS.fullmatch(unit)):
        problems.add(loc, f"{describe(value)} is not 8 bytes with a unit, such as '<M8[ns]'")
    elif kind != "O" and (not digits or digits.startswith("0") or len(digits) > 9):
        problems.add(loc, f"{describe(value)} has no valid number of bytes")
    elif kind in _SIZES and int(digits) not in _SIZES[kind]:
        problems.add(loc, f"{describe(value)}: there is no such type of {digits} bytes")
    elif kind in "SUV" and int(digits) * (4 if kind == "U" else 1) > MAX_ITEM_BYTES:
        problems.add(loc, f"{describe(value)} has too many bytes", "too_large")
    elif (family := find_kind(kind)) is None:
        problems.unsupported(loc, "data type", value, kind=_UNSUPPORTED)
    elif order == "=":
        problems.add(loc, f"{describe(value)}: the byte order '=' depends on the machine")
    elif order == "|" and kind not in _ONE_BYTE_ORDER and digits != "1":
        name = np.dtype(f"{kind}{digits}").name
        problems.add(loc, f"{describe(value)} does not state the byte order of {name}, '<' or '>'")
    else:
        return family.from_v2(value, loc, problems)
    return None
