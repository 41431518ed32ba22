"""The chunks that a selection touches."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from tessarr.format.chunk_grid import Cuts
    from tessarr.indexing.selection import AxisSelection, Range
    from tessarr.types import Shape

__all__ = ["find_touched_cells"]


def find_touched_cells(axes: Sequence[AxisSelection], cuts: Sequence[Cuts]) -> Iterator[Shape]:
    """Yield the cells of a grid that contain selected elements, each once.

    Parameters
    ----------
    axes
        The selection along each axis of an array: see `Selection`; it is not empty.
    cuts
        The cuts of these axes.

    Examples
    --------
    >>> from tessarr.format.chunk_grid import RegularGrid
    >>> from tessarr.indexing import select_outer, select_points
    >>> cuts = RegularGrid((4, 4)).cuts
    >>> list(find_touched_cells(select_outer((slice(3, 9, 4), [0, 5, 1]), (10, 10)).axes, cuts))
    [(0, 0), (0, 1), (1, 0), (1, 1)]
    >>> list(find_touched_cells(select_points(([9, 3, 2], [0, 5, 6]), (10, 10)).axes, cuts))
    [(0, 1), (2, 0)]
    """
    joint: list[int] = []
    columns: list[npt.NDArray[np.int64]] = []
    single: list[tuple[int, Sequence[int]]] = []
    for axis, (chosen, cut) in enumerate(zip(axes, cuts, strict=True)):
        if isinstance(chosen, np.ndarray):
            single.append((axis, np.unique(_find_cells(chosen, cut)).tolist()))
        elif len(chosen) == 3:
            single.append((axis, _find_cells_of_range(chosen, cut)))
        else:
            joint.append(axis)
            columns.append(_find_cells(chosen[0], cut))
    joint_cells: list[list[int]] = [[]]
    if columns:
        joint_cells = np.unique(np.stack(columns, 1), axis=0).tolist()
    cell = [0] * len(cuts)
    for joint_cell in joint_cells:
        for axis, position in zip(joint, joint_cell, strict=True):
            cell[axis] = position
        for others in product(*(positions for _, positions in single)):
            for (axis, _), position in zip(single, others, strict=True):
                cell[axis] = position
            yield tuple(cell)


def _find_cells(indices: npt.NDArray[np.int64], cut: Cuts) -> npt.NDArray[np.int64]:
    if cut.even:
        return indices // cut.longest
    return np.fromiter(map(cut.cell, indices.tolist()), np.int64, indices.size)


def _find_cells_of_range(chosen: Range, cut: Cuts) -> Sequence[int]:
    start, step, count = chosen
    last = start + step * (count - 1)
    if abs(step) <= cut.distinct[-1]:  # the range touches all chunks in between
        first, last = sorted((cut.cell(start), cut.cell(last)))
        return range(first, last + 1)
    return sorted({cut.cell(start + step * position) for position in range(count)})
