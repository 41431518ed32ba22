"""The base class of checksum codecs, which add 4 bytes before or after the data."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from tessarr.codec.native import NativeCodec
from tessarr.codec.parameters import check_choice

__all__ = ["Checksum", "Location"]

Location: TypeAlias = Literal["start", "end"]


class Checksum(NativeCodec):
    """A checksum of 4 bytes: damage is detected when a chunk is read."""

    __slots__ = ()

    location: Location

    def __post_init__(self) -> None:
        check_choice("location", self.location, ("start", "end"))

    def get_config(self) -> dict[str, Any]:
        # numcodecs states the location only if it is not the default.
        config: dict[str, Any] = {"id": self.codec_id or self.name}
        if self.location != type(self)().location:
            config["location"] = self.location
        return config

    def encoded_bytes(self, size: int) -> int:
        return size + 4

    def engine(self) -> dict[str, object]:
        name = self.codec_id or self.name
        return {"name": name, "at_start": self.location == "start"}
