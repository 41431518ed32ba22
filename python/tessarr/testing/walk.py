"""Execution of a `Selection` on an ndarray, one element at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from tessarr.indexing import AxisSelection, Selection
from tessarr.indexing.selection import IndexList, Range, joint_indices

__all__ = ["check_selection", "read_selection", "write_selection"]


def read_selection(array: npt.NDArray[Any], selection: Selection) -> Any:
    """Read a selection like an engine, and return the result in its final shape.

    Examples
    --------
    >>> import numpy as np
    >>> from tessarr.indexing import select
    >>> read_selection(np.arange(6).reshape(2, 3), select((..., [2, 0]), (2, 3)))
    array([[2, 0],
           [5, 3]])
    """
    buffer = np.empty(selection.buffer_shape, array.dtype)
    for position, index in _pairs(selection):
        buffer[position] = array[index]
    return selection.result(buffer)


def write_selection(array: npt.NDArray[Any], selection: Selection, value: npt.NDArray[Any]) -> None:
    """Write a value of `Selection.buffer_shape`; of duplicate indices, the last in C order wins.

    Examples
    --------
    >>> import numpy as np
    >>> from tessarr.indexing import select
    >>> a = np.zeros(4, int)
    >>> write_selection(a, select([0, 2, 0], (4,)), np.array([7, 8, 9]))
    >>> a.tolist()
    [9, 0, 8, 0]
    """
    if value.shape != selection.buffer_shape:
        raise ValueError(f"a value of shape {value.shape} for {selection.buffer_shape}")
    for position, index in _pairs(selection):
        array[index] = value[position]


def check_selection(selection: Selection, shape: tuple[int, ...]) -> None:
    """Assert everything that `Selection` promises to the engine.

    Parameters
    ----------
    selection : Selection
        A selection of an array of `shape`.
    shape : tuple of int
        The shape of the array.

    Raises
    ------
    AssertionError
        If an index is out of bounds, a list has a wrong type, or the buffer has an axis
        without a corresponding axis of the array.

    Examples
    --------
    >>> from tessarr.indexing import select
    >>> check_selection(select((..., 1), (2, 3)), (2, 3))
    """
    assert len(selection.axes) == len(selection.out_axes) == len(shape)
    lengths: dict[int, int] = {}
    joint_axes = set()
    for walk, out_axis, size in zip(selection.axes, selection.out_axes, shape, strict=True):
        count = _check_walk(walk, size)
        if out_axis is None:
            assert count == 1
            continue
        is_joint = len(walk) < 3 and not isinstance(walk, np.ndarray)
        if is_joint:
            joint_axes.add(out_axis)
        assert lengths.setdefault(out_axis, count) == count
        assert is_joint or list(selection.out_axes).count(out_axis) == 1
    assert len(joint_axes) <= 1
    assert int(np.prod(selection.shape)) == int(np.prod(selection.buffer_shape))
    if shape or selection.size:
        assert tuple(lengths[n] for n in sorted(lengths)) == selection.buffer_shape
    assert not selection.scalar or selection.shape == ()


def _check_walk(walk: AxisSelection, size: int) -> int:
    """Assert that a walk stays in bounds, and return its length."""
    if isinstance(walk, tuple) and len(walk) == 3:
        start, step, count = walk
        assert type(start) is type(step) is type(count) is int
        assert step != 0 and count >= 0
        assert count > 1 or step == 1
        assert count == 0 or (0 <= start < size and 0 <= start + step * (count - 1) < size)
        return count
    if isinstance(walk, tuple) and len(walk) == 2:
        mask, number = walk
        assert mask.dtype == np.dtype(np.bool_) and mask.shape[number] == size
        assert mask.flags.c_contiguous and not mask.flags.writeable
        return int(np.count_nonzero(mask))
    indices = walk if isinstance(walk, np.ndarray) else walk[0]
    assert indices.dtype == np.dtype(np.int64) and indices.ndim == 1
    assert indices.flags.c_contiguous and not indices.flags.writeable
    assert not indices.size or (indices.min() >= 0 and indices.max() < size)
    return indices.size


def _pairs(selection: Selection) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield each position in the buffer, in C order, with its index in the array."""
    walks = [_list_points(walk) for walk in selection.axes]
    pairs = list(zip(walks, selection.out_axes, strict=True))
    for position in np.ndindex(*selection.buffer_shape):
        yield (
            position,
            tuple(
                _index(walk, 0 if out_axis is None else position[out_axis])
                for walk, out_axis in pairs
            ),
        )


def _list_points(walk: AxisSelection) -> Range | IndexList | tuple[IndexList]:
    """Return a joint mask as a joint list."""
    if isinstance(walk, tuple) and len(walk) == 2:
        return (joint_indices(walk),)
    return walk


def _index(walk: Range | IndexList | tuple[IndexList], n: int) -> int:
    if isinstance(walk, np.ndarray):
        return int(walk[n])
    if len(walk) == 1:
        return int(walk[0][n])
    start, step, _ = walk
    return start + step * n
