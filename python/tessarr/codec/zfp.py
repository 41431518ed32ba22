"""Codecs by the package zfpy: ``zfp`` without a header (zarr-extensions), ``zfpy`` with one.

The library trusts its input: it reads beyond the end of a truncated stream, and as far as the
header requires. So this module compares headers with the metadata, and pads streams with zeros to
the maximum size of their blocks (4 numbers along each axis).

A stream is a sequence of bits, the lowest bit of each byte first. The optional header has 32 bits
of magic number and version, 52 bits of type and shape, and 64 bits of the mode (zfp, src/zfp.c).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import numpy as np

from tessarr.codec.base import ArrayBytesCodec, register_codec
from tessarr.codec.chain import to_flat_array
from tessarr.codec.parameters import WrongParameter, check_choice, check_integer, check_number
from tessarr.errors import ArgumentError, DataError, UnsupportedError
from tessarr.format.hints import import_package

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tessarr.codec.base import ArraySpec
    from tessarr.format.validation import Problems
    from tessarr.types import BytesLike, JSONObject, Shape

__all__ = ["ZFP", "ZFPY"]


_TYPES: Final = ("i4", "i8", "f4", "f8")
"""The types that zfp compresses, ordered by their codes in the header."""

_MAX_AXES: Final = 4

_HEADER_BITS: Final = 148
_MAGIC: Final = int.from_bytes(b"zfp\x05", "little")
_LONG_MODE: Final = 0xFFF
_MINEXP_BIAS: Final = 16495
_AXIS_BITS: Final = {1: 48, 2: 24, 3: 16, 4: 12}

Expert = tuple[int, int, int, int]
"""minbits, maxbits, maxprec, minexp."""


def compress(array: np.ndarray[Any, Any], *, header: bool, codec: str, **mode: float) -> bytes:
    """Return the stream of an array of up to 4 axes."""
    native = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
    native = native.reshape(array.shape or (1,))
    data: bytes = import_package("zfpy", codec=codec).compress_numpy(
        native, write_header=header, **mode
    )
    return data


def decompress(
    data: BytesLike, shape: Shape, dtype: np.dtype[Any], mode: Expert | None, codec: str
) -> np.ndarray[Any, Any]:
    """Decode a stream.

    Parameters
    ----------
    data : bytes-like
        The stream.
    shape : tuple of int
        The shape of the array.
    dtype : numpy.dtype
        The type of the array, one of `_TYPES`.
    mode : (minbits, maxbits, maxprec, minexp) or None
        The mode; None if the stream has a header.
    codec : str
        The codec, for messages.

    Raises
    ------
    DataError
        If the stream has another shape or type, or an invalid mode.
    """
    shape, library = shape or (1,), import_package("zfpy", codec=codec)
    stream = to_flat_array(data)
    if mode is not None:
        bits = np.unpackbits(stream, bitorder="little")
        header = _unpack_bits(_pack_header(shape, dtype, mode), _HEADER_BITS)
        stream = np.packbits(np.concatenate([header, bits]), bitorder="little")
    start = stream[:32].tobytes().ljust(32, b"\0")
    try:
        header_fields = library.header(start)
    except ValueError as error:
        raise DataError(f"damaged: {error}", codec=codec) from error
    lengths = [header_fields[name] for name in ("nw", "nz", "ny", "nx") if header_fields[name]]
    if tuple(lengths) != shape or np.dtype(header_fields["type"]) != dtype.newbyteorder("="):
        message = f"an array of shape {tuple(lengths)} instead of {shape}"
        raise DataError(message, kind="wrong_size", codec=codec)
    values = 4 ** len(shape)
    blocks = math.prod(-(-length // 4) for length in shape)
    most = values * (8 * dtype.itemsize + 2) + 64  # bits of a block that holds anything
    least = max(
        header_fields["config"]["expert"]["minbits"],
        math.ceil(header_fields["config"]["rate"] * values),
    )
    if least > most:
        message = f"blocks of {least} bits, where {most} hold all numbers"
        raise DataError(message, codec=codec)
    if stream.size < (blocks * least + 7) // 8:
        raise DataError(f"{stream.size} bytes are too few", kind="wrong_size", codec=codec)
    room = (_HEADER_BITS + blocks * most) // 8 + 32
    padded = np.zeros(max(room, stream.size), np.uint8)
    padded[: stream.size] = stream
    try:
        array: np.ndarray[Any, Any] = library.decompress_numpy(padded.tobytes())
    except ValueError as error:
        raise DataError(f"damaged: {error}", codec=codec) from error
    return array


def _pack_header(shape: Shape, dtype: np.dtype[Any], mode: Expert) -> int:
    """Return the header of a stream as one number, lowest bit first."""
    meta = 0
    for length in shape:
        meta = meta << _AXIS_BITS[len(shape)] | (length - 1)
    meta = (meta << 2 | len(shape) - 1) << 2 | _TYPES.index(dtype.str[1:])
    minbits, maxbits, maxprec, minexp = mode
    number = min(max(minexp + _MINEXP_BIAS, 0), 0x7FFF)
    number = number << 7 | min(max(maxprec, 1), 0x80) - 1
    number = number << 15 | min(max(maxbits, 1), 0x8000) - 1
    number = number << 15 | min(max(minbits, 1), 0x8000) - 1
    number = number << 12 | _LONG_MODE
    return _MAGIC | meta << 32 | number << 84


def _unpack_bits(number: int, count: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    data = number.to_bytes(-(-count // 8), "little")
    return np.unpackbits(np.frombuffer(data, np.uint8), count=count, bitorder="little")


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


class _ZfpCodec(ArrayBytesCodec):
    """The base class of both codecs."""

    __slots__ = ()
    types: ClassVar[Collection[str]]
    """The codes of the NumPy types that the codec accepts."""

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        if spec.data_type.numpy.str[1:] not in self.types:
            problems.add(loc, f"zfp has no data type {spec.data_type.name}", "mismatch")
        if len(spec.shape) > _MAX_AXES:
            message = f"zfp takes at most 4 axes, chunks have {len(spec.shape)}"
            problems.add(loc, message, "mismatch")


@register_codec
@dataclass(frozen=True, slots=True)
class ZFP(_ZfpCodec):
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
    types = _STORED_TYPES
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


_MODES: Final = {2: "rate", 3: "precision", 4: "tolerance"}


@register_codec
@dataclass(frozen=True, slots=True)
class ZFPY(_ZfpCodec):
    """Lossy compression of numbers in blocks, by the package zfpy.

    Parameters
    ----------
    mode : int
        4, a fixed `tolerance`; 3, a fixed `precision`; 2, a fixed `rate`.
    tolerance : float
        The maximum error; the default means lossless compression.
    rate : float
        The number of bits for each number.
    precision : int
        The number of bits of each number to keep.
    compression_kwargs : mapping, optional
        A duplicate of the other parameters, which numcodecs writes; the codec ignores it.

    Examples
    --------
    >>> ZFPY(tolerance=0.01).to_json(3)
    {'name': 'numcodecs.zfpy', 'configuration': {'mode': 4, 'tolerance': 0.01}}
    """

    name = "numcodecs.zfpy"
    codec_id = "zfpy"
    types = _TYPES
    mode: int = 4
    tolerance: float = -1
    rate: float = -1
    precision: int = -1
    compression_kwargs: Mapping[str, Any] | tuple[tuple[str, Any], ...] | None = None

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, tuple(_MODES))
        check_number("tolerance", self.tolerance)
        check_number("rate", self.rate)
        check_integer("precision", self.precision, -1, 64)
        chosen = _MODES[self.mode]
        if getattr(self, chosen) <= 0 and chosen != "tolerance":
            raise WrongParameter(chosen, getattr(self, chosen), "positive", right_type=True)
        if self.rate > 66:
            raise WrongParameter("rate", self.rate, "at most 66 bits", right_type=True)
        object.__setattr__(self, "compression_kwargs", None)  # a duplicate of the other parameters

    def get_config(self) -> JSONObject:
        names = ("tolerance", "rate", "precision")
        chosen = _MODES[self.mode]
        numbers = {name: getattr(self, name) for name in names}
        config = {"compression_kwargs": {chosen: numbers[chosen]}, **numbers}
        return {"id": self.codec_id, "mode": self.mode, **config}

    def configuration(self) -> JSONObject:
        chosen = _MODES[self.mode]
        return {"mode": self.mode, chosen: getattr(self, chosen)}

    def encode(self, array: np.ndarray[Any, Any], /) -> bytes:
        chosen = _MODES[self.mode]
        mode = {chosen: getattr(self, chosen)}
        return compress(array, header=True, codec="zfpy", **mode)

    def decode(self, data: BytesLike, spec: ArraySpec, /) -> np.ndarray[Any, Any]:
        dtype = spec.data_type.numpy
        array = decompress(data, spec.shape, dtype, None, "zfpy")
        return array.reshape(spec.shape).astype(dtype, copy=False)
