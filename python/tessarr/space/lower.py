"""From a view of an array to one call of the engine.

Theory
------
The engine walks ranges, outer lists and one group of joint lists (`tessarr.indexing.selection`).
A map of a view that is constant or follows one dimension is a range; an index array that varies
along one dimension, which no other map follows, is an outer list. All other maps (arrays of
several dimensions, or that share a dimension with another map: a diagonal) are joint lists: the
dimensions that they follow are walked as one, flattened.

The engine's buffer has an axis for the joint dimensions, then those of the view that remain, in
their order: the view's result is a transposed view of it. A dimension that no map follows repeats
what is there.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tessarr.errors import SelectionError
from tessarr.indexing.selection import AxisSelection, Selection
from tessarr.space.bounds import check_inside
from tessarr.space.domain import Box, Dim
from tessarr.space.maps import OutputIndexMap, position

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tessarr.space.transform import IndexTransform
    from tessarr.types import Shape

__all__ = ["lower"]


def lower(view: IndexTransform, shape: Shape) -> Selection:
    """Return what the engine is to do for a view of an array.

    Parameters
    ----------
    view
        Its output are the axes of the array.
    shape
        The shape of the array, whose indices begin at 0.

    Raises
    ------
    SelectionError
        If a position is outside of the array, or a bound of the view is infinite.

    Examples
    --------
    >>> from tessarr.space import IndexDomain, IndexTransform
    >>> view = IndexTransform(IndexDomain(shape=[8, 9]))[2:6:2, 5]
    >>> lowered = lower(view, (8, 9))
    >>> lowered.axes, lowered.buffer_shape
    (((2, 2, 2), (5, 1, 1)), (2,))
    """
    ranges = view._as_view().ranges(shape)
    if ranges is not None:
        axes_of_ranges, dims_of_ranges, size = ranges
        return Selection(axes_of_ranges, dims_of_ranges, size, size)
    dims = view.domain.dims
    for dim in dims:
        if not dim.finite:
            raise SelectionError(f"the domain {view.domain} is not finite")
    check_inside(view.output, dims, tuple(Dim.of(0, size) for size in shape), exact=True)
    if view.size == 0:  # nothing for the engine
        return Selection((), (), view.shape, view.shape)
    follows = [_followed(one) for one in view.output]
    together = _together(follows)
    joint = tuple(sorted({k for at in together for k in follows[at]}))
    apart = tuple(
        k for k in range(len(dims)) if k not in joint and any(k in found for found in follows)
    )
    places = {k: i + bool(joint) for i, k in enumerate(apart)}
    axes: list[AxisSelection] = []
    out_axes: list[int | None] = []
    for at, one in enumerate(view.output):
        if at in together:
            axes.append((_flat(one, dims, joint),))
            out_axes.append(0)
        else:
            axes.append(_alone(one, dims))
            out_axes.append(places[follows[at][0]] if follows[at] else None)
    sizes = [dims[k].size for k in apart]
    buffer_shape = (prod(dims[k].size for k in joint), *sizes) if joint else tuple(sizes)
    return Selection(
        tuple(axes), tuple(out_axes), view.domain.shape, buffer_shape, order=(*joint, *apart)
    )


def _followed(one: OutputIndexMap) -> tuple[int, ...]:
    """Tell which dimensions a map follows."""
    if one.index_array is not None:
        return tuple(k for k, size in enumerate(one.index_array.shape) if size != 1)
    if one.input_dimension is not None:
        return (one.input_dimension,)
    return ()


def _together(follows: Sequence[tuple[int, ...]]) -> set[int]:
    """Tell which maps are joint lists: those that share a dimension, or follow several."""
    followers: dict[int, list[int]] = {}
    for at, dims in enumerate(follows):
        for k in dims:
            followers.setdefault(k, []).append(at)
    joint = {at for at, dims in enumerate(follows) if len(dims) > 1}
    joint |= {at for sharing in followers.values() if len(sharing) > 1 for at in sharing}
    reached = {k for at in joint for k in follows[at]}
    return {at for at, dims in enumerate(follows) if at in joint or reached.intersection(dims)}


def _alone(one: OutputIndexMap, dims: Box) -> AxisSelection:
    if one.index_array is not None:
        return np.ascontiguousarray(position(one, dims).reshape(-1))
    if one.input_dimension is None:
        return (one.offset, 1, 1)
    along = dims[one.input_dimension]
    step = one.factor if along.size > 1 else 1
    return (one.offset + one.factor * along.inclusive_min, step, along.size)


def _flat(one: OutputIndexMap, dims: Box, joint: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Give the indices of a joint map for all positions of the joint dimensions."""
    indices = position(one, dims)
    kept = indices.reshape([indices.shape[k] for k in joint])
    shape = [dims[k].size for k in joint]
    return np.ascontiguousarray(np.broadcast_to(kept, shape).reshape(-1))
