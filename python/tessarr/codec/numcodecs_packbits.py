"""The codec ``packbits`` of format 2: booleans as bits, highest bit first (numcodecs)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr import dtype as dtypes
from tessarr.codec.base import ArrayArrayCodec, deliver, register_codec
from tessarr.codec.items import as_array, view_items
from tessarr.errors import DataError

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.format.validation import Problems

__all__ = ["PackBitsV2"]


@register_codec
@dataclass(frozen=True, slots=True)
class PackBitsV2(ArrayArrayCodec):
    """Booleans as bits: the number of unused bits, then bytes with the highest bit first.

    Format 3 has another codec ``packbits``: `PackBits`.

    Examples
    --------
    >>> import numpy as np
    >>> PackBitsV2().encode(np.array([True, False, False, True]))
    array([  4, 144], dtype=uint8)
    """

    name = "numcodecs.packbits"
    codec_id = "packbits"

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        if spec.data_type.item_bytes != 1:
            message = f"{spec.data_type.name} is not bool, of which bits are made"
            problems.add(loc, message, "mismatch")

    def encoded(self, spec: ArraySpec) -> ArraySpec:
        shape = (1 + -(-spec.size_bytes // 8),)
        return replace(spec, shape=shape, data_type=dtypes.to_data_type(np.uint8), fill=None)

    def encode(self, array: np.ndarray[Any, Any], /) -> np.ndarray[Any, Any]:
        """Encode an array of booleans, or a buffer of bytes that are 0 or 1."""
        bits = view_items(as_array(array), np.dtype(bool))
        unused = np.array([-bits.size % 8], dtype=np.uint8)
        return np.concatenate([unused, np.packbits(bits)])

    def decode(
        self, array: np.ndarray[Any, Any], spec: ArraySpec | None = None, /, out: Any = None
    ) -> np.ndarray[Any, Any]:
        """Decode to an array of `spec`, or a buffer to booleans, which `out` receives if given."""
        data = view_items(as_array(array), np.dtype(np.uint8))
        count = 8 * (data.size - 1) - int(data[0]) if data.size else -1
        expected = count if spec is None else spec.size_bytes
        if count != expected or not 0 <= count <= 8 * data.size or data[0] > 7:
            message = f"it does not begin with the unused bits of {expected} booleans"
            raise DataError(message, codec=self.codec_id)
        bits = np.unpackbits(data[1:], count=count).view(bool)
        if spec is None:
            return np.asarray(deliver(bits, out))
        return bits.view(spec.data_type.numpy).reshape(spec.shape)
