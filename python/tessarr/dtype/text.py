"""Text and bytes of a limited length, padded with NULs.

The types are ``<U…`` and ``|S…`` of format 2 (Zarr specification 2), and ``fixed_length_utf32``
(Zarr extensions, data-types/fixed_length_utf32) and ``null_terminated_bytes`` (which zarr-python
writes) of format 3. NULs at the end of an item are padding and not part of its value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from tessarr.dtype.base import MAX_ITEM_BYTES, DataType, from_base64, register, to_base64
from tessarr.format.validation import describe, is_integer

if TYPE_CHECKING:
    from tessarr.format.validation import Members, Problems
    from tessarr.types import JSON, ZarrFormat

__all__ = ["FixedBytes", "FixedText"]


class _Fixed(DataType):
    """The base class of text and bytes of a limited length."""

    __slots__ = ()
    expected: ClassVar[str]

    @property
    def name(self) -> str:
        return self.v3_names[0]

    @property
    def unit_bytes(self) -> int:
        return np.dtype(f"{self.v2_kinds}1").itemsize

    @classmethod
    def from_v3(cls, name: str, configuration: Members) -> Self | None:
        unit_bytes = np.dtype(f"{cls.v2_kinds}1").itemsize
        size = configuration.integer("length_bytes", unit_bytes, MAX_ITEM_BYTES)
        configuration.done()
        if size is None:
            return None
        if size % unit_bytes:
            member_loc = configuration.at("length_bytes")
            configuration.problems.add(member_loc, f"{size} is not a multiple of {unit_bytes}")
            return None
        return cls(np.dtype(f"{cls.v2_kinds}{size // unit_bytes}"))

    def to_json(self, zarr_format: ZarrFormat) -> JSON:
        if zarr_format == 2:
            return self.numpy.str
        return {"name": self.name, "configuration": {"length_bytes": self.item_bytes}}

    def fill_from_json(
        self, value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems
    ) -> bytes | None:
        if zarr_format == 2 and is_integer(value) and value == 0:
            problems.tolerate(loc, f"the fill value of {self.numpy.str} is written as 0")
            return self.default_fill()
        if not isinstance(value, str):
            problems.add(loc, f"{describe(value)} is not {self.expected}", "wrong_type")
            return None
        return self._fill_from_string(value, loc, problems)

    def _fill_from_string(self, value: str, loc: str, problems: Problems) -> bytes | None:
        raise NotImplementedError

    def cast_fill(self, value: Any) -> bytes:
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        # `zeros` passes the integer 0.
        if not isinstance(value, str | bytes | bytearray | memoryview | np.generic) and value == 0:
            return self.default_fill()
        return self._item(value)

    def _item(self, value: Any) -> bytes:
        raise NotImplementedError


@register
class FixedText(_Fixed):
    """Text of a limited number of code points, four bytes each.

    Examples
    --------
    >>> FixedText(np.dtype("<U2")).to_json(3)
    {'name': 'fixed_length_utf32', 'configuration': {'length_bytes': 8}}
    """

    __slots__ = ()
    v3_names = ("fixed_length_utf32",)
    v2_kinds = "U"
    expected = "a string"

    def _fill_from_string(self, value: str, loc: str, problems: Problems) -> bytes | None:
        try:
            return self._item(value)
        except ValueError as error:
            problems.add(loc, str(error))
            return None

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        return str(np.frombuffer(fill, dtype=self.numpy)[0])

    def _item(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is not text")
        capacity = self.item_bytes // 4
        if len(value) > capacity:
            raise ValueError(
                f"{describe(value)} has {len(value)} code points, at most {capacity} fit"
            )
        return np.array(value, dtype=self.numpy).tobytes()


@register
class FixedBytes(_Fixed):
    """Bytes of a limited number.

    Examples
    --------
    >>> FixedBytes(np.dtype("S3")).to_json(3)
    {'name': 'null_terminated_bytes', 'configuration': {'length_bytes': 3}}
    """

    __slots__ = ()
    v3_names = ("null_terminated_bytes",)
    v2_kinds = "S"
    expected = "a base64 string"

    def _fill_from_string(self, value: str, loc: str, problems: Problems) -> bytes | None:
        if len(value) == 1 and value.isascii() and self.item_bytes == 1:
            # netCDF writes characters so. A longer text may be base64 by chance.
            problems.tolerate(loc, f"{describe(value)} is no base64, taken for the byte")
            return value.encode()
        return from_base64(value, self.item_bytes, loc, problems, pad=True)

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        # Without padding, which zarr-python treats as part of the value in format 3.
        return to_base64(fill if zarr_format == 2 else fill.rstrip(b"\0"))

    def _item(self, value: Any) -> bytes:
        if isinstance(value, str) and value.isascii():
            value = value.encode()
        if not isinstance(value, bytes | bytearray | memoryview):
            raise ValueError(f"{value!r} is not bytes")
        item = bytes(value)
        if len(item) > self.item_bytes:
            raise ValueError(f"{len(item)} bytes, at most {self.item_bytes} fit")
        return item.ljust(self.item_bytes, b"\0")
