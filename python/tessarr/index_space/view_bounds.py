"""Checks that the positions of a view are inside its base."""

from __future__ import annotations

from collections.abc import Sequence

from tessarr.errors import SelectionError
from tessarr.index_space.intervals import Box
from tessarr.index_space.output_index_map import OutputIndexMap, check_index_range

__all__ = ["check_within_bounds", "map_extent"]


def check_within_bounds(
    maps: Sequence[OutputIndexMap], dims: Box, target: Box, *, arrays: bool = True
) -> None:
    """Raise an error if a position is outside the dimensions of the base.

    Parameters
    ----------
    maps, dims
        The view.
    target
        The dimensions of the base.
    arrays
        Whether to check the items of index arrays, too.

    Raises
    ------
    SelectionError
    """
    if any(dim.empty for dim in dims):
        return
    for k, (index_map, goal) in enumerate(zip(maps, target, strict=True)):
        reach = (goal.inclusive_min, goal.exclusive_max)
        if index_map.index_array is not None:
            if not arrays:
                continue
            check_index_range(index_map.index_array, index_map._within)
        least, beyond = map_extent(index_map, dims)
        most = beyond - 1
        if least < reach[0] or most >= reach[1]:
            bad = least if least < reach[0] else most
            raise SelectionError(f"dimension {k}: index {bad} is outside of {goal}")


def map_extent(index_map: OutputIndexMap, dims: Box) -> tuple[int, int]:
    """Return the smallest half-open interval that contains all indices of a map.

    Parameters
    ----------
    index_map
        The map.
    dims
        The input dimensions, which must not be empty.
    """
    if index_map.index_array is not None:
        ends = (int(index_map.index_array.min()), int(index_map.index_array.max()))
    elif index_map.input_dimension is not None:
        along = dims[index_map.input_dimension]
        ends = (along.inclusive_min, along.inclusive_max)
    else:
        ends = (0, 0)
    least, most = sorted(index_map.offset + index_map._factor * end for end in ends)
    return least, most + 1
