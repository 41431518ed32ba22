"""Dates and durations: 8-byte counts of a unit.

The types are ``<M8[…]`` and ``<m8[…]`` of format 2 (Zarr specification 2), and
``numpy.datetime64`` and ``numpy.timedelta64`` of format 3 (Zarr extensions). The least count is
NaT, "not a time".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from tessarr.dtype.base import DataType, register
from tessarr.format.validation import ABSENT, describe, is_integer, read_text

if TYPE_CHECKING:
    from tessarr.format.validation import Members, Problems
    from tessarr.types import JSON, ZarrFormat

__all__ = ["Temporal"]

_UNITS: Final = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic")
_MICROSECONDS: Final = ("\u03bcs", "\u00b5s")  # the letter mu, and the sign for micro
_NAT: Final = -(2**63)


@register
class Temporal(DataType):
    """Dates (``datetime64``) and durations (``timedelta64``) of NumPy.

    Examples
    --------
    >>> Temporal(np.dtype("M8[10ms]")).to_json(3)
    {'name': 'numpy.datetime64', 'configuration': {'unit': 'ms', 'scale_factor': 10}}
    """

    __slots__ = ()
    v3_names = ("numpy.datetime64", "numpy.timedelta64")
    v2_kinds = "Mm"

    @property
    def name(self) -> str:
        return "numpy.datetime64" if self.numpy.kind == "M" else "numpy.timedelta64"

    @classmethod
    def from_v3(cls, name: str, configuration: Members) -> Self | None:
        before = len(configuration.problems)
        unit = configuration.require("unit")
        scale = configuration.integer("scale_factor", 1, 2**31 - 1)
        configuration.done()
        if unit in _MICROSECONDS:
            unit = "us"
        if unit is not ABSENT and unit not in _UNITS:
            message = f"{describe(unit)} is not one of {', '.join(map(repr, _UNITS))}"
            configuration.problems.add(configuration.at("unit"), message)
        elif unit == "generic" and scale not in (1, None):
            message = "NumPy has no multiples of the generic unit"
            configuration.problems.add(configuration.at("scale_factor"), message)
        if len(configuration.problems) > before:
            return None
        kind = "M8" if name == "numpy.datetime64" else "m8"
        return cls(np.dtype(kind if unit == "generic" else f"{kind}[{scale}{unit}]"))

    def to_json(self, zarr_format: ZarrFormat) -> JSON:
        if zarr_format == 2:
            return self.numpy.str
        unit, scale = np.datetime_data(self.numpy)
        return {"name": self.name, "configuration": {"unit": unit, "scale_factor": scale}}

    def refusal(self, zarr_format: ZarrFormat) -> str | None:
        if zarr_format == 2 and np.datetime_data(self.numpy)[0] == "generic":
            return "format 2 has no dates and durations without a unit: say 'M8[s]', for example"
        return None

    def default_fill(self) -> bytes:
        return self._item(_NAT)

    def fill_from_json(
        self, value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems
    ) -> bytes | None:
        if value == "NaT":
            return self._item(_NAT)
        value = read_text(value, "integer", loc, problems)
        if not is_integer(value):
            problems.add(loc, f"{describe(value)} is not an integer or 'NaT'", "wrong_type")
            return None
        if not _NAT <= value < -_NAT:
            problems.add(loc, f"{describe(value)} does not fit 64 bits")
            return None
        return self._item(value)

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        count = int(np.frombuffer(fill, dtype=self._count)[0])
        # Readers of format 2 expect the integer.
        return "NaT" if count == _NAT and zarr_format == 3 else count

    def cast_fill(self, value: Any) -> bytes:
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        if isinstance(value, str) and value == "NaT":
            return self._item(_NAT)  # NumPy would choose another unit
        if isinstance(value, np.generic) and value.dtype.kind in "iu":
            value = int(value)
        if is_integer(value):
            if not _NAT <= value < -_NAT:
                raise ValueError(f"{value} does not fit 64 bits")
            return self._item(value)
        scalar: Any = np.datetime64 if self.numpy.kind == "M" else np.timedelta64
        try:
            original = scalar(value)
            item = original.astype(self.numpy)
            restored = item.astype(original.dtype)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{value!r} is not a value of {self.numpy}: {error}") from error
        if np.isnat(original) != np.isnat(item) or (
            not np.isnat(original) and restored != original
        ):
            raise ValueError(f"{value!r} is not a value of {self.numpy}")
        return np.array(item, dtype=self.numpy).tobytes()

    @property
    def _count(self) -> np.dtype[Any]:
        return np.dtype(f"{self.numpy.byteorder}i8")

    def _item(self, count: int) -> bytes:
        return np.array(count, dtype=self._count).tobytes()
