"""Base64 of items: the JSON form of fill values of bytes in format 2."""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING

from tessarr.format.validation import describe

if TYPE_CHECKING:
    from tessarr.format.validation import Problems

__all__ = ["from_base64", "to_base64"]


def from_base64(
    value: str, item_bytes: int, loc: str, problems: Problems, *, pad: bool = False
) -> bytes | None:
    r"""Return the bytes of one item; if invalid, add a problem and return None.

    Parameters
    ----------
    value : str
        The text.
    item_bytes : int
        The bytes of one item.
    loc : str
        The JSON pointer of `value`.
    problems : Problems
        Collects the faults.
    pad : bool
        Whether zeros complete an item that is too short, which is a fault otherwise.

    Examples
    --------
    >>> from tessarr.format.validation import Problems
    >>> from_base64("YWI=", 3, "", Problems(), pad=True)
    b'ab\x00'
    """
    try:
        item = binascii.a2b_base64(value, strict_mode=True)
    except (binascii.Error, ValueError):
        problems.add(loc, f"{describe(value)} is not base64")
        return None
    if len(item) == item_bytes or (pad and len(item) < item_bytes):
        return item.ljust(item_bytes, b"\0")
    problems.add(loc, f"{len(item)} bytes instead of {item_bytes}")
    return None


def to_base64(item: bytes) -> str:
    """Return the base64 of one item.

    Examples
    --------
    >>> to_base64(b"ab")
    'YWI='
    """
    return binascii.b2a_base64(item, newline=False).decode("ascii")
