"""The acts of indexing, each as a step from the dimensions of a view to those of a new one.

Every act takes the dimensions and which of them it is for, and gives a `Step` and which dimensions
of the new view come of those, so that the next act of a dimension expression goes on with them.
The rules are TensorStore's (index space; dimension expressions).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from tessarr.errors import SelectionError
from tessarr.space.domain import INFINITE, Box, Dim, check_labels
from tessarr.space.maps import OutputIndexMap, Step, identity
from tessarr.space.names import place

__all__ = [
    "Act",
    "Selected",
    "backward",
    "diagonal",
    "forward",
    "interval",
    "label",
    "mark_bounds_implicit",
    "restrict",
    "stride",
    "translate",
    "transpose",
]

Selected: TypeAlias = "list[int]"
"""Dimensions, in the order in which they were named."""

Line: TypeAlias = "tuple[int, int]"
"""An offset and a stride: how the index before follows from the one after."""

SAME: Final[Line] = (0, 1)

Act: TypeAlias = "Callable[[Box, Selected], tuple[Step, Selected]]"


def each(
    dims: Box, selected: Selected, change: Callable[[int, Dim], tuple[Dim, Line]]
) -> tuple[Step, Selected]:
    """Change the selected dimensions one by one; `change` gets their place in the selection."""
    new, maps = list(dims), list(identity(len(dims)))
    for at, k in enumerate(selected):
        new[k], (offset, stride) = change(at, dims[k])
        if offset or stride != 1:
            maps[k] = OutputIndexMap.along(k, offset, stride)
    return Step(check_labels(new), tuple(maps)), selected


def _per_dim(values: Any, count: int, what: str) -> list[Any]:
    """Give one value per dimension: a single one is for all of them."""
    if isinstance(values, str) or not hasattr(values, "__len__"):
        return [values] * count
    if len(values) != count:
        raise SelectionError(f"{len(values)} {what} for {count} dimensions")
    return list(values)


def translate(values: Any, shift: Callable[[Dim, int], int]) -> Act:
    """Move the domain: `shift` tells by how much, from a dimension and its value."""

    def act(dims: Box, selected: Selected) -> tuple[Step, Selected]:
        given = _per_dim(values, len(selected), "indices")

        def change(place: int, dim: Dim) -> tuple[Dim, Line]:
            by = 0 if given[place] is None else shift(dim, int(given[place].__index__()))
            return dim.shifted(by), (-by, 1)

        return each(dims, selected, change)

    return act


def forward(_: Dim, by: int) -> int:
    """Tell by how much a dimension moves that is to move by so much."""
    return by


def backward(_: Dim, by: int) -> int:
    """Tell by how much a dimension moves that is to move back by so much."""
    return -by


def to_origin(dim: Dim, origin: int) -> int:
    """Tell by how much a dimension moves to begin at an origin."""
    if dim.inclusive_min == -INFINITE:
        raise SelectionError(f"{dim} has no lower bound that could be moved to {origin}")
    if not -INFINITE < origin <= INFINITE:
        raise SelectionError(f"the origin {origin} is beyond the range of indices")
    return origin - dim.inclusive_min


def label(labels: Any) -> Act:
    """Give dimensions labels."""

    def act(dims: Box, selected: Selected) -> tuple[Step, Selected]:
        flat = [labels] if isinstance(labels, str) else list(labels)
        if len(flat) != len(selected):
            raise SelectionError(f"{len(flat)} labels for {len(selected)} dimensions")
        return each(dims, selected, lambda place, dim: (dim.labelled(flat[place]), SAME))

    return act


def mark_bounds_implicit(lower: bool | None, upper: bool | None) -> Act:
    """Say whether bounds are implicit; None leaves them."""

    def change(_: int, dim: Dim) -> tuple[Dim, Line]:
        marked = Dim.of(
            dim.inclusive_min,
            dim.exclusive_max,
            dim.label,
            (
                dim.implicit_lower if lower is None else lower,
                dim.implicit_upper if upper is None else upper,
            ),
        )
        return marked, SAME

    return lambda dims, selected: each(dims, selected, change)


def stride(strides: Any) -> Act:
    """Keep the indices that are multiples of a stride, and divide them by it."""

    def act(dims: Box, selected: Selected) -> tuple[Step, Selected]:
        given = _per_dim(strides, len(selected), "strides")

        def change(place: int, dim: Dim) -> tuple[Dim, Line]:
            by = int(given[place].__index__())
            if by == 0:
                raise SelectionError("a stride of 0")
            return _divided(dim, by), (0, by)

        return each(dims, selected, change)

    return act


def _divided(dim: Dim, by: int) -> Dim:
    lower, upper = dim.inclusive_min, dim.exclusive_max
    if dim.empty:
        at = -(-lower // by)
        return Dim.of(at, at, dim.label, dim.implicit if by > 0 else _swapped(dim.implicit))
    below, above = lower == -INFINITE, upper > INFINITE
    implicit = dim.implicit
    if by < 0:
        lower, upper, by = 1 - upper, 1 - lower, -by
        below, above = above, below
        implicit = _swapped(implicit)
    new_lower = -INFINITE if below else -(-lower // by)
    new_upper = INFINITE + 1 if above else (upper - 1) // by + 1
    return Dim.of(new_lower, max(new_lower, new_upper), dim.label, implicit)


def interval(dim: Dim, key: slice) -> tuple[Dim, Line]:
    """Return what a slice leaves of a dimension, and the map to it.

    Raises
    ------
    SelectionError
        If it goes beyond explicit bounds, or is no interval.

    Examples
    --------
    >>> interval(Dim(10), slice(1, 8, 3))[0]
    Dim(inclusive_min=0, exclusive_max=3)
    """
    step = 1 if key.step is None else int(key.step.__index__())
    if step == 0:
        raise SelectionError(f"{_text(key)}: a step of 0")
    start = None if key.start is None else int(key.start.__index__())
    stop = None if key.stop is None else int(key.stop.__index__())
    if start is None and stop is None and step == 1:
        return dim, SAME
    implicit = (dim.implicit_lower and start is None, dim.implicit_upper and stop is None)
    if step < 0:
        implicit = _swapped(implicit)
    bounds = (dim.inclusive_min, dim.exclusive_max)
    first = start if start is not None else (bounds[0] if step > 0 else bounds[1] - 1)
    end = stop if stop is not None else (bounds[1] if step > 0 else bounds[0] - 1)
    _check_interval(dim, key, first, end, step)
    if step == 1:
        return Dim.of(first, end, dim.label, implicit), SAME
    endless = end > INFINITE if step > 0 else end < -INFINITE
    origin = int(first / step) if abs(first) < 2**53 else _towards_zero(first, step)
    count = -((first - end) // step)
    upper = INFINITE + 1 if endless else origin + count
    offset = first - origin * step
    return (
        Dim.of(origin, upper, dim.label, implicit),
        (offset, step),
    )


def _swapped(pair: tuple[bool, bool]) -> tuple[bool, bool]:
    return pair[1], pair[0]


def _towards_zero(value: int, by: int) -> int:
    quotient = abs(value) // abs(by)
    return quotient if (value < 0) == (by < 0) else -quotient


def _check_interval(dim: Dim, key: slice, first: int, end: int, step: int) -> None:
    if (end - first) * step < 0:
        raise SelectionError(f"{_text(key)} is not an interval: it ends before it begins")
    if step != 1 and not -INFINITE < first <= INFINITE:
        raise SelectionError(f"{_text(key)} begins nowhere: {dim} has no such bound")
    low, high = (first, end) if step > 0 else (end + 1, first + 1)
    reach = dim.reach
    if low < high and (low < reach[0] or high > reach[1]):
        raise SelectionError(f"{_text(key)} is outside of the domain {dim}")


def _text(key: slice) -> str:
    parts = ["" if part is None else str(part) for part in (key.start, key.stop)]
    return ":".join(parts) + ("" if key.step is None else f":{key.step}")


def restrict(dims: Box, selected: Selected, to: Box) -> tuple[Step, Selected]:
    """Keep of each selected dimension the interval that `to` has for it, with explicit bounds.

    Raises
    ------
    SelectionError
        If an interval is not contained in that of the dimension.
    """

    def change(place: int, dim: Dim) -> tuple[Dim, Line]:
        wanted = to[place]
        lower, upper = dim.reach
        if not wanted.empty and not (
            lower <= wanted.inclusive_min and wanted.exclusive_max <= upper
        ):
            raise SelectionError(f"{wanted} is outside of the domain {dim}")
        return Dim.of(wanted.inclusive_min, wanted.exclusive_max, dim.label), SAME

    return each(dims, selected, change)


def diagonal(dims: Box, selected: Selected) -> tuple[Step, Selected]:
    """Walk the selected dimensions together, as one that stands first."""
    lower, upper = -INFINITE, INFINITE + 1
    for k in selected:
        lower, upper = max(lower, dims[k].inclusive_min), min(upper, dims[k].exclusive_max)
    upper = max(lower, upper)
    chosen = [dims[k] for k in selected]
    along = Dim.of(
        lower,
        upper,
        "",
        (
            all(dim.implicit_lower for dim in chosen),
            all(dim.implicit_upper for dim in chosen),
        ),
    )
    rest = [k for k in range(len(dims)) if k not in selected]
    places = {k: place + 1 for place, k in enumerate(rest)}
    maps = [OutputIndexMap.along(places.get(k, 0)) for k in range(len(dims))]
    return Step(check_labels([along, *(dims[k] for k in rest)]), tuple(maps)), [0]


def transpose(target: Any) -> Act:
    """Move the selected dimensions to where `target` says; the others keep their order."""

    def act(dims: Box, selected: Selected) -> tuple[Step, Selected]:
        rank, count = len(dims), len(selected)
        places = _targets(target, rank, count)
        if len(places) != count:
            raise SelectionError(f"{len(places)} places for {count} dimensions")
        if len(set(places)) < len(places):
            raise SelectionError(f"a place occurs twice in {target!r}")
        order: list[int | None] = [None] * rank
        for k, goal in zip(selected, places, strict=True):
            order[goal] = k
        rest = iter(k for k in range(rank) if k not in selected)
        final = [next(rest) if k is None else k for k in order]
        return permute(dims, final), places

    return act


def _targets(target: Any, rank: int, count: int) -> list[int]:
    if isinstance(target, slice):
        start, stop, by = target.indices(rank)
        return list(range(start, stop, by))
    if hasattr(target, "__index__"):
        first = place(target, rank)
        if int(target.__index__()) < 0:
            first += 1 - count
        if not 0 <= first <= rank - count:
            raise SelectionError(f"{count} dimensions do not fit at {target}")
        return list(range(first, first + count))
    found = list(target)
    if any(isinstance(item, str) for item in found):
        raise SelectionError("the places of a transposition are numbers, not labels")
    return [
        k
        for item in found
        for k in (
            [place(item, rank)] if hasattr(item, "__index__") else _targets(item, rank, count)
        )
    ]


def permute(dims: Box, order: Sequence[int]) -> Step:
    """Return the step to the same dimensions in another order.

    Raises
    ------
    SelectionError
        If the order is not a permutation.
    """
    rank = len(dims)
    if sorted(order) != list(range(rank)):
        raise SelectionError(f"{tuple(order)} is not a permutation of {rank} dimensions")
    maps = list(identity(rank))
    for new, old in enumerate(order):
        maps[old] = OutputIndexMap.along(new)
    return Step(tuple(dims[k] for k in order), tuple(maps))
