"""The codec ``zarrs.optional``: optional elements (zarrs, experimental).

The encoding has two sizes (little-endian numbers of 64 bits), the encoded mask (an array of
booleans in the shape of the chunk), and the encoded values that are present (an array of one axis,
omitted if empty).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr import dtype as dtypes
from tessarr.codec.base import ArrayBytesCodec, ArraySpec, register_codec
from tessarr.codec.chain import Chain, to_flat_array
from tessarr.dtype.optional import Optional
from tessarr.errors import DataError
from tessarr.format.validation import ABSENT

if TYPE_CHECKING:
    from tessarr.codec.read import CodecLike
    from tessarr.format.validation import Members, Problems
    from tessarr.types import BytesLike, ZarrFormat

__all__ = ["ZarrsOptional"]

_HEADER_BYTES: Final = 16


@register_codec
@dataclass(frozen=True, slots=True, init=False)
class ZarrsOptional(ArrayBytesCodec):
    """Optional elements.

    Parameters
    ----------
    mask_codecs : sequence of codecs
        The codecs of the mask.
    data_codecs : sequence of codecs
        The codecs of the values that are present.

    Examples
    --------
    >>> ZarrsOptional().to_json(3)["configuration"]
    {'mask_codecs': [{'name': 'bytes'}], 'data_codecs': [{'name': 'bytes'}]}
    """

    name = "zarrs.optional"
    codec_id = None
    mask_codecs: Chain
    data_codecs: Chain

    def __init__(
        self,
        mask_codecs: Iterable[CodecLike] | Chain = (),
        data_codecs: Iterable[CodecLike] | Chain = (),
    ) -> None:
        for name, codecs in (("mask_codecs", mask_codecs), ("data_codecs", data_codecs)):
            chain = codecs if isinstance(codecs, Chain) else Chain.of(codecs)
            object.__setattr__(self, name, chain)

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> ZarrsOptional | None:
        chains: list[Chain] = []
        for name in ("mask_codecs", "data_codecs"):
            value = members.require(name)
            if value is not ABSENT:
                chain = Chain.read(value, members.at(name), members.problems, strict=True)
                chains += [] if chain is None else [chain]
        members.done()
        return cls(*chains) if len(chains) == 2 else None

    def configuration(self) -> dict[str, Any]:
        chains = {"mask_codecs": self.mask_codecs, "data_codecs": self.data_codecs}
        return {name: chain.to_json() for name, chain in chains.items()}

    def get_config(self) -> dict[str, Any]:
        return {"id": self.name, **self.configuration()}

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        if not isinstance(spec.data_type, Optional):
            message = f"elements of {spec.data_type.name} are never missing"
            problems.add(loc, message, "mismatch")
            return
        mask, values = _mask_and_value_specs(spec.data_type, spec.shape, 1)
        self.mask_codecs.check(mask, f"{loc}/mask_codecs", problems)
        self._data_codecs(spec.data_type).check(values, f"{loc}/data_codecs", problems)

    def resolve(self, spec: ArraySpec, zarr_format: ZarrFormat) -> ZarrsOptional:
        if not isinstance(spec.data_type, Optional):
            return self
        mask, values = _mask_and_value_specs(spec.data_type, spec.shape, 1)
        data_codecs = self._data_codecs(spec.data_type).resolve(values)
        return ZarrsOptional(self.mask_codecs.resolve(mask), data_codecs)

    def _data_codecs(self, data_type: Optional) -> Chain:
        """Return the codecs of the values; the default for optional values is this codec."""
        nested = isinstance(data_type.inner, Optional) and self.data_codecs == Chain.of(())
        return Chain((ZarrsOptional(),)) if nested else self.data_codecs

    def encode(self, array: np.ndarray[Any, Any], /) -> bytes:
        valid = array["valid"].view(np.uint8) != 0
        values = np.ascontiguousarray(array["value"][valid])
        mask = to_flat_array(
            self.mask_codecs.encode(valid, ArraySpec(valid.shape, dtypes.to_data_type(bool)))
        )
        data = to_flat_array(b"")
        if values.size:
            spec = ArraySpec(values.shape, dtypes.to_data_type(values.dtype))
            data = to_flat_array(self.data_codecs.encode(values, spec))
        sizes = np.array([mask.size, data.size], "<u8")
        return sizes.tobytes() + mask.tobytes() + data.tobytes()

    def decode(self, data: BytesLike, spec: ArraySpec, /) -> np.ndarray[Any, Any]:
        data, data_type = to_flat_array(data), spec.data_type
        assert isinstance(data_type, Optional)
        if data.size < _HEADER_BYTES:
            message = f"{data.size} bytes have no room for the header"
            raise DataError(message, kind="wrong_size", codec=self.name)
        mask_bytes, data_bytes = (int(size) for size in np.frombuffer(data[:_HEADER_BYTES], "<u8"))
        if _HEADER_BYTES + mask_bytes + data_bytes != data.size:
            message = f"parts of {mask_bytes} and {data_bytes} bytes in {data.size}"
            raise DataError(message, kind="wrong_size", codec=self.name)
        middle = _HEADER_BYTES + mask_bytes
        mask_spec, _ = _mask_and_value_specs(data_type, spec.shape, 0)
        valid = self.mask_codecs.decode(data[_HEADER_BYTES:middle], mask_spec)
        if (valid.view(np.uint8) > 1).any():
            raise DataError("a boolean of the mask is stored as neither 0 nor 1", codec=self.name)
        array = np.zeros(spec.shape, data_type.numpy)
        array["valid"] = valid
        count = int(np.count_nonzero(valid))
        if count:
            _, values_spec = _mask_and_value_specs(data_type, spec.shape, count)
            array["value"][valid] = self.data_codecs.decode(data[middle:], values_spec)
        return array


def _mask_and_value_specs(
    data_type: Optional, shape: tuple[int, ...], count: int
) -> tuple[ArraySpec, ArraySpec]:
    """Return the specs of the mask and of `count` values."""
    return ArraySpec(shape, dtypes.to_data_type(bool)), ArraySpec((count,), data_type.inner)
