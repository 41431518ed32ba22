"""A copy in two steps, by way of a folder, where one step would decode chunks too often.

From slices to columns, in a memory that holds a few of either, every slice would be decoded again
for each of the few columns that fit. Instead slices are cut into pieces which are stored,
uncompressed, and columns are put together from these: everything is read and written twice, and
nothing more often. A piece is as large as what fits into memory of both: along each axis the
shorter one of a region of slices and a region of columns. All pieces of a region of slices make
one file, a shard.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from tessarr.metadata.build import build_array_meta

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tessarr.dtype import DataType
    from tessarr.metadata.node import ArrayMeta
    from tessarr.types import Shape

__all__ = ["pieces_for"]

Cuts: TypeAlias = npt.NDArray[np.int64]
"""Where an axis is cut, without its ends."""


def pieces_for(
    shape: Shape,
    data_type: DataType,
    source: Sequence[Cuts | None],
    target: Sequence[Cuts | None],
    memory_bytes: int,
) -> ArrayMeta:
    """Return the metadata of an array that is quickly written from one and read for the other.

    Parameters
    ----------
    shape, data_type
        Of what is copied.
    source, target
        Where each axis is cut into chunks there; None: anywhere.
    memory_bytes
        How much a region may have.

    Examples
    --------
    >>> from tessarr import dtype
    >>> from tessarr.transfer import cut_points
    >>> thin, whole = cut_points(1, 1000), cut_points(None, 1000)
    >>> item = dtype.to_data_type("f8")
    >>> meta = pieces_for((1000, 1000), item, (thin, whole), (whole, thin), 800_000)
    >>> meta.chunks, meta.shards
    ((64, 50), (64, 1000))
    """
    room = max(memory_bytes // max(data_type.item_bytes, 1), 1)
    here, there = _longest(source, shape), _longest(target, shape)
    slices = _grown(here, there, shape, room)
    columns = _grown(there, slices, shape, room)
    chunks = tuple(map(_piece, slices, columns))
    shards = tuple(-(-s // c) * c for s, c in zip(slices, chunks, strict=True))
    return build_array_meta(
        shape=shape,
        dtype=data_type.ordered("native"),
        chunks=chunks,
        shards=shards,
        compressors=None,
    )


def _longest(cuts: Sequence[Cuts | None], shape: Shape) -> Shape:
    found = []
    for points, length in zip(cuts, shape, strict=True):
        ends = np.asarray([0, *(() if points is None else points), length])
        found.append(1 if points is None else max(int(np.diff(ends).max()), 1))
    return tuple(found)


def _grown(lengths: Shape, wanted: Shape, shape: Shape, room: int) -> Shape:
    """Return chunks side by side, along the axes where they are shorter than what is wanted."""
    grown = list(lengths)
    while True:
        ratios = [want / have for want, have in zip(wanted, grown, strict=True)]
        axis = max(range(len(grown)), key=ratios.__getitem__, default=0)
        if not grown or ratios[axis] <= 1:
            return tuple(grown)
        longer = min(2 * grown[axis], _up(shape[axis], lengths[axis]))
        if longer == grown[axis] or prod(grown) // grown[axis] * longer > room:
            return tuple(grown)
        grown[axis] = longer


def _up(length: int, part: int) -> int:
    return -(-length // part) * part


def _piece(slices: int, columns: int) -> int:
    """Return a length of at most both that divides the first, or nearly so."""
    most = min(slices, columns)
    parts: Sequence[int] = [n for n in range(-(-slices // most), slices + 1) if slices % n == 0]
    length = slices // parts[0]
    return length if 2 * length > most else most
