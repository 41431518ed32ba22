"""Selections as they are written on a command line: ``[0:10, ::2]``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from tessarr.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tessarr.array import Array

__all__ = ["parse_selection", "pieces", "ranges_of"]

_ALLOWED = "integers, slices, '...', lists of integers and names of fields, as in NumPy"


def parse_selection(text: str) -> tuple[Any, ...]:
    """Return what stands between brackets as a key of an array.

    Parameters
    ----------
    text
        As in Python; the brackets may be left out.

    Raises
    ------
    ArgumentError
        If it is anything but a selection; nothing of it is ever run.

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
        return tuple(map(_part, parts))
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


def _part(node: ast.expr) -> Any:
    if isinstance(node, ast.Slice):
        return slice(*(_bound(bound) for bound in (node.lower, node.upper, node.step)))
    value = ast.literal_eval(node)
    is_list = isinstance(value, list) and all(type(item) in {int, bool} for item in value)
    if value is ... or type(value) in {int, str} or is_list:
        return value
    raise ValueError(value)


def _bound(node: ast.expr | None) -> int | None:
    value = None if node is None else ast.literal_eval(node)
    if value is None or type(value) is int:
        return value
    raise ValueError(value)


def pieces(array: Array, key: tuple[Any, ...], most: int) -> Iterator[tuple[Any, ...]]:
    """Yield keys that together select what `key` does, in C order, each a part of it.

    Parameters
    ----------
    array
        What is selected from.
    key
        Of `parse_selection`. One with lists is not divided.
    most
        The elements that a part should have at most. Parts end where chunks do, as far as
        that lets them.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.zeros((10, 6), chunks=(4, 6))
    >>> list(pieces(a, (slice(2, None),), 30))
    [(slice(2, 4, 1), slice(0, 6, 1)), (slice(4, 8, 1), slice(0, 6, 1)),
     (slice(8, 10, 1), slice(0, 6, 1))]
    """
    names = tuple(part for part in key if isinstance(part, str))
    ranges = ranges_of(array, tuple(part for part in key if not isinstance(part, str)))
    if ranges is None:
        yield key
        return
    lengths = [cuts.longest for cuts in array.metadata.chunk_cuts]
    for piece in _divide(ranges, lengths, most):
        yield (*names, *piece)


def ranges_of(array: Array, key: tuple[Any, ...]) -> list[int | range] | None:
    """Return an index or a range for each axis; None for a key with lists or one that is wrong.

    Examples
    --------
    >>> import tessarr
    >>> ranges_of(tessarr.zeros((10, 6)), (-1, ...))
    [-1, range(0, 6)]
    """
    if any(isinstance(part, list | str) for part in key) or _unfit(key, array.ndim):
        return None
    gap = next((at for at, part in enumerate(key) if part is ...), len(key))
    around = key[:gap] + key[gap + 1 :]
    axes = [*around[:gap], *[slice(None)] * (array.ndim - len(around)), *around[gap:]]
    return [
        part if isinstance(part, int) else range(length)[part]
        for part, length in zip(axes, array.shape, strict=True)
    ]


def _unfit(parts: tuple[Any, ...], rank: int) -> bool:
    """Tell whether a key is one that the array refuses, with a better message."""
    gaps = sum(part is ... for part in parts)
    wrong = any(isinstance(part, slice) and part.step == 0 for part in parts)
    return gaps > 1 or len(parts) - gaps > rank or wrong


def _divide(
    axes: list[int | range], lengths: list[int], most: int, at: int = 0
) -> Iterator[tuple[Any, ...]]:
    while at < len(axes) and isinstance(axes[at], int):
        at += 1
    counts = [1 if isinstance(axis, int) else len(axis) for axis in axes]
    inner = 1
    for count in counts[at + 1 :]:
        inner *= count
    if at == len(axes) or counts[at] * inner <= most or 0 in counts:
        yield tuple(axis if isinstance(axis, int) else _slice(axis) for axis in axes)
        return
    whole = axes[at]
    assert isinstance(whole, range)
    step = max(most // max(inner, 1), 1)
    begin = 0
    while begin < len(whole):
        end = min(begin + step, len(whole))
        if whole.step == 1 and end < len(whole) and step >= lengths[at]:
            end -= (whole.start + end) % lengths[at]
        yield from _divide([*axes[:at], whole[begin:end], *axes[at + 1 :]], lengths, most, at + 1)
        begin = end


def _slice(axis: range) -> slice:
    return slice(axis.start, axis.stop if axis.stop >= 0 else None, axis.step)
