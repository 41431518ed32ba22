"""Integers, floats and booleans of NumPy (core data types of Zarr 3.1, typestrings of format 2)."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from tessarr.dtype.base import DataType, register
from tessarr.format.validation import describe, is_integer, read_text

if TYPE_CHECKING:
    from tessarr.format.validation import Members, Problems
    from tessarr.types import JSON, ZarrFormat

__all__ = [
    "NOT_FINITE",
    "Boolean",
    "Float",
    "Integer",
    "cast_float",
    "cast_integer",
    "float_from_json",
    "float_to_json",
    "integer_from_json",
    "storable_float",
]

NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_MAX_WHOLE: Final = 1e15  # format 2 writes smaller whole floats as integers
_HEX: Final = re.compile("0x([0-9a-fA-F]+)")


@lru_cache(256)
def _name(dtype: np.dtype[Any]) -> str:
    return dtype.name  # NumPy builds the name at each access


class _Number(DataType):
    """The base class of integers and floats."""

    __slots__ = ()

    @property
    def name(self) -> str:
        return _name(self.numpy)

    @classmethod
    def from_v3(cls, name: str, configuration: Members) -> Self | None:
        configuration.done()
        return cls(np.dtype(name))


@register
class Integer(_Number):
    r"""Integers of 1, 2, 4 or 8 bytes, with or without sign.

    Examples
    --------
    >>> Integer(np.dtype(">u2")).cast_fill(258)
    b'\x01\x02'
    """

    __slots__ = ()
    v3_names = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    v2_kinds = "iu"

    def fill_from_json(
        self, value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems
    ) -> bytes | None:
        if zarr_format == 2:
            value = read_text(value, "number", loc, problems)
        if isinstance(value, float) and zarr_format == 2 and value.is_integer():
            problems.tolerate(loc, f"an integer fill value is written as {value!r}")
            value = int(value)
        number = integer_from_json(value, self._limits, self.name, loc, problems)
        return None if number is None else np.array(number, dtype=self.numpy).tobytes()

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        return int(np.frombuffer(fill, dtype=self.numpy)[0])

    def cast_fill(self, value: Any) -> bytes:
        number = cast_integer(value, self._limits, self.name)
        return np.array(number, dtype=self.numpy).tobytes()

    @property
    def _limits(self) -> tuple[int, int]:
        info = np.iinfo(self.numpy)
        return info.min, info.max


@register
class Float(_Number):
    """IEEE 754 floats of 2, 4 or 8 bytes.

    Examples
    --------
    >>> Float(np.dtype(">f4")).cast_fill(1).hex()
    '3f800000'
    """

    __slots__ = ()
    v3_names = ("float16", "float32", "float64")
    v2_kinds = "f"

    def fill_from_json(
        self, value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems
    ) -> bytes | None:
        return float_from_json(value, self.numpy, zarr_format, loc, problems)

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        value = float_to_json(fill, self.numpy, zarr_format)
        if zarr_format == 3:
            return value
        # zarr-python 2 writes 0.0 as 0 in format 2.
        if not isinstance(value, float) or not value.is_integer() or abs(value) >= _MAX_WHOLE:
            return value
        return int(value) if value or math.copysign(1, value) > 0 else value

    def cast_fill(self, value: Any) -> bytes:
        return cast_float(value, self.numpy)

    def storable_fill(self, fill: bytes, zarr_format: ZarrFormat) -> bytes:
        return storable_float(fill, self.numpy, zarr_format)


def integer_from_json(
    value: Any, limits: tuple[int, int], name: str, loc: str, problems: Problems
) -> int | None:
    """Return an integer within `limits`; if invalid, add a problem and return None."""
    value = read_text(value, "integer", loc, problems)
    if not is_integer(value):
        problems.add(loc, f"{describe(value)} is not an integer", "wrong_type")
        return None
    if not limits[0] <= value <= limits[1]:
        problems.add(loc, f"{describe(value)} does not fit {name}")
        return None
    return value


def cast_integer(value: Any, limits: tuple[int, int], name: str) -> int:
    """Convert a user's number to an integer within `limits`.

    Raises
    ------
    ValueError
        If the number is not an integer within `limits`.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    if not isinstance(value, int | np.integer | np.bool_):
        raise ValueError(f"{value!r} is not an integer")
    number = int(value)
    if not limits[0] <= number <= limits[1]:
        raise ValueError(f"{number} does not fit {name}")
    return number


