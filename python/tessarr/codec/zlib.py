"""The codec ``zlib``: RFC 1950 (numcodecs id ``zlib``; ``numcodecs.zlib`` in format 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tessarr.codec.base import register_codec
from tessarr.codec.native import NativeCodec
from tessarr.codec.parameters import check_integer

if TYPE_CHECKING:
    from tessarr.format.validation import Members
    from tessarr.types import ZarrFormat

__all__ = ["Zlib"]


@register_codec
@dataclass(frozen=True, slots=True)
class Zlib(NativeCodec):
    """Zlib compression.

    Parameters
    ----------
    level : int
        0 (none) to 9 (smallest); -1 is the library's default.

    Examples
    --------
    >>> Zlib(1).to_json(3), Zlib(1).to_json(2)
    ({'name': 'numcodecs.zlib', 'configuration': {'level': 1}}, {'id': 'zlib', 'level': 1})
    """

    name = "numcodecs.zlib"
    codec_id = "zlib"
    level: int = 1

    def __post_init__(self) -> None:
        check_integer("level", self.level, -1, 9)

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> Zlib | None:
        level = members.integer("level", -1, 9, cls().level)
        members.done()
        return None if level is None else cls(level)

    def engine(self) -> dict[str, object]:
        return {"name": "zlib", "level": 6 if self.level == -1 else self.level}
