"""Layouts for ``tessarr advise`` to measure: chunks, shards and codecs.

Theory
------
The cost of a read depends on the chunks that it touches: each needs a request and is decoded
completely. Chunks inside the box of a read waste nothing, but small chunks need many requests.
A large chunk that a read touches at a corner wastes decoding.

For one access pattern, the best chunk is a piece of its box. For several access patterns, each
with its own best shape, the compromise is the geometric mean of these shapes: each pattern loses
the same factor. The candidates are these shapes in several sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.codec import to_codec
from tessarr.codec.blosc import Blosc
from tessarr.codec.native import Zstd
from tessarr.format.chunk_shape import guess_chunk_shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tessarr.codec import Codec
    from tessarr.types import Shape

__all__ = ["Access", "Layout", "list_compressors", "suggest_chunk_shapes", "suggest_shard_shape"]

_CHUNK_BYTES: Final = (64 << 10, 512 << 10, 4 << 20)
_MIN_BYTES: Final = 16 << 10
_SHARD_BYTES: Final = 64 << 20
_MIN_CHUNKS_PER_SHARD: Final = 8
"""A shard needs at least this many chunks to be worth its index."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout of an array.

    Parameters
    ----------
    chunks, shards
        The shapes of chunks and shards.
    compressors
        The bytes-to-bytes codecs.
    """

    chunks: Shape
    shards: Shape | None
    compressors: tuple[Codec, ...]


@dataclass(frozen=True, slots=True)
class Access:
    """An access pattern: a range along each axis.

    Parameters
    ----------
    text
        The text from the command line.
    ranges
        The indices to read along each axis.
    """

    text: str
    ranges: tuple[range, ...]

    @property
    def lengths(self) -> Shape:
        """The extent of the read along each axis."""
        return tuple(abs(axis[-1] - axis[0]) + 1 if axis else 1 for axis in self.ranges)

    def count_chunks(self, lengths: Sequence[int]) -> int:
        """Return the number of chunks that the read touches.

        Examples
        --------
        >>> Access("", (range(5, 6), range(0, 100))).count_chunks((10, 30))
        4
        """
        return prod(
            len(axis) if abs(axis.step) >= length else _count_cells(axis, length)
            for axis, length in zip(self.ranges, lengths, strict=True)
        )

    def move_into(self, starts: Sequence[int], shape: Shape) -> tuple[slice, ...]:
        """Return a read with the same pattern in a part of the array."""
        slices: list[slice] = []
        for axis, start, length in zip(self.ranges, starts, shape, strict=True):
            step = abs(axis.step)
            count = min(len(axis), -(-length // step))
            first = min(max(min(axis[0], axis[-1]) - start, 0) if axis else 0, length - 1)
            first = max(min(first, length - (count - 1) * step - 1), 0)
            slices.append(slice(first, min(first + (count - 1) * step + 1, length), step))
        return tuple(slices)


def _count_cells(axis: range, length: int) -> int:
    if not axis:
        return 0
    first, last = sorted((axis[0], axis[-1]))
    return last // length - first // length + 1


def suggest_chunk_shapes(shape: Shape, item_bytes: int, accesses: Sequence[Access]) -> list[Shape]:
    """Return candidate chunk shapes for some access patterns.

    Examples
    --------
    >>> rows = Access("", (range(1), range(100_000)))
    >>> suggest_chunk_shapes((1000, 100_000), 4, [rows])[:2]
    [(1, 14286), (125, 128)]
    """
    shapes: list[Shape] = []
    for chunk_bytes in _CHUNK_BYTES:
        count = max(chunk_bytes // item_bytes, 1)
        ideal = [_fit_chunk(access.lengths, count, shape, item_bytes) for access in accesses]
        means = [prod(lengths) ** (1 / len(ideal)) for lengths in zip(*ideal, strict=True)]
        shapes += [_equalize_lengths(lengths, shape) for lengths in ideal]
        if len(set(ideal)) > 1:
            shapes.append(_equalize_lengths(_scale_lengths(means, count, shape), shape))
        shapes.append(_equalize_lengths(_scale_lengths([1.0] * len(shape), count, shape), shape))
    shapes.append(guess_chunk_shape(shape, item_bytes))
    return list(dict.fromkeys(shapes))


def _fit_chunk(box: Shape, count: int, shape: Shape, item_bytes: int) -> Shape:
    """Return a piece of a box with at most `count` elements; enlarge a tiny box."""
    if prod(box) >= count:
        return _scale_lengths([float(length) for length in box], count, box)
    min_elements = min(max(_MIN_BYTES // item_bytes, 1), prod(shape))
    lengths = list(box)
    while prod(lengths) < min_elements:
        # Grow the axis with the shortest reads, which spreads wasted decoding over all axes.
        axes = [axis for axis, length in enumerate(lengths) if length < shape[axis]]
        axis = min(axes, key=lambda axis: lengths[axis])
        lengths[axis] = min(lengths[axis] * 2, shape[axis])
    return tuple(lengths)


def _scale_lengths(lengths: Sequence[float], count: int, limit: Sequence[int]) -> Shape:
    """Return lengths in the same ratio with about `count` elements, within limits."""
    scaled = [1.0] * len(lengths)
    free = list(range(len(lengths)))
    remaining = float(count)
    while free:
        factor = (remaining / prod(lengths[axis] for axis in free)) ** (1 / len(free))
        grown = {axis: lengths[axis] * factor for axis in free}
        full = [axis for axis in free if grown[axis] >= limit[axis]]
        tiny = [] if full else [axis for axis in free if grown[axis] <= 1]
        for axis in full or tiny or free:
            scaled[axis] = float(limit[axis]) if full else 1.0 if tiny else grown[axis]
        if not full and not tiny:
            break
        remaining /= prod(scaled[axis] for axis in full or tiny)
        free = [axis for axis in free if axis not in (full or tiny)]
        remaining = max(remaining, 1.0)
    return tuple(max(int(length + 1e-9), 1) for length in scaled)


def _equalize_lengths(lengths: Sequence[int], shape: Shape) -> Shape:
    """Return lengths that cut each axis into nearly equal parts."""
    pairs = zip(lengths, shape, strict=True)
    return tuple(-(-size // -(-size // length)) if size else 1 for length, size in pairs)


def suggest_shard_shape(chunks: Shape, shape: Shape, item_bytes: int) -> Shape | None:
    """Return the shape of shards for some chunks, or None if shards bring no benefit.

    Examples
    --------
    >>> suggest_shard_shape((100, 100), (10_000, 10_000), 4)
    (3400, 3400)
    >>> suggest_shard_shape((4000, 4000), (10_000, 10_000), 4) is None
    True
    """
    counts = [-(-size // length) for size, length in zip(shape, chunks, strict=True)]
    max_chunks = _SHARD_BYTES // (prod(chunks) * item_bytes)
    if min(max_chunks, prod(counts)) < _MIN_CHUNKS_PER_SHARD:
        return None
    chunks_per_shard = _scale_lengths([1.0] * len(chunks), min(max_chunks, prod(counts)), counts)
    return tuple(
        length * -(-count // -(-count // number))
        for length, count, number in zip(chunks, counts, chunks_per_shard, strict=True)
    )


def list_compressors(dtype: np.dtype[Any], zarr_format: int) -> Iterator[tuple[Codec, ...]]:
    """Yield candidate codecs for a data type."""
    yield ()
    yield (Blosc("lz4", 5, "shuffle"),)  # type: ignore[arg-type] # names are taken too
    yield (Blosc("zstd", 3, "shuffle"),)  # type: ignore[arg-type]
    if dtype.itemsize > 1 and not dtype.hasobject:
        yield (Blosc("zstd", 3, "bitshuffle"),)  # type: ignore[arg-type]
    yield (Zstd(3),)
    yield (to_codec({"id": "gzip" if zarr_format == 3 else "zlib", "level": 5}),)
