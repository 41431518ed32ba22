"""The codec ``shuffle``: the bytes of items, grouped by position (numcodecs id ``shuffle``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tessarr.codec.base import register_codec
from tessarr.codec.native import NativeCodec
from tessarr.codec.parameters import check_integer

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.format.validation import Members
    from tessarr.types import ZarrFormat

__all__ = ["Shuffle"]


@register_codec
@dataclass(frozen=True, slots=True)
class Shuffle(NativeCodec):
    """Byte shuffle, which improves the compression by the next codec.

    Parameters
    ----------
    elementsize : int, optional
        The size of an item in bytes. None and 0, which netCDF writes, mean the size of the
        elements; 1 means no shuffle.

    Examples
    --------
    >>> Shuffle(2).encode(b"aAbBcC")
    b'abcABC'
    """

    name = "numcodecs.shuffle"
    codec_id = "shuffle"
    elementsize: int | None = None

    def __post_init__(self) -> None:
        if self.elementsize is not None:
            check_integer("elementsize", self.elementsize, 0, 2**31 - 1)

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> Shuffle | None:
        # numcodecs' default in format 2; zarr-python uses the element size in format 3.
        default = 4 if zarr_format == 2 else None
        before = len(members.problems)
        if members.get("elementsize") is None:
            elementsize: int | None = 0
        else:
            elementsize = members.integer("elementsize", 0, 2**31 - 1, default)
        members.done()
        return cls(elementsize) if len(members.problems) == before else None

    def encoded_bytes(self, size: int) -> int:
        return size

    def resolve(self, spec: ArraySpec, zarr_format: ZarrFormat) -> Shuffle:
        if self.elementsize:
            return self
        # Elements of any length are bytes, which need no shuffle.
        any_length = spec.data_type.elements is not None
        return replace(self, elementsize=1 if any_length else spec.data_type.item_bytes)

    def engine(self) -> dict[str, object]:
        return {"name": "shuffle", "item_bytes": max(self.elementsize or 1, 1)}
