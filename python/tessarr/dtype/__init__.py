"""Data types: `DataType`, one class per family, and how names and dtypes become one.

A new family is a subclass of `DataType` in a file of its own, decorated with
`register`. Names that belong to families which are not there yet are refused
as unsupported, by name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.dtype.base import DataType, find_family, find_kind, register
from tessarr.dtype.boolean import Boolean
from tessarr.dtype.complex import Complex
from tessarr.dtype.numeric import Float, Integer
from tessarr.dtype.raw import Raw
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.problems import Problems, describe, read_extension

if TYPE_CHECKING:
    from tessarr.types import DTypeLike, ZarrFormat

__all__ = [
    "Boolean",
    "Complex",
    "DataType",
    "Float",
    "Integer",
    "Raw",
    "from_json",
    "of",
    "register",
]

_UNSUPPORTED: Final = "unsupported_data_type"
_TYPESTR: Final = re.compile(r"([<>|=])?([A-Za-z])([0-9]*)(\[.*\])?", re.DOTALL)
_SIZES: Final = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16)}
_ONE_BYTE_ORDER: Final = frozenset("bSVO")  # kinds whose byte order is "|"


def of(value: DTypeLike | DataType) -> DataType:
    """Return the data type of what a user gives for one.

    Parameters
    ----------
    value : dtype_like or DataType
        A data type, what NumPy takes for one, or a name of format 3.

    Raises
    ------
    ArgumentError
        Where it is no data type.
    UnsupportedError
        Where it is one that cannot be stored.

    Examples
    --------
    >>> of("i4").name, of(float).name, of("r16").numpy, of(np.dtype(">f8")).numpy
    ('int32', 'float64', dtype('V2'), dtype('>f8'))
    """
    if isinstance(value, DataType):
        return value
    if isinstance(value, str) and re.fullmatch("r[0-9]+", value):
        problems = Problems()
        raw = from_json(value, 3, "", problems)
        problems.check_arguments(f"use data type {value!r}")
        assert raw is not None
        return raw
    try:
        dtype = np.dtype(value)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{value!r} is not a data type: {error}") from error
    family = None if dtype.subdtype or dtype.names else find_kind(dtype.kind)
    known = dtype.kind not in _SIZES or dtype.itemsize in _SIZES[dtype.kind]
    if family is None or not known or dtype.itemsize == 0:
        raise UnsupportedError(
            f"data type {str(dtype)!r} is not supported", kind=_UNSUPPORTED, extension=str(dtype)
        )
    return family.from_numpy(dtype)


def from_json(value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems) -> DataType | None:
    """Return the data type that metadata states, or None and a problem.

    Parameters
    ----------
    value : JSON
        ``dtype`` of format 2 or ``data_type`` of format 3.
    zarr_format : {2, 3}
        The format.
    loc : str
        The JSON pointer of `value`.
    problems : Problems
        Where faults go.

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
    family = Raw if re.fullmatch("r-?[0-9]*", name) else find_family(name)
    if family is None:
        problems.unsupported(loc, "data type", name, kind=_UNSUPPORTED)
        return None
    return family.from_v3(name, extension.configuration)


def _from_v2(value: Any, loc: str, problems: Problems) -> DataType | None:
    if isinstance(value, list) and value:
        problems.unsupported(loc, "data type", "struct", kind=_UNSUPPORTED)
        return None
    if not isinstance(value, str) or (match := _TYPESTR.fullmatch(value)) is None:
        problems.add(loc, f"{describe(value)} is not a NumPy typestring such as '<f8'")
        return None
    order, kind, digits, unit = match.groups()
    if kind not in "biufcmMSUVO" or (unit and kind not in "mM"):
        problems.add(loc, f"{describe(value)} is not a NumPy typestring such as '<f8'")
    elif not order:
        problems.add(loc, f"{describe(value)} has no byte order, '<', '>' or '|'")
    elif kind in "mM" and (digits != "8" or not unit):
        problems.add(loc, f"{describe(value)} is not 8 bytes with a unit, such as '<M8[ns]'")
    elif kind != "O" and (not digits or digits.startswith("0") or len(digits) > 9):
        problems.add(loc, f"{describe(value)} has no valid number of bytes")
    elif kind in _SIZES and int(digits) not in _SIZES[kind]:
        problems.add(loc, f"{describe(value)}: there is no such type of {digits} bytes")
    elif find_kind(kind) is None:
        problems.unsupported(loc, "data type", value, kind=_UNSUPPORTED)
    elif order == "=":
        problems.add(loc, f"{describe(value)}: the byte order '=' depends on the machine")
    elif order == "|" and kind not in _ONE_BYTE_ORDER and digits != "1":
        name = np.dtype(f"{kind}{digits}").name
        problems.add(loc, f"{describe(value)} does not state the byte order of {name}, '<' or '>'")
    else:
        return of(np.dtype(value))
    return None
