"""The codec ``bz2``: bzip2 streams (numcodecs id ``bz2``)."""

from __future__ import annotations

import bz2
from dataclasses import dataclass

from tessarr.codec.base import BytesBytesCodec, deliver, register_codec, to_memoryview
from tessarr.codec.parameters import check_integer
from tessarr.codec.streamed import UNBOUNDED, decompress
from tessarr.types import BytesLike

__all__ = ["BZ2"]


@register_codec
@dataclass(frozen=True, slots=True)
class BZ2(BytesBytesCodec):
    """Bzip2 compression, by the standard library.

    Parameters
    ----------
    level : int
        1 (fastest) to 9 (smallest).

    Examples
    --------
    >>> BZ2(9).to_json(2)
    {'id': 'bz2', 'level': 9}
    """

    name = "numcodecs.bz2"
    codec_id = "bz2"
    level: int = 1

    def __post_init__(self) -> None:
        check_integer("level", self.level, 1, 9)

    def encode(self, data: BytesLike, /) -> bytes:
        return bz2.compress(to_memoryview(data), self.level)

    def decode(self, data: BytesLike, /, out: BytesLike | None = None) -> BytesLike:
        return deliver(self.decode_at_most(data, UNBOUNDED), out)

    def decode_at_most(self, data: BytesLike, limit: int, /) -> bytes:
        return decompress(data, limit, bz2.BZ2Decompressor, (OSError, ValueError), "bz2")
