"""Public facade: codecs for ``create_array(compressors=…, filters=…, serializer=…, codecs=…)``.

Each codec has numcodecs' protocol: ``encode(data)``, ``decode(data, out=None)``,
``get_config()``, ``from_config(config)`` and ``codec_id``. Codecs with equal configurations are
equal. `codec_registry`, `get_codec` and `register_codec` work as in numcodecs.
"""

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
from tessarr.codec.cast_value import CastValue
from tessarr.codec.categorize import Categorize
from tessarr.codec.chain import Chain
from tessarr.codec.conditional import Conditional
from tessarr.codec.crc32 import CRC32
from tessarr.codec.crc32c import Crc32c
from tessarr.codec.delta import Delta
from tessarr.codec.fixedscaleoffset import FixedScaleOffset
from tessarr.codec.fletcher32 import Fletcher32
from tessarr.codec.gzip import GZip
from tessarr.codec.jenkins_lookup3 import JenkinsLookup3
from tessarr.codec.json2 import JSON
from tessarr.codec.lz4 import LZ4
from tessarr.codec.lzma import LZMA
from tessarr.codec.msgpack2 import MsgPack
from tessarr.codec.n5_default import N5Default
from tessarr.codec.numcodecs_packbits import PackBitsV2
from tessarr.codec.packbits import PackBits
from tessarr.codec.pcodec import PCodec
from tessarr.codec.pickle import Pickle
from tessarr.codec.quantize import Quantize
from tessarr.codec.registered import codec_registry, get_codec
from tessarr.codec.reshape import Reshape
from tessarr.codec.scale_offset import ScaleOffset
from tessarr.codec.sharding import ShardingIndexed
from tessarr.codec.shuffle import Shuffle
from tessarr.codec.transpose import Transpose
from tessarr.codec.vlen_array import VLenArray
from tessarr.codec.vlen_bytes import VLenBytes
from tessarr.codec.vlen_utf8 import VLenUTF8
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
from tessarr.codec.zfp import ZFP
from tessarr.codec.zfpy import ZFPY
from tessarr.codec.zlib import Zlib
from tessarr.codec.zstd import Zstd

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
