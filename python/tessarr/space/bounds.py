"""Whether all positions of a view are inside of what is viewed, and what follows for its bounds."""

from __future__ import annotations

from collections.abc import Sequence

from tessarr.errors import SelectionError
from tessarr.space.domain import INFINITE, Box, Dim
from tessarr.space.maps import WHOLE, OutputIndexMap, Step, check_range

__all__ = ["check_inside", "propagated"]


def check_inside(
    maps: Sequence[OutputIndexMap], dims: Box, target: Box, *, exact: bool = False
) -> None:
    """Raise an error if a position is outside of the dimensions of what is viewed.

    Parameters
    ----------
    maps, dims
        The view.
    target
        The dimensions of what is viewed.
    exact
        Whether implicit bounds count as well, as they do when data is read.

    Raises
    ------
    SelectionError
    """
    if any(dim.empty if exact else dim.surely_empty for dim in dims):
        return
    for k, (one, goal) in enumerate(zip(maps, target, strict=True)):
        reach = (goal.inclusive_min, goal.exclusive_max) if exact else goal.reach
        least, most = _extent(one, dims)
        if least < reach[0] or most >= reach[1]:
            bad = least if least < reach[0] else most
            where = Dim.of(*reach, goal.label)
            raise SelectionError(f"dimension {k}: index {bad} is outside of {where}")


def _extent(one: OutputIndexMap, dims: Box) -> tuple[int, int]:
    if one.index_array is not None:
        check_range(one.index_array, one.within)
        ends = (int(one.index_array.min()), int(one.index_array.max()))
    elif one.input_dimension is not None:
        along = dims[one.input_dimension]
        ends = (along.inclusive_min, along.inclusive_max)
    else:
        ends = (0, 0)
    found = sorted(one.offset + one.factor * end for end in ends)
    return found[0], found[1]


def propagated(target: Box, step: Step) -> Step:
    """Return a step whose implicit bounds are those that follow from what it is applied to.

    Where a bound of the step is implicit, the bound of `target` holds that a map leads to; it
    becomes explicit if that one is.

    Raises
    ------
    SelectionError
        If an explicit bound of the step, or a constant map, is outside of `target`.
    """
    empty = any(dim.surely_empty for dim in step.dims)
    found: dict[int, Dim] = {}
    for k, (goal, one) in enumerate(zip(target, step.maps, strict=True)):
        if one.index_array is not None:
            continue
        if one.input_dimension is None or one.factor == 0:
            if not empty and not goal.reach[0] <= one.offset < goal.reach[1]:
                raise SelectionError(f"dimension {k}: index {one.offset} is outside of {goal}")
            continue
        bounds = _backwards(goal, one.offset, one.factor)
        before = found.get(one.input_dimension)
        found[one.input_dimension] = bounds if before is None else _both(bounds, before)
    dims = tuple(
        dim if k not in found else _combined(k, dim, found[k], empty)
        for k, dim in enumerate(step.dims)
    )
    if not any(one.index_array is not None for one in step.maps):
        return Step(dims, step.maps)
    empty = any(dim.surely_empty for dim in dims)
    pairs = zip(target, step.maps, strict=True)
    return Step(dims, tuple(_narrowed(one, goal, empty) for goal, one in pairs))


def _backwards(goal: Dim, offset: int, stride: int) -> Dim:
    """Return the indices that ``offset + stride * index`` takes into an interval."""
    below, above = goal.inclusive_min == -INFINITE, goal.exclusive_max > INFINITE
    lower, upper, implicit = goal.inclusive_min - offset, goal.inclusive_max - offset, goal.implicit
    if stride < 0:
        if goal.empty:
            upper = lower  # so that what is empty stays where it is
        lower, upper, stride = -upper, -lower, -stride
        below, above, implicit = above, below, (implicit[1], implicit[0])
    first = -INFINITE if below else -(-lower // stride)
    end = INFINITE + 1 if above else first if goal.empty else upper // stride + 1
    if not (first >= -INFINITE and max(first, end) <= INFINITE + 1):
        raise SelectionError(f"{goal}, moved by {-offset}, is beyond the range of indices")
    return Dim.of(first, max(first, end), "", implicit)


def _both(one: Dim, other: Dim) -> Dim:
    """Return the indices of both; an explicit bound counts more than an implicit one."""
    pairs = ((one.inclusive_min, one.implicit_lower), (other.inclusive_min, other.implicit_lower))
    lower = max(bound for bound, implicit in pairs if not implicit or _all_implicit(pairs))
    pairs = ((one.exclusive_max, one.implicit_upper), (other.exclusive_max, other.implicit_upper))
    upper = min(bound for bound, implicit in pairs if not implicit or _all_implicit(pairs))
    implicit = (
        one.implicit_lower and other.implicit_lower,
        one.implicit_upper and other.implicit_upper,
    )
    return Dim.of(lower, max(lower, upper), "", implicit)


def _all_implicit(pairs: tuple[tuple[int, bool], ...]) -> bool:
    return all(implicit for _, implicit in pairs)


def _combined(k: int, dim: Dim, inferred: Dim, empty: bool) -> Dim:
    """Return a dimension of a view with the bounds that follow where its own are implicit."""
    lower = inferred.inclusive_min if dim.implicit_lower else dim.inclusive_min
    upper = inferred.exclusive_max if dim.implicit_upper else dim.exclusive_max
    upper = max(lower, upper)
    reach = inferred.reach
    if not empty and lower < upper and not (reach[0] <= lower and upper <= reach[1]):
        raise SelectionError(f"dimension {k}: {Dim.of(lower, upper)} is outside of {inferred}")
    implicit = (
        dim.implicit_lower and inferred.implicit_lower,
        dim.implicit_upper and inferred.implicit_upper,
    )
    return Dim.of(lower, upper, dim.label, implicit)


def _narrowed(one: OutputIndexMap, goal: Dim, empty: bool) -> OutputIndexMap:
    """Return the map of an index array whose items have to be inside of what is viewed."""
    if one.index_array is None:
        return one
    if empty:
        return OutputIndexMap.constant(0)
    reach = goal.reach
    if reach == WHOLE or one.factor == 0:
        return one
    allowed = _backwards(Dim.of(*reach), one.offset, one.factor)
    lower = max(one.within[0], allowed.inclusive_min)
    upper = max(lower, min(one.within[1], allowed.exclusive_max))
    return OutputIndexMap.by_array(one.index_array, one.offset, one.factor, (lower, upper))
