"""How an array might be stored, for ``tessarr advise``: chunks, shards and codecs to try.

Theory
------
What a read costs is the chunks that it touches: each is a request and is decoded whole. A
chunk that lies inside of what is read at a time wastes nothing, but small ones are many
requests; a large one that is touched at a corner is decoded for little. For one way of reading the
best chunk is a piece of its box. For several, that would be best for each, the shape between
them is their geometric mean: each way of reading loses the same factor. So these shapes, in some
sizes, are what is worth to be measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.codec import to_codec
from tessarr.codec.blosc import Blosc
from tessarr.codec.zstd import Zstd
from tessarr.format.chunk_shape import guess_chunk_shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tessarr.codec import Codec
    from tessarr.types import Shape

__all__ = ["Access", "Layout", "chunk_shapes", "compressors", "shard_shape"]

_CHUNK_BYTES: Final = (64 << 10, 512 << 10, 4 << 20)
_LEAST_BYTES: Final = 16 << 10
_SHARD_BYTES: Final = 64 << 20
_WORTH_SHARDS: Final = 8
"""A shard of fewer chunks is not worth its index."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to store an array.

    Parameters
    ----------
    chunks, shards
        Their shapes.
    compressors
        The codecs from bytes to bytes; None for those that the array has now.
    """

    chunks: Shape
    shards: Shape | None = None
    compressors: tuple[Codec, ...] | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """One way to read an array: a range along each axis.

    Parameters
    ----------
    text
        As the user gave it.
    ranges
        What is read along each axis.
    """

    text: str
    ranges: tuple[range, ...]

    @property
    def lengths(self) -> Shape:
        """How much of each axis it reaches over."""
        return tuple(abs(axis[-1] - axis[0]) + 1 if axis else 1 for axis in self.ranges)

    def touched(self, lengths: Sequence[int]) -> int:
        """Return how many chunks it touches.

        Examples
        --------
        >>> Access("", (range(5, 6), range(0, 100))).touched((10, 30))
        4
        """
        return prod(
            len(axis) if abs(axis.step) >= length else _cells(axis, length)
            for axis, length in zip(self.ranges, lengths, strict=True)
        )

    def within(self, starts: Sequence[int], shape: Shape) -> tuple[slice, ...]:
        """Return a read of the same kind in a part of the array."""
        found: list[slice] = []
        for axis, start, length in zip(self.ranges, starts, shape, strict=True):
            step = abs(axis.step)
            count = min(len(axis), -(-length // step))
            first = min(max(min(axis[0], axis[-1]) - start, 0) if axis else 0, length - 1)
            first = max(min(first, length - (count - 1) * step - 1), 0)
            found.append(slice(first, min(first + (count - 1) * step + 1, length), step))
        return tuple(found)


def _cells(axis: range, length: int) -> int:
    if not axis:
        return 0
    first, last = sorted((axis[0], axis[-1]))
    return last // length - first // length + 1


def chunk_shapes(shape: Shape, item_bytes: int, accesses: Sequence[Access]) -> list[Shape]:
    """Return chunk shapes that are worth to be measured.

    Examples
    --------
    >>> rows = Access("", (range(1), range(100_000)))
    >>> chunk_shapes((1000, 100_000), 4, [rows])[:2]
    [(1, 14286), (125, 128)]
    """
    found: list[Shape] = []
    for most in _CHUNK_BYTES:
        count = max(most // item_bytes, 1)
        ideal = [_fitted(access.lengths, count, shape, item_bytes) for access in accesses]
        means = [prod(lengths) ** (1 / len(ideal)) for lengths in zip(*ideal, strict=True)]
        found += [_even(lengths, shape) for lengths in ideal]
        if len(set(ideal)) > 1:
            found.append(_even(_scaled(means, count, shape), shape))
        found.append(_even(_scaled([1.0] * len(shape), count, shape), shape))
    found.append(guess_chunk_shape(shape, item_bytes))
    return list(dict.fromkeys(found))


def _fitted(box: Shape, count: int, shape: Shape, item_bytes: int) -> Shape:
    """Return a piece of a box of at most `count` elements; a tiny box is made larger."""
    if prod(box) >= count:
        return _scaled([float(length) for length in box], count, box)
    least = min(max(_LEAST_BYTES // item_bytes, 1), prod(shape))
    lengths = list(box)
    while prod(lengths) < least:
        # The axis that is read least of: what is decoded in vain is spread over all.
        axes = [at for at, length in enumerate(lengths) if length < shape[at]]
        at = min(axes, key=lambda at: lengths[at])
        lengths[at] = min(lengths[at] * 2, shape[at])
    return tuple(lengths)


def _scaled(lengths: Sequence[float], count: int, limit: Sequence[int]) -> Shape:
    """Return lengths in the same ratio that make about `count` elements within limits."""
    scaled = [1.0] * len(lengths)
    free = list(range(len(lengths)))
    left = float(count)
    while free:
        factor = (left / prod(lengths[at] for at in free)) ** (1 / len(free))
        wanted = {at: lengths[at] * factor for at in free}
        full = [at for at in free if wanted[at] >= limit[at]]
        tiny = [] if full else [at for at in free if wanted[at] <= 1]
        for at in full or tiny or free:
            scaled[at] = float(limit[at]) if full else 1.0 if tiny else wanted[at]
        if not full and not tiny:
            break
        left /= prod(scaled[at] for at in full or tiny)
        free = [at for at in free if at not in (full or tiny)]
        left = max(left, 1.0)
    return tuple(max(int(length + 1e-9), 1) for length in scaled)


def _even(lengths: Sequence[int], shape: Shape) -> Shape:
    """Return lengths that cut each axis into equal parts, as far as that goes."""
    pairs = zip(lengths, shape, strict=True)
    return tuple(-(-size // -(-size // length)) if size else 1 for length, size in pairs)


def shard_shape(chunks: Shape, shape: Shape, item_bytes: int) -> Shape | None:
    """Return the shape of shards of such chunks, or None where they are not worth it.

    Examples
    --------
    >>> shard_shape((100, 100), (10_000, 10_000), 4)
    (3400, 3400)
    >>> shard_shape((4000, 4000), (10_000, 10_000), 4) is None
    True
    """
    counts = [-(-size // length) for size, length in zip(shape, chunks, strict=True)]
    most = _SHARD_BYTES // (prod(chunks) * item_bytes)
    if min(most, prod(counts)) < _WORTH_SHARDS:
        return None
    many = _scaled([1.0] * len(chunks), min(most, prod(counts)), counts)
    return tuple(
        length * -(-count // -(-count // number))
        for length, count, number in zip(chunks, counts, many, strict=True)
    )


def compressors(dtype: np.dtype[Any], zarr_format: int) -> Iterator[tuple[Codec, ...]]:
    """Yield what is worth to be tried for elements of a data type."""
    yield ()
    yield (Blosc("lz4", 5, "shuffle"),)  # type: ignore[arg-type] # names are taken too
    yield (Blosc("zstd", 3, "shuffle"),)  # type: ignore[arg-type]
    if dtype.itemsize > 1 and not dtype.hasobject:
        yield (Blosc("zstd", 3, "bitshuffle"),)  # type: ignore[arg-type]
    yield (Zstd(3),)
    yield (to_codec({"id": "gzip" if zarr_format == 3 else "zlib", "level": 5}),)
