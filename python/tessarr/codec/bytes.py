"""The codec ``bytes``: the elements in C order (Zarr 3 codecs/bytes)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tessarr.codec.base import ArrayBytesCodec, register_codec
from tessarr.codec.parameters import check_choice
from tessarr.dtype import names
from tessarr.errors import DataError

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.dtype import DataType
    from tessarr.format.validation import Members, Problems
    from tessarr.types import BytesLike, ZarrFormat

__all__ = ["Bytes", "Endian"]

Endian = Literal["little", "big"]
_ENDIANS: Final = ("little", "big")


@register_codec
@dataclass(frozen=True, slots=True)
class Bytes(ArrayBytesCodec):
    """Unchanged elements in the byte order `endian`.

    Parameters
    ----------
    endian : {"little", "big"}, optional
        The byte order. By default little for types with a byte order, and None for others.

    Examples
    --------
    >>> import numpy as np
    >>> Bytes("big").to_json(3), Bytes().to_json(3)
    ({'name': 'bytes', 'configuration': {'endian': 'big'}}, {'name': 'bytes'})
    >>> bytes(Bytes("big").encode(np.array([1, 258], dtype="int16"))).hex()
    '00010102'
    """

    name = "bytes"
    codec_id = None
    endian: Endian | None = None

    def __post_init__(self) -> None:
        check_choice("endian", self.endian, (*_ENDIANS, None))

    @classmethod
    def read(cls, members: Members, zarr_format: ZarrFormat) -> Bytes | None:
        before = len(members.problems)
        endian = members.choice("endian", _ENDIANS, None)
        members.done()
        if len(members.problems) > before:
            return None
        return cls("big" if endian == "big" else "little" if endian else None)

    def configuration(self) -> dict[str, Any]:
        return {"endian": self.endian} if self.endian else {}

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        if self.endian is None and spec.data_type.unit_bytes != 1:
            name = spec.data_type.name
            problems.tolerate(loc, f"no endian for {name}, taken for little")

    def resolve(self, spec: ArraySpec, zarr_format: ZarrFormat) -> Bytes:
        if self.endian is None and spec.data_type.unit_bytes != 1:
            return Bytes("big" if zarr_format == 2 and spec.data_type.big_endian else "little")
        return self

    def encoded_bytes(self, spec: ArraySpec) -> int:
        return spec.size_bytes

    def encode(self, array: np.ndarray[Any, Any], /) -> BytesLike:
        data_type = names.to_data_type(array.dtype)
        data = data_type.canonical(array).tobytes()
        return data_type.swapped(data) if self.swaps(data_type) else data

    def decode(self, data: BytesLike, spec: ArraySpec, /) -> np.ndarray[Any, Any]:
        data_type = spec.data_type
        flat = np.frombuffer(data, dtype=np.uint8)
        if flat.nbytes != spec.size_bytes:
            message = f"{flat.nbytes} bytes instead of {spec.size_bytes}"
            raise DataError(message, kind="wrong_size", codec=self.name)
        if self.swaps(data_type):
            flat = data_type.swapped(flat)
        return data_type.canonical(flat.view(data_type.numpy).reshape(spec.shape))

    def engine_array(self, spec: ArraySpec, zarr_format: ZarrFormat) -> dict[str, object] | None:
        swap, unit_bytes = self.swaps(spec.data_type), spec.data_type.unit_bytes
        if spec.data_type.stray_bits or (swap and unit_bytes == 0):
            return None
        return {"kind": "bytes", "unit_bytes": unit_bytes, "swap": swap}

    def swaps(self, data_type: DataType) -> bool:
        """Tell whether elements are stored in another byte order than in memory."""
        if self.endian is None or data_type.unit_bytes == 1:
            return False
        return (self.endian == "big") != data_type.big_endian
