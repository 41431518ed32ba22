"""Codecs under the names and with the defaults of zarr-python 3.

Most names are aliases of classes. `BloscCodec` and `GzipCodec` are functions, because the classes
have the defaults of numcodecs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from tessarr.codec.blosc import Blosc
from tessarr.codec.bytes import Bytes
from tessarr.codec.checksum import Crc32c
from tessarr.codec.elements import VLenBytes, VLenUTF8
from tessarr.codec.native import GZip, Zstd
from tessarr.codec.sharding import ShardingIndexed
from tessarr.codec.transpose import Transpose
from tessarr.format.registry import set_public_module

if TYPE_CHECKING:
    from typing import TypeAlias

__all__ = [
    "BloscCname",
    "BloscCodec",
    "BloscShuffle",
    "BytesCodec",
    "Crc32cCodec",
    "Endian",
    "GzipCodec",
    "ShardingCodec",
    "ShardingCodecIndexLocation",
    "TransposeCodec",
    "VLenBytesCodec",
    "VLenUTF8Codec",
    "ZstdCodec",
]

BytesCodec: TypeAlias = Bytes
Crc32cCodec: TypeAlias = Crc32c
ShardingCodec: TypeAlias = ShardingIndexed
TransposeCodec: TypeAlias = Transpose
VLenBytesCodec: TypeAlias = VLenBytes
VLenUTF8Codec: TypeAlias = VLenUTF8
ZstdCodec: TypeAlias = Zstd


class BloscCname:
    """Names of the compressors of `BloscCodec`."""

    lz4: Final = "lz4"
    lz4hc: Final = "lz4hc"
    blosclz: Final = "blosclz"
    zstd: Final = "zstd"
    snappy: Final = "snappy"
    zlib: Final = "zlib"


class BloscShuffle:
    """Names of the shuffles of `BloscCodec`."""

    noshuffle: Final = "noshuffle"
    shuffle: Final = "shuffle"
    bitshuffle: Final = "bitshuffle"


class Endian:
    """Names of byte orders, for `BytesCodec`."""

    big: Final = "big"
    little: Final = "little"


class ShardingCodecIndexLocation:
    """Names of the positions of the index, for `ShardingCodec`."""

    start: Final = "start"
    end: Final = "end"


def BloscCodec(  # noqa: N802 (zarr-python's name)
    *,
    typesize: int | None = None,
    cname: str = "zstd",
    clevel: int = 5,
    shuffle: Literal["noshuffle", "shuffle", "bitshuffle"] | None = None,
    blocksize: int = 0,
) -> Blosc:
    """Return a `Blosc` with the defaults of zarr-python 3.

    Parameters
    ----------
    typesize, cname, clevel, shuffle, blocksize
        As for `Blosc`; the default shuffle is "bitshuffle" for elements of one byte and "shuffle"
        for others.

    Examples
    --------
    >>> BloscCodec(cname=BloscCname.zstd, clevel=3, shuffle=BloscShuffle.bitshuffle)
    Blosc(cname='zstd', clevel=3, shuffle=2)
    """
    chosen: int | str = -1 if shuffle is None else shuffle
    return Blosc(cname, clevel, chosen, blocksize, typesize)  # type: ignore[arg-type]


def GzipCodec(*, level: int = 5) -> GZip:  # noqa: N802 (zarr-python's name)
    """Return a `GZip` with the default of zarr-python 3.

    Parameters
    ----------
    level
        0 (none) to 9 (smallest).

    Examples
    --------
    >>> GzipCodec()
    GZip(level=5)
    """
    return GZip(level)


set_public_module("tessarr.codecs", BloscCname, BloscShuffle, Endian, ShardingCodecIndexLocation)
