"""What names dimensions: numbers, labels, and ranges of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from tessarr._engine import text_of
from tessarr._safe_repr import safe_repr

__all__ = ["LEAST", "MOST", "Name", "integer", "label", "names_of"]

Name: TypeAlias = "int | str | slice"

_LISTS: Final = frozenset({tuple, list})
LEAST: Final = -(2**63)
MOST: Final = 2**63 - 1
_DEEPEST: Final = 100


def names_of(selection: Any, depth: int = 0) -> tuple[Name, ...]:
    """Return what names dimensions, each for itself.

    Raises
    ------
    TypeError
        If something does not name dimensions.

    Examples
    --------
    >>> names_of([0, ["x", range(2, 4)]])
    (0, 'x', 2, 3)
    """
    if type(selection) in _LISTS:
        for name in selection:
            if type(name) is int:
                if not LEAST <= name <= MOST:
                    integer(name)  # is not
            elif type(name) is not str:
                break
        else:
            return tuple(selection)
    if type(selection) is str:
        return (selection,)
    if isinstance(selection, (str, bytes)):
        return (label(selection),)
    if hasattr(selection, "__index__"):
        return (integer(selection),)
    if isinstance(selection, slice):
        ends = (selection.start, selection.stop, selection.step)
        return (slice(*(None if end is None else _end(end) for end in ends)),)
    named = getattr(selection, "_named", None)  # of a selection that begins an expression
    if named is not None:
        return tuple(named)
    iterable = isinstance(selection, Iterable) and not hasattr(selection, "_apply_to")
    if not iterable or depth > _DEEPEST:
        raise TypeError(f"{safe_repr(selection)} does not name dimensions")
    return tuple(name for part in selection for name in names_of(part, depth + 1))


def label(value: Any) -> str:
    """Return text, or its UTF-8, as a label.

    Raises
    ------
    TypeError
        If it is neither.
    ArgumentError
        If it is no UTF-8.
    """
    if not isinstance(value, (str, bytes)):
        raise TypeError(f"labels are strings: not {safe_repr(value)}")
    return text_of(value, "a label")


def integer(value: Any) -> int:
    """Return a value as an integer of 64 bits.

    Raises
    ------
    TypeError
        If it is none.
    """
    found = value if type(value) is int else _whole(value)
    if not LEAST <= found <= MOST:
        raise TypeError(f"{safe_repr(value)} is not an integer of 64 bits")
    return found


def _end(value: Any) -> int:
    """Return what a range of dimensions says: what is beyond 64 bits is beyond all dimensions."""
    return min(max(_whole(value), -MOST), MOST)


def _whole(value: Any) -> int:
    try:
        return int(value.__index__())
    except AttributeError:
        raise TypeError(f"{safe_repr(value)} is not an integer") from None
