"""The choice of a chunk shape where the user leaves it open."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import ArgumentError

if TYPE_CHECKING:
    from tessarr.types import ChunkLengths, Shape

__all__ = [
    "chunk_lengths",
    "chunk_shape",
    "guess_chunk_shape",
    "guess_shard_shape",
    "is_unspecified",
    "normalize_shape",
    "subchunk_shape",
]

_BASE_BYTES: Final = 64 * 1024
_MIN_BYTES: Final = 128 * 1024
_MAX_BYTES: Final = 16 * 1024 * 1024
_MIB: Final = 1024 * 1024
_SHARD_BYTES: Final = 64 * 1024 * 1024


def normalize_shape(shape: Any) -> Shape:
    """Return a shape as a tuple of integers of at least 0.

    Raises
    ------
    ArgumentError
        Where it is not an integer or a sequence of integers, or one is negative.

    Examples
    --------
    >>> normalize_shape(3), normalize_shape([2, 3])
    ((3,), (2, 3))
    """
    try:
        lengths = (
            (operator.index(shape),) if _is_index(shape) else tuple(map(operator.index, shape))
        )
    except TypeError as error:
        message = f"shape {shape!r} is not an integer or a sequence of integers"
        raise ArgumentError(message, kind="invalid_argument") from error
    if any(length < 0 for length in lengths):
        raise ArgumentError(f"shape {shape!r} has a negative length", kind="invalid_argument")
    return lengths


def chunk_lengths(chunks: Any, shape: Shape, item_bytes: int) -> ChunkLengths:
    """Return the lengths of chunks that a user means.

    Parameters
    ----------
    chunks : None, bool, int, or sequence of (int, None, or sequence of int)
        ``None`` or ``True``: guess. ``False`` or ``-1``: one chunk. An integer: that length
        along every axis. In a sequence ``None`` and ``-1`` mean the whole axis, and so do
        axes that a short sequence leaves out; a sequence in it lists the chunks of an axis.
    shape : tuple of int
        The shape of the array.
    item_bytes : int
        Bytes of one element.

    Returns
    -------
    tuple of (int or tuple)
        What is listed is a tuple, and not checked.

    Raises
    ------
    ArgumentError
        Where a length is less than 1, or there are more lengths than axes.

    Examples
    --------
    >>> chunk_lengths(None, (10000, 10000), 4), chunk_lengths((100,), (10000, 500), 4)
    ((313, 313), (100, 500))
    >>> chunk_lengths(-1, (20, 30), 4), chunk_lengths(10, (20, 30), 4)
    ((20, 30), (10, 10))
    >>> chunk_lengths([[5, 10, 5], -1], (20, 30), 4)
    ((5, 10, 5), 30)
    """
    if is_unspecified(chunks):
        return guess_chunk_shape(shape, item_bytes)
    whole = tuple(max(length, 1) for length in shape)
    if chunks is False:
        return whole
    entries: tuple[Any, ...] = (chunks,) * len(shape) if _is_index(chunks) else _to_entries(chunks)
    if len(entries) > len(shape):
        message = f"chunks {chunks!r} has more lengths than the {len(shape)} axes of the array"
        raise ArgumentError(message, kind="invalid_argument")
    lengths: list[Any] = list(whole)
    for axis, entry in enumerate(entries):
        if entry is None or (_is_index(entry) and entry == -1):
            continue
        if _is_index(entry) and entry >= 1:
            lengths[axis] = operator.index(entry)
        elif isinstance(entry, Iterable) and not isinstance(entry, str | bytes):
            lengths[axis] = tuple(entry)
        else:
            message = f"chunks {chunks!r}: {entry!r} is not None, -1 or an integer of at least 1"
            raise ArgumentError(message, kind="invalid_argument")
    return tuple(lengths)


def chunk_shape(chunks: Any, shape: Shape, item_bytes: int) -> Shape:
    """Return the one chunk shape that a user means; as `chunk_lengths`, but nothing is listed.

    Raises
    ------
    ArgumentError
        As there, and where the chunks of an axis are listed.

    Examples
    --------
    >>> chunk_shape((100,), (10000, 500), 4)
    (100, 500)
    """
    lengths = chunk_lengths(chunks, shape, item_bytes)
    if not all(isinstance(length, int) for length in lengths):
        message = f"chunks {chunks!r}: subchunks have one length along each axis"
        raise ArgumentError(message, kind="invalid_argument")
    return lengths


def is_unspecified(chunks: object) -> bool:
    """Tell whether a user leaves the chunks to Tessarr: by None, True or "auto"."""
    return chunks is None or chunks is True or (isinstance(chunks, str) and chunks == "auto")


def subchunk_shape(chunks: Any, shape: Shape, item_bytes: int) -> Shape:
    """Return the chunk shape that a user means, in shards of a shape that is chosen, too.

    What is read from a shard by itself may be small, so that it is at most 1 MiB.

    Raises
    ------
    ArgumentError
        As `chunk_shape`.

    Examples
    --------
    >>> subchunk_shape("auto", (10000, 10000, 100), 4), subchunk_shape((10, 10), (100, 100), 4)
    ((157, 313, 4), (10, 10))
    """
    if is_unspecified(chunks):
        return guess_chunk_shape(shape, item_bytes, _MIB)
    return chunk_shape(chunks, shape, item_bytes)


def guess_shard_shape(shape: Shape, chunks: Shape, item_bytes: int) -> Shape:
    """Return a shard shape for an array of `shape` with subchunks of the shape `chunks`.

    A shard takes twice as many chunks along one axis after the other, the last axis first,
    as long as it has at most 64 MiB before compression and is not longer than the array.

    Examples
    --------
    >>> guess_shard_shape((10000, 10000), (313, 313), 4), guess_shard_shape((30, 9), (10, 5), 4)
    ((2504, 5008), (30, 10))
    """
    counts = [-(-length // chunk) for length, chunk in zip(shape, chunks, strict=True)]
    taken = [1] * len(chunks)
    chunk_bytes = math.prod(chunks) * item_bytes

    def more(axis: int) -> list[int]:
        grown = min(2 * taken[axis], max(counts[axis], 1))
        return [*taken[:axis], grown, *taken[axis + 1 :]]

    while True:
        # Of those that take the fewest chunks so far the last axis grows.
        axes = sorted(range(len(taken)), key=lambda axis: (taken[axis], -axis))
        grown = next(
            (
                longer
                for longer in map(more, axes)
                if longer != taken and math.prod(longer) * chunk_bytes <= _SHARD_BYTES
            ),
            None,
        )
        if grown is None:
            return tuple(count * chunk for count, chunk in zip(taken, chunks, strict=True))
        taken = grown


def guess_chunk_shape(shape: Shape, item_bytes: int, most_bytes: int = _MAX_BYTES) -> Shape:
    """Return a chunk shape for an array of `shape`.

    A chunk aims at 64 KiB, doubled for every factor of ten by which the array
    exceeds 1 MiB, and at least 128 KiB and at most 16 MiB, or `most_bytes`. From the whole array
    on, one axis after the other is halved until that is met.

    Examples
    --------
    >>> guess_chunk_shape((10000, 10000), 4), guess_chunk_shape((), 8), guess_chunk_shape((0,), 8)
    ((313, 313), (), (1,))
    """
    lengths = [max(length, 1) for length in shape]
    total_bytes = math.prod(lengths) * item_bytes
    # Of lengths that no array can have the quotient would be too large for a float.
    target = _BASE_BYTES * 2 ** (math.log10(total_bytes) - math.log10(_MIB))
    target = min(max(target, _MIN_BYTES), most_bytes)
    axis = 0
    while any(length > 1 for length in lengths):
        chunk_bytes = math.prod(lengths) * item_bytes
        near = chunk_bytes < target or abs(chunk_bytes - target) < target / 2
        if near and chunk_bytes < most_bytes:
            break
        lengths[axis] = -(-lengths[axis] // 2)
        axis = (axis + 1) % len(lengths)
    return tuple(lengths)


def _is_index(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool) and not _has_axes(value)


def _has_axes(value: object) -> bool:
    return bool(getattr(value, "shape", ()))


def _to_entries(chunks: Any) -> tuple[Any, ...]:
    if not isinstance(chunks, str | bytes):
        with suppress(TypeError):
            return tuple(chunks)
    message = f"chunks {chunks!r} is not an integer, None, True or a sequence of integers"
    raise ArgumentError(message, kind="invalid_argument")
