"""Public facade: codecs for ``create_array(compressors=…, filters=…, serializer=…, codecs=…)``.

Each codec has numcodecs' protocol: ``encode(data)``, ``decode(data, out=None)``,
``get_config()``, ``from_config(config)`` and ``codec_id``. Codecs with equal configurations are
equal. `codec_registry`, `get_codec` and `register_codec` work as in numcodecs.
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
from tessarr.codec.bitround import BitRound
from tessarr.codec.blosc import Blosc
from tessarr.codec.bytes import Bytes
from tessarr.codec.categorize import Categorize
from tessarr.codec.chain import Chain
from tessarr.codec.checksum import CRC32, Adler32, Crc32c, Fletcher32, JenkinsLookup3
from tessarr.codec.conditional import Conditional
from tessarr.codec.elements import VLenArray, VLenBytes, VLenUTF8
from tessarr.codec.n5_default import N5Default
from tessarr.codec.native import LZ4, GZip, Shuffle, Zlib, Zstd
from tessarr.codec.numcodecs_filters import AsType, Delta, FixedScaleOffset, PackBitsV2, Quantize
from tessarr.codec.objects import JSON, MsgPack, Pickle
from tessarr.codec.packbits import PackBits
from tessarr.codec.pcodec import PCodec
from tessarr.codec.read import codec_registry, get_codec
from tessarr.codec.real_numbers import CastValue, ScaleOffset
from tessarr.codec.reshape import Reshape
from tessarr.codec.sharding import ShardingIndexed
from tessarr.codec.stdlib import BZ2, LZMA, Base64
from tessarr.codec.transpose import Transpose
from tessarr.codec.zarr_python import (
    BloscCname,
    BloscCodec,
    BloscShuffle,
    BytesCodec,
    Crc32cCodec,
    Endian,
    GzipCodec,
    ShardingCodec,
    ShardingCodecIndexLocation,
    TransposeCodec,
    VLenBytesCodec,
    VLenUTF8Codec,
    ZstdCodec,
)
from tessarr.codec.zarrs_optional import ZarrsOptional
from tessarr.codec.zfp import ZFP, ZFPY

__all__ = [
    "BZ2",
    "CRC32",
    "JSON",
    "LZ4",
    "LZMA",
    "ZFP",
    "ZFPY",
    "Adler32",
    "ArrayArrayCodec",
    "ArrayBytesCodec",
    "ArraySpec",
    "AsType",
    "Base64",
    "BitRound",
    "Blosc",
    "BloscCname",
    "BloscCodec",
    "BloscShuffle",
    "Bytes",
    "BytesBytesCodec",
    "BytesCodec",
    "CastValue",
    "Categorize",
    "Chain",
    "Codec",
    "Conditional",
    "Crc32c",
    "Crc32cCodec",
    "Delta",
    "Endian",
    "FixedScaleOffset",
    "Fletcher32",
    "GZip",
    "GzipCodec",
    "JenkinsLookup3",
    "MsgPack",
    "N5Default",
    "PCodec",
    "PackBits",
    "PackBitsV2",
    "Pickle",
    "Quantize",
    "Reshape",
    "ScaleOffset",
    "ShardingCodec",
    "ShardingCodecIndexLocation",
    "ShardingIndexed",
    "Shuffle",
    "Transpose",
    "TransposeCodec",
    "VLenArray",
    "VLenBytes",
    "VLenBytesCodec",
    "VLenUTF8",
    "VLenUTF8Codec",
    "ZarrsOptional",
    "Zlib",
    "Zstd",
    "ZstdCodec",
    "codec_registry",
    "deliver",
    "get_codec",
    "register_codec",
]
