"""The codec ``bitround``: numbers with fewer significant bits (zarr-extensions codecs/bitround)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr import dtype as dtypes
from tessarr.codec.base import ArrayArrayCodec, deliver, register_codec
from tessarr.codec.numcodecs_filters import view_items
from tessarr.codec.parameters import check_integer

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.dtype import DataType
    from tessarr.format.validation import Members, Problems
    from tessarr.types import ZarrFormat

__all__ = ["BitRound"]

_MANTISSAS: Final = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
_MAX_KEEPBITS: Final = 2**31 - 1


@register_codec
@dataclass(frozen=True, slots=True)
class BitRound(ArrayArrayCodec):
    """Numbers rounded to `keepbits` bits, so that they compress better. Loses precision.

    For floating-point numbers the bits of the mantissa count; for integers the bits from the
    highest set bit. Ties are rounded to even.

    Parameters
    ----------
    keepbits : int
        The number of bits to keep; at least 1, or 0 in format 2. Numbers with fewer bits stay
        unchanged.
    spelling : str
        An alias that format 3 writes in place of the name, as other writers did.

    Examples
    --------
    >>> import numpy as np
    >>> BitRound(1).encode(np.array([1.0, 1.2, 1.3, 1.8]))
    array([1. , 1. , 1.5, 2. ])
    >>> BitRound(2).encode(np.array([4, 5, 6, 7, 100], dtype="u1"))
    array([ 4,  4,  6,  8, 96], dtype=uint8)
    """

    name = "bitround"
    aliases = ("numcodecs.bitround",)
    keepbits: int
    spelling: str = field(default="", compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        check_integer("keepbits", self.keepbits, 0, _MAX_KEEPBITS)

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> BitRound | None:
        keepbits = members.integer("keepbits", 1 if zarr_format == 3 else 0, _MAX_KEEPBITS)
        members.done()
        return None if keepbits is None else cls(keepbits)

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        if _mantissa_bits(spec.data_type) is None and spec.data_type.numpy.kind not in "iumM":
            problems.add(loc, f"{spec.data_type.name} cannot be rounded to bits", "mismatch")

    def to_json(self, zarr_format: ZarrFormat) -> Any:
        if zarr_format == 3 and self.keepbits == 0:  # invalid in the specification
            return super(BitRound, replace(self, spelling=self.aliases[0])).to_json(3)
        return super(BitRound, self).to_json(zarr_format)

    def stages(self, spec: ArraySpec) -> list[dict[str, object]] | None:
        dtype, mantissa = spec.data_type.numpy, _mantissa_bits(spec.data_type)
        if dtype.kind != "f" or mantissa is None:  # the engine has NumPy's own types only
            return None
        keepbits = min(self.keepbits, mantissa)
        return [{"name": "bitround", "dtype": dtype.str, "keepbits": keepbits}]

    def encode(self, array: np.ndarray[Any, Any], /) -> np.ndarray[Any, Any]:
        data_type = dtypes.to_data_type(array.dtype)
        native, mantissa = data_type.ordered("native").numpy, _mantissa_bits(data_type)
        part_bytes = native.itemsize // (2 if data_type.name.startswith("complex") else 1)
        bits: Any = view_items(array.astype(native, copy=False), np.dtype(f"u{part_bytes}"))
        if mantissa is None:
            rounded = self._round_integers(bits)
        else:
            rounded = self._round_floats(bits, mantissa)
        result: np.ndarray[Any, Any] = rounded.view(native).reshape(array.shape)
        return result.astype(array.dtype, copy=False)

    def decode(
        self, array: np.ndarray[Any, Any], spec: ArraySpec | None = None, /, out: Any = None
    ) -> np.ndarray[Any, Any]:
        """Return the array unchanged, or write it into `out`."""
        return np.asarray(deliver(array, out))

    def _round_floats(self, bits: Any, mantissa: int) -> Any:
        dropped = mantissa - self.keepbits
        if dropped <= 0:
            return bits
        one, shift = bits.dtype.type(1), bits.dtype.type(dropped)
        half = (one << (shift - one)) - one + (bits >> shift & one)
        return (bits + half) >> shift << shift

    def _round_integers(self, bits: Any) -> Any:
        # One pass for each number of significant bits, of which there are at most 64.
        result = bits.copy()
        one, most = bits.dtype.type(1), np.iinfo(bits.dtype)
        for width in range(self.keepbits + 1, most.bits + 1):
            dropped = bits.dtype.type(width - self.keepbits)
            selected = bits >> bits.dtype.type(width - 1) == one
            some = bits[selected]
            half = (one << (dropped - one)) - one + (some >> dropped & one)
            # A number whose rounding needs one more bit than the type has is rounded down.
            some = np.where(some > most.max - half, bits.dtype.type(most.max), some + half)
            result[selected] = some >> dropped << dropped
        return result


def _mantissa_bits(data_type: DataType) -> int | None:
    """Return the number of mantissa bits of a data type, or None."""
    name = {"complex64": "float32", "complex128": "float64"}.get(data_type.name, data_type.name)
    return _MANTISSAS.get(name.removeprefix("complex_"))
