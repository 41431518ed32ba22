"""Reductions of blocks of elements to means or bounds, with bounded memory."""

from __future__ import annotations

from math import prod
from threading import BoundedSemaphore
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from tessarr.errors import TooLargeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from tessarr.types import Shape

__all__ = ["reduce_blocks"]

_BAND_ELEMENTS: Final = 1 << 22
"""The number of elements that are read at a time, unless a block has more."""

_memory: Final = BoundedSemaphore(4)
"""Limits the bands in memory: the server answers many requests concurrently."""

_MAX_BLOCK_ELEMENTS: Final = 1 << 26
"""The maximum number of elements of a block, which is read at once."""


def reduce_blocks(
    read: Callable[[tuple[int | range, ...]], npt.NDArray[Any]],
    selection: tuple[int | range, ...],
    shape: Shape,
    reduction: Literal["mean", "bounds"],
) -> npt.NDArray[Any]:
    """Reduce each block of elements, and read band by band.

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

    Raises
    ------
    TooLargeError
        If a block has more elements than may be read at once.
    """
    whole = tuple(
        axis if isinstance(axis, int) else _full_range(axis, shape[number])
        for number, axis in enumerate(selection)
    )
    size = prod(len(axis) for axis in whole if isinstance(axis, range))
    if size > _BAND_ELEMENTS:
        ranges = [number for number, axis in enumerate(selection) if isinstance(axis, range)]
        for position, number in enumerate(ranges):
            if len(bands := _split(selection, number, size)) > 1:
                parts = [reduce_blocks(read, band, shape, reduction) for band in bands]
                return np.concatenate(parts, axis=position)
        if size > _MAX_BLOCK_ELEMENTS:
            message = f"a block has {size} elements, and at most {_MAX_BLOCK_ELEMENTS} are reduced"
            raise TooLargeError(f"{message}: use a smaller step, or the reduction stride")
    steps = [axis.step for axis in selection if isinstance(axis, range)]
    with _memory:
        return (_mean if reduction == "mean" else _bounds)(read(whole), steps)


def _split(
    selection: tuple[int | range, ...], number: int, size: int
) -> list[tuple[int | range, ...]]:
    """Return selections with parts of one range; a part has one block or the size of a band."""
    axis = selection[number]
    assert isinstance(axis, range)
    count = max(_BAND_ELEMENTS * len(axis) // size, 1)
    parts = [axis[start : start + count] for start in range(0, len(axis), count)]
    return [(*selection[:number], part, *selection[number + 1 :]) for part in parts]


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
    values = values.astype("f8", copy=False)
    is_valid = ~np.isnan(values)
    sums = _reduce_axes(np.add, np.where(is_valid, values, 0), steps)
    counts = _reduce_axes(np.add, is_valid, steps, "i8")
    with np.errstate(invalid="ignore", divide="ignore"):
        result: npt.NDArray[Any] = sums / counts
    return result


def _bounds(values: npt.NDArray[Any], steps: Sequence[int]) -> npt.NDArray[Any]:
    low, high = _reduce_axes(np.fmin, values, steps), _reduce_axes(np.fmax, values, steps)
    return np.stack([low, high], axis=-1)
