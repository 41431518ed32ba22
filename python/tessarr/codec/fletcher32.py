"""The codec ``fletcher32``: HDF5's checksum of 4 bytes appended (numcodecs id ``fletcher32``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tessarr.codec.base import register_codec
from tessarr.codec.checksum import Checksum, Location

__all__ = ["Fletcher32"]


@register_codec
@dataclass(frozen=True, slots=True)
class Fletcher32(Checksum):
    """Fletcher's checksum, as in HDF5: damage is detected when a chunk is read.

    Examples
    --------
    >>> Fletcher32().to_json(2), Fletcher32().encode(b"abcde").hex()
    ({'id': 'fletcher32'}, '6162636465c729f04f')
    """

    name = "numcodecs.fletcher32"
    codec_id = "fletcher32"
    location: ClassVar[Location] = "end"  # type: ignore[misc]
