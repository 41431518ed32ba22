"""The codec ``quantize``: numbers rounded to decimal digits (numcodecs id ``quantize``)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.codec.base import register_codec
from tessarr.codec.items import ItemFilter
from tessarr.codec.parameters import check_integer, number_type

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.format.validation import Problems
    from tessarr.types import DTypeLike, ZarrFormat

__all__ = ["Quantize"]


@register_codec
@dataclass(frozen=True, slots=True, repr=False)
class Quantize(ItemFilter):
    """Floating-point numbers with fewer bits, so that they compress better. Loses precision.

    Parameters
    ----------
    digits : int
        The number of decimal places to keep, -300 to 300.
    dtype : dtype_like, optional
        The type of decoded items, a floating-point one; by default the array's.
    astype : dtype_like, optional
        The type of encoded items; by default `dtype`.

    Examples
    --------
    >>> import numpy as np
    >>> Quantize(1, "f8").encode(np.array([0.0, 1 / 9, 2 / 9]))
    array([0.   , 0.125, 0.25 ])
    """

    name = "numcodecs.quantize"
    codec_id = "quantize"
    digits: int
    dtype: DTypeLike | None = None
    astype: DTypeLike | None = None

    def __post_init__(self) -> None:
        check_integer("digits", self.digits, -300, 300)
        for name in ("dtype", "astype"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, number_type(name, value, "f").str)
        if self.astype is None:
            object.__setattr__(self, "astype", self.dtype)

    def types(self, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], np.dtype[Any]]:
        decoded = dtype if self.dtype is None else np.dtype(self.dtype)
        return decoded, decoded if self.astype is None else np.dtype(self.astype)

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        if self.types(spec.data_type.numpy)[0].kind != "f":
            what = f"{spec.data_type.name} is no type of floating-point numbers"
            problems.add(loc, what, "mismatch")
        super(Quantize, self).check(spec, loc, problems)

    def resolve(self, spec: ArraySpec, zarr_format: ZarrFormat) -> Quantize:
        decoded, encoded = self.types(spec.data_type.numpy)
        return replace(self, dtype=decoded, astype=encoded)

    def encode_items(self, items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        # The smallest power of two that keeps as many digits as the power of ten.
        exponent = math.log10(10.0**-self.digits)
        exponent = math.floor(exponent) if exponent < 0 else math.ceil(exponent)
        scale = 2.0 ** math.ceil(math.log2(10.0**-exponent))
        return np.around(scale * items) / scale

    def decode_items(self, items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return items
