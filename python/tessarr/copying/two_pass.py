"""Two-pass rechunking through a scratch folder, where one pass would decode chunks too often.

Consider a copy from slices to columns in memory for a few of either. One pass would decode every
slice again for each group of columns that fits into memory. Instead, the first pass divides slices
into pieces and stores them uncompressed. The second pass assembles columns from the pieces. Every
element is read and written exactly twice.

Along each axis, a piece has the shorter length of a region of slices and a region of columns. All
pieces of a region of slices form one file, a shard.
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

__all__ = ["plan_intermediate"]

Cuts: TypeAlias = npt.NDArray[np.int64]
"""The cut positions of an axis, without its ends."""


def plan_intermediate(
    shape: Shape,
    data_type: DataType,
    source: Sequence[Cuts | None],
    target: Sequence[Cuts | None],
    memory_bytes: int,
) -> ArrayMeta:
    """Return the metadata of an intermediate array with fast writes and fast reads.

    Parameters
    ----------
    shape, data_type
        The shape and the data type of the source.
    source, target
        The chunk borders of each axis; None allows a border anywhere.
    memory_bytes
        The maximum size of a region.

    Examples
    --------
    >>> from tessarr import dtype
    >>> from tessarr.transfer import cut_points
    >>> thin, whole = cut_points(1, 1000), cut_points(None, 1000)
    >>> float64 = dtype.to_data_type("f8")
    >>> meta = plan_intermediate((1000, 1000), float64, (thin, whole), (whole, thin), 800_000)
    >>> meta.chunks, meta.shards
    ((64, 50), (64, 1000))
    """
    max_items = max(memory_bytes // max(data_type.item_bytes, 1), 1)
    source_lengths, target_lengths = _max_lengths(source, shape), _max_lengths(target, shape)
    slices = _grow_region(source_lengths, target_lengths, shape, max_items)
    columns = _grow_region(target_lengths, slices, shape, max_items)
    chunks = tuple(map(_piece_length, slices, columns))
    shards = tuple(-(-s // c) * c for s, c in zip(slices, chunks, strict=True))
    return build_array_meta(
        shape=shape,
        dtype=data_type.ordered("native"),
        chunks=chunks,
        shards=shards,
        compressors=None,
    )


def _max_lengths(cuts: Sequence[Cuts | None], shape: Shape) -> Shape:
    lengths = []
    for points, length in zip(cuts, shape, strict=True):
        ends = np.asarray([0, *(() if points is None else points), length])
        lengths.append(1 if points is None else max(int(np.diff(ends).max()), 1))
    return tuple(lengths)


def _grow_region(lengths: Shape, target: Shape, shape: Shape, max_items: int) -> Shape:
    """Return a region of chunks, extended along axes on which it is shorter than the target."""
    region = list(lengths)
    while True:
        ratios = [want / have for want, have in zip(target, region, strict=True)]
        axis = max(range(len(region)), key=ratios.__getitem__, default=0)
        if not region or ratios[axis] <= 1:
            return tuple(region)
        longer = min(2 * region[axis], _round_up(shape[axis], lengths[axis]))
        if longer == region[axis] or prod(region) // region[axis] * longer > max_items:
            return tuple(region)
        region[axis] = longer


def _round_up(length: int, part: int) -> int:
    return -(-length // part) * part


def _piece_length(slices: int, columns: int) -> int:
    """Return a length of at most both arguments that divides the first one, or nearly so."""
    limit = min(slices, columns)
    divisors: Sequence[int] = [n for n in range(-(-slices // limit), slices + 1) if slices % n == 0]
    length = slices // divisors[0]
    return length if 2 * length > limit else limit
