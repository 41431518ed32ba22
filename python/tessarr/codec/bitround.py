"""The codec ``bitround``: numbers with fewer significant bits (zarr-extensions codecs/bitround)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.codec.base import ArrayArrayCodec, register_codec
from tessarr.codec.items import viewed
from tessarr.codec.parameters import check_integer

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.problems import Members, Problems
    from tessarr.types import ZarrFormat

__all__ = ["BitRound"]

_MANTISSAS: Final = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
_MOST: Final = 2**31 - 1


@register_codec
@dataclass(frozen=True, slots=True)
class BitRound(ArrayArrayCodec):
    """Numbers rounded to `keepbits` bits, so that they compress better. Loses precision.

    Of floating-point numbers the bits of the mantissa count, of integers those from the
    highest one that is set. Ties are rounded to even.

    Parameters
    ----------
    keepbits : int
        How many bits are kept; if there are not more, nothing changes. At least 1, but 0 is
        possible in format 2.

    Examples
    --------
    >>> BitRound(1).encode(np.array([1.0, 1.2, 1.3, 1.8]))
    array([1. , 1. , 1.5, 2. ])
    >>> BitRound(2).encode(np.array([4, 5, 6, 7, 100], dtype="u1"))
    array([ 4,  4,  6,  8, 96], dtype=uint8)
    """

    name = "bitround"
    aliases = ("numcodecs.bitround",)
    keepbits: int

    def __post_init__(self) -> None:
        check_integer("keepbits", self.keepbits, 0, _MOST)

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> BitRound | None:
        keepbits = members.integer("keepbits", 1 if zarr_format == 3 else 0, _MOST)
        members.done()
        return None if keepbits is None else cls(keepbits)

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        dtype = spec.data_type.numpy
        if dtype.kind not in "iufcmM" and dtype.name not in _MANTISSAS:
            problems.add(loc, f"{spec.data_type.name} is no type of numbers", "mismatch")

    def to_json(self, zarr_format: ZarrFormat) -> Any:
        document = super(BitRound, self).to_json(zarr_format)
        if zarr_format == 3 and self.keepbits == 0:
            document["name"] = self.aliases[0]  # the registered codec keeps at least one bit
        return document

    def stages(self, spec: ArraySpec) -> list[dict[str, object]] | None:
        dtype = spec.data_type.numpy
        bits = _MANTISSAS.get(dtype.name) if dtype.kind == "f" else None
        if bits is None:
            return None
        kept = min(self.keepbits, bits)
        return [{"name": "bitround", "dtype": dtype.str, "keepbits": kept}]

    def encode(self, array: np.ndarray[Any, Any], /) -> np.ndarray[Any, Any]:
        dtype = array.dtype
        if dtype.kind == "c":
            part = np.dtype(f"{dtype.str[0]}f{dtype.itemsize // 2}")
            encoded: np.ndarray[Any, Any] = self.encode(viewed(array, part)).view(dtype)
            return encoded.reshape(array.shape)
        order = dtype.newbyteorder("=")
        bits = np.ascontiguousarray(array.astype(order, copy=False)).view(f"u{dtype.itemsize}")
        if dtype.name in _MANTISSAS:
            rounded = self._rounded_floats(bits, _MANTISSAS[dtype.name])
        else:
            rounded = self._rounded_integers(bits)
        result: np.ndarray[Any, Any] = rounded.view(order).reshape(array.shape)
        return result.astype(dtype, copy=False)

    def decode(self, array: np.ndarray[Any, Any], spec: ArraySpec, /) -> np.ndarray[Any, Any]:
        return array

    def _rounded_floats(self, bits: Any, mantissa: int) -> Any:
        dropped = mantissa - self.keepbits
        if dropped <= 0:
            return bits
        one, shift = bits.dtype.type(1), bits.dtype.type(dropped)
        half = (one << (shift - one)) - one + (bits >> shift & one)
        return (bits + half) >> shift << shift

    def _rounded_integers(self, bits: Any) -> Any:
        # Each number of significant bits by itself: there are at most 64.
        result = bits.copy()
        one, most = bits.dtype.type(1), np.iinfo(bits.dtype)
        for width in range(self.keepbits + 1, most.bits + 1):
            dropped = bits.dtype.type(width - self.keepbits)
            which = bits >> bits.dtype.type(width - 1) == one
            some = bits[which]
            half = (one << (dropped - one)) - one + (some >> dropped & one)
            # A number that would need one bit more than there are stays below.
            some = np.where(some > most.max - half, bits.dtype.type(most.max), some + half)
            result[which] = some >> dropped << dropped
        return result
