"""The codec ``fixedscaleoffset``: ``(x - offset) * scale``, rounded (numcodecs' id the same)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.codec.base import register_codec
from tessarr.codec.items import TypedFilter
from tessarr.codec.parameters import WrongParameter, check_number

if TYPE_CHECKING:
    from tessarr.types import DTypeLike, JSONObject

__all__ = ["FixedScaleOffset"]


@register_codec
@dataclass(frozen=True, slots=True, repr=False)
class FixedScaleOffset(TypedFilter):
    """Floating-point numbers as integers: ``round((x - offset) * scale)``. Loses precision.

    Encoding does not check that the integers fit `astype`.

    Parameters
    ----------
    offset, scale : int or float
        The subtrahend, and the factor.
    dtype : dtype_like, optional
        The type of decoded items; by default the array's.
    astype : dtype_like, optional
        The type of encoded items; by default `dtype`.

    Examples
    --------
    >>> import numpy as np
    >>> filter = FixedScaleOffset(offset=1000, scale=10, dtype="f8", astype="u1")
    >>> filter.encode(np.array([1000.0, 1000.11, 1001.0]))
    array([ 0,  1, 10], dtype=uint8)
    """

    name = "numcodecs.fixedscaleoffset"
    codec_id = "fixedscaleoffset"
    kinds = "biufc"
    offset: float
    scale: float
    dtype: DTypeLike | None = None
    astype: DTypeLike | None = None

    def __post_init__(self) -> None:
        check_number("offset", self.offset)
        check_number("scale", self.scale)
        if self.scale == 0:
            raise WrongParameter(
                "scale", self.scale, "a number that can be divided by", right_type=True
            )
        super(FixedScaleOffset, self).__post_init__()

    def get_config(self) -> JSONObject:
        names = ("scale", "offset", "dtype", "astype")
        return {"id": self.codec_id, **{name: getattr(self, name) for name in names}}

    # The operations have the order of numcodecs, because other orders round differently.
    def encode_items(self, items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.around((items - self.offset) * self.scale)

    def decode_items(self, items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return items / self.scale + self.offset
