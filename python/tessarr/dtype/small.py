"""Integers and floats of few bits: ``int4``, ``bfloat16``, ``float8_e5m2`` (Zarr extensions).

The package ml_dtypes adds them to NumPy. An item has one byte; ``bfloat16`` has two. In types of
less than 8 bits the upper bits have no meaning; they are zero in memory.
"""

from __future__ import annotations

import math
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import numpy as np

from tessarr.dtype.base import DataType, from_base64, register, to_base64
from tessarr.dtype.numeric import (
    NOT_FINITE,
    cast_float,
    cast_integer,
    float_from_json,
    float_to_json,
    integer_from_json,
)
from tessarr.format.validation import describe

if TYPE_CHECKING:
    from tessarr.format.validation import Members, Problems
    from tessarr.types import JSON, ZarrFormat

__all__ = ["SmallFloat", "SmallInteger", "find_numpy_type"]

_BITS: Final = {
    "int2": 2,
    "uint2": 2,
    "int4": 4,
    "uint4": 4,
    "float4_e2m1fn": 4,
    "float6_e2m3fn": 6,
    "float6_e3m2fn": 6,
}
"""The number of meaningful bits of types of less than 8 bits."""

_BASE64: Final = "float4_e2m1fn"
"""The type whose fill value is base64 in format 2: TensorStore reads no other form."""


_IN_FORMAT_2: Final = (
    *("int2", "int4", "bfloat16", "float4_e2m1fn", "float8_e3m4", "float8_e4m3b11fnuz"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)
"""The names that TensorStore reads and writes in format 2, which has no typestrings for them."""


class _Small(DataType):
    """The base class of these integers and floats."""

    __slots__ = ()
    v2_names = _IN_FORMAT_2

    @classmethod
    def from_v2(cls, value: Any, loc: str, problems: Problems) -> Self | None:
        dtype = find_numpy_type(value, value, loc, problems)
        return None if dtype is None else cls(dtype)

    @classmethod
    def from_v3(cls, name: str, configuration: Members) -> Self | None:
        configuration.done()
        return cls.from_v2(name, configuration.loc, configuration.problems)

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Self:
        return cls(np.dtype(dtype.type))

    @property
    def name(self) -> str:
        return str(self.numpy.type.__name__)

    @property
    def big_endian(self) -> bool:
        # ml_dtypes has native byte order only.
        return self.numpy.itemsize > 1 and sys.byteorder == "big"

    @property
    def stray_bits(self) -> bool:
        return self.name in _BITS

    def ordered(self, order: Literal["native", "little", "big"]) -> Self:
        return self

    def canonical(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if self.name not in _BITS:
            return array
        mask = np.uint8((1 << _BITS[self.name]) - 1)
        return (array.view(np.uint8) & mask).view(self.numpy)

    def refusal(self, zarr_format: ZarrFormat) -> str | None:
        known = zarr_format == 3 or self.name in _IN_FORMAT_2
        return None if known else "format 2 has no such type"

    def to_json(self, zarr_format: ZarrFormat) -> JSON:
        return self.name


@register
class SmallInteger(_Small):
    """Integers of 2 or 4 bits, with or without sign.

    Examples
    --------
    >>> from tessarr import dtype
    >>> dtype.to_data_type("int4").cast_fill(-8).hex()
    '08'
    """

    __slots__ = ()
    v3_names = ("int2", "int4", "uint2", "uint4")

    @property
    def _limits(self) -> tuple[int, int]:
        bits = _BITS[self.name]
        return (
            (0, 2**bits - 1) if self.name[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        )

    def fill_from_json(
        self, value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems
    ) -> bytes | None:
        number = integer_from_json(value, self._limits, self.name, loc, problems)
        return None if number is None else self._item(number)

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        return int(np.frombuffer(fill, dtype=self.numpy)[0])

    def cast_fill(self, value: Any) -> bytes:
        if isinstance(value, np.generic) and value.dtype == self.numpy:
            value = int(value)
        return self._item(cast_integer(value, self._limits, self.name))

    def _item(self, number: int) -> bytes:
        return np.array(number, dtype=self.numpy).tobytes()


@register
class SmallFloat(_Small):
    """Floats of 4, 6 or 8 bits, and ``bfloat16``.

    Examples
    --------
    >>> from tessarr import dtype
    >>> dtype.to_data_type("bfloat16").cast_fill(1.0)[::-1].hex()
    '3f80'
    """

    __slots__ = ()
    v3_names = (
        *("bfloat16", "float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"),
        *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn"),
        *("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    )

    def fill_from_json(
        self, value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems
    ) -> bytes | None:
        if zarr_format == 2 and self.name == _BASE64 and isinstance(value, str):
            item = from_base64(value, 1, loc, problems)
            return None if item is None else self._canonicalize_fill(item)
        fill = float_from_json(value, self.numpy, zarr_format, loc, problems)
        if fill is None:
            return None
        number = NOT_FINITE.get(value, value) if isinstance(value, str) else value
        if isinstance(number, int | float) and not self._holds(float(number), fill):
            problems.add(loc, f"{describe(value)} does not fit {self.name}")
            return None
        return self._canonicalize_fill(fill)

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        if zarr_format == 2 and self.name == _BASE64:
            return to_base64(fill)
        return float_to_json(fill, self.numpy, zarr_format)

    def cast_fill(self, value: Any) -> bytes:
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        if isinstance(value, np.generic):
            if value.dtype == self.numpy:
                return self._canonicalize_fill(np.array(value).tobytes())  # with the bits of a NaN
            if value.dtype.isbuiltin == 2:
                value = float(value)
        fill = cast_float(value, self.numpy)
        number = NOT_FINITE[value] if isinstance(value, str) else float(value)
        if not self._holds(number, fill):
            raise ValueError(f"{value!r} does not fit {self.name}")
        return fill

    def _holds(self, number: float, fill: bytes) -> bool:
        """Tell whether `fill` is `number`, rounded.

        Some of these types lack NaN, infinity or zero, or saturate at their greatest number.
        """
        item = float(np.frombuffer(fill, dtype=self.numpy)[0])
        if not math.isfinite(number):
            return math.isnan(item) if math.isnan(number) else item == number
        greatest = float(import_module("ml_dtypes").finfo(self.numpy).max)
        return math.isfinite(item) and abs(number) <= greatest

    def _canonicalize_fill(self, fill: bytes) -> bytes:
        return self.canonical(np.frombuffer(fill, dtype=self.numpy)).tobytes()


def find_numpy_type(
    name: str, stored_name: str, loc: str, problems: Problems
) -> np.dtype[Any] | None:
    """Return the dtype called `name` in ml_dtypes, or None and a problem with `stored_name`."""
    try:
        dtype: np.dtype[Any] = np.dtype(getattr(import_module("ml_dtypes"), name))
    except (ImportError, AttributeError):
        hint = (
            ": it needs the package ml_dtypes, version 0.6 or newer (pip install tessarr[dtypes])"
        )
        problems.unsupported(loc, "data type", stored_name, kind="missing_package", hint=hint)
        return None
    return dtype
