"""The codec ``crc32c``: a checksum of 4 bytes appended (Zarr 3 codecs/crc32c)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tessarr.codec.base import register_codec
from tessarr.codec.foreign import numcodec_from_config
from tessarr.codec.native import NativeCodec

if TYPE_CHECKING:
    from tessarr.codec.base import Codec
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
    def read(cls, members: Members, zarr_format: ZarrFormat) -> Codec | None:
        if zarr_format == 2:
            location = members.choice("location", ("start", "end", None), None)
            if location == "start":  # a variant that numcodecs alone has
                return numcodec_from_config({"id": "crc32c", **members.value}, first=False)
        members.done()
        return cls()

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Crc32c:
        extra = {name: value for name, value in config.items() if name != "id"}
        if extra.pop("location", None) not in (None, "end") or extra:
            raise ValueError(f"{config!r} is not the configuration of a checksum at the end")
        return cls()

    def encoded_bytes(self, size: int) -> int:
        return size + 4

    def engine(self) -> dict[str, object]:
        return {"name": "crc32c"}
