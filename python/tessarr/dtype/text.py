"""Text and bytes of at most a fixed length, ended by NULs.

``<U…`` and ``|S…`` of format 2 (Zarr specification 2), ``fixed_length_utf32`` (Zarr extensions,
data-types/fixed_length_utf32) and ``null_terminated_bytes`` (which zarr-python writes) of format 3.
NULs at the end of an item are padding, and no part of its value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tessarr.dtype.base import MAX_ITEM_BYTES, DataType, register
from tessarr.dtype.packed import from_base64, to_base64
from tessarr.problems import describe, is_integer

if TYPE_CHECKING:
    from tessarr.problems import Members, Problems
    from tessarr.types import JSON, ZarrFormat

__all__ = ["FixedBytes", "FixedText"]


@register
class FixedText(DataType):
    """Text of at most a fixed number of code points, four bytes each.

    Examples
    --------
    >>> FixedText(np.dtype("<U2")).to_json(3)
    {'name': 'fixed_length_utf32', 'configuration': {'length_bytes': 8}}
    """

    __slots__ = ()
    v3_names = ("fixed_length_utf32",)
    v2_kinds = "U"

    @property
    def name(self) -> str:
        return "fixed_length_utf32"

    @property
    def unit_bytes(self) -> int:
        return 4

    @classmethod
    def from_v3(cls, name: str, configuration: Members) -> Self | None:
        size = configuration.integer("length_bytes", 4, MAX_ITEM_BYTES)
        configuration.done()
        if size is None:
            return None
        if size % 4:
            at = configuration.at("length_bytes")
            configuration.problems.add(at, f"{size} is not a multiple of 4")
            return None
        return cls(np.dtype(f"U{size // 4}"))

    def to_json(self, zarr_format: ZarrFormat) -> JSON:
        return self.numpy.str if zarr_format == 2 else _with_length(self)

    def fill_from_json(
        self, value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems
    ) -> bytes | None:
        if zarr_format == 2 and is_integer(value) and value == 0:
            problems.tolerate(loc, f"the fill value of {self.numpy.str} is written as 0")
            return self.default_fill()
        if not isinstance(value, str):
            problems.add(loc, f"{describe(value)} is not a string", "wrong_type")
            return None
        try:
            return self.cast_fill(value)
        except ValueError as error:
            problems.add(loc, str(error))
            return None

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        return str(np.frombuffer(fill, dtype=self.numpy)[0])

    def cast_fill(self, value: Any) -> bytes:
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        if not isinstance(value, str):
            if not isinstance(value, np.generic) and value == 0:
                return self.default_fill()  # as `zeros` asks for it
            raise ValueError(f"{value!r} is not text")
        most = self.item_bytes // 4
        if len(value) > most:
            raise ValueError(f"{describe(value)} has {len(value)} code points, at most {most} fit")
        return np.array(value, dtype=self.numpy).tobytes()


@register
class FixedBytes(DataType):
    """Bytes of at most a fixed number.

    Examples
    --------
    >>> FixedBytes(np.dtype("S3")).to_json(3)
    {'name': 'null_terminated_bytes', 'configuration': {'length_bytes': 3}}
    """

    __slots__ = ()
    v3_names = ("null_terminated_bytes",)
    v2_kinds = "S"

    @property
    def name(self) -> str:
        return "null_terminated_bytes"

    @property
    def unit_bytes(self) -> int:
        return 1

    @classmethod
    def from_v3(cls, name: str, configuration: Members) -> Self | None:
        size = configuration.integer("length_bytes", 1, MAX_ITEM_BYTES)
        configuration.done()
        return None if size is None else cls(np.dtype(f"S{size}"))

    def to_json(self, zarr_format: ZarrFormat) -> JSON:
        return self.numpy.str if zarr_format == 2 else _with_length(self)

    def fill_from_json(
        self, value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems
    ) -> bytes | None:
        if zarr_format == 2 and is_integer(value) and value == 0:
            problems.tolerate(loc, f"the fill value of {self.numpy.str} is written as 0")
            return self.default_fill()
        if not isinstance(value, str):
            problems.add(loc, f"{describe(value)} is not a base64 string", "wrong_type")
            return None
        return from_base64(value, self.item_bytes, loc, problems, pad=True)

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        # Not padded, zarr-python would take it for a longer one in format 3.
        return to_base64(fill if zarr_format == 2 else fill.rstrip(b"\0"))

    def cast_fill(self, value: Any) -> bytes:
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value[()]
        if isinstance(value, str) and value.isascii():
            value = value.encode()
        if not isinstance(value, bytes | bytearray | memoryview):
            if not isinstance(value, np.generic) and value == 0:
                return self.default_fill()
            raise ValueError(f"{value!r} is not bytes")
        item = bytes(value)
        if len(item) > self.item_bytes:
            raise ValueError(f"{len(item)} bytes, at most {self.item_bytes} fit")
        return item.ljust(self.item_bytes, b"\0")


def _with_length(data_type: DataType) -> JSON:
    return {"name": data_type.name, "configuration": {"length_bytes": data_type.item_bytes}}
