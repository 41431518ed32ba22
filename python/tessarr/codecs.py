"""The codecs, for ``create_array(compressors=…, filters=…, serializer=…, codecs=…)``."""

from __future__ import annotations

from tessarr.codec.adler32 import Adler32
from tessarr.codec.astype import AsType
from tessarr.codec.base import (
    ArrayArrayCodec,
    ArrayBytesCodec,
    ArraySpec,
    BytesBytesCodec,
    Codec,
    deliver,
    register_codec,
)
from tessarr.codec.base64 import Base64
from tessarr.codec.bitround import BitRound
from tessarr.codec.blosc import Blosc
from tessarr.codec.bytes import Bytes
from tessarr.codec.bz2 import BZ2
from tessarr.codec.crc32 import CRC32
from tessarr.codec.crc32c import Crc32c
from tessarr.codec.delta import Delta
from tessarr.codec.fixedscaleoffset import FixedScaleOffset
from tessarr.codec.fletcher32 import Fletcher32
from tessarr.codec.gzip import GZip
from tessarr.codec.jenkins_lookup3 import JenkinsLookup3
from tessarr.codec.lz4 import LZ4
from tessarr.codec.lzma import LZMA
from tessarr.codec.numcodecs_packbits import PackBitsV2
from tessarr.codec.quantize import Quantize
from tessarr.codec.sharding import ShardingIndexed
from tessarr.codec.shuffle import Shuffle
from tessarr.codec.transpose import Transpose
from tessarr.codec.zlib import Zlib
from tessarr.codec.zstd import Zstd

__all__ = [
    "BZ2",
    "CRC32",
    "LZ4",
    "LZMA",
    "Adler32",
    "ArrayArrayCodec",
    "ArrayBytesCodec",
    "ArraySpec",
    "AsType",
    "Base64",
    "BitRound",
    "Blosc",
    "Bytes",
    "BytesBytesCodec",
    "Codec",
    "Crc32c",
    "Delta",
    "FixedScaleOffset",
    "Fletcher32",
    "GZip",
    "JenkinsLookup3",
    "PackBitsV2",
    "Quantize",
    "ShardingIndexed",
    "Shuffle",
    "Transpose",
    "Zlib",
    "Zstd",
    "deliver",
    "register_codec",
]
