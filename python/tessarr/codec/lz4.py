"""The codec ``lz4``: a size of 4 bytes, then one LZ4 block (numcodecs id ``lz4``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tessarr.codec.base import register_codec
from tessarr.codec.native import NativeCodec
from tessarr.codec.parameters import check_integer

if TYPE_CHECKING:
    from tessarr.format.validation import Members
    from tessarr.types import ZarrFormat

__all__ = ["LZ4"]

_MAX_ACCELERATION = 2**31 - 1


@register_codec
@dataclass(frozen=True, slots=True)
class LZ4(NativeCodec):
    """LZ4 compression in numcodecs' framing.

    Parameters
    ----------
    acceleration : int
        Higher is faster and larger; values below 1 mean 1.

    Examples
    --------
    >>> LZ4().to_json(2)
    {'id': 'lz4', 'acceleration': 1}
    """

    name = "numcodecs.lz4"
    codec_id = "lz4"
    acceleration: int = 1

    def __post_init__(self) -> None:
        check_integer("acceleration", self.acceleration, -_MAX_ACCELERATION, _MAX_ACCELERATION)

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> LZ4 | None:
        acceleration = members.integer("acceleration", -_MAX_ACCELERATION, _MAX_ACCELERATION, 1)
        members.done()
        return None if acceleration is None else cls(acceleration)

    def engine(self) -> dict[str, object]:
        return {"name": "lz4", "acceleration": max(self.acceleration, 1)}
