"""Selections in command-line syntax: ``[0:10, ::2]``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from tessarr.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tessarr.array import Array

__all__ = ["get_ranges", "parse_selection", "split_selection"]

_ALLOWED = "integers, slices, '...', lists of integers and names of fields, as in NumPy"


def parse_selection(text: str) -> tuple[Any, ...]:
    """Parse the text of a selection to an indexing key.

    Parameters
    ----------
    text
        Python's indexing syntax; the brackets are optional.

    Raises
    ------
    ArgumentError
        If the text is not a selection; the function never evaluates code.

    Examples
    --------
    >>> parse_selection("[0:10, ::-2, ..., 5]")
    (slice(0, 10, None), slice(None, None, -2), Ellipsis, 5)
    >>> parse_selection("'x', [1, -2]")
    ('x', [1, -2])
    """
    bare = text.strip()
    if bare.startswith("[") and bare.endswith("]") and _closes_at_end(bare):
        bare = bare[1:-1]
    if not bare.strip():
        return ()
    try:
        subscript = ast.parse(f"_[{bare}]", mode="eval").body
        assert isinstance(subscript, ast.Subscript)
        key = subscript.slice
        parts = key.elts if isinstance(key, ast.Tuple) else [key]
        return tuple(map(_parse_part, parts))
    except (SyntaxError, ValueError, AssertionError, RecursionError, MemoryError) as error:
        message = f"selection {text!r} is not understood: {_ALLOWED}"
        raise ArgumentError(message) from error


def _closes_at_end(text: str) -> bool:
    depth = 0
    for position, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if depth == 0:
            return position == len(text) - 1
    return False


def _parse_part(node: ast.expr) -> Any:
    if isinstance(node, ast.Slice):
        return slice(*(_parse_bound(bound) for bound in (node.lower, node.upper, node.step)))
    value = ast.literal_eval(node)
    is_list = isinstance(value, list) and all(type(item) in {int, bool} for item in value)
    if value is ... or type(value) in {int, str} or is_list:
        return value
    raise ValueError(value)


def _parse_bound(node: ast.expr | None) -> int | None:
    value = None if node is None else ast.literal_eval(node)
    if value is None or type(value) is int:
        return value
    raise ValueError(value)


def split_selection(
    array: Array, key: tuple[Any, ...], max_elements: int
) -> Iterator[tuple[Any, ...]]:
    """Yield keys that split the selection of `key` into parts, in C order.

    Parameters
    ----------
    array
        The array.
    key
        A result of `parse_selection`. A key with lists stays whole.
    max_elements
        The largest number of elements of a part. Parts end at chunk boundaries if this limit
        allows it.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.zeros((10, 6), chunks=(4, 6))
    >>> list(split_selection(a, (slice(2, None),), 30))
    [(slice(2, 4, 1), slice(0, 6, 1)), (slice(4, 8, 1), slice(0, 6, 1)),
     (slice(8, 10, 1), slice(0, 6, 1))]
    """
    names = tuple(part for part in key if isinstance(part, str))
    ranges = get_ranges(array, tuple(part for part in key if not isinstance(part, str)))
    if ranges is None:
        yield key
        return
    lengths = [cuts.longest for cuts in array.metadata.chunk_cuts]
    for piece in _split_axes(ranges, lengths, max_elements):
        yield (*names, *piece)


def get_ranges(array: Array, key: tuple[Any, ...]) -> list[int | range] | None:
    """Return an index or a range for each axis; None if the key has lists or is invalid.

    Examples
    --------
    >>> import tessarr
    >>> get_ranges(tessarr.zeros((10, 6)), (-1, ...))
    [-1, range(0, 6)]
    """
    if any(isinstance(part, list | str) for part in key) or _is_invalid(key, array.ndim):
        return None
    ellipsis_index = next((position for position, part in enumerate(key) if part is ...), len(key))
    explicit = key[:ellipsis_index] + key[ellipsis_index + 1 :]
    axes = [
        *explicit[:ellipsis_index],
        *[slice(None)] * (array.ndim - len(explicit)),
        *explicit[ellipsis_index:],
    ]
    return [
        part if isinstance(part, int) else range(length)[part]
        for part, length in zip(axes, array.shape, strict=True)
    ]


def _is_invalid(parts: tuple[Any, ...], rank: int) -> bool:
    """Return whether the array rejects a key; the array's error message is better."""
    ellipses = sum(part is ... for part in parts)
    has_zero_step = any(isinstance(part, slice) and part.step == 0 for part in parts)
    return ellipses > 1 or len(parts) - ellipses > rank or has_zero_step


def _split_axes(
    axes: list[int | range], lengths: list[int], max_elements: int, axis_number: int = 0
) -> Iterator[tuple[Any, ...]]:
    while axis_number < len(axes) and isinstance(axes[axis_number], int):
        axis_number += 1
    counts = [1 if isinstance(axis, int) else len(axis) for axis in axes]
    inner = 1
    for count in counts[axis_number + 1 :]:
        inner *= count
    if axis_number == len(axes) or counts[axis_number] * inner <= max_elements or 0 in counts:
        yield tuple(axis if isinstance(axis, int) else _to_slice(axis) for axis in axes)
        return
    whole = axes[axis_number]
    assert isinstance(whole, range)
    step = max(max_elements // max(inner, 1), 1)
    start = 0
    while start < len(whole):
        stop = min(start + step, len(whole))
        if whole.step == 1 and stop < len(whole) and step >= lengths[axis_number]:
            stop -= (whole.start + stop) % lengths[axis_number]
        yield from _split_axes(
            [*axes[:axis_number], whole[start:stop], *axes[axis_number + 1 :]],
            lengths,
            max_elements,
            axis_number + 1,
        )
        start = stop


def _to_slice(axis: range) -> slice:
    return slice(axis.start, axis.stop if axis.stop >= 0 else None, axis.step)
