"""The codec ``crc32``: a checksum of 4 bytes (numcodecs id ``crc32``)."""

from __future__ import annotations

from dataclasses import dataclass

from tessarr.codec.base import register_codec
from tessarr.codec.checksum import Checksum, Location

__all__ = ["CRC32"]


@register_codec
@dataclass(frozen=True, slots=True)
class CRC32(Checksum):
    """CRC-32 checksum: damage is detected when a chunk is read.

    Parameters
    ----------
    location : {"start", "end"}
        Where the checksum is.

    Examples
    --------
    >>> CRC32().to_json(2), CRC32("end").to_json(2)
    ({'id': 'crc32'}, {'id': 'crc32', 'location': 'end'})
    """

    name = "numcodecs.crc32"
    codec_id = "crc32"
    location: Location = "start"
