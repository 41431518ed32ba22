"""The codec ``adler32``: a checksum of 4 bytes (numcodecs id ``adler32``)."""

from __future__ import annotations

from dataclasses import dataclass

from tessarr.codec.base import register_codec
from tessarr.codec.checksum import Checksum, Location

__all__ = ["Adler32"]


@register_codec
@dataclass(frozen=True, slots=True)
class Adler32(Checksum):
    """Adler-32 checksum: damage is detected when a chunk is read.

    Parameters
    ----------
    location : {"start", "end"}
        Where the checksum is.

    Examples
    --------
    >>> Adler32().to_json(2), Adler32("end").to_json(2)
    ({'id': 'adler32'}, {'id': 'adler32', 'location': 'end'})
    """

    name = "numcodecs.adler32"
    codec_id = "adler32"
    location: Location = "start"
