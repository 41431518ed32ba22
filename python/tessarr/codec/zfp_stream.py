"""Safe decoding of zfp streams with the package zfpy.

The library trusts its input: it reads beyond the end of a truncated stream, and as far as the
header requires. So this module compares headers with the metadata, and pads streams with zeros to
the maximum size of their blocks (4 numbers along each axis).

A stream is a sequence of bits, the lowest bit of each byte first. The optional header has 32 bits
of magic number and version, 52 bits of type and shape, and 64 bits of the mode (zfp, src/zfp.c).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.codec.chain import to_flat_array
from tessarr.codec.packages import import_package
from tessarr.errors import DataError

if TYPE_CHECKING:
    from tessarr.types import BytesLike, Shape

__all__ = ["MAX_AXES", "TYPES", "compress", "decompress", "import_zfpy"]

TYPES: Final = ("i4", "i8", "f4", "f8")
"""The types that zfp compresses, ordered by their codes in the header."""

MAX_AXES: Final = 4

_HEADER_BITS: Final = 148
_MAGIC: Final = int.from_bytes(b"zfp\x05", "little")
_LONG_MODE: Final = 0xFFF
_MINEXP_BIAS: Final = 16495
_AXIS_BITS: Final = {1: 48, 2: 24, 3: 16, 4: 12}

Expert = tuple[int, int, int, int]
"""minbits, maxbits, maxprec, minexp."""


def import_zfpy(codec: str) -> Any:
    """Import the package zfpy."""
    return import_package("zfpy", codec=codec)


def compress(array: np.ndarray[Any, Any], *, header: bool, codec: str, **mode: float) -> bytes:
    """Return the stream of an array of up to 4 axes."""
    native = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))
    native = native.reshape(array.shape or (1,))
    data: bytes = import_zfpy(codec).compress_numpy(native, write_header=header, **mode)
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
        The type of the array, one of `TYPES`.
    mode : (minbits, maxbits, maxprec, minexp) or None
        The mode; None if the stream has a header.
    codec : str
        The codec, for messages.

    Raises
    ------
    DataError
        If the stream has another shape or type, or an invalid mode.
    """
    shape, library = shape or (1,), import_zfpy(codec)
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
    meta = (meta << 2 | len(shape) - 1) << 2 | TYPES.index(dtype.str[1:])
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
