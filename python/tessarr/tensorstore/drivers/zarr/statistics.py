"""Storage statistics of a view, by the smallest chunks that it touches."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from tessarr.index_space.output_index_map import evaluate_map
from tessarr.tensorstore.schema.domain_bounds import get_extents

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
        A view of the array. Positions outside the array are not stored.
    not_stored, fully_stored
        The values to determine; the others are None.
    """
    result = array._storage_statistics(view._as_view(), not_stored, fully_stored)
    if result is None:  # positions below the origin are never stored
        inside = _drop_below_origin(view)
        inside_result = None
        if inside is not None:
            inside_result = array._storage_statistics(
                inside._as_view(), not_stored, fully_stored=False
            )
        result = inside_result is None or inside_result[0], False
    nothing, everything = result
    return nothing if not_stored else None, everything if fully_stored else None


def _drop_below_origin(view: IndexTransform) -> IndexTransform | None:
    """Return the positions of a view that are not below the origin, or None."""
    dims = view.domain._dims
    below = [
        item for item, (lower, _) in zip(view.output, get_extents(view), strict=True) if lower < 0
    ]
    mask = reduce(np.logical_and, (evaluate_map(item, dims) >= 0 for item in below))
    if not mask.any():
        return None
    along = zip(mask.shape, dims, np.nonzero(mask), strict=True)
    return view.vindex[
        tuple(
            slice(None) if item == 1 else dim.inclusive_min + indices
            for item, dim, indices in along
        )
    ]
