"""The codec ``packbits``: a range of bits of each element (zarr-extensions codecs/packbits)."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tessarr.codec.base import ArrayBytesCodec, register_codec
from tessarr.codec.parameters import check_choice, check_integer
from tessarr.errors import DataError

if TYPE_CHECKING:
    from tessarr.codec.base import ArraySpec
    from tessarr.dtype import DataType
    from tessarr.format.validation import Problems
    from tessarr.types import BytesLike

__all__ = ["PackBits"]

_PADDINGS: Final = ("none", "first_byte", "last_byte")
_LARGEST_BIT: Final = 63
_NUMBER: Final = re.compile(r"(u?int|b?float|complex|complex_b?float)([0-9]+)(_.*)?")

Padding = Literal["none", "first_byte", "last_byte"]


@register_codec
@dataclass(frozen=True, slots=True)
class PackBits(ArrayBytesCodec):
    """The bits of each element without gaps, lowest bit first.

    Parameters
    ----------
    padding_encoding : {"none", "first_byte", "last_byte"}
        The position of a byte with the number of unused bits.
    first_bit, last_bit : int, optional
        The first and the last stored bit of each number; by default all bits.

    Examples
    --------
    >>> import numpy as np
    >>> PackBits().encode(np.array([True, False, False, True])).hex()
    '09'
    >>> PackBits(last_bit=3).encode(np.array([1, 2, 3], dtype="u1")).hex()
    '2103'
    """

    name = "packbits"
    codec_id = None
    padding_encoding: Padding = "none"
    first_bit: int | None = None
    last_bit: int | None = None

    def __post_init__(self) -> None:
        check_choice("padding_encoding", self.padding_encoding, _PADDINGS)
        if self.first_bit is not None:
            check_integer("first_bit", self.first_bit, 0, _LARGEST_BIT)
        if self.last_bit is not None:
            check_integer("last_bit", self.last_bit, self.first_bit or 0, _LARGEST_BIT)

    def configuration(self) -> dict[str, Any]:
        config: dict[str, Any] = {}
        for field in fields(self):
            if getattr(self, field.name) != field.default:
                config[field.name] = getattr(self, field.name)
        return config

    def check(self, spec: ArraySpec, loc: str, problems: Problems) -> None:
        bits = _number_bits(spec.data_type)
        if bits is None:
            problems.add(loc, f"the bits of {spec.data_type.name} cannot be packed", "mismatch")
            return
        for name in ("first_bit", "last_bit"):
            bit = getattr(self, name)
            if bit is not None and bit >= bits:
                message = f"{spec.data_type.name} has {bits} bits, the last one being {bits - 1}"
                problems.add(f"{loc}/{name}", message, "mismatch")

    def encoded_bytes(self, spec: ArraySpec) -> int:
        bits = (
            self._count_bits(spec.data_type)
            * _count_numbers(spec.data_type)
            * math.prod(spec.shape)
        )
        return -(-bits // 8) + (self.padding_encoding != "none")

    def encode(self, array: np.ndarray[Any, Any], /) -> bytes:
        from tessarr import dtype as dtypes

        data_type = dtypes.to_data_type(array.dtype)
        first, bit_count = self.first_bit or 0, self._count_bits(data_type)
        little = data_type.ordered("little").numpy
        items = np.ascontiguousarray(array.astype(little, copy=False))
        width = 8 * array.itemsize // _count_numbers(data_type)
        if data_type.name == "bool":
            bits = items.reshape(-1)
        else:
            every = np.unpackbits(items.reshape(-1).view(np.uint8), bitorder="little")
            bits = every.reshape(-1, width)[:, first : first + bit_count]
        data = np.packbits(bits, bitorder="little").tobytes()
        padding = bytes([-bits.size % 8])
        if self.padding_encoding == "first_byte":
            return padding + data
        return data + padding if self.padding_encoding == "last_byte" else data

    def decode(self, data: BytesLike, spec: ArraySpec, /) -> np.ndarray[Any, Any]:
        packed, data_type = np.frombuffer(data, dtype=np.uint8), spec.data_type
        if packed.size != self.encoded_bytes(spec):
            message = f"{packed.size} bytes instead of {self.encoded_bytes(spec)}"
            raise DataError(message, kind="wrong_size", codec=self.name)
        first, bit_count = self.first_bit or 0, self._count_bits(data_type)
        count = math.prod(spec.shape) * _count_numbers(data_type) * bit_count
        packed = self._strip_padding(packed, -count % 8)
        bits = np.unpackbits(packed, count=count, bitorder="little").reshape(-1, bit_count)
        if data_type.name == "bool":
            return bits.reshape(spec.shape).view(bool)
        width = 8 * data_type.item_bytes // _count_numbers(data_type)
        every = np.zeros((bits.shape[0], width), dtype=np.uint8)
        every[:, first : first + bit_count] = bits
        if data_type.name.startswith("int"):
            every[:, first + bit_count :] = bits[:, -1:]  # the sign
        items = np.packbits(every, bitorder="little").view(data_type.ordered("little").numpy)
        array = items.reshape(spec.shape).astype(data_type.numpy, copy=False)
        return data_type.canonical(array)

    def _count_bits(self, data_type: DataType) -> int:
        last = (_number_bits(data_type) or 1) - 1 if self.last_bit is None else self.last_bit
        return last - (self.first_bit or 0) + 1

    def _strip_padding(
        self, packed: np.ndarray[Any, np.dtype[np.uint8]], unused: int
    ) -> np.ndarray[Any, np.dtype[np.uint8]]:
        if self.padding_encoding == "none":
            return packed
        at_start = self.padding_encoding == "first_byte"
        stated_bits = int(packed[0] if at_start else packed[-1])
        if stated_bits != unused:
            message = f"{stated_bits} unused bits are stated, there are {unused}"
            raise DataError(message, codec=self.name)
        return packed[1:] if at_start else packed[:-1]


def _number_bits(data_type: DataType) -> int | None:
    """Return the number of bits of a number, or None for other data types."""
    if data_type.name == "bool":
        return 1
    match = _NUMBER.fullmatch(data_type.name)
    if match is None:
        return None
    return int(match[2]) // 2 if match[1] == "complex" else int(match[2])


def _count_numbers(data_type: DataType) -> int:
    """Return the number of numbers in an element: two for complex numbers."""
    return 2 if data_type.name.startswith("complex") else 1
