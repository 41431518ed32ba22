"""The codec ``zstd``: RFC 8878 (zarr-extensions codecs/zstd; numcodecs id ``zstd``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tessarr.codec.base import register_codec
from tessarr.codec.native import NativeCodec
from tessarr.codec.parameters import check_integer
from tessarr.format.validation import is_integer

if TYPE_CHECKING:
    from tessarr.format.validation import Members
    from tessarr.types import ZarrFormat

__all__ = ["Zstd"]

_LEVELS: Final = (-131072, 22)


@register_codec
@dataclass(frozen=True, slots=True)
class Zstd(NativeCodec):
    """Zstandard compression.

    Parameters
    ----------
    level : int
        -131072 (fastest) to 22 (smallest); 0 is the library's default, 3.
    checksum : bool
        Whether a checksum of the content is stored.
    spelling : str
        An alias that format 3 writes in place of the name, as other writers did.

    Examples
    --------
    >>> Zstd(3).to_json(3)
    {'name': 'zstd', 'configuration': {'level': 3, 'checksum': False}}
    """

    name = "zstd"
    aliases = ("numcodecs.zstd",)
    level: int = 0
    checksum: bool = False
    spelling: str = field(default="", compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        check_integer("level", self.level, *_LEVELS)

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> Zstd | None:
        low, high = _LEVELS
        if zarr_format == 3:
            level = members.integer("level", low, high)
        else:
            level = members.integer("level", low, None, cls().level)
            if level is not None and level > high:
                defect = f"zstd has no level {level}, taken for {high} as numcodecs does"
                members.problems.tolerate(members.at("level"), defect)
                level = high
        checksum = members.boolean("checksum", default=False)
        members.done()
        return None if level is None or checksum is None else cls(level, checksum)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Zstd:
        level = config.get("level", cls().level)  # numcodecs lowers it when it encodes
        high = is_integer(level) and level > _LEVELS[1]
        return super(Zstd, cls).from_config({**config, "level": _LEVELS[1] if high else level})

    def configuration(self) -> dict[str, Any]:
        # zarrs refuses format 3 without the member, which is optional there.
        return {"level": self.level, "checksum": self.checksum}

    def get_config(self) -> dict[str, Any]:
        # TensorStore and numcodecs before 0.13 refuse the member in format 2.
        config = {"id": self.name, "level": self.level}
        return {**config, "checksum": True} if self.checksum else config

    def engine(self) -> dict[str, object]:
        return {"name": "zstd", "level": self.level, "checksum": self.checksum}
