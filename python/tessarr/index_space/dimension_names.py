"""Names of dimensions: numbers, labels and ranges of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from tessarr._safe_repr import safe_repr
from tessarr.format.utf8 import as_text

__all__ = ["MAX_INT64", "MIN_INT64", "Name", "as_integer", "as_label", "read_dimensions"]

Name: TypeAlias = "int | str | slice"

_SEQUENCE_TYPES: Final = frozenset({tuple, list})
MIN_INT64: Final = -(2**63)
MAX_INT64: Final = 2**63 - 1
_MAX_DEPTH: Final = 100


def read_dimensions(selection: Any, depth: int = 0) -> tuple[Name, ...]:
    """Return the dimension names of a selection as a flat tuple.

    Raises
    ------
    TypeError
        If an item does not name dimensions.

    Examples
    --------
    >>> read_dimensions([0, ["x", range(2, 4)]])
    (0, 'x', 2, 3)
    """
    if type(selection) in _SEQUENCE_TYPES:
        for name in selection:
            if type(name) is int:
                if not MIN_INT64 <= name <= MAX_INT64:
                    as_integer(name)  # is not
            elif type(name) is not str:
                break
        else:
            return tuple(selection)
    if type(selection) is str:
        return (selection,)
    if isinstance(selection, (str, bytes)):
        return (as_label(selection),)
    if hasattr(selection, "__index__"):
        return (as_integer(selection),)
    if isinstance(selection, slice):
        ends = (selection.start, selection.stop, selection.step)
        return (slice(*(None if end is None else _read_slice_bound(end) for end in ends)),)
    named = getattr(selection, "_named", None)  # a `DimSelection`
    if named is not None:
        return tuple(named)
    iterable = isinstance(selection, Iterable) and not hasattr(selection, "_apply_to")
    if not iterable or depth > _MAX_DEPTH:
        raise TypeError(f"{safe_repr(selection)} does not name dimensions")
    return tuple(name for part in selection for name in read_dimensions(part, depth + 1))


def as_label(value: Any) -> str:
    """Return text, or its UTF-8, as a label.

    Raises
    ------
    TypeError
        If the value is neither.
    ArgumentError
        If the bytes are not UTF-8.
    """
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"labels are strings: not {safe_repr(value)}")
    return as_text(value, "a label")


def as_integer(value: Any) -> int:
    """Return a value as an integer of 64 bits.

    Raises
    ------
    TypeError
        If the value is not such an integer.
    """
    number = value if type(value) is int else _as_int(value)
    if not MIN_INT64 <= number <= MAX_INT64:
        raise TypeError(f"{safe_repr(value)} is not an integer of 64 bits")
    return number


def _read_slice_bound(value: Any) -> int:
    """Return a bound of a range of dimensions, clipped to 64 bits."""
    return min(max(_as_int(value), -MAX_INT64), MAX_INT64)


def _as_int(value: Any) -> int:
    try:
        return int(value.__index__())
    except AttributeError:
        raise TypeError(f"{safe_repr(value)} is not an integer") from None
