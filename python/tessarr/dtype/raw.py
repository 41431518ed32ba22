"""Opaque items of fixed size: ``r<N>`` of format 3 and ``|V<n>`` of format 2.

zarr-python calls them ``raw_bytes`` in format 3 and writes fill values in base64. A type that was
read under this name is written under this name again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from tessarr.dtype.base import MAX_ITEM_BYTES, DataType, from_base64, register, to_base64
from tessarr.format.validation import describe, is_integer, pointer

if TYPE_CHECKING:
    from tessarr.format.validation import Members, Problems
    from tessarr.types import JSON, ZarrFormat

__all__ = ["RAW_NAME", "Raw"]

RAW_NAME: Final = re.compile("r([1-9][0-9]{0,9})")
"""The names of the family in format 3, with the number of bits, a multiple of 8."""


@register
@dataclass(frozen=True, slots=True)
class Raw(DataType):
    """Opaque items of one or more bytes.

    Parameters
    ----------
    numpy : numpy.dtype
        The dtype of results.
    unregistered : bool
        Whether it has zarr-python's name in format 3.

    Examples
    --------
    >>> Raw(np.dtype("V2")).name
    'r16'
    """

    v3_names = ("raw_bytes",)
    v2_kinds = "V"

    unregistered: bool = False

    @property
    def name(self) -> str:
        return "raw_bytes" if self.unregistered else f"r{self.numpy.itemsize * 8}"

    @property
    def unit_bytes(self) -> int:
        return 1

    @classmethod
    def from_v3(cls, name: str, configuration: Members) -> Self | None:
        if name == "raw_bytes":
            size = configuration.integer("length_bytes", 1, MAX_ITEM_BYTES)
            configuration.done()
            return None if size is None else cls(np.dtype(f"V{size}"), unregistered=True)
        match = RAW_NAME.fullmatch(name)
        bits = int(match.group(1)) if match else 0
        if bits == 0 or bits % 8 or bits // 8 > MAX_ITEM_BYTES:
            expected = "'r' and a positive multiple of 8"
            configuration.problems.add(configuration.loc, f"{describe(name)} is not {expected}")
            return None
        configuration.done()
        return cls(np.dtype(f"V{bits // 8}"))

    def to_json(self, zarr_format: ZarrFormat) -> JSON:
        if zarr_format == 2:
            return self.numpy.str
        if self.unregistered:
            return {"name": self.name, "configuration": {"length_bytes": self.item_bytes}}
        return self.name

    def fill_from_json(
        self, value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems
    ) -> bytes | None:
        if zarr_format == 3 and isinstance(value, list):
            return self._from_list(value, loc, problems)
        if isinstance(value, str):
            fill = from_base64(value, self.item_bytes, loc, problems)
            if zarr_format == 3 and fill is not None and not self.unregistered:
                problems.tolerate(loc, f"the fill value of {self.name} is written as base64")
            return fill
        if zarr_format == 2 and is_integer(value) and value == 0:
            problems.tolerate(loc, f"the fill value of {self.numpy.str} is written as 0")
            return bytes(self.item_bytes)
        expected = "a base64 string" if zarr_format == 2 else "a list of bytes"
        problems.add(loc, f"{describe(value)} is not {expected}", "wrong_type")
        return None

    def _from_list(self, value: list[Any], loc: str, problems: Problems) -> bytes | None:
        before = len(problems)
        if len(value) != self.item_bytes:
            problems.add(loc, f"{len(value)} bytes instead of {self.item_bytes}")
        for i, item in enumerate(value):
            if not is_integer(item) or not 0 <= item <= 255:
                problems.add(pointer(loc, i), f"{describe(item)} is not an integer of 0 to 255")
        return bytes(value) if len(problems) == before else None

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        return to_base64(fill) if zarr_format == 2 or self.unregistered else list(fill)

    def cast_fill(self, value: Any) -> bytes:
        if isinstance(value, np.ndarray | np.void):
            value = value.tobytes()
        if isinstance(value, int) and value == 0:
            return self.default_fill()
        if isinstance(value, list | tuple):
            value = bytes(value)
        if not isinstance(value, bytes | bytearray | memoryview):
            raise ValueError(f"{value!r} is not bytes")
        if len(value) > self.item_bytes:
            raise ValueError(f"{len(value)} bytes do not fit in {self.item_bytes}")
        return bytes(value).ljust(self.item_bytes, b"\0")
