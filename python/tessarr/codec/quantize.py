"""The codec ``quantize``: numbers rounded to decimal digits (numcodecs id ``quantize``)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.codec.base import register_codec
from tessarr.codec.items import TypedFilter
from tessarr.codec.parameters import check_integer

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.format.validation import Problems
    from tessarr.types import DTypeLike

__all__ = ["Quantize"]


@register_codec
@dataclass(frozen=True, slots=True, repr=False)
class Quantize(TypedFilter):
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
    kinds = "f"
    digits: int
    dtype: DTypeLike | None = None
    astype: DTypeLike | None = None

    def __post_init__(self) -> None:
        check_integer("digits", self.digits, -300, 300)
        super(Quantize, self).__post_init__()

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        if self.types(spec.data_type.numpy)[0].kind != "f":
            message = f"{spec.data_type.name} is no type of floating-point numbers"
            problems.add(loc, message, "mismatch")
        super(Quantize, self).check(spec, loc, problems)

    def encode_items(self, items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        # The smallest power of two that keeps as many digits as the power of ten.
        exponent = math.log10(10.0**-self.digits)
        exponent = math.floor(exponent) if exponent < 0 else math.ceil(exponent)
        scale = 2.0 ** math.ceil(math.log2(10.0**-exponent))
        return np.around(scale * items) / scale
