"""Codecs: one class per codec for both formats, and chains of them.

A codec of ours is one file here, called like the codec; it is imported when a
document or a user names it. What is imported below is needed for every array.
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
