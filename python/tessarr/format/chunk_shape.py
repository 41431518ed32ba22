"""Chunk shapes from user input, and default chunk and shard shapes."""

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
        If it is not an integer or a sequence of integers, or if one is negative.

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
    if min(lengths, default=0) < 0:
        raise ArgumentError(f"shape {shape!r} has a negative length", kind="invalid_argument")
    return lengths


def chunk_lengths(chunks: Any, shape: Shape, item_bytes: int) -> ChunkLengths:
    """Return chunk lengths from user input.

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
        Listed lengths are a tuple, and are not checked.

    Raises
    ------
    ArgumentError
        If a length is less than 1, or if there are more lengths than axes.

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
    lengths: list[Any] = [max(length, 1) for length in shape]
    if chunks is False:
        return tuple(lengths)
    entries: tuple[Any, ...] = (chunks,) * len(shape) if _is_index(chunks) else _to_entries(chunks)
    if len(entries) > len(shape):
        message = f"chunks {chunks!r} has more lengths than the {len(shape)} axes of the array"
        raise ArgumentError(message, kind="invalid_argument")
    for axis, entry in enumerate(entries):
        is_index = _is_index(entry)
        if entry is None or (is_index and entry == -1):
            continue
        if is_index and entry >= 1:
            lengths[axis] = operator.index(entry)
        elif isinstance(entry, Iterable) and not isinstance(entry, str | bytes):
            lengths[axis] = tuple(entry)
        else:
            message = f"chunks {chunks!r}: {entry!r} is not None, -1 or an integer of at least 1"
            raise ArgumentError(message, kind="invalid_argument")
    return tuple(lengths)


def chunk_shape(chunks: Any, shape: Shape, item_bytes: int) -> Shape:
    """Return a chunk shape from user input: `chunk_lengths` without lists of lengths.

    Raises
    ------
    ArgumentError
        As `chunk_lengths`, and if the chunks of an axis are listed.

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
    """Tell whether Tessarr chooses the chunks: for None, True and "auto"."""
    return chunks is None or chunks is True or (isinstance(chunks, str) and chunks == "auto")


def subchunk_shape(chunks: Any, shape: Shape, item_bytes: int) -> Shape:
    """Return the subchunk shape from user input, for shards whose shape Tessarr chooses.

    A default subchunk has at most 1 MiB, because a read can load a single subchunk.

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

    The number of subchunks doubles along one axis after the other, the last axis first, while
    the shard has at most 64 MiB before compression and is not longer than the array.

    Examples
    --------
    >>> guess_shard_shape((10000, 10000), (313, 313), 4), guess_shard_shape((30, 9), (10, 5), 4)
    ((2504, 5008), (30, 10))
    """
    counts = [-(-length // chunk) for length, chunk in zip(shape, chunks, strict=True)]
    counts_per_shard = [1] * len(chunks)
    chunk_bytes = math.prod(chunks) * item_bytes

    def double_along(axis: int) -> list[int]:
        grown = min(2 * counts_per_shard[axis], max(counts[axis], 1))
        return [*counts_per_shard[:axis], grown, *counts_per_shard[axis + 1 :]]

    while True:
        # The last of the axes with the fewest subchunks grows first.
        axes = sorted(
            range(len(counts_per_shard)), key=lambda axis: (counts_per_shard[axis], -axis)
        )
        grown = next(
            (
                candidate
                for candidate in map(double_along, axes)
                if candidate != counts_per_shard
                and math.prod(candidate) * chunk_bytes <= _SHARD_BYTES
            ),
            None,
        )
        if grown is None:
            return tuple(
                count * chunk for count, chunk in zip(counts_per_shard, chunks, strict=True)
            )
        counts_per_shard = grown


def guess_chunk_shape(shape: Shape, item_bytes: int, max_bytes: int = _MAX_BYTES) -> Shape:
    """Return a chunk shape for an array of `shape`.

    The target size is 64 KiB, doubled for every factor of ten by which the array exceeds 1 MiB; it
    is at least 128 KiB and at most 16 MiB, or `max_bytes`. Starting with the whole array, one
    axis after the other is halved until the chunk is close to the target.

    Examples
    --------
    >>> guess_chunk_shape((10000, 10000), 4), guess_chunk_shape((), 8), guess_chunk_shape((0,), 8)
    ((313, 313), (), (1,))
    """
    lengths = [max(length, 1) for length in shape]
    total_bytes = math.prod(lengths) * item_bytes
    # The difference of logarithms does not overflow for impossible lengths, as a quotient would.
    target = _BASE_BYTES * 2 ** (math.log10(total_bytes) - math.log10(_MIB))
    target = min(max(target, _MIN_BYTES), max_bytes)
    axis = 0
    while any(length > 1 for length in lengths):
        chunk_bytes = math.prod(lengths) * item_bytes
        is_near_target = chunk_bytes < target or abs(chunk_bytes - target) < target / 2
        if is_near_target and chunk_bytes < max_bytes:
            break
        lengths[axis] = -(-lengths[axis] // 2)
        axis = (axis + 1) % len(lengths)
    return tuple(lengths)


def _is_index(value: object) -> bool:
    has_axes = bool(getattr(value, "shape", ()))
    return hasattr(value, "__index__") and not isinstance(value, bool) and not has_axes


def _to_entries(chunks: Any) -> tuple[Any, ...]:
    if not isinstance(chunks, str | bytes):
        with suppress(TypeError):
            return tuple(chunks)
    message = f"chunks {chunks!r} is not an integer, None, True or a sequence of integers"
    raise ArgumentError(message, kind="invalid_argument")
