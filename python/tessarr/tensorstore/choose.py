"""The choice of read and write chunks that meet constraints: TensorStore's, step by step.

Theory
------
A chunk shape that is partly open is filled by an aspect ratio and a number of elements: lengths are
``ratio * factor``, cut to the extent of the array and rounded so that write chunks are multiples
of read chunks, and the factor is searched by halving (the range's ratio while its ends are far
apart, then the range) until the chunk has as many elements as
wanted, or as few below as possible. Read chunks are settled first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import Final

import numpy as np

from tessarr.errors import ArgumentError
from tessarr.space import Box, Dim
from tessarr.tensorstore.chunk_grid import GridConstraints
from tessarr.tensorstore.chunk_layout import ChunkLayout

__all__ = ["choose", "choose_one"]

DEFAULT_ELEMENTS: Final = 1024 * 1024
_MOST: Final = 2**63 - 1
_LARGEST: Final = 2**62
_SEARCHED: Final = 1_000_000
_APART: Final = 4
_BLOCK: Final = 1 << 14


@dataclass(slots=True)
class _Shape:
    """A chunk shape in the making: 0 is open."""

    lengths: list[int]
    hard: list[bool]


def choose(layout: ChunkLayout, domain: Box) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of read and of write chunks.

    Parameters
    ----------
    layout
        The constraints.
    domain
        The extent of the array, which may be infinite.

    Raises
    ------
    ArgumentError
        If a hard write chunk is no multiple of a hard read chunk, or a whole extent is asked
        for that is infinite.

    Notes
    -----
    The number of elements is by default 1024 * 1024, whatever their size.

    Examples
    --------
    >>> from tessarr.space import Dim
    >>> choose(ChunkLayout(read_chunk_shape=[64, 64]), (Dim(400), Dim(400)))
    ((64, 64), (384, 384))
    """
    outer_grid, inner_grid, _ = layout.grids
    write = _begun(outer_grid, domain, "write_chunk")
    read = _begun(inner_grid, domain, "read_chunk")
    for k in range(len(domain)):
        _agree(read, write, k)
    outer = tuple(write.lengths)
    inner = _filled(read.lengths, inner_grid, domain, _nearest_divisor, outer)
    whole = _filled(write.lengths, outer_grid, domain, _nearest_multiple, inner)
    return inner, whole


def _begun(grid: GridConstraints, domain: Box, what: str) -> _Shape:
    shape = _Shape([0] * len(domain), [False] * len(domain))
    for k, wish in enumerate(grid.lengths):
        if wish is None:
            continue
        shape.lengths[k], shape.hard[k] = wish.value, wish.hard
        if wish.value == -1:
            if not domain[k].finite:
                raise ArgumentError(
                    f"{what}: the whole of dimension {k} is wanted, but {domain[k]} is infinite"
                )
            shape.lengths[k] = max(1, domain[k].size)
    return shape


def _agree(read: _Shape, write: _Shape, k: int) -> None:
    inner, outer = read.lengths[k], write.lengths[k]
    if not inner or not outer or outer % inner == 0:
        return
    if read.hard[k] and write.hard[k]:
        raise ArgumentError(
            f"write_chunk {outer} of dimension {k} is not a multiple of read_chunk {inner}"
        )
    if read.hard[k]:
        write.lengths[k] = _nearest_multiple(inner, outer)
    else:
        read.lengths[k] = _nearest_divisor(outer, inner)


def _nearest_multiple(of: int, target: int) -> int:
    """Return the multiple that is nearest, and of two the smaller one; at least one times."""
    if target <= of:
        return of
    below = target // of * of
    return below + of if target - below > of // 2 and 2 * (target - below) > of else below


def _nearest_divisor(of: int, target: int) -> int:
    if target >= of:
        return of
    if of % target == 0:
        return target
    begin, length = 1, 16
    while begin < _SEARCHED:
        offsets = np.arange(begin, min(begin + length, _SEARCHED), dtype=np.int64)
        below, above = target - offsets, target + offsets
        fits_below = (below > 0) & (of % np.maximum(below, 1) == 0)
        found = np.flatnonzero(fits_below | ((above > 0) & (of % above == 0)))
        if found.size:
            offset = int(offsets[found[0]])
            return target - offset if fits_below[found[0]] else target + offset
        begin, length = begin + length, min(4 * length, _BLOCK)
    return of


def _filled(
    lengths: Sequence[int],
    grid: GridConstraints,
    domain: Box,
    near: Callable[[int, int], int] = max,
    parts: Sequence[int] = (),
) -> tuple[int, ...]:
    """Settle the open lengths by aspect ratio and number of elements.

    Those of dimensions that have a part are rounded by `near`. Of multiples of all parts, the parts
    themselves are the only ones that are not too many where twice as many elements are.
    """
    if all(lengths):
        return tuple(lengths)
    ratios = [wish.value if wish is not None else 1.0 for wish in grid.ratios]
    target = DEFAULT_ELEMENTS if grid.count is None else grid.count.value or DEFAULT_ELEMENTS
    axes = []
    for k, dim in enumerate(domain):
        most = float(min(target, _extent(dim)))
        ratio, part = ratios[k] if ratios else 1.0, parts[k] if parts else 0
        if not lengths[k]:
            axes.append((ratio, most, int(most), part))
    fixed = prod(length for length in lengths if length)
    least = fixed * prod(part for _, _, _, part in axes)
    if near is _nearest_multiple and least <= target < 2 * least:
        return tuple(length or part for length, part in zip(lengths, parts, strict=True))

    def found(factor: float) -> list[int]:
        found = []
        for ratio, most, longest, part in axes:
            wanted = ratio * factor
            length = (int(wanted) or 1) if wanted < most else longest
            found.append(near(part, length) if part else length)
        return found

    def count(factor: float) -> int:
        total = fixed * prod(found(factor))
        return min(_MOST, total)

    settled = iter(found(_factor(count, target, [axis[:2] for axis in axes])))
    return tuple(length or next(settled) for length in lengths)


def _factor(
    count: Callable[[float], int], target: int, axes: Sequence[tuple[float, float]]
) -> float:
    step = min(1 / ratio for ratio, _ in axes) / 2
    high = 2 * max(most / ratio for ratio, most in axes)
    low, found = step, count(high)
    if found <= target:
        return high  # all of each axis is not too much: halving would end there, too
    while low + step < high:
        # As TensorStore 0.1.86 halves: its results depend on where the search ends.
        middle = sqrt(low * high) if high > _APART * low else low + (high - low) / 2
        if not low < middle < high:
            break  # there is no number between the two
        total = count(middle)
        if total >= target:
            high, found = middle, total
        if total <= target:
            low = middle
    return high if found == target else low


def _extent(dim: Dim) -> int:
    return max(1, dim.size) if dim.finite else _LARGEST


def choose_one(layout: ChunkLayout, domain: Box) -> tuple[int, ...]:
    """Return the shape of chunks that are read and written alike.

    Raises
    ------
    ArgumentError
        If constraints on read and on write chunks contradict each other, or a whole extent is
        asked for that is infinite.
    """
    write, read, _ = layout.grids
    both = read.merged(write, "write_chunk")
    shape = _begun(both, domain, "chunk")
    return _filled(shape.lengths, both, domain)
