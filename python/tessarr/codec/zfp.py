"""The codec ``zfp``: numbers compressed by zfp, without a header (zarr-extensions codecs/zfp)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tessarr.codec.base import ArrayBytesCodec, register_codec
from tessarr.codec.parameters import WrongParameter, check_choice, check_integer, check_number
from tessarr.codec.zfp_stream import MAX_AXES, Expert, compress, decompress
from tessarr.errors import ArgumentError, UnsupportedError

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.format.validation import Problems
    from tessarr.types import BytesLike, JSONObject

__all__ = ["ZFP"]

Mode = Literal["reversible", "expert", "fixed_accuracy", "fixed_rate", "fixed_precision"]

_PARAMETERS: Final[dict[str, tuple[str, ...]]] = {
    "reversible": (),
    "expert": ("minbits", "maxbits", "maxprec", "minexp"),
    "fixed_accuracy": ("tolerance",),
    "fixed_rate": ("rate",),
    "fixed_precision": ("precision",),
}
_MAX_BITS: Final = 16658
_MIN_EXPONENT: Final = -1074
_MAX_PRECISION: Final = 64

_STORED_TYPES: Final = {
    **dict.fromkeys(("i1", "u1", "i2", "u2", "i4", "u4"), "i4"),
    "i8": "i8",
    "u8": "i8",
    "f2": "f4",
    "f4": "f4",
    "f8": "f8",
}


@register_codec
@dataclass(frozen=True, slots=True)
class ZFP(ArrayBytesCodec):
    """Lossy or exact compression of numbers in blocks, by the package zfpy.

    Smaller types are stored as 32-bit ones.

    Parameters
    ----------
    mode : str
        "reversible" (exact), "fixed_accuracy", "fixed_rate", "fixed_precision" or "expert".
    tolerance : float
        The maximum error, in mode "fixed_accuracy".
    rate : float
        The number of bits for each number, in mode "fixed_rate".
    precision : int
        The number of bits of each number to keep, in mode "fixed_precision".
    minbits, maxbits, maxprec, minexp : int
        The parameters of mode "expert".

    Examples
    --------
    >>> ZFP("fixed_accuracy", tolerance=0.05).to_json(3)
    {'name': 'zfp', 'configuration': {'mode': 'fixed_accuracy', 'tolerance': 0.05}}
    """

    name = "zfp"
    codec_id = None
    mode: Mode
    tolerance: float | None = None
    rate: float | None = None
    precision: int | None = None
    minbits: int | None = None
    maxbits: int | None = None
    maxprec: int | None = None
    minexp: int | None = None

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, tuple(_PARAMETERS))
        allowed = _PARAMETERS[self.mode]
        for name in (name for names in _PARAMETERS.values() for name in names):
            value = getattr(self, name)
            if name not in allowed:
                if value is not None:
                    text = f"a parameter of mode {self.mode!r}"
                    raise WrongParameter(name, value, text, right_type=True)
            elif name in ("tolerance", "rate"):
                check_number(name, value)
                if value <= 0 or (name == "rate" and value > _MAX_PRECISION + 2):
                    raise WrongParameter(name, value, "possible", right_type=True)
            elif name == "minexp":
                check_integer(name, value, -(2**31), 2**31 - 1)
            else:
                check_integer(name, value, 0, 2**32 - 1)

    def configuration(self) -> JSONObject:
        names = _PARAMETERS[self.mode]
        return {"mode": self.mode, **{name: getattr(self, name) for name in names}}

    def get_config(self) -> JSONObject:
        return {"id": self.name, **self.configuration()}

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        if spec.data_type.numpy.str[1:] not in _STORED_TYPES:
            problems.add(loc, f"zfp has no data type {spec.data_type.name}", "mismatch")
        if len(spec.shape) > MAX_AXES:
            message = f"zfp takes at most 4 axes, chunks have {len(spec.shape)}"
            problems.add(loc, message, "mismatch")

    def encode(self, array: np.ndarray[Any, Any], /) -> bytes:
        values = 4 ** max(array.ndim, 1)
        return compress(
            _promote(array), header=False, codec=self.name, **self._to_zfpy_mode(values)
        )

    def decode(self, data: BytesLike, spec: ArraySpec, /) -> np.ndarray[Any, Any]:
        dtype = spec.data_type.numpy
        stored = np.dtype(_STORED_TYPES[dtype.str[1:]])
        mode = self._to_expert_mode(stored, max(len(spec.shape), 1))
        array = decompress(data, spec.shape, stored, mode, self.name)
        numbers: np.ndarray[Any, Any] = _demote(array, dtype.newbyteorder("="))
        return numbers.reshape(spec.shape).astype(dtype, copy=False)

    def _to_zfpy_mode(self, values: int) -> dict[str, float]:
        """Return the parameters of the mode for the package zfpy."""
        if self.mode != "expert":
            return {name: getattr(self, name) for name in _PARAMETERS[self.mode]}
        minbits, maxbits, maxprec, minexp = self.minbits, self.maxbits, self.maxprec, self.minexp
        assert minbits is not None
        assert maxbits is not None
        assert maxprec is not None
        assert minexp is not None
        all_bits = minbits <= 1 and maxbits >= _MAX_BITS
        all_values = maxprec >= _MAX_PRECISION and minexp <= _MIN_EXPONENT
        if minbits == maxbits and all_values:
            return {"rate": maxbits / values}
        if all_bits and minexp == _MIN_EXPONENT:
            return {"precision": maxprec}
        if all_bits and maxprec >= _MAX_PRECISION and minexp > _MIN_EXPONENT:
            return {"tolerance": 2.0**minexp}
        raise UnsupportedError(
            "the package zfpy cannot write in this expert mode",
            kind="unsupported_codec",
            extension=self.name,
            codec=self.name,
        )

    def _to_expert_mode(self, stored: np.dtype[Any], rank: int) -> Expert:
        """Return the four expert parameters of the mode, computed as in zfp (src/zfp.c)."""
        minbits, maxbits, maxprec, minexp = 1, _MAX_BITS, _MAX_PRECISION, _MIN_EXPONENT
        if self.mode == "reversible":
            minexp = _MIN_EXPONENT - 1
        elif self.tolerance is not None:
            minexp = math.frexp(self.tolerance)[1] - 1
        elif self.precision is not None:
            maxprec = self.precision
        elif self.rate is not None:
            values = 4**rank
            bits = math.floor(values * self.rate + 0.5)
            if stored.kind == "f":
                bits = max(bits, 1 + (8 if stored.itemsize == 4 else 11))
            minbits = maxbits = bits
        else:
            return (self.minbits or 0, self.maxbits or 0, self.maxprec or 0, self.minexp or 0)
        return minbits, maxbits, maxprec, minexp


def _promote(array: Any) -> Any:
    """Convert numbers to a type that zfp has."""
    kind, size = array.dtype.kind, array.dtype.itemsize
    stored = np.dtype(_STORED_TYPES[array.dtype.str[1:]])
    if kind == "u" and size >= 4:
        limit = np.iinfo(stored).max
        if array.size and int(array.max()) > limit:
            message = f"{array.max()} is more than {limit}, the most that zfp stores"
            raise ArgumentError(message, codec=ZFP.name)
        return array.astype(stored)
    wide = array.astype(stored)
    if kind == "f" or size >= 4:
        return wide
    if kind == "u":
        wide -= 1 << (8 * size - 1)
    return wide << (31 - 8 * size)


def _demote(array: Any, dtype: np.dtype[Any]) -> Any:
    """Convert numbers to a smaller type: the inverse of `_promote`."""
    kind, size = dtype.kind, dtype.itemsize
    if kind == "f" or (kind == "i" and size >= 4):
        with np.errstate(over="ignore"):
            return array.astype(dtype, copy=False)
    if size >= 4:
        return np.maximum(array, 0).astype(dtype)
    numbers = array >> (31 - 8 * size)
    if kind == "u":
        numbers = numbers + (1 << (8 * size - 1))
    info = np.iinfo(dtype)
    return np.clip(numbers, info.min, info.max).astype(dtype)
