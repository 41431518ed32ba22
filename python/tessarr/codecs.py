"""The codecs, for ``create_array(compressors=…, filters=…, serializer=…, codecs=…)``."""

from __future__ import annotations

from tessarr.codec import (
    LZ4,
    ArrayArrayCodec,
    ArrayBytesCodec,
    Blosc,
    Bytes,
    BytesBytesCodec,
    Codec,
    Crc32c,
    GZip,
    ShardingIndexed,
    Transpose,
    Zlib,
    Zstd,
    register_codec,
)

__all__ = [
    "LZ4",
    "ArrayArrayCodec",
    "ArrayBytesCodec",
    "Blosc",
    "Bytes",
    "BytesBytesCodec",
    "Codec",
    "Crc32c",
    "GZip",
    "ShardingIndexed",
    "Transpose",
    "Zlib",
    "Zstd",
    "register_codec",
]
