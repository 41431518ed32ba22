"""Codecs, one class for both formats, and codec chains.

The module of a codec is imported when a document or a user names the codec: see
`tessarr.codec.base`. This package imports only the codecs that every array needs.
"""

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
from tessarr.codec.bytes import Bytes
from tessarr.codec.chain import Chain
from tessarr.codec.read import CodecLike, to_codec, to_list
from tessarr.codec.sharding import ShardingIndexed
from tessarr.codec.transpose import Transpose

__all__ = [
    "ArrayArrayCodec",
    "ArrayBytesCodec",
    "ArraySpec",
    "Bytes",
    "BytesBytesCodec",
    "Chain",
    "Codec",
    "CodecLike",
    "ShardingIndexed",
    "Transpose",
    "deliver",
    "register_codec",
    "to_codec",
    "to_list",
]
