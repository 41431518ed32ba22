"""Axis numbers, and selections along one axis: bounds, negative indices, ranges.

The engine reads ranges much faster than index lists: whole rows instead of elements. So an index
list with a constant step becomes a range. The check inspects three entries of an irregular list,
and all entries of a regular one.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from tessarr.errors import ArgumentError, AxisError, SelectionError
from tessarr.indexing.selection import IndexList, Range

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "as_range",
    "axis_number",
    "index_list",
    "out_of_bounds",
    "range_of_slice",
    "wrap_integer",
]


def axis_number(axis: SupportsIndex, rank: int) -> int:
    """Return the number of an axis; a negative number counts from the last axis.

    Raises
    ------
    TypeError
        If `axis` is not an integer.
    AxisError
        If the array does not have the axis.

    Examples
    --------
    >>> axis_number(-1, 3)
    2
    """
    number = operator.index(axis)
    if not -rank <= number < rank:
        raise AxisError(f"axis {number} is outside an array of {rank} dimensions")
    return number % rank


def out_of_bounds(index: int, axis: int, size: int) -> SelectionError:
    """Return the error for an index out of bounds.

    Examples
    --------
    >>> out_of_bounds(12, 0, 10)
    SelectionError('index 12 is out of bounds for axis 0 with size 10')
    """
    message = f"index {index} is out of bounds for axis {axis} with size {size}"
    return SelectionError(message, kind="out_of_bounds")


def wrap_integer(index: int, axis: int, size: int) -> int:
    """Check an integer index; convert a negative index to the equivalent positive one.

    Raises
    ------
    SelectionError
        Kind ``out_of_bounds``.

    Examples
    --------
    >>> wrap_integer(-1, 0, 10)
    9
    """
    if not -size <= index < size:
        raise out_of_bounds(index, axis, size)
    return index if index >= 0 else index + size


def range_of_slice(item: slice, size: int) -> Range:
    """Clip a slice to an axis, as NumPy does.

    Raises
    ------
    ArgumentError
        If the step is 0 (NumPy raises ValueError).
    TypeError
        If a member is neither an integer nor None (as NumPy).

    Examples
    --------
    >>> range_of_slice(slice(None, None, -4), 10), range_of_slice(slice(7, 3), 10)
    ((9, -4, 3), (0, 1, 0))
    """
    try:
        start, stop, step = item.indices(size)
    except ValueError as error:
        raise ArgumentError(f"{error}, got {item}", kind="invalid_argument") from None
    count = len(range(start, stop, step))
    if count > 1:
        return start, step, count
    return (start, 1, 1) if count else (0, 1, 0)


def index_list(values: npt.NDArray[Any], axis: int, size: int) -> IndexList:
    """Check an array of integers and flatten it into a list of non-negative indices.

    Parameters
    ----------
    values : numpy.ndarray
        Of any integer type and rank.
    axis, size : int
        The number of the axis, for the message, and its length.

    Returns
    -------
    numpy.ndarray
        int64, one-dimensional, in C order, read-only; always a copy, so the user cannot change it
        while the engine reads it.

    Raises
    ------
    SelectionError
        Kind ``out_of_bounds``, with the first wrong index.

    Examples
    --------
    >>> index_list(np.array([[0, -1], [3, 3]]), 0, 10)
    array([0, 9, 3, 3])
    """
    if values.size:
        lowest, highest = int(values.min()), int(values.max())
        if lowest < -size or highest >= size:
            # An unsigned array may contain values beyond int64, so the bounds are Python integers.
            faulty = (values < -size) if values.dtype.kind == "i" else np.zeros(values.shape, bool)
            faulty |= values >= size
            raise out_of_bounds(int(values[faulty].flat[0]), axis, size)
    else:
        lowest = 0
    flat = np.array(values, dtype=np.int64, order="C", copy=True).reshape(-1)
    if lowest < 0:
        flat[flat < 0] += size
    flat.flags.writeable = False
    return flat


def as_range(indices: IndexList) -> Range | None:
    """Return the range that equals a list of indices, or None.

    Examples
    --------
    >>> as_range(np.array([8, 6, 4])), as_range(np.array([1, 1])), as_range(np.array([1, 2, 4]))
    ((8, -2, 3), None, None)
    """
    count = indices.size
    if count < 2:
        return (int(indices[0]), 1, 1) if count else (0, 1, 0)
    start = int(indices[0])
    step = int(indices[1]) - start
    if step == 0 or int(indices[-1]) != start + step * (count - 1):
        return None
    if count > 3 and not bool((indices[1:] - indices[:-1] == step).all()):
        return None
    if count == 3 and int(indices[2]) - int(indices[1]) != step:
        return None
    return start, step, count
