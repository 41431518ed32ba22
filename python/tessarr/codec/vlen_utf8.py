"""The codec ``vlen-utf8``: text of any length (Zarr extensions, codecs/vlen-utf8; numcodecs)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tessarr.codec.base import register_codec
from tessarr.codec.elements import ElementsCodec
from tessarr.dtype.variable import Text

if TYPE_CHECKING:
    from tessarr.dtype import DataType

__all__ = ["VLenUTF8"]


@register_codec
@dataclass(frozen=True, slots=True)
class VLenUTF8(ElementsCodec):
    """Text, as UTF-8.

    Examples
    --------
    >>> import numpy as np
    >>> VLenUTF8().encode(np.array(["é"], object)).hex(" ", -4)
    '01000000 02000000 c3a9'
    """

    name = "vlen-utf8"

    def object_type(self) -> DataType:
        return Text()
