"""Complex numbers: the real part, then the imaginary part.

The types are ``complex64`` and ``complex128`` (Zarr core 3.1 "Core data types", format 2
typestrings), and ``complex_…`` of other floats (Zarr extensions). If NumPy lacks a type, results
are records of ``real`` and ``imag``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, Self

import numpy as np

from tessarr.dtype import names
from tessarr.dtype.base import DataType, register
from tessarr.dtype.numeric import Float, float_to_json
from tessarr.format.validation import describe, is_number, pointer, read_text

if TYPE_CHECKING:
    from tessarr.format.validation import Members, Problems
    from tessarr.types import JSON, ZarrFormat

__all__ = ["Complex"]

_CORE: Final = {"complex_float32": "complex64", "complex_float64": "complex128"}
_ML_DTYPES: Final = {"complex_bfloat16": "bcomplex32", "complex_float16": "complex32"}
_PREFIX: Final = "complex_"


@register
class Complex(DataType):
    """Complex numbers of two floats.

    Examples
    --------
    >>> Complex(np.dtype(">c8")).cast_fill(1j).hex()
    '000000003f800000'
    """

    __slots__ = ()
    v3_names = (
        *("complex64", "complex128"),
        *(*_CORE, *_ML_DTYPES, "complex_float4_e2m1fn"),
        *("complex_float6_e2m3fn", "complex_float6_e3m2fn"),
        *("complex_float8_e3m4", "complex_float8_e4m3", "complex_float8_e4m3b11fnuz"),
        *("complex_float8_e4m3fnuz", "complex_float8_e5m2", "complex_float8_e5m2fnuz"),
        "complex_float8_e8m0fnu",
    )
    v2_kinds = "c"

    @property
    def name(self) -> str:
        return self.numpy.name if self.numpy.kind == "c" else _PREFIX + self.part.name

    @property
    def part(self) -> DataType:
        """The data type of the real and of the imaginary part."""
        dtype = self.numpy
        if dtype.names is not None:
            return names.to_data_type(dtype["real"])
        if dtype.type.__name__ == _ML_DTYPES["complex_bfloat16"]:
            return names.to_data_type("bfloat16")
        order = dtype.byteorder if dtype.kind == "c" else "="
        return Float(np.dtype(f"{order}f{dtype.itemsize // 2}"))

    @property
    def unit_bytes(self) -> int:
        return self.part.unit_bytes

    @property
    def big_endian(self) -> bool:
        return self.part.big_endian

    @property
    def stray_bits(self) -> bool:
        return self.part.stray_bits

    def ordered(self, order: Literal["native", "little", "big"]) -> Self:
        return super().ordered(order) if self.numpy.kind == "c" else self

    def canonical(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if not self.stray_bits:
            return array
        parts = np.ascontiguousarray(array).view(self.part.numpy)
        return self.part.canonical(parts).view(self.numpy).reshape(array.shape)

    def refusal(self, zarr_format: ZarrFormat) -> str | None:
        other = zarr_format == 2 and self.numpy.kind != "c"
        return "format 2 has no such type" if other else None

    @classmethod
    def from_v3(cls, name: str, configuration: Members) -> Self | None:
        configuration.done()
        name = _CORE.get(name, name)
        if not name.startswith(_PREFIX):
            return cls(np.dtype(name))
        from tessarr.dtype.small import find_numpy_type

        loc, problems = configuration.loc, configuration.problems
        whole = name in _ML_DTYPES
        type_name = _ML_DTYPES[name] if whole else name.removeprefix(_PREFIX)
        dtype = find_numpy_type(type_name, name, loc, problems)
        if dtype is None:
            return None
        return cls(dtype if whole else np.dtype([("real", dtype), ("imag", dtype)]))

    def fill_from_json(
        self, value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems
    ) -> bytes | None:
        value = read_text(value, "number", loc, problems)
        if is_number(value) or value == "NaN":
            problems.tolerate(loc, f"a complex fill value is written as {describe(value)}")
            value = [value, 0]
        if not isinstance(value, list):
            problems.add(loc, f"{describe(value)} is not a list of two numbers", "wrong_type")
            return None
        if len(value) != 2:
            problems.add(loc, f"{len(value)} numbers instead of two")
            return None
        part = self.part
        real, imag = (
            part.fill_from_json(item, zarr_format, pointer(loc, i), problems)
            for i, item in enumerate(value)
        )
        return None if real is None or imag is None else real + imag

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        part = self.part
        if isinstance(part, Float):
            # Unlike the part's own rule, 0.0 stays a float in format 2.
            return [float_to_json(item, part.numpy, zarr_format) for item in self._split(fill)]
        return [part.fill_to_json(item, zarr_format) for item in self._split(fill)]

    def cast_fill(self, value: Any) -> bytes:
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        if isinstance(value, np.generic) and value.dtype == self.numpy:
            return np.array(value).tobytes()  # with the bits of a NaN
        if isinstance(value, np.void) and value.dtype.names == ("real", "imag"):
            pair: tuple[Any, Any] = (value["real"], value["imag"])
        elif isinstance(value, complex | np.complexfloating):
            pair = (value.real, value.imag)
        elif isinstance(value, list | tuple) and len(value) == 2:
            pair = (value[0], value[1])
        else:
            pair = (value, 0.0)
        part = self.part
        return part.cast_fill(pair[0]) + part.cast_fill(pair[1])

    def storable_fill(self, fill: bytes, zarr_format: ZarrFormat) -> bytes:
        part = self.part
        real, imag = (part.storable_fill(item, zarr_format) for item in self._split(fill))
        return real + imag

    def _split(self, fill: bytes) -> tuple[bytes, bytes]:
        middle = self.item_bytes // 2
        return fill[:middle], fill[middle:]
