"""Readers of JSON: of the members of objects, and of constraints.

Errors name the member, or the JSON path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import index
from typing import Any, Final, TypeVar

import numpy as np

from tessarr._engine import as_bool
from tessarr._safe_repr import safe_repr, to_printable, truncate
from tessarr.errors import ArgumentError, NotJSONError, TooLargeError
from tessarr.format.json import MAX_DEPTH
from tessarr.format.validation import Problems
from tessarr.index_space.intervals import MAX_RANK

__all__ = [
    "as_bool",
    "as_float",
    "as_integer",
    "as_json",
    "boolean",
    "check_class",
    "check_equal",
    "check_integers",
    "check_known",
    "choice",
    "convert_to_json",
    "drop_absent",
    "error_class",
    "expected_error",
    "integer",
    "json_conflict",
    "lengths",
    "member_error",
    "missing_member",
    "normalize_json",
    "number",
    "one_of",
    "raise_problems",
    "read_items",
    "read_members",
    "read_object",
    "refuse_unknown",
    "take_member",
    "text",
    "to_plain_json",
    "unsigned",
    "without_fractions",
]


def expected_error(what: str, received: Any, member: str | None = None) -> ArgumentError:
    """Return the error for an unexpected value of a JSON member, whether it is JSON or not."""
    error = error_class(received)(f"Expected {what}, but received: {as_json(received)}")
    return error if member is None else member_error(member, error)


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


def missing_member(name: str, what: str) -> ArgumentError:
    """Return the error for a missing required member."""
    return member_error(name, ArgumentError(f"Expected {what}, but member is missing"))


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


def unsigned(low: int, what: str, high: int = 2**64 - 1) -> Callable[[Any], int]:
    """Return a reader of integers from `low` to `high`."""

    def read(value: Any) -> int:
        whole = type(value) is int or (type(value) is float and value.is_integer())
        if not whole or not low <= value <= high:
            raise expected_error(what, value)
        return int(value)

    return read


def boolean(value: Any, member: str | None = None) -> bool:
    """Validate and return a boolean."""
    if type(value) is not bool:
        raise expected_error("boolean", value, member)
    return value


def text(value: Any, member: str | None = None) -> str:
    """Validate and return a string that UTF-8 can encode."""
    if not isinstance(value, str):
        raise expected_error("string", value, member)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise expected_error("string of UTF-8", value, member) from None
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


def check_integers(json: Any) -> None:
    """Raise an error if JSON contains an integer of more than 64 bits.

    Raises
    ------
    TooLargeError
        If an integer has more than 64 bits.
    """
    left: list[tuple[Any, tuple[Any, ...]]] = [(json, ())]  # values with their paths
    while left:
        value, path = left.pop()
        items: Iterable[tuple[Any, Any]] = ()
        if isinstance(value, int) and not -(2**63) <= value < 2**64:
            place = truncate("".join(f"/{name}" for name in path))
            message = f"Expected integers of at most 64 bits, but received: {safe_repr(value)}"
            raise TooLargeError(f"{place}: {message}" if place else message)
        if isinstance(value, dict):
            items = value.items()
        elif isinstance(value, list | tuple):
            items = enumerate(value)
        if len(path) < _MAX_PATH:
            left += [(item, (*path, name)) for name, item in items]


T = TypeVar("T")
_MOST: Final = 2**63 - 1
_MAX_PATH: Final = 100  # the depth of the search for large integers
_SCALARS: Final = frozenset({bool, int, float, str})


def to_plain_json(value: Any) -> Any:
    """Convert a Tessarr or NumPy object to JSON; return other values unchanged."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    to_json = getattr(value, "to_json", None)
    return value if to_json is None else to_json()


def read_object(value: Any, what: str) -> dict[str, Any]:
    """Return the members of a JSON object."""
    value = to_plain_json(value)
    if not isinstance(value, Mapping):
        raise error_class(value)(f"{what}: {safe_repr(value)} is not an object")
    if not all(isinstance(name, str) for name in value):
        raise ArgumentError(f"{what}: the names of members are strings")
    return dict(value)


