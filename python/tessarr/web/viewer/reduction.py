"""Reductions of blocks of elements to means or bounds, with bounded memory."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from tessarr.types import Shape

__all__ = ["reduce_blocks"]

_BAND_ELEMENTS: Final = 1 << 22
"""The number of elements that are read at a time."""


def reduce_blocks(
    read: Callable[[tuple[int | range, ...]], npt.NDArray[Any]],
    selection: tuple[int | range, ...],
    shape: Shape,
    reduction: Literal["mean", "bounds"],
) -> npt.NDArray[Any]:
    """Reduce each block of elements, and read band by band along the first range.

    Parameters
    ----------
    read
        Returns the numbers of a selection of indices and ranges; axes with an index are dropped.
    selection
        The indices and ranges. The step of a range is the length of the blocks along the axis.
    shape
        The shape of the array, which limits the last blocks.
    reduction
        The mean of a block; or its minimum and maximum, along a new last axis. NaN does not count,
        and a block of NaN is NaN.
    """
    first = next(number for number, axis in enumerate(selection) if isinstance(axis, range))
    rows = selection[first]
    assert isinstance(rows, range)
    others = [
        axis if isinstance(axis, int) else _full_range(axis, shape[number])
        for number, axis in enumerate(selection)
    ]
    width = prod(len(axis) for axis in others[first + 1 :] if isinstance(axis, range))
    count = max(_BAND_ELEMENTS // max(width * rows.step, 1), 1)
    steps = [axis.step for axis in selection if isinstance(axis, range)]
    reduce_band = _mean if reduction == "mean" else _bounds
    bands = []
    for start in range(0, max(len(rows), 1), count):
        band = _full_range(rows[start : start + count], shape[first])
        bands.append(reduce_band(read((*others[:first], band, *others[first + 1 :])), steps))
    return np.concatenate(bands)


def _full_range(axis: range, length: int) -> range:
    """Return all indices of the blocks that start at the indices of a range."""
    return range(axis.start, min(axis.start + len(axis) * axis.step, length))


def _reduce_axes(
    function: np.ufunc, values: npt.NDArray[Any], steps: Sequence[int], dtype: Any = None
) -> npt.NDArray[Any]:
    for axis, step in enumerate(steps):
        if step > 1:
            starts = np.arange(0, values.shape[axis], step)
            values = function.reduceat(values, starts, axis, dtype)
    return values


def _mean(values: npt.NDArray[Any], steps: Sequence[int]) -> npt.NDArray[Any]:
    values = values.astype("f8")
    is_valid = ~np.isnan(values)
    sums = _reduce_axes(np.add, np.where(is_valid, values, 0), steps)
    counts = _reduce_axes(np.add, is_valid, steps, "i8")
    with np.errstate(invalid="ignore", divide="ignore"):
        result: npt.NDArray[Any] = sums / counts
    return result


def _bounds(values: npt.NDArray[Any], steps: Sequence[int]) -> npt.NDArray[Any]:
    low, high = _reduce_axes(np.fmin, values, steps), _reduce_axes(np.fmax, values, steps)
    return np.stack([low, high], axis=-1)