def float_from_json(
    value: Any, dtype: np.dtype[Any], zarr_format: ZarrFormat, loc: str, problems: Problems
) -> bytes | None:
    """Return a float in metadata as the bytes of one item of `dtype`.

    Format 3 also has a hexadecimal form, the only form with the bits of a NaN.
    """
    if isinstance(value, str):
        if value in NOT_FINITE:
            return np.array(NOT_FINITE[value], dtype=dtype).tobytes()
        match = _HEX.fullmatch(value) if zarr_format == 3 else None
        if match is not None:
            return _float_from_hex(match.group(1), dtype, loc, problems)
        value = read_text(value, "number", loc, problems)
    if isinstance(value, str):
        allowed = "'NaN', 'Infinity' or '-Infinity'"
        if zarr_format == 3:
            allowed = f"'NaN', 'Infinity', '-Infinity' or '0x' and {dtype.itemsize * 2} digits"
        problems.add(loc, f"{describe(value)} is not a number, nor {allowed}")
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        problems.add(loc, f"{describe(value)} is not a number", "wrong_type")
        return None
    try:
        return cast_float(value, dtype)
    except ValueError as error:
        problems.add(loc, str(error))
        return None


def _float_from_hex(
    digits: str, dtype: np.dtype[Any], loc: str, problems: Problems
) -> bytes | None:
    # Fewer digits are an error, because readers disagree whether they are the low bits of this
    # type or the bits of a narrower type.
    if len(digits) != dtype.itemsize * 2:
        digit_count = dtype.itemsize * 2
        problems.add(
            loc, f"{len(digits)} hexadecimal digits instead of {digit_count} for {dtype.name}"
        )
        return None
    bits = int(digits, 16)
    return bits.to_bytes(dtype.itemsize, "big" if _is_big(dtype) else "little")


def float_to_json(fill: bytes, dtype: np.dtype[Any], zarr_format: ZarrFormat) -> JSON:
    """Return the JSON of a float, which `fill` has as bytes of one item."""
    value = float(np.frombuffer(fill, dtype).item())
    if math.isfinite(value):
        return value
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if zarr_format == 2 or fill == np.array(math.nan, dtype=dtype).tobytes():
        return "NaN"
    return "0x" + (fill if _is_big(dtype) else fill[::-1]).hex()


def cast_float(value: Any, dtype: np.dtype[Any]) -> bytes:
    """Convert a user's number to the bytes of one float of `dtype`, rounded to nearest.

    Raises
    ------
    ValueError
        If it is not a number, or if it is finite but too large.
    """
    if isinstance(value, str) and value in NOT_FINITE:
        value = NOT_FINITE[value]
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if not isinstance(value, int | float | np.integer | np.floating | np.bool_):
        raise ValueError(f"{value!r} is not a number")
    if isinstance(value, np.generic) and value.dtype == dtype:
        return value.tobytes()
    try:
        finite = math.isfinite(value)
        with np.errstate(over="ignore", invalid="ignore"):
            item = np.array(value).astype(dtype) if isinstance(value, np.generic) else None
            item = np.array(float(value)).astype(dtype) if item is None else item
    except OverflowError:
        bits = int(value).bit_length()
        raise ValueError(f"an integer of {bits} bits does not fit {dtype.name}") from None
    if finite and not np.isfinite(item):
        raise ValueError(f"{value!r} does not fit {dtype.name}")
    return item.tobytes()


def storable_float(fill: bytes, dtype: np.dtype[Any], zarr_format: ZarrFormat) -> bytes:
    """Return the stored value of `fill`: format 2 has only one NaN."""
    if zarr_format == 2 and math.isnan(float(np.frombuffer(fill, dtype=dtype)[0])):
        return np.array(math.nan, dtype=dtype).tobytes()
    return fill


def _is_big(dtype: np.dtype[Any]) -> bool:
    return dtype.newbyteorder("big") == dtype


@register
class Boolean(DataType):
    r"""True and false.

    Examples
    --------
    >>> Boolean(np.dtype(bool)).cast_fill(True)
    b'\x01'
    """

    __slots__ = ()
    v3_names = ("bool",)
    v2_kinds = "b"

    @property
    def name(self) -> str:
        return "bool"

    @classmethod
    def from_v3(cls, name: str, configuration: Members) -> Boolean | None:
        configuration.done()
        return cls(np.dtype(np.bool_))

    def fill_from_json(
        self,
        value: Any,
        zarr_format: ZarrFormat,
        loc: str,
        problems: Problems,
    ) -> bytes | None:
        value = read_text(value, "boolean", loc, problems)
        if isinstance(value, bool):
            return b"\x01" if value else b"\0"
        if is_integer(value) and value in (0, 1):
            problems.tolerate(loc, f"a boolean fill value is written as {value}")
            return bytes([value])
        problems.add(loc, f"{describe(value)} is not true or false", "wrong_type")
        return None

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        return fill != b"\0"

    def cast_fill(self, value: Any) -> bytes:
        if isinstance(value, bool | np.bool_):
            return bytes([bool(value)])
        if isinstance(value, int | float | np.number) and value in (0, 1):
            return bytes([int(value)])
        raise ValueError(f"{value!r} is not a boolean")
