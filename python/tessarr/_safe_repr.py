"""Bounded, safe representations of user values for messages.

`repr` is not safe for messages. It raises an error for deeply nested values and for integers with
too many digits, it copies text of any length, and it propagates exceptions of the value's methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["safe_repr", "to_printable", "truncate"]

MAX_LENGTH: Final = 200
"""The maximum number of characters of a value in a message."""

_MAX_BITS: Final = 256


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
        return to_printable(_iter_pieces(value))
    except RecursionError:  # the stack was nearly full before the call
        return _describe_type(value)


def to_printable(pieces: Iterable[str]) -> str:
    r"""Return the truncated text of `pieces` with escapes for lone surrogates.

    Examples
    --------
    >>> print(to_printable("/a\ud800"))
    /a\ud800
    """
    return truncate(pieces).encode("utf-8", "backslashreplace").decode()


def truncate(pieces: Iterable[str]) -> str:
    """Join pieces up to the maximum length, without consuming further pieces."""
    text = ""
    for piece in pieces:
        text += piece
        if len(text) > MAX_LENGTH:
            return f"{text[:MAX_LENGTH]}…"
    return text


def _iter_pieces(value: Any) -> Iterator[str]:
    """Yield the text in pieces, so the caller can stop before the end of a large value."""
    kind = type(value)
    if kind is str or kind is bytes:
        yield repr(value[: MAX_LENGTH + 1])
    elif kind is int:
        bits = value.bit_length()
        yield repr(value) if bits <= _MAX_BITS else f"an integer of {bits} bits"
    elif kind is list:
        yield from _iter_sequence("[", value, "]")
    elif kind is tuple:
        yield from _iter_sequence("(", value, ",)" if len(value) == 1 else ")")
    elif kind is slice:
        yield from _iter_sequence("slice(", (value.start, value.stop, value.step), ")")
    elif kind is dict:
        yield "{"
        for k, (name, item) in enumerate(value.items()):
            yield ", " if k else ""
            yield from _iter_pieces(name)
            yield ": "
            yield from _iter_pieces(item)
        yield "}"
    else:
        yield _object_repr(value)


def _iter_sequence(start: str, items: list[Any] | tuple[Any, ...], end: str) -> Iterator[str]:
    yield start
    for k, item in enumerate(items):
        yield ", " if k else ""
        yield from _iter_pieces(item)
    yield end


def _object_repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 (the original error must not be replaced)
        return _describe_type(value)


def _describe_type(value: object) -> str:
    return f"an object of {type(value).__name__!r}"
