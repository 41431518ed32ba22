"""The codec ``gzip``: RFC 1952 (Zarr 3 codecs/gzip; numcodecs id ``gzip``)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tessarr.codec.base import register_codec
from tessarr.codec.native import NativeCodec
from tessarr.codec.parameters import check_integer

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.format.validation import Members
    from tessarr.types import ZarrFormat

__all__ = ["GZip"]


@register_codec
@dataclass(frozen=True, slots=True)
class GZip(NativeCodec):
    """Gzip compression.

    Parameters
    ----------
    level : int
        0 (none) to 9 (smallest); in format 2 also -1, the library's default.
    spelling : str
        An alias that format 3 writes in place of the name, as other writers did.

    Examples
    --------
    >>> GZip(5).to_json(3), GZip(5).to_json(2)
    ({'name': 'gzip', 'configuration': {'level': 5}}, {'id': 'gzip', 'level': 5})
    """

    name = "gzip"
    aliases = ("numcodecs.gzip",)
    level: int = 1
    spelling: str = field(default="", compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        check_integer("level", self.level, -1, 9)

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> GZip | None:
        level = (
            members.integer("level", 0, 9)
            if zarr_format == 3
            else members.integer("level", -1, 9, cls().level)
        )
        members.done()
        return None if level is None else cls(level)

    def resolve(self, spec: ArraySpec, zarr_format: ZarrFormat) -> GZip:
        # Format 3 cannot state the default.
        is_valid = zarr_format == 2 or bool(self.spelling)
        return self if is_valid else replace(self, level=self._level())

    def engine(self) -> dict[str, object]:
        return {"name": "gzip", "level": self._level()}

    def _level(self) -> int:
        return 6 if self.level == -1 else self.level
