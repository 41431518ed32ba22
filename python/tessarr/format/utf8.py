"""Conversion of text and bytes arguments to UTF-8 and back."""

from __future__ import annotations

from typing import Any

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError

__all__ = ["as_bytes", "as_text"]


def as_bytes(value: Any, what: str) -> bytes:
    r"""Return the UTF-8 bytes of a string, or bytes. Errors call the value `what`.

    Raises
    ------
    TypeError
        If the value is neither.
    ArgumentError
        If UTF-8 cannot encode the string.

    Examples
    --------
    >>> as_bytes("ä", "a key"), as_bytes(b"a", "a key")
    (b'\xc3\xa4', b'a')
    """
    if isinstance(value, str):
        try:
            return value.encode("utf-8", "surrogateescape")
        except UnicodeError:
            raise ArgumentError(f"{what} has to be UTF-8: {safe_repr(value)}") from None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{what} is text or bytes, not {safe_repr(value)}")


def as_text(value: Any, what: str = "a path") -> str:
    """Return a string, or the string of UTF-8 bytes. Errors call the value `what`.

    Raises
    ------
    TypeError
        If the value is neither a string nor bytes.
    ArgumentError
        If the value is not UTF-8.

    Examples
    --------
    >>> as_text("a"), as_text(b"a")
    ('a', 'a')
    """
    try:
        return as_bytes(value, what).decode()
    except UnicodeDecodeError:
        raise ArgumentError(f"{what} has to be UTF-8: {safe_repr(value)}") from None
