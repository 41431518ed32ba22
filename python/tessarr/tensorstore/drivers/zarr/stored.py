"""What of a view is stored, told by the smallest chunks that it touches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessarr.space import lower
from tessarr.tensorstore.schema.bounds import extents

if TYPE_CHECKING:
    from tessarr.array import Array
    from tessarr.space import IndexTransform

__all__ = ["statistics"]


def statistics(
    array: Array, view: IndexTransform, *, not_stored: bool, fully_stored: bool
) -> tuple[bool | None, bool | None]:
    """Tell whether nothing is stored of a view of an array, and whether all is.

    Parameters
    ----------
    array
        The array.
    view
        A view of it. What is beyond the shape is not stored.
    not_stored, fully_stored
        What to find out; None is told of what is not asked.
    """
    nothing = everything = True
    if view.size:
        ends = [end for _, end in extents(view)]
        reach = tuple(map(max, array._meta.shape, ends))
        axes = lower(view, reach).axes
        nothing, everything = array._statistics(axes, reach, not_stored, fully_stored)
    return nothing if not_stored else None, everything if fully_stored else None
