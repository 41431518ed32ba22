"""Bounds of views: how they follow from those of what is viewed, and the other way round."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING

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
    found = []
    for one in view.output:
        if one.index_array is not None:
            ends = (int(one.index_array.min()), int(one.index_array.max()))
        elif one.input_dimension is not None:
            along = view.domain.dims[one.input_dimension]
            ends = (along.inclusive_min, along.inclusive_max)
        else:
            ends = (0, 0)
        low, high = sorted(one.offset + one.factor * end for end in ends)
        found.append((low, high + 1))
    return found


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
    low: list[int | None] = [None] * view.output_rank
    high: list[int | None] = [None] * view.output_rank
    within: list[tuple[int, int] | None] = [None] * view.output_rank
    used: set[int] = set()
    anything = any(one != (None, None) for one in asked)
    for k, (one, extent) in enumerate(zip(view.output, extents(view), strict=True)):
        along = one.input_dimension
        if not tied:
            within[k] = _kept(dims, one, extent)
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


def _kept(dims: Box, one: OutputIndexMap, extent: tuple[int, int]) -> tuple[int, int] | None:
    """Return the interval beyond which nothing may be affected, given that of a map's indices.

    It has an end where that is one of what is viewed by an explicit bound; None if there is none.
    """
    if one.input_dimension is None:
        return extent
    implicit = dims[one.input_dimension].implicit
    if one.factor < 0:
        implicit = (implicit[1], implicit[0])
    lower = -INFINITE if implicit[0] else extent[0]
    upper = INFINITE + 1 if implicit[1] else extent[1]
    return None if all(implicit) else (lower, upper)


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
        for what, bound, implicit in (
            ("lower", first, dim.implicit_lower),
            ("upper", end, dim.implicit_upper),
        ):
            if bound is not None and not implicit:
                raise ArgumentError(
                    f"dimension {k}: the {what} bound of {dim} is explicit and cannot be changed"
                )
            if bound is not None and not -INFINITE < bound <= INFINITE:
                raise ArgumentError(f"dimension {k}: {bound} is no bound")
        low = dim.inclusive_min if first is None else first
        if end is not None and end < low:
            raise ArgumentError(f"dimension {k}: [{low}, {end}) is not an interval")
    return list(zip(*given, strict=True))
