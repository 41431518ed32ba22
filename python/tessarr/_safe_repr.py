"""Bounded, safe representations of user values for messages.

`repr` is not safe for messages. It raises an error for deeply nested values and for integers with
too many digits, it copies text of any length, and it propagates exceptions of the value's methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["cut", "printable", "safe_repr"]

ROOM: Final = 200
"""The maximum number of characters of a value in a message."""

_BITS: Final = 256


def safe_repr(value: object) -> str:
    r"""Return the `repr` of a value, truncated and safe to print.

    Examples
    --------
    >>> print(safe_repr({"a": (1, "b\ud800"), "c": 10**5000}))
    {'a': (1, 'b\ud800'), 'c': an integer of 16610 bits}
    >>> safe_repr([0] * 1000) == "[" + "0, " * 66 + "0…"
    True
    """
    try:
        return printable(_pieces(value))
    except RecursionError:  # the stack was nearly full before the call
        return _nameless(value)


def printable(pieces: Iterable[str]) -> str:
    r"""Return the truncated text of `pieces` with escapes for lone surrogates.

    Examples
    --------
    >>> print(printable("/a\ud800"))
    /a\ud800
    """
    return cut(pieces).encode("utf-8", "backslashreplace").decode()


def cut(pieces: Iterable[str]) -> str:
    """Join pieces up to the maximum length, without consuming further pieces."""
    text = ""
    for piece in pieces:
        text += piece
        if len(text) > ROOM:
            return f"{text[:ROOM]}…"
    return text


def _pieces(value: Any) -> Iterator[str]:
    """Yield the text in pieces, so the caller can stop before the end of a large value."""
    kind = type(value)
    if kind is str or kind is bytes:
        yield repr(value[: ROOM + 1])
    elif kind is int:
        bits = value.bit_length()
        yield repr(value) if bits <= _BITS else f"an integer of {bits} bits"
    elif kind is list:
        yield from _between("[", value, "]")
    elif kind is tuple:
        yield from _between("(", value, ",)" if len(value) == 1 else ")")
    elif kind is slice:
        yield from _between("slice(", (value.start, value.stop, value.step), ")")
    elif kind is dict:
        yield "{"
        for k, (name, item) in enumerate(value.items()):
            yield ", " if k else ""
            yield from _pieces(name)
            yield ": "
            yield from _pieces(item)
        yield "}"
    else:
        yield _other(value)


def _between(start: str, items: list[Any] | tuple[Any, ...], end: str) -> Iterator[str]:
    yield start
    for k, item in enumerate(items):
        yield ", " if k else ""
        yield from _pieces(item)
    yield end


def _other(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 (the original error must not be replaced)
        return _nameless(value)


def _nameless(value: object) -> str:
    return f"an object of {type(value).__name__!r}"
