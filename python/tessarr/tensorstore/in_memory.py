"""Views of NumPy arrays, by the maps of an index transform.

Where the maps are constant or follow dimensions with a stride, the view is NumPy's own: a start
and a stride per dimension, also for a diagonal, which adds up the strides of two axes. Index
arrays are NumPy's, broadcast against each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tessarr.errors import ArgumentError, SelectionError
from tessarr.space.bounds import check_inside
from tessarr.space.domain import Dim
from tessarr.space.maps import position

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.space import IndexTransform

__all__ = ["assign", "check_finite", "selected"]


def selected(values: npt.NDArray[Any], view: IndexTransform) -> npt.NDArray[Any]:
    """Return the elements of a view: of NumPy's kind if there are no index arrays, else a copy.

    Parameters
    ----------
    values
        What is viewed; its indices begin at 0.
    view
        Its output are the axes of `values`.

    Raises
    ------
    ArgumentError
        If a position is outside, or a bound is infinite.

    Examples
    --------
    >>> from tessarr.space import IndexDomain, IndexTransform
    >>> view = IndexTransform(IndexDomain(shape=[2, 3]))[:, ::-1].T
    >>> selected(np.arange(6).reshape(2, 3), view).tolist()
    [[2, 5], [1, 4], [0, 3]]
    """
    if any(one.index_array is not None for one in view.output):
        _check(values, view)
        shape = view.domain.shape
        if view.size == 0:
            return np.empty(shape, values.dtype)
        return np.broadcast_to(values[_places(view)], shape)
    return _plain(values, view)


def assign(values: npt.NDArray[Any], view: IndexTransform, items: npt.NDArray[Any]) -> None:
    """Store elements at the positions of a view."""
    if not any(one.index_array is not None for one in view.output):
        _plain(values, view)[...] = items
        return
    _check(values, view)
    if view.size:
        values[np.broadcast_arrays(*_places(view), np.empty(view.domain.shape, "?"))[:-1]] = items


def check_finite(view: IndexTransform) -> None:
    """Raise an error if a bound of the domain is infinite."""
    if not all(dim.finite for dim in view.domain.dims):
        raise ArgumentError(f"the domain {view.domain} is not finite")


def _check(values: npt.NDArray[Any], view: IndexTransform) -> None:
    check_finite(view)
    target = tuple(Dim.of(0, size) for size in values.shape)
    try:
        check_inside(view.output, view.domain.dims, target, exact=True)
    except SelectionError as error:
        raise ArgumentError(f"cannot read or write: {error}", kind="out_of_bounds") from error


def _places(view: IndexTransform) -> tuple[npt.NDArray[np.int64], ...]:
    return tuple(position(one, view.domain.dims) for one in view.output)


def _plain(values: npt.NDArray[Any], view: IndexTransform) -> npt.NDArray[Any]:
    """Return NumPy's view of an array, for a view without index arrays."""
    dims = view.domain.dims
    key: list[int | slice] = []
    followed: list[int] = []  # by the axes that are left
    for one, size in zip(view.output, values.shape, strict=True):
        k, at = one.input_dimension, one.offset
        if k is None or not one.factor:
            if not 0 <= at < size:
                break
            key.append(at)
            continue
        low, end = dims[k].inclusive_min, dims[k].exclusive_max
        first, last = at + one.factor * low, at + one.factor * (end - 1)
        if not 0 <= first < size or not 0 <= last < size or end <= low:
            break
        after = first + one.factor * (end - low)
        key.append(slice(first, None if after < 0 else after, one.factor))
        followed.append(k)
    else:
        found: npt.NDArray[Any] = values[(*key, ...)]
        axes = list(range(len(dims)))
        if followed == axes:
            return found
        if sorted(followed) == axes:
            return found.transpose([followed.index(k) for k in axes])
    # Something is empty, outside, repeated, or a diagonal.
    _check(values, view)
    if view.size == 0:
        return np.empty(view.domain.shape, values.dtype)
    return _strided(values, view)


def _strided(values: npt.NDArray[Any], view: IndexTransform) -> npt.NDArray[Any]:
    dims = view.domain.dims
    corner: list[slice] = []
    strides = [0] * len(dims)
    for one, axis_stride in zip(view.output, values.strides, strict=True):
        at = one.offset
        if one.input_dimension is not None:
            at += one.factor * dims[one.input_dimension].inclusive_min
            strides[one.input_dimension] += one.factor * axis_stride
        corner.append(slice(at, at + 1))
    first: Any = (*corner, ...)
    begin = values[first]
    if values.dtype.isbuiltin == 1:
        return as_strided(begin, view.domain.shape, strides)
    # Another package's data type, of which NumPy's array interface has no name.
    return as_strided(begin.view(f"V{values.itemsize}"), view.domain.shape, strides).view(
        values.dtype
    )
