"""Bounds of views, derived from the domain of their base."""

from __future__ import annotations

from tessarr.errors import ArgumentError, SelectionError
from tessarr.index_space import Dim, IndexDomain, IndexTransform
from tessarr.index_space.view_bounds import check_within_bounds, map_extent

__all__ = ["check_fits", "get_extents", "mark_explicit", "propagate_bounds"]


def propagate_bounds(view: IndexTransform, domain: IndexDomain) -> IndexTransform:
    """Return the view with implicit bounds from the domain of its base.

    Return the same object if the bounds do not change.

    Raises
    ------
    ArgumentError
        If an explicit bound of the view exceeds an explicit bound of the base.

    Examples
    --------
    >>> view = IndexTransform(IndexDomain(2))[5:, ::-1]
    >>> propagate_bounds(view, IndexDomain(shape=[8, 9])).domain
    { [5, 8), [-8, 1) }
    """
    try:
        result = view._with_base_bounds(domain)
    except SelectionError as error:
        raise ArgumentError(f"the view does not fit: {error}", kind="out_of_bounds") from error
    return view if result == view else result


def mark_explicit(view: IndexTransform, domain: IndexDomain) -> IndexTransform:
    """Return the view with explicit bounds for all dimensions that depend on the base.

    Raises
    ------
    ArgumentError
        If the view exceeds the base; this check ignores index arrays.
    """
    check_fits(view, domain)
    followed = {one.input_dimension for one in view.output}
    fixed = tuple(
        Dim._of(dim.inclusive_min, dim.exclusive_max, dim.label) if k in followed else dim
        for k, dim in enumerate(view.domain._dims)
    )
    return IndexTransform._of(IndexDomain._of(fixed), view.output)


def check_fits(view: IndexTransform, domain: IndexDomain) -> None:
    """Raise an error if the view exceeds its base; the check ignores index arrays.

    Raises
    ------
    ArgumentError
        If the view exceeds its base (``out_of_bounds``).
    """
    try:
        check_within_bounds(view.output, view.domain._dims, domain._dims, arrays=False)
    except SelectionError as error:
        raise ArgumentError(f"the view does not fit: {error}", kind="out_of_bounds") from None


def get_extents(view: IndexTransform) -> list[tuple[int, int]]:
    """Return the smallest interval that contains all indices of each map."""
    dims = view.domain._dims
    return [map_extent(one, dims) for one in view.output]
