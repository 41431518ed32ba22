"""`lower`: one call of the engine for a view of an array."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessarr.indexing.selection import Selection

if TYPE_CHECKING:
    from tessarr.index_space.index_transform import IndexTransform
    from tessarr.types import Shape

__all__ = ["lower"]


def lower(view: IndexTransform, shape: Shape) -> Selection:
    """Return the selection of the engine for a view of an array.

    Parameters
    ----------
    view
        The view; its output dimensions are the axes of the array.
    shape
        The shape of the array; its indices start at 0.

    Raises
    ------
    SelectionError
        If a position is outside the array, or a bound of the view is infinite.

    Examples
    --------
    >>> from tessarr.index_space import IndexDomain, IndexTransform
    >>> view = IndexTransform(IndexDomain(shape=[8, 9]))[2:6:2, 5]
    >>> lowered = lower(view, (8, 9))
    >>> lowered.axes, lowered.buffer_shape
    (((2, 2, 2), (5, 1, 1)), (2,))
    """
    return Selection(*view._as_view().to_selection(shape))
