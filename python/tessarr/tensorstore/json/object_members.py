"""Readers for members of JSON objects; errors name the member."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import index
from typing import Any

from tessarr._safe_repr import safe_repr, to_printable, truncate
from tessarr.errors import ArgumentError, NotJSONError

__all__ = [
    "as_json",
    "boolean",
    "convert_to_json",
    "error_class",
    "expected_error",
    "integer",
    "member_error",
    "number",
    "one_of",
    "read_members",
    "text",
]


def expected_error(what: str, received: Any) -> ArgumentError:
    """Return the error for an unexpected value, whether it is JSON or not."""
    return error_class(received)(f"Expected {what}, but received: {as_json(received)}")


def as_json(value: Any) -> str:
    r"""Return the JSON of a value for messages, truncated and printable.

    Examples
    --------
    >>> print(as_json({"a": [None, "b\ud800"]}), as_json(["c" * 10**6])[-5:])
    {"a": [null, "b\ud800"]} cccc…
    """
    from json import JSONEncoder

    try:
        return to_printable(JSONEncoder(ensure_ascii=False, default=safe_repr).iterencode(value))
    except (TypeError, ValueError, RecursionError):
        return safe_repr(value)


def convert_to_json(value: Any) -> Any:
    """Return the text, number or list that an object converts to, or None.

    Bytes do not convert, because they could become either text or a list of numbers.

    Examples
    --------
    >>> from fractions import Fraction
    >>> convert_to_json(range(3)), convert_to_json(Fraction(1, 2)), convert_to_json(b"ab")
    ([0, 1, 2], 0.5, None)
    """
    kind = type(value)
    if isinstance(value, str):
        return str.__str__(value)  # a plain string, also of a subclass
    if hasattr(kind, "__index__"):
        return index(value)
    if hasattr(kind, "__float__"):
        return float(value)
    if isinstance(value, (bytes, bytearray, memoryview, Mapping)):
        return None
    if hasattr(kind, "__len__") and hasattr(kind, "__getitem__"):
        return list(value)
    return None


def member_error(member: str, error: ArgumentError) -> ArgumentError:
    """Return an error that names the JSON member."""
    return type(error)(f"Error parsing object member {as_json(member)}: {error}")


def error_class(value: Any) -> type[ArgumentError]:
    """Return the error class for a value: `NotJSONError`, a TypeError, if it is not JSON."""
    plain = value is None or isinstance(value, (bool, int, float, str, list, tuple, dict))
    return ArgumentError if plain else NotJSONError


def read_members(value: Any, known: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """Return the members of a JSON object, each converted by its reader in `known`.

    Raises
    ------
    ArgumentError
        If `value` is not an object or has unknown members.
    """
    if not isinstance(value, dict):
        raise expected_error("object", value)
    extra = sorted(as_json(name) for name in value if name not in known)
    if extra:
        raise ArgumentError(f"Object includes extra members: {truncate(', '.join(extra))}")
    members: dict[str, Any] = {}
    for name, read in known.items():
        if name in value:
            try:
                members[name] = read(value[name])
            except ArgumentError as error:
                raise member_error(name, error) from None
    return members


def integer(low: int, what: str, high: int = 2**64 - 1) -> Callable[[Any], int]:
    """Return a reader of integers from `low` to `high`."""

    def read(value: Any) -> int:
        whole = type(value) is int or (type(value) is float and value.is_integer())
        if not whole or not low <= value <= high:
            raise expected_error(what, value)
        return int(value)

    return read


def boolean(value: Any) -> bool:
    """Validate and return a boolean."""
    if type(value) is not bool:
        raise expected_error("boolean", value)
    return value


def text(value: Any) -> str:
    """Validate and return a string that UTF-8 can encode."""
    if not isinstance(value, str):
        raise expected_error("string", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise expected_error("string of UTF-8", value) from None
    return str.__str__(value)


def number(value: Any) -> float:
    """Return a number as a float."""
    if type(value) not in (int, float):
        raise expected_error("64-bit floating-point number", value)
    return float(value)


def one_of(*names: str) -> Callable[[Any], str]:
    """Return a reader that accepts one of several strings."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise expected_error("one of " + ", ".join(f'"{name}"' for name in names), value)
        return value

    return read
