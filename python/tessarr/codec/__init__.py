"""Codecs: one class per codec for both formats, and chains of them."""

from __future__ import annotations

from tessarr.codec.base import (
    ArrayArrayCodec,
    ArrayBytesCodec,
    ArraySpec,
    BytesBytesCodec,
    Codec,
    deliver,
    register_codec,
)
from tessarr.codec.blosc import Blosc
from tessarr.codec.bytes import Bytes
from tessarr.codec.chain import Chain
from tessarr.codec.crc32c import Crc32c
from tessarr.codec.default import default_codecs
from tessarr.codec.foreign import Numcodec
from tessarr.codec.gzip import GZip
from tessarr.codec.lz4 import LZ4
from tessarr.codec.read import CodecLike, of
from tessarr.codec.sharding import ShardingIndexed
from tessarr.codec.transpose import Transpose
from tessarr.codec.zlib import Zlib
from tessarr.codec.zstd import Zstd

__all__ = [
    "LZ4",
    "ArrayArrayCodec",
    "ArrayBytesCodec",
    "ArraySpec",
    "Blosc",
    "Bytes",
    "BytesBytesCodec",
    "Chain",
    "Codec",
    "CodecLike",
    "Crc32c",
    "GZip",
    "Numcodec",
    "ShardingIndexed",
    "Transpose",
    "Zlib",
    "Zstd",
    "default_codecs",
    "deliver",
    "of",
    "register_codec",
]
