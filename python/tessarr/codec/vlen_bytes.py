"""The codec ``vlen-bytes``: bytes of any length (Zarr extensions, codecs/vlen-bytes; numcodecs)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tessarr.codec.base import register_codec
from tessarr.codec.elements import ElementsCodec
from tessarr.dtype.variable import VariableBytes

if TYPE_CHECKING:
    from tessarr.dtype import DataType

__all__ = ["VLenBytes"]


@register_codec
@dataclass(frozen=True, slots=True)
class VLenBytes(ElementsCodec):
    r"""Bytes of any length.

    Examples
    --------
    >>> import numpy as np
    >>> VLenBytes().decode(bytes.fromhex("01000000 02000000 c3a9"))
    array([b'\xc3\xa9'], dtype=object)
    """

    name = "vlen-bytes"

    def object_type(self) -> DataType:
        return VariableBytes()
