"""Selections in command-line syntax: ``[0:10, ::2]``, or ``time=0, lat=10:20``."""

from __future__ import annotations

import ast
import re
from math import prod
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import ArgumentError
from tessarr.format.hints import did_you_mean
from tessarr.indexing import select_basic
from tessarr.node.axis_names import find_axis_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tessarr.array import Array
    from tessarr.types import Shape

__all__ = ["SELECTION_HELP", "parse_selection", "split_selection", "to_ranges"]

SELECTION_HELP: Final = (
    "as in NumPy, with or without brackets: '[0:10, ::2]', '..., -1', '[[1, 5], :]'; or by names "
    "of dimensions: time=0,lat=10:20"
)

_ALLOWED: Final = "integers, slices, '...', lists of integers and names of fields, as in NumPy"

_NAMED: Final = re.compile(r"\s*([^\[\]()'\":=,]+?)\s*=\s*([^=]+)")


def parse_selection(text: str, array: Array | None = None) -> tuple[Any, ...]:
    """Parse the text of a selection to an indexing key.

    Parameters
    ----------
    text
        Python's indexing syntax; the brackets are optional. Or terms such as ``lat=10:20`` for
        dimensions with these names; other dimensions are selected as a whole.
    array
        The array, whose dimensions may have names.

    Raises
    ------
    ArgumentError
        If the text is not a selection, or the array has no such dimension; the function never
        evaluates code.

    Examples
    --------
    >>> parse_selection("[0:10, ::-2, ..., 5]")
    (slice(0, 10, None), slice(None, None, -2), Ellipsis, 5)
    >>> parse_selection("'x', [1, -2]")
    ('x', [1, -2])
    >>> import tessarr
    >>> a = tessarr.zeros((4, 6, 8), dimension_names=("time", "lat", "lon"), zarr_format=3)
    >>> parse_selection("lon=0, lat=1:3", a)
    (slice(None, None, None), slice(1, 3, None), 0)
    """
    bare = text.strip()
    if bare.startswith("[") and bare.endswith("]") and _closes_at_end(bare):
        bare = bare[1:-1]
    if not bare.strip():
        return ()
    terms = _split_terms(bare)
    named = [_NAMED.fullmatch(term) for term in terms]
    if any(named):
        return _parse_named(text, terms, named, array)
    return _parse_key(text, bare)


def _parse_key(text: str, bare: str) -> tuple[Any, ...]:
    try:
        subscript = ast.parse(f"_[{bare}]", mode="eval").body
        assert isinstance(subscript, ast.Subscript)
        key = subscript.slice
        parts = key.elts if isinstance(key, ast.Tuple) else [key]
        return tuple(map(_parse_part, parts))
    except (SyntaxError, ValueError, AssertionError, RecursionError, MemoryError) as error:
        message = f"selection {text!r} is not understood: {_ALLOWED}"
        raise ArgumentError(message) from error


def _split_terms(text: str) -> list[str]:
    """Return the terms between the commas outside of brackets and quotes."""
    terms, depth, quote = [""], 0, ""
    for char in text:
        if quote or char in "'\"":
            quote = "" if char == quote else quote or char
        depth += (char in "[(") - (char in "])")
        if char == "," and depth == 0 and not quote:
            terms.append("")
        else:
            terms[-1] += char
    return terms


def _parse_named(
    text: str, terms: list[str], named: Sequence[re.Match[str] | None], array: Array | None
) -> tuple[Any, ...]:
    """Return the key of terms with names; terms without one are names of fields."""
    names = None if array is None else find_axis_names(array.metadata)
    known = [name for name in names or () if name]
    fields: list[Any] = []
    axes: list[Any] = [slice(None)] * (0 if names is None else len(names))
    seen: set[str] = set()
    for term, match in zip(terms, named, strict=True):
        if match is None:
            fields += _parse_key(text, term)
            continue
        name = match[1]
        if names is None or name not in known:
            hint = did_you_mean(name, known)
            has = (
                f"its dimensions are {', '.join(map(repr, known))}" if known else "it has no names"
            )
            raise ArgumentError(f"selection {text!r}: there is no dimension {name!r}: {has}{hint}")
        if known.count(name) > 1 or name in seen:
            raise ArgumentError(f"selection {text!r}: the dimension {name!r} is not unique")
        seen.add(name)
        (axes[names.index(name)],) = _parse_key(text, match[2])
    if not all(isinstance(part, str) for part in fields):
        raise ArgumentError(
            f"selection {text!r}: select all dimensions by name, or all of them by position"
        )
    return (*fields, *axes)


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
        The largest number of elements of a part. Parts contain whole chunks if this limit allows
        it.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.zeros((10, 6), chunks=(4, 6))
    >>> list(split_selection(a, (slice(2, None),), 30))
    [(slice(2, 6, 1), slice(0, 6, 1)), (slice(6, 10, 1), slice(0, 6, 1))]
    """
    names = tuple(part for part in key if isinstance(part, str))
    rest = tuple(part for part in key if not isinstance(part, str))
    if any(isinstance(part, list) for part in rest):
        yield key
        return
    lengths = [cuts.longest for cuts in array.metadata.chunk_cuts]
    for piece in _split_axes(to_ranges(rest, array.shape), lengths, max_elements):
        yield (*names, *piece)


def to_ranges(key: tuple[Any, ...], shape: Shape) -> list[range]:
    """Return the selected indices of each axis.

    Raises
    ------
    SelectionError
        If the array rejects the key, or the key has a list.

    Examples
    --------
    >>> to_ranges((-1, ...), (10, 6))
    [range(9, 10), range(0, 6)]
    """
    axes: Any = select_basic(key, shape).axes
    return [range(start, start + step * count, step) for start, step, count in axes]


def _split_axes(
    axes: list[range], lengths: list[int], max_elements: int
) -> Iterator[tuple[slice, ...]]:
    counts = list(map(len, axes))
    number = next((number for number, count in enumerate(counts) if count > 1), None)
    if number is None or prod(counts) <= max_elements:
        yield tuple(map(_to_slice, axes))
        return
    step = max(max_elements * counts[number] // prod(counts), 1)
    step = step // lengths[number] * lengths[number] or step
    for start in range(0, counts[number], step):
        part = axes[number][start : start + step]
        yield from _split_axes([*axes[:number], part, *axes[number + 1 :]], lengths, max_elements)


def _to_slice(axis: range) -> slice:
    return slice(axis.start, axis.stop if axis.stop >= 0 else None, axis.step)
