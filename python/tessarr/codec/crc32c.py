"""The codec ``crc32c``: a checksum of 4 bytes appended (Zarr 3 codecs/crc32c)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tessarr.codec.base import register_codec
from tessarr.codec.native import NativeCodec

if TYPE_CHECKING:
    from tessarr.problems import Members
    from tessarr.types import ZarrFormat

__all__ = ["Crc32c"]


@register_codec
@dataclass(frozen=True, slots=True)
class Crc32c(NativeCodec):
    """CRC-32C checksum: damage is detected when a chunk is read.

    Examples
    --------
    >>> Crc32c().to_json(3)
    {'name': 'crc32c'}
    """

    name = "crc32c"

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> Crc32c | None:
        if zarr_format == 2:
            location = members.get("location", "end")
            if location == "start":
                # numcodecs has this variant; nothing else writes it.
                at, kind = members.at("location"), "unsupported_codec"
                members.problems.unsupported(at, "crc32c location", "start", kind=kind)
                return None
            members.choice("location", ("end",), "end")
        members.done()
        return cls()

    def encoded_bytes(self, size: int) -> int:
        return size + 4

    def engine(self) -> dict[str, object]:
        return {"name": "crc32c"}
