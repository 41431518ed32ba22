"""The codec ``vlen-array``: arrays of any length (numcodecs). Format 2 only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tessarr.codec.base import register_codec
from tessarr.codec.elements import ElementsCodec
from tessarr.codec.parameters import number_type
from tessarr.dtype.objects import Ragged

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.dtype import DataType
    from tessarr.format.validation import Problems
    from tessarr.types import ZarrFormat

__all__ = ["VLenArray"]


@register_codec
@dataclass(frozen=True, slots=True)
class VLenArray(ElementsCodec):
    """One-dimensional arrays of any length with items of one type. Format 2 only.

    Parameters
    ----------
    dtype : str
        The NumPy type of the items.

    Examples
    --------
    >>> VLenArray("<i2").decode(bytes.fromhex("01000000 04000000 01000200"))[0]
    array([1, 2], dtype=int16)
    """

    name = "vlen-array"
    dtype: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", number_type("dtype", self.dtype, "biufcmMSU").str)

    def object_type(self) -> DataType:
        return Ragged(item=np.dtype(self.dtype))

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        if spec.data_type != self.object_type():
            message = f"codec {self.name!r} makes arrays of {self.dtype}, not {spec.data_type.name}"
            problems.add(loc, message, "mismatch")

    def engine_array(self, spec: ArraySpec, zarr_format: ZarrFormat) -> dict[str, object]:
        unit_bytes = np.dtype(self.dtype).itemsize
        return {"kind": "vlen", "is_text": False, "unit_bytes": unit_bytes}
