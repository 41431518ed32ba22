"""Booleans: one byte, 0 or 1 (Zarr core 3.1 "Core data types")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.dtype.base import DataType, register
from tessarr.format.validation import describe, is_integer, read_text

if TYPE_CHECKING:
    from tessarr.format.validation import Members, Problems
    from tessarr.types import JSON, ZarrFormat

__all__ = ["Boolean"]


@register
class Boolean(DataType):
    r"""True and false.

    Examples
    --------
    >>> Boolean(np.dtype(bool)).cast_fill(True)
    b'\x01'
    """

    __slots__ = ()
    v3_names = ("bool",)
    v2_kinds = "b"

    @property
    def name(self) -> str:
        return "bool"

    @classmethod
    def from_v3(cls, name: str, configuration: Members) -> Boolean | None:
        configuration.done()
        return cls(np.dtype(np.bool_))

    def fill_from_json(
        self,
        value: Any,
        zarr_format: ZarrFormat,
        loc: str,
        problems: Problems,
    ) -> bytes | None:
        value = read_text(value, "boolean", loc, problems)
        if isinstance(value, bool):
            return b"\x01" if value else b"\0"
        if is_integer(value) and value in (0, 1):
            problems.tolerate(loc, f"a boolean fill value is written as {value}")
            return bytes([value])
        problems.add(loc, f"{describe(value)} is not true or false", "wrong_type")
        return None

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        return fill != b"\0"

    def cast_fill(self, value: Any) -> bytes:
        if isinstance(value, bool | np.bool_):
            return bytes([bool(value)])
        if isinstance(value, int | float | np.number) and value in (0, 1):
            return bytes([int(value)])
        raise ValueError(f"{value!r} is not a boolean")
