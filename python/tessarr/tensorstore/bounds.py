"""Bounds of views: how they follow from those of what is viewed, and the other way round."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Literal

from tessarr.errors import ArgumentError, SelectionError
from tessarr.space import INFINITE, Dim, IndexDomain, IndexTransform, OutputIndexMap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tessarr.space import Box

__all__ = ["explicit", "extents", "moved", "propagated"]


def propagated(view: IndexTransform, domain: IndexDomain) -> IndexTransform:
    """Return the view with its implicit bounds where those of what it views are.

    It is the same object if they are there already.

    Raises
    ------
    ArgumentError
        If an explicit bound of the view is beyond an explicit one of what it views.

    Examples
    --------
    >>> view = IndexTransform(IndexDomain(2))[5:, ::-1]
    >>> propagated(view, IndexDomain(shape=[8, 9])).domain
    { [5, 8), [-8, 1) }
    """
    try:
        found = view.settled(domain)
    except SelectionError as error:
        raise ArgumentError(f"the view does not fit: {error}", kind="out_of_bounds") from error
    return view if found == view else found


def explicit(view: IndexTransform) -> IndexTransform:
    """Return the view with all bounds explicit that are those of what it views."""
    followed = {one.input_dimension for one in view.output}
    fixed = tuple(
        Dim.of(dim.inclusive_min, dim.exclusive_max, dim.label) if k in followed else dim
        for k, dim in enumerate(view.domain.dims)
    )
    return IndexTransform.of(IndexDomain.of(fixed), view.output)


def extents(view: IndexTransform) -> list[tuple[int, int]]:
    """Return for each map the smallest interval that all its indices are in."""
    dims = view.domain.dims
    return [_extent(dims, one) for one in view.output]


def _extent(dims: Box, one: OutputIndexMap) -> tuple[int, int]:
    if one.index_array is not None:
        ends = (int(one.index_array.min()), int(one.index_array.max()))
    elif one.input_dimension is not None:
        along = dims[one.input_dimension]
        ends = (along.inclusive_min, along.inclusive_max)
    else:
        ends = (0, 0)
    low, high = sorted([one.offset + one.factor * end for end in ends])
    return low, high + 1


def moved(
    view: IndexTransform,
    lower: Sequence[int | None] | None,
    upper: Sequence[int | None] | None,
    *,
    tied: bool,
) -> tuple[list[int | None], list[int | None], list[tuple[int, int] | None]]:
    """Return the bounds of what is viewed that new bounds of a view ask for.

    Parameters
    ----------
    view
        The view.
    lower, upper
        Its new bounds; None leaves one, or all.
    tied
        Whether elements outside of the view may be affected.

    Returns
    -------
    lower, upper : list of (int or None)
        The new bounds of what is viewed.
    within : list of (tuple or None)
        The intervals beyond which nothing may be affected.

    Raises
    ------
    ArgumentError
        If a bound is explicit, is moved along a stride, or along a diagonal.
    """
    dims = view.domain.dims
    asked = _asked(dims, lower, upper)
    maps = view.output
    low: list[int | None] = [None] * len(maps)
    high: list[int | None] = [None] * len(maps)
    within: list[tuple[int, int] | None] = [None] * len(maps)
    used: set[int] = set()
    anything = asked.count((None, None)) < len(asked)
    for k, one in enumerate(maps):
        along = one.input_dimension
        if not tied:
            within[k] = _kept(dims, one)
        if along is None:
            continue
        still = asked[along] == (None, None)
        if abs(one.factor) != 1 and anything and not (still and tied):
            raise ArgumentError(
                f"dimension {along} has the stride {one.factor} in what it views: it cannot be "
                "resized, and what is between would be affected by resizing others"
            )
        if still:
            continue
        if along in used and not tied:
            raise ArgumentError(
                f"dimension {along} is a diagonal: give resize_tied_bounds to resize all of its "
                "dimensions"
            )
        used.add(along)
        first, end = (None if at is None else one.offset + one.factor * at for at in asked[along])
        if one.factor < 0:
            first, end = (None if at is None else at + 1 for at in (end, first))
        low[k], high[k] = first, end
    return low, high, within


def _kept(dims: Box, one: OutputIndexMap) -> tuple[int, int] | None:
    """Return the interval beyond which nothing may be affected along a map.

    It has an end where that is one of what is viewed by an explicit bound; None if there is none.
    """
    low, high = _extent(dims, one)
    if one.input_dimension is None:
        return low, high
    implicit = dims[one.input_dimension].implicit
    if one.factor < 0:
        implicit = (implicit[1], implicit[0])
    if all(implicit):
        return None
    return -INFINITE if implicit[0] else low, INFINITE + 1 if implicit[1] else high


def _asked(
    dims: Box, lower: Sequence[int | None] | None, upper: Sequence[int | None] | None
) -> list[tuple[int | None, int | None]]:
    given: list[list[int | None]] = []
    for name, values in (("inclusive_min", lower), ("exclusive_max", upper)):
        bounds = [None] * len(dims) if values is None else list(values)
        if len(bounds) != len(dims):
            raise ArgumentError(f"{name}: {len(bounds)} bounds for {len(dims)} dimensions")
        given.append([None if bound is None else index(bound) for bound in bounds])
    for k, (dim, first, end) in enumerate(zip(dims, *given, strict=True)):
        if first is not None:
            _check_asked(k, dim, "lower", first)
        if end is not None:
            _check_asked(k, dim, "upper", end)
        low = dim.inclusive_min if first is None else first
        if end is not None and end < low:
            raise ArgumentError(f"dimension {k}: [{low}, {end}) is not an interval")
    return list(zip(*given, strict=True))


def _check_asked(k: int, dim: Dim, what: Literal["lower", "upper"], bound: int) -> None:
    if not (dim.implicit_lower if what == "lower" else dim.implicit_upper):
        raise ArgumentError(
            f"dimension {k}: the {what} bound of {dim} is explicit and cannot be changed"
        )
    if not -INFINITE < bound <= INFINITE:
        raise ArgumentError(f"dimension {k}: {bound} is no bound")
