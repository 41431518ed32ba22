"""Complex numbers: the real part, then the imaginary part (Zarr core 3.1 "Core data types")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.dtype.base import DataType, register
from tessarr.dtype.numeric import cast_float, float_from_json, float_to_json, storable_float
from tessarr.problems import describe, pointer

if TYPE_CHECKING:
    from tessarr.problems import Members, Problems
    from tessarr.types import JSON, ZarrFormat

__all__ = ["Complex"]


@register
class Complex(DataType):
    """Complex numbers of two floats of 4 or 8 bytes.

    Examples
    --------
    >>> Complex(np.dtype(">c8")).cast_fill(1j).hex()
    '000000003f800000'
    """

    __slots__ = ()
    v3_names = ("complex64", "complex128")
    v2_kinds = "c"

    @property
    def name(self) -> str:
        return self.numpy.name

    @property
    def unit_bytes(self) -> int:
        return self.numpy.itemsize // 2

    @property
    def _part(self) -> np.dtype[Any]:
        return np.dtype(f"{self.numpy.byteorder}f{self.unit_bytes}")

    @classmethod
    def from_v3(cls, name: str, configuration: Members) -> Complex | None:
        configuration.done()
        return cls(np.dtype(name))

    def fill_from_json(
        self, value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems
    ) -> bytes | None:
        if not isinstance(value, list):
            problems.add(loc, f"{describe(value)} is not a list of two numbers", "wrong_type")
            return None
        if len(value) != 2:
            problems.add(loc, f"{len(value)} numbers instead of two")
            return None
        parts = [
            float_from_json(item, self._part, zarr_format, pointer(loc, i), problems)
            for i, item in enumerate(value)
        ]
        if parts[0] is None or parts[1] is None:
            return None
        return parts[0] + parts[1]

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        return [float_to_json(part, self._part, zarr_format) for part in self._split(fill)]

    def cast_fill(self, value: Any) -> bytes:
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        if isinstance(value, np.complexfloating):
            # Not through Python's complex: a cast keeps the bits of a NaN.
            pair: tuple[Any, Any] = (value.real, value.imag)
        elif isinstance(value, complex):
            pair = (value.real, value.imag)
        elif isinstance(value, list | tuple) and len(value) == 2:
            pair = (value[0], value[1])
        else:
            pair = (value, 0.0)
        return cast_float(pair[0], self._part) + cast_float(pair[1], self._part)

    def storable_fill(self, fill: bytes, zarr_format: ZarrFormat) -> bytes:
        real, imag = (storable_float(p, self._part, zarr_format) for p in self._split(fill))
        return real + imag

    def _split(self, fill: bytes) -> tuple[bytes, bytes]:
        return fill[: self.unit_bytes], fill[self.unit_bytes :]
