"""Which dimensions are meant: by number, by label, or by a range of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tessarr.errors import SelectionError
from tessarr.space.domain import Box

__all__ = ["chosen", "numbers", "place", "place_of"]


def chosen(selection: Any, dims: Box) -> list[int]:
    """Return the numbers of the dimensions that a selection names.

    Raises
    ------
    SelectionError
        If there is no such dimension, or one is named twice.
    """
    found = list(numbers(selection, dims))
    twice = sorted({k for k in found if found.count(k) > 1})
    if twice:
        raise SelectionError(f"dimension {twice[0]} is named more than once")
    return found


def numbers(selection: Any, dims: Box) -> list[int]:
    """Return the numbers of the dimensions that a selection names, as often as it does."""
    named = getattr(selection, "named", None)  # of a selection that begins an expression
    if named is not None:
        return numbers(named, dims)
    if isinstance(selection, str):
        return [place_of(selection, [dim.label for dim in dims])]
    if isinstance(selection, slice):
        start, stop, by = _range(selection, len(dims))
        return list(range(start, stop, by))
    if hasattr(selection, "__index__"):
        return [place(selection, len(dims))]
    if not isinstance(selection, Sequence):
        raise TypeError(f"{selection!r} does not name dimensions")
    return [k for item in selection for k in numbers(item, dims)]


def place_of(label: str, labels: Sequence[str]) -> int:
    """Return the number of the dimension with a label.

    Raises
    ------
    SelectionError
        If there is none.
    """
    if not label or label not in labels:
        known = ", ".join(repr(name) for name in labels)
        raise SelectionError(f"no dimension has the label {label!r}; there are {known}")
    return labels.index(label)


def _range(selection: slice, rank: int) -> tuple[int, int, int]:
    by = 1 if selection.step is None else int(selection.step.__index__())
    if by == 0:
        raise SelectionError("a step of 0")
    ends = []
    for end, otherwise in (
        (selection.start, 0 if by > 0 else rank - 1),
        (selection.stop, rank if by > 0 else -1),
    ):
        if end is None:
            ends.append(otherwise)
            continue
        if isinstance(end, str):
            raise TypeError(f"a range of dimensions is made of numbers, not {end!r}")
        value = int(end.__index__())
        if not -rank <= value <= rank:
            raise SelectionError(f"dimensions {selection} of {rank}")
        ends.append(value if value >= 0 else value + rank)
    return ends[0], ends[1], by


def place(index: Any, rank: int) -> int:
    """Return the number of a dimension, counted from the end where negative.

    Raises
    ------
    SelectionError
        If there is no such dimension.
    """
    k = int(index.__index__())
    if not -rank <= k < rank:
        raise SelectionError(f"dimension {k} is outside of [{-rank}, {rank})")
    return k % rank
