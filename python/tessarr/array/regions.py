"""Regions of arrays, cut into boxes of whole chunks."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tessarr.format.chunk_grid import Cuts
    from tessarr.metadata.node import ArrayMeta
    from tessarr.types import Shape

__all__ = ["count_elements", "get_chunk_region", "split_region"]


def split_region(
    region: tuple[slice, ...], cuts: Sequence[Cuts], max_elements: int
) -> Iterator[tuple[slice, ...]]:
    """Yield boxes of whole chunks, with few elements each, that cover a region.

    Parameters
    ----------
    region
        Slices with starts and stops.
    cuts
        The chunk boundaries of each axis.
    max_elements
        The largest number of elements of a box; a box of one chunk may have more.

    Examples
    --------
    >>> from tessarr.format.chunk_grid import RegularGrid
    >>> cuts = RegularGrid((4, 6)).cuts
    >>> list(split_region((slice(0, 10), slice(0, 6)), cuts, 30))
    [(slice(0, 4, None), slice(0, 6, None)), (slice(4, 8, None), slice(0, 6, None)),
     (slice(8, 10, None), slice(0, 6, None))]
    """
    # A stack instead of recursion; its last item is the first box.
    stack = [region]
    while stack:
        box = stack.pop()
        spans = [
            (axis.cell(part.start), axis.cell(part.stop - 1)) if part.stop > part.start else (0, 0)
            for part, axis in zip(box, cuts, strict=True)
        ]
        longest = max(range(len(box)), key=lambda axis: spans[axis][1] - spans[axis][0], default=-1)
        if (
            count_elements(box) <= max_elements
            or longest < 0
            or spans[longest][0] == spans[longest][1]
        ):
            yield box
            continue
        first, last = spans[longest]
        middle = cuts[longest].start((first + last + 1) // 2)
        part = box[longest]
        before, after = slice(part.start, middle), slice(middle, part.stop)
        stack += [(*box[:longest], half, *box[longest + 1 :]) for half in (after, before)]


def count_elements(region: tuple[slice, ...]) -> int:
    """Return the number of elements of a region.

    Examples
    --------
    >>> count_elements((slice(0, 4), slice(1, 3)))
    8
    """
    return prod(max(part.stop - part.start, 0) for part in region)


def get_chunk_region(meta: ArrayMeta, cell: Shape) -> tuple[slice, ...]:
    """Return the part of the array in the chunk (or shard) at `cell`."""
    triples = zip(meta.chunk_grid.cuts, cell, meta.shape, strict=True)
    return tuple(
        slice(cuts.start(index), min(cuts.start(index) + cuts.length(index), length))
        for cuts, index, length in triples
    )
