"""Readers for JSON of constraints; errors are an `ArgumentError` with a JSON path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import index
from typing import Any, Final, TypeVar

import numpy as np

from tessarr._engine import as_bool
from tessarr._safe_repr import safe_repr, truncate
from tessarr.errors import ArgumentError, NotJSONError, TooLargeError
from tessarr.format.json import MAX_DEPTH
from tessarr.format.validation import Problems
from tessarr.index_space.intervals import MAX_RANK
from tessarr.tensorstore.json.object_members import boolean as read_boolean
from tessarr.tensorstore.json.object_members import convert_to_json, error_class, member_error
from tessarr.tensorstore.json.object_members import text as read_text

__all__ = [
    "as_bool",
    "as_float",
    "as_integer",
    "boolean",
    "check_class",
    "check_equal",
    "check_known",
    "choice",
    "copy_json",
    "drop_absent",
    "integer",
    "join_names",
    "json_conflict",
    "lengths",
    "normalize_json",
    "raise_problems",
    "read_items",
    "read_object",
    "refuse_unknown",
    "take_member",
    "text",
    "to_plain_json",
    "without_fractions",
]

T = TypeVar("T")
_MOST: Final = 2**63 - 1
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
    return TypeError(f"JSON says all: give no {', '.join(keywords)} beside it")


def check_class(value: T | None, kind: type[T], name: str) -> T | None:
    """Return `value` if it is None or an instance of `kind`.

    Raises
    ------
    TypeError
        If `value` has another class.
    """
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{name}: {safe_repr(value)} is no {kind.__name__}")
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


def _with_member_name(read: Callable[[Any], T]) -> Callable[[Any, str], T]:
    """Return a reader that adds the name of the member to errors."""

    def named(value: Any, what: str) -> T:
        try:
            return read(value)
        except ArgumentError as error:
            raise member_error(what, error) from None

    return named


boolean: Final = _with_member_name(read_boolean)
text: Final = _with_member_name(read_text)


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
        raise ArgumentError(f"{what}: {safe_repr(wanted)} is expected, there is {safe_repr(found)}")


def without_fractions(json: Any) -> Any:
    """Return a copy of JSON in which integers replace floats without a fraction."""
    if isinstance(json, dict):
        return {name: without_fractions(value) for name, value in json.items()}
    if isinstance(json, list):
        return [*map(without_fractions, json)]
    return int(json) if isinstance(json, float) and json.is_integer() else json


def copy_json(json: Any) -> Any:
    """Return a deep copy of JSON."""
    if isinstance(json, dict):
        return {name: copy_json(value) for name, value in json.items()}
    return [*map(copy_json, json)] if isinstance(json, list) else json


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
