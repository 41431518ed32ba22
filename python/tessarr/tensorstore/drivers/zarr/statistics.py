"""Storage statistics of a view, by the smallest chunks that it touches."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from tessarr.index_space.output_index_map import evaluate_map
from tessarr.tensorstore.schema.domain_bounds import extents

if TYPE_CHECKING:
    from tessarr.array import Array
    from tessarr.index_space import IndexTransform

__all__ = ["find_statistics"]


def find_statistics(
    array: Array, view: IndexTransform, *, not_stored: bool, fully_stored: bool
) -> tuple[bool | None, bool | None]:
    """Return whether no chunk of a view is stored, and whether all are.

    Parameters
    ----------
    array
        The array.
    view
        A view of it. Positions outside the array are not stored.
    not_stored, fully_stored
        The values to determine; the others are None.
    """
    found = array._statistics(view._as_view(), not_stored, fully_stored)
    if found is None:  # some is below the origin, where nothing is stored
        inside = _drop_below_origin(view)
        rest = None
        if inside is not None:
            rest = array._statistics(inside._as_view(), not_stored, fully_stored=False)
        found = rest is None or rest[0], False
    nothing, everything = found
    return nothing if not_stored else None, everything if fully_stored else None


def _drop_below_origin(view: IndexTransform) -> IndexTransform | None:
    """Return the positions of a view that are not below the origin, or None."""
    dims = view.domain._dims
    below = [one for one, (begin, _) in zip(view.output, extents(view), strict=True) if begin < 0]
    kept = reduce(np.logical_and, (evaluate_map(one, dims) >= 0 for one in below))
    if not kept.any():
        return None
    along = zip(kept.shape, dims, np.nonzero(kept), strict=True)
    return view.vindex[
        tuple(slice(None) if one == 1 else dim.inclusive_min + found for one, dim, found in along)
    ]
