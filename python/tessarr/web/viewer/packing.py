"""Packed elements and missing values: attributes of netCDF and xarray (CF conventions, section 8).

Plots show ``element * scale_factor + add_offset``, and NaN for elements that are equal to
``_FillValue`` or ``missing_value``. Otherwise a missing value such as 1e20 would set the limits of
the colours. Text shows elements as stored.
"""

from __future__ import annotations

import binascii
import math
import struct
from base64 import b64decode
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.array import Array

__all__ = ["Packing", "find_packing"]


@dataclass(frozen=True, slots=True)
class Packing:
    """How stored elements become values.

    Parameters
    ----------
    scale, offset
        A value is ``element * scale + offset``.
    missing
        Elements whose value is NaN.
    names
        The attributes with these values, for the note on the page.
    number_type
        The type of values: 32-bit or 64-bit floats.
    """

    scale: float
    offset: float
    missing: tuple[Any, ...]
    names: tuple[str, ...]
    number_type: str

    def unpack(self, elements: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values.

        Examples
        --------
        >>> Packing(0.5, 10.0, (-1,), ("scale_factor",), "<f4").unpack(np.array([4, -1], "i2"))
        array([12., nan], dtype=float32)
        """
        is_missing = np.isin(elements, np.array(self.missing, elements.dtype))
        values = elements.astype(self.number_type)
        with np.errstate(over="ignore", invalid="ignore"):  # infinite values
            values *= self.scale
            values += self.offset
        values[is_missing] = np.nan
        return values


def _find_number_type(dtype: np.dtype[Any], scale: float, offset: float) -> str:
    """Return 32-bit floats for elements of up to 16 bits, unless the offset hides their steps."""
    is_small = dtype.itemsize <= (4 if dtype.kind == "f" else 2)
    return "<f4" if is_small and abs(offset) <= abs(scale) * 2**22 else "<f8"


def find_packing(array: Array) -> Packing | None:
    """Return the packing of an array, or None if its elements are the values.

    Attributes that are malformed or do not fit the data type count as absent.
    """
    dtype = array.dtype
    if dtype.kind not in "iuf" or dtype.isbuiltin == 2:
        return None
    attributes = array.attrs.asdict()
    scale = _read_number(attributes.get("scale_factor", 1), 1.0)
    offset = _read_number(attributes.get("add_offset", 0), 0.0)
    names = ["scale_factor"] * (scale != 1) + ["add_offset"] * (offset != 0)
    missing: list[Any] = []
    for name in ("_FillValue", "missing_value"):
        found = _read_elements(attributes.get(name), dtype)
        missing += found
        names += [name] if found else []
    # Format 2 of xarray has `_FillValue` as the fill value. That of other writers is often 0.
    if "_ARRAY_DIMENSIONS" in attributes and array.fill_value and (dtype.kind == "f" or names):
        found = _read_elements(array.fill_value, dtype)
        missing += found
        names += ["fill_value"] if found else []
    if not names:
        return None
    number_type = _find_number_type(dtype, scale, offset)
    return Packing(scale, offset, tuple(missing), tuple(names), number_type)


def _read_number(value: Any, default: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        return float(value) if is_number and math.isfinite(value) else default
    except OverflowError:
        return default


def _read_elements(value: Any, dtype: np.dtype[Any]) -> list[Any]:
    """Return the elements that an attribute names; NaN is left out, because it is NaN anyway."""
    if isinstance(value, list):
        return [element for item in value for element in _read_elements(item, dtype)]
    if isinstance(value, str) and dtype.kind == "f":
        value = _decode_float(value)
    if not isinstance(value, int | float | np.number) or isinstance(value, bool):
        return []
    with np.errstate(over="ignore"):
        try:
            element = dtype.type(value)
        except (OverflowError, ValueError):
            return []
    is_exact = bool(element == value) if dtype.kind in "iu" else not np.isnan(element)
    return [element] if is_exact else []


def _decode_float(text: str) -> float | None:
    """Return the number that xarray stores as base64 in format 3."""
    try:
        number: float = struct.unpack("<d", b64decode(text, validate=True))[0]
    except (binascii.Error, ValueError, struct.error):
        return None
    return number
