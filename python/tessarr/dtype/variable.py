"""Text and bytes of any length.

The types are ``string`` and ``bytes`` of format 3 (Zarr extensions, data-types/string and
data-types/bytes), and ``|O`` of format 2 with the filters ``vlen-utf8`` and ``vlen-bytes``. An
item is the UTF-8 of a text, or the bytes themselves.
"""

from __future__ import annotations

import binascii
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import numpy as np

from tessarr.dtype.base import OBJECT, DataType, register
from tessarr.format.validation import describe, is_integer, pointer

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.format.validation import Members, Problems
    from tessarr.types import JSON, ZarrFormat

__all__ = ["Text", "VariableBytes"]

_STRING_DTYPE: Final[Callable[[], np.dtype[Any]] | None] = getattr(np.dtypes, "StringDType", None)


@register
@dataclass(frozen=True, slots=True)
class Text(DataType):
    r"""Text of any length.

    Results are arrays of NumPy's ``StringDType`` in format 3 (of ``str`` objects before NumPy 2),
    and arrays of ``str`` objects in format 2. The option ``text`` overrides this.

    Examples
    --------
    >>> Text().to_json(3), Text().to_json(2), Text().cast_fill("é")
    ('string', '|O', b'\xc3\xa9')
    """

    v3_names = ("string",)
    v2_kinds = "T"
    elements = "text"

    numpy: np.dtype[Any] = OBJECT

    @property
    def name(self) -> str:
        return "string"

    @classmethod
    def from_v3(cls, name: str, configuration: Members) -> Text | None:
        configuration.done()
        return cls().in_format(3)

    def ordered(self, order: Literal["native", "little", "big"]) -> Self:
        return self

    @classmethod
    def from_numpy(cls, dtype: np.dtype[Any]) -> Text:
        return cls()  # the missing value of a `StringDType` is not stored

    def in_format(self, zarr_format: ZarrFormat) -> Self:
        modern = zarr_format == 3 and _STRING_DTYPE is not None
        return self.of_kind("string" if modern else "object")

    def of_kind(self, kind: str) -> Self:
        """Return the type with results of ``StringDType`` ("string") or of objects ("object")."""
        if kind == "string" and _STRING_DTYPE is not None:
            return replace(self, numpy=_STRING_DTYPE())
        return replace(self, numpy=OBJECT)

    def fill_from_json(
        self, value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems
    ) -> bytes | None:
        if zarr_format == 2 and is_integer(value) and value == 0:  # zarr-python 2 writes no other
            return b""
        if not isinstance(value, str):
            problems.add(loc, f"{describe(value)} is not a string", "wrong_type")
            return None
        try:
            return value.encode()
        except UnicodeEncodeError:
            problems.add(loc, f"{describe(value)} is not Unicode text")
            return None

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        return fill.decode()

    def cast_fill(self, value: Any) -> bytes:
        value = _unwrap_0d(value)
        if is_integer(value) and value == 0:
            return b""  # `zeros` passes the integer 0
        return self.element(value)

    def element(self, value: Any) -> bytes:
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is not text")
        return value.encode()

    def scalar(self, fill: bytes) -> str:
        return fill.decode()


@register
@dataclass(frozen=True, slots=True)
class VariableBytes(DataType):
    """Bytes of any number.

    Parameters
    ----------
    unregistered : bool
        Whether its name in format 3 is ``variable_length_bytes``, as zarr-python calls it.

    Examples
    --------
    >>> VariableBytes().to_json(3), VariableBytes().fill_to_json(b"ab", 3)
    ('bytes', 'YWI=')
    """

    v3_names = ("bytes", "variable_length_bytes")
    elements = "bytes"

    numpy: np.dtype[Any] = OBJECT
    unregistered: bool = False

    @property
    def name(self) -> str:
        return "variable_length_bytes" if self.unregistered else "bytes"

    @classmethod
    def from_v3(cls, name: str, configuration: Members) -> VariableBytes | None:
        configuration.done()
        return cls(unregistered=name != "bytes")

    def fill_from_json(
        self, value: Any, zarr_format: ZarrFormat, loc: str, problems: Problems
    ) -> bytes | None:
        if zarr_format == 2 and is_integer(value) and value == 0:  # zarr-python 2 writes no other
            return b""
        if isinstance(value, str):
            try:
                return binascii.a2b_base64(value, strict_mode=True)
            except (binascii.Error, ValueError):
                problems.add(loc, f"{describe(value)} is not base64")
                return None
        if zarr_format == 2 or not isinstance(value, list):
            expected = (
                "a base64 string" if zarr_format == 2 else "a base64 string or a list of bytes"
            )
            problems.add(loc, f"{describe(value)} is not {expected}", "wrong_type")
            return None
        before = len(problems)
        for i, item in enumerate(value):
            if not is_integer(item) or not 0 <= item <= 255:
                problems.add(pointer(loc, i), f"{describe(item)} is not an integer of 0 to 255")
        return bytes(value) if len(problems) == before else None

    def fill_to_json(self, fill: bytes, zarr_format: ZarrFormat) -> JSON:
        return binascii.b2a_base64(fill, newline=False).decode("ascii")

    def cast_fill(self, value: Any) -> bytes:
        value = _unwrap_0d(value)
        return b"" if is_integer(value) and value == 0 else self.element(value)

    def element(self, value: Any) -> bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise ValueError(f"{value!r} is not bytes")
        return bytes(value)

    def scalar(self, fill: bytes) -> bytes:
        return fill


def _unwrap_0d(value: Any) -> Any:
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
