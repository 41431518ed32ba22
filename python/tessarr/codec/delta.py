"""The codec ``delta``: differences of consecutive items (numcodecs id ``delta``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.codec.base import register_codec
from tessarr.codec.items import TypedFilter

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.types import DTypeLike

__all__ = ["Delta"]


@register_codec
@dataclass(frozen=True, slots=True, repr=False)
class Delta(TypedFilter):
    """The first item, then the differences of consecutive items.

    Integers wrap around. Encoding does not check that differences fit `astype`.

    Parameters
    ----------
    dtype : dtype_like, optional
        The type of decoded items; by default the array's.
    astype : dtype_like, optional
        The type of encoded items; by default `dtype`.

    Examples
    --------
    >>> import numpy as np
    >>> Delta("i2", "i1").encode(np.arange(100, 120, 5, dtype="i2"))
    array([100,   5,   5,   5], dtype=int8)
    >>> Delta("i2").to_json(2)
    {'id': 'delta', 'dtype': '<i2', 'astype': '<i2'}
    """

    name = "numcodecs.delta"
    codec_id = "delta"
    dtype: DTypeLike | None = None
    astype: DTypeLike | None = None

    def stages(self, spec: ArraySpec) -> list[dict[str, object]] | None:
        decoded, encoded = self.types(spec.data_type.numpy)
        integers = decoded.kind in "iu" and encoded.kind in "iu"
        if integers or (decoded == encoded and decoded.str[1:] in ("f4", "f8")):
            return [{"name": "delta", "dtype": decoded.str, "astype": encoded.str}]
        return None

    def encode_items(self, items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        encoded = np.empty(items.shape, dtype=self.types(items.dtype)[1])
        encoded[:1] = items[:1]
        encoded[1:] = np.diff(items)
        return encoded

    def decode_items(self, items: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        dtype = items.dtype if self.dtype is None else np.dtype(self.dtype)
        if dtype.kind == "b":  # the difference of booleans is inequality
            return np.logical_xor.accumulate(items)
        return np.cumsum(items, out=np.empty(items.shape, dtype=dtype))
