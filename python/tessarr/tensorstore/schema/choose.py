"""The choice of read and write chunks that meet constraints: TensorStore's, step by step.

Read chunks are settled first. What is open of a shape is filled by an aspect ratio and a number of
elements, in the engine (``fill.rs``), so that write chunks are multiples of read chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tessarr._engine import filled, nearest
from tessarr.errors import ArgumentError
from tessarr.space import Box
from tessarr.tensorstore.schema.chunk_grid import GridConstraints
from tessarr.tensorstore.schema.chunk_layout import ChunkLayout

__all__ = ["choose", "choose_one"]

DEFAULT_ELEMENTS: Final = 1024 * 1024
_LARGEST: Final = 2**62


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
    inner = _filled(read.lengths, inner_grid, domain, write.lengths)
    whole = _filled(write.lengths, outer_grid, domain, inner, multiples=True)
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
        write.lengths[k] = nearest(inner, outer, True)
    else:
        read.lengths[k] = nearest(outer, inner, False)


def _filled(
    lengths: Sequence[int],
    grid: GridConstraints,
    domain: Box,
    others: Sequence[int] = (),
    *,
    multiples: bool = False,
) -> tuple[int, ...]:
    """Settle the open lengths by aspect ratio and number of elements, to fit those of others."""
    if all(lengths):
        return tuple(lengths)
    none = [0] * len(lengths)
    ratios = [1.0 if wish is None else wish.value for wish in grid.ratios or (None,) * len(lengths)]
    target = DEFAULT_ELEMENTS if grid.elements is None else grid.elements.value or DEFAULT_ELEMENTS
    extents = [max(1, dim.size) if dim.finite else _LARGEST for dim in domain]
    return filled(lengths, ratios, extents, others or none, target, multiples)


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
