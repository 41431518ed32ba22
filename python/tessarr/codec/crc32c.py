"""The codec ``crc32c``: a checksum of 4 bytes appended (Zarr 3 codecs/crc32c)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tessarr.codec.base import register_codec
from tessarr.codec.checksum import Checksum, Location

if TYPE_CHECKING:
    from tessarr.format.validation import Members
    from tessarr.types import ZarrFormat

__all__ = ["Crc32c"]


@register_codec
@dataclass(frozen=True, slots=True)
class Crc32c(Checksum):
    """CRC-32C checksum: damage is detected when a chunk is read.

    Parameters
    ----------
    location : {"end", "start"}
        The position of the checksum; "start" only in the form of numcodecs.
    spelling : str
        An alias that format 3 writes in place of the name, as other writers did.

    Examples
    --------
    >>> Crc32c().to_json(3)
    {'name': 'crc32c'}
    """

    name = "crc32c"
    aliases = ("numcodecs.crc32c",)
    location: Location = "end"
    spelling: str = field(default="", compare=False, repr=False, kw_only=True)

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> Crc32c | None:
        location: str | None = "end"
        if zarr_format == 2:
            location = members.choice("location", ("start", "end", None), None) or "end"
        members.done()
        return cls("start" if location == "start" else "end")

    def to_json(self, zarr_format: ZarrFormat) -> Any:
        if zarr_format == 3 and self.location == "start":
            return super(Crc32c, replace(self, spelling=self.aliases[0])).to_json(3)
        return super(Crc32c, self).to_json(zarr_format)
