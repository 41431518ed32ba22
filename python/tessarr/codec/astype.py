"""The codec ``astype``: items of another type (numcodecs id ``astype``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.codec.base import register_codec
from tessarr.codec.items import ItemFilter
from tessarr.codec.parameters import number_type

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.types import DTypeLike, ZarrFormat

__all__ = ["AsType"]


@register_codec
@dataclass(frozen=True, slots=True)
class AsType(ItemFilter):
    """Items stored as another type, cast as NumPy casts. Nothing checks that they fit.

    Parameters
    ----------
    encode_dtype : dtype_like
        The type of encoded items.
    decode_dtype : dtype_like, optional
        The type of decoded items; by default the array's.

    Examples
    --------
    >>> import numpy as np
    >>> AsType("i1", "i2").encode(np.arange(100, 104, dtype="i2"))
    array([100, 101, 102, 103], dtype=int8)
    """

    name = "numcodecs.astype"
    codec_id = "astype"
    encode_dtype: DTypeLike
    decode_dtype: DTypeLike | None = None

    def __post_init__(self) -> None:
        for name in ("encode_dtype", "decode_dtype"):
            value = getattr(self, name)
            if value is not None or name == "encode_dtype":
                object.__setattr__(self, name, number_type(name, value).str)

    def types(self, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], np.dtype[Any]]:
        decoded = dtype if self.decode_dtype is None else np.dtype(self.decode_dtype)
        return decoded, np.dtype(self.encode_dtype)

    def resolve(self, spec: ArraySpec, zarr_format: ZarrFormat) -> AsType:
        return replace(self, decode_dtype=self.types(spec.data_type.numpy)[0])