def check_known(keywords: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Raise an error for unknown keywords.

    Raises
    ------
    TypeError
        If a keyword is unknown.
    """
    if not keywords.keys() <= known.keys():
        raise TypeError(f"unknown keywords {join_names(keywords.keys() - known.keys())}")


def join_names(names: Iterable[str]) -> str:
    """Return names as a list for messages."""
    return truncate(", ".join(map(safe_repr, sorted(names))))


def drop_absent(keywords: Mapping[str, Any], known: type[Any]) -> dict[str, Any]:
    """Return the keywords that are not None.

    Raises
    ------
    TypeError
        If a keyword is unknown.
    """
    check_known(keywords, known.__annotations__)
    return {name: value for name, value in keywords.items() if value is not None}


def json_conflict(keywords: Mapping[str, Any]) -> TypeError:
    """Return the error for keywords in addition to JSON."""
    return TypeError(f"json describes all constraints: pass no {', '.join(keywords)} with it")


def check_class(value: T | None, kind: type[T], name: str) -> T | None:
    """Return `value` if it is None or an instance of `kind`.

    Raises
    ------
    TypeError
        If `value` has another class.
    """
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name}: {safe_repr(value)} is not a {kind.__name__}")
    return value


def refuse_unknown(members: Mapping[str, Any], what: str = "") -> None:
    """Raise an error if members remain after parsing."""
    if members:
        raise ArgumentError(f"{what}{': ' if what else ''}unknown members {join_names(members)}")


def take_member(members: dict[str, Any], name: str, read: Callable[[Any, str], T]) -> T | None:
    """Remove a member and return its converted value; None if it is absent."""
    return read(members.pop(name), name) if name in members else None


def as_integer(value: Any) -> int:
    """Convert a number to an integer.

    Raises
    ------
    TypeError
        If the number is not an integer.
    """
    if type(value) is int:
        return value
    if isinstance(value, np.floating):
        value = value.item()
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise TypeError(f"{safe_repr(value)} is not an integer")
    return int(value) if isinstance(value, float) else index(value)


def as_float(value: Any, what: str) -> float:
    """Convert a number to a float.

    Raises
    ------
    TypeError
        If `value` is not a number.
    TooLargeError
        If `value` exceeds the range of floats.
    """
    if isinstance(value, (str, bytes)):
        raise TypeError(f"{what}: {safe_repr(value)} is not a number")
    try:
        return float(value)
    except OverflowError:
        raise TooLargeError(f"{what}: {safe_repr(value)} is beyond all floats") from None


def integer(low: int, high: int = _MOST) -> Callable[[Any, str], int]:
    """Return a reader of integers from `low` to `high`."""

    def read(value: Any, what: str) -> int:
        try:
            result = as_integer(value)
        except (TypeError, AttributeError, ValueError, OverflowError):
            result = low - 1
        if not low <= result <= high:
            raise error_class(value)(
                f"{what}: {safe_repr(value)} is not an integer from {low} to {high}"
            )
        return result

    return read


def choice(*allowed: Any) -> Callable[[Any, str], Any]:
    """Return a reader that accepts some values; a float such as 3.0 matches the integer 3."""

    def read(value: Any, what: str) -> Any:
        for one in allowed:
            alike = type(one) is type(value) or (type(one), type(value)) == (int, float)
            if alike and one == value:
                return one
        raise error_class(value)(
            f"{what}: {safe_repr(value)} is not one of {', '.join(map(repr, allowed))}"
        )

    return read


def read_items(value: Any, what: str) -> list[Any]:
    """Return the items of a list or another iterable."""
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise error_class(value)(f"{what}: {safe_repr(value)} is not a list")
    return list(value)


def lengths(low: int) -> Callable[[Any, str], tuple[int, ...]]:
    """Return a reader of lists of integers that are at least `low`."""

    def read(value: Any, what: str) -> tuple[int, ...]:
        one, result = integer(low), read_items(value, what)
        if len(result) > MAX_RANK:
            raise ArgumentError(
                f"{what}: {len(result)} dimensions, at most {MAX_RANK} are possible"
            )
        return tuple(one(item, f"{what}/{k}") for k, item in enumerate(result))

    return read


def raise_problems(problems: Problems) -> None:
    """Raise an error if `problems` is not empty."""
    if problems.found:
        raise ArgumentError(problems.join_messages("; "))


def check_equal(what: str, wanted: Any, found: Any) -> None:
    """Raise an error if `found` differs from `wanted`; None matches every value."""
    if wanted is not None and wanted != found:
        wanted, found = (list(v) if isinstance(v, tuple) else v for v in (wanted, found))
        raise ArgumentError(
            f"{what}: expected {safe_repr(wanted)}, but received {safe_repr(found)}"
        )


def without_fractions(json: Any) -> Any:
    """Return a copy of JSON in which integers replace floats without a fraction."""
    if isinstance(json, dict):
        return {name: without_fractions(value) for name, value in json.items()}
    if isinstance(json, list):
        return [*map(without_fractions, json)]
    return int(json) if isinstance(json, float) and json.is_integer() else json


def normalize_json(value: Any, what: str, depth: int = 0) -> Any:
    """Return a copy of a value as plain JSON, with lists instead of tuples."""
    if depth > MAX_DEPTH:
        raise ArgumentError(f"{what}: more than {MAX_DEPTH} levels")
    if value is None or type(value) in _SCALARS:
        return value
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise ArgumentError(f"{what}: the names of members are strings")
        return {name: normalize_json(item, what, depth + 1) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [normalize_json(item, what, depth + 1) for item in value]
    result = to_plain_json(value)
    if result is value:
        result = convert_to_json(value)
        if result is None:
            raise NotJSONError(f"{what}: {safe_repr(value)} is not JSON")
    return normalize_json(result, what, depth + 1)
