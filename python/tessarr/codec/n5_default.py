"""The codec ``n5_default``: blocks of N5 (zarr-extensions codecs/n5_default).

A block has a header (mode, number of dimensions, lengths, all big-endian) and the compressed
elements, big-endian and in Fortran order. A block at the edge may be shorter than the chunk; the
fill value replaces missing elements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr import dtype as dtypes
from tessarr.codec.base import ArrayBytesCodec, ArraySpec, register_codec
from tessarr.codec.bytes import Bytes
from tessarr.codec.chain import Chain, to_flat_array
from tessarr.codec.transpose import Transpose
from tessarr.errors import ArgumentError, DataError
from tessarr.format.validation import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tessarr.codec.read import CodecLike
    from tessarr.format.validation import Members, Problems
    from tessarr.types import BytesLike, ZarrFormat

__all__ = ["N5Default"]

_DEFAULT_MODE: Final = 0
_MAX_CODECS: Final = 3
_SLACK_ITEMS: Final = 1 << 20
_TYPES: Final = frozenset(
    [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
    + ["float32", "float64"]
)


@register_codec
@dataclass(frozen=True, slots=True, init=False)
class N5Default(ArrayBytesCodec):
    """N5 blocks of the default mode.

    Parameters
    ----------
    codecs : sequence of codecs
        The transpose that reverses all axes, ``bytes`` with endian "big", and at most one
        compressor. The first two are optional.

    Examples
    --------
    >>> import numpy as np
    >>> codec = N5Default([Transpose((1, 0)), Bytes("big")])
    >>> codec.encode(np.array([[1, 2, 3]], dtype="i2")).hex(" ", 2)
    '0000 0002 0000 0001 0000 0003 0001 0002 0003'
    """

    name = "n5_default"
    codec_id = None
    codecs: Chain

    def __init__(self, codecs: Iterable[CodecLike] | Chain = ()) -> None:
        chain = codecs if isinstance(codecs, Chain) else _complete_chain(codecs)
        object.__setattr__(self, "codecs", chain)

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> N5Default | None:
        value = members.require("codecs")
        members.done()
        if value is ABSENT:
            return None
        chain = Chain.read(value, members.at("codecs"), members.problems, strict=True)
        return None if chain is None else cls(chain)

    def configuration(self) -> dict[str, Any]:
        return {"codecs": self.codecs.to_json()}

    def get_config(self) -> dict[str, Any]:
        return {"id": self.name, **self.configuration()}

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        codecs_loc, chain, rank = f"{loc}/codecs", self.codecs, len(spec.shape)
        if spec.data_type.name not in _TYPES:
            problems.add(loc, f"N5 has no data type {spec.data_type.name}", "mismatch")
        first = chain.codecs[0]
        if not isinstance(first, Transpose) or first.axes(rank) != tuple(reversed(range(rank))):
            problems.add(f"{codecs_loc}/0", "the first codec does not reverse all axes", "mismatch")
        elif len(chain.codecs) < 2 or not isinstance(chain.codecs[1], Bytes):
            problems.add(codecs_loc, "the second codec is not 'bytes'", "mismatch")
        elif chain.codecs[1].endian != "big" and spec.data_type.unit_bytes > 1:
            problems.add(f"{codecs_loc}/1", "the byte order is not 'big'", "mismatch")
        elif len(chain.codecs) > _MAX_CODECS:
            problems.add(f"{codecs_loc}/3", "more than one compressor", "mismatch")
        if rank >= 1 << 16 or any(length >= 1 << 32 for length in spec.shape):
            problems.add(loc, "the chunk is too large for a block of N5", "too_large")

    def resolve(self, spec: ArraySpec, zarr_format: ZarrFormat) -> N5Default:
        return N5Default(self.codecs.resolve(spec, zarr_format))

    def encode(self, array: np.ndarray[Any, Any], /) -> bytes:
        header = np.array([_DEFAULT_MODE, array.ndim], ">u2").tobytes()
        lengths = np.array(array.shape, ">u4").tobytes()
        spec = ArraySpec(array.shape, dtypes.to_data_type(array.dtype))
        return header + lengths + to_flat_array(self.codecs.encode(array, spec)).tobytes()

    def decode(self, data: BytesLike, spec: ArraySpec, /) -> np.ndarray[Any, Any]:
        data, rank = to_flat_array(data), len(spec.shape)
        size = 4 + 4 * rank
        mode, dimensions = np.frombuffer(data[:4], ">u2") if data.size >= size else (None, None)
        if mode != _DEFAULT_MODE or dimensions != rank:
            message = f"it does not begin like a default block of {rank} dimensions"
            raise DataError(message, codec=self.name)
        lengths = tuple(int(length) for length in np.frombuffer(data[4:size], ">u4"))
        if math.prod(lengths) > 4 * math.prod(spec.shape) + _SLACK_ITEMS:
            message = f"a block of shape {lengths} for a chunk of shape {spec.shape}"
            raise DataError(message, kind="wrong_size", codec=self.name)
        block = self.codecs.decode(data[size:], replace(spec, shape=lengths))
        if lengths == spec.shape:
            return block
        array = np.empty(spec.shape, spec.data_type.numpy)
        fill = spec.data_type.default_fill() if spec.fill is None else spec.fill
        array[...] = np.frombuffer(fill, spec.data_type.numpy)[0]
        both = tuple(slice(min(pair)) for pair in zip(lengths, spec.shape, strict=True))
        array[both] = block[both]
        return array


def _complete_chain(codecs: Iterable[CodecLike]) -> Chain:
    """Return the chain of a user's codecs with the two fixed codecs."""
    codecs = list(codecs)
    user_chain = Chain.of(codecs)
    if user_chain.array_bytes == Bytes() and not any(codec == Bytes() for codec in codecs):
        codecs = [*user_chain.array_array, Bytes("big"), *user_chain.bytes_bytes]
    if not user_chain.array_array:
        codecs = [Transpose("F"), *codecs]
    chain = Chain.of(codecs)
    if len(chain.codecs) > _MAX_CODECS:
        raise ArgumentError("n5_default: at most one compressor", codec=N5Default.name)
    return chain
