"""Keys of brackets: integers, slices, index arrays and ``newaxis``.

In an index space, negative integers do not count from the end, and a slice keeps its origin; for
NumPy's keys on arrays see `tessarr.indexing.normalize`. The engine reads most keys itself. This
module converts all other keys, and keeps keys as values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tessarr._safe_repr import safe_repr
from tessarr.errors import SelectionError
from tessarr.index_space.dimension_names import as_integer
from tessarr.index_space.intervals import INFINITE

__all__ = ["IndexArray", "Key", "Mode", "parse_key"]

Mode: TypeAlias = Literal["default", "oindex", "vindex"]

_INDEX_KINDS: Final = (
    "only integers, slices, an ellipsis, newaxis (None) and arrays of integers or booleans "
    "are indices"
)


@dataclass(frozen=True, slots=True, eq=False)
class IndexArray:
    """An array of integers, or of booleans that select their true positions."""

    values: npt.NDArray[Any]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IndexArray):
            return NotImplemented
        same = self.values.dtype == other.values.dtype
        return same and np.array_equal(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]


class Key(NamedTuple):
    """The terms of a key, and whether the key was a single term outside a tuple."""

    terms: tuple[Any, ...]
    single: bool = False

    def __str__(self) -> str:
        text = ",".join(map(_format_term, self.terms))
        if not text:
            return "()"
        return text if self.single or len(self.terms) > 1 else f"{text},"


def parse_key(key: Any) -> Key:
    """Return the terms of a key.

    Raises
    ------
    SelectionError
        If an item is not an index.
    """
    terms = _read_terms(key)
    single = len(terms) == 1 and not isinstance(key, tuple) and _fits_any_rank(key, terms[0])
    return Key(tuple(terms), single)


def _fits_any_rank(key: Any, term: Any) -> bool:
    """Return whether a single key applies to any number of dimensions.

    An ellipsis and slices of vectors have their own number of dimensions, and so have boolean
    arrays; other arrays can leave dimensions.
    """
    if isinstance(term, IndexArray):
        return term.values.ndim == 0 and term.values.dtype != bool
    if isinstance(key, slice):
        return not any(map(_is_vector, _slice_parts(key)))
    return term is not Ellipsis


def _format_term(term: Any) -> str:
    if isinstance(term, slice):
        parts = ["" if part is None else str(part) for part in (term.start, term.stop)]
        return ":".join(parts if term.step is None else [*parts, str(term.step)])
    if isinstance(term, IndexArray):
        return repr(term.values)
    return "..." if term is Ellipsis else repr(term)


def _read_terms(key: Any) -> list[Any]:
    parts = key if isinstance(key, tuple) else (key,)
    terms: list[Any] = []
    for part in parts:
        terms += _read_term(part)
    if sum(1 for term in terms if term is Ellipsis) > 1:
        raise SelectionError("an index can have one ellipsis only")
    return terms


def _read_term(part: Any) -> list[Any]:
    if part is None or part is Ellipsis:
        return [part]
    if isinstance(part, slice):
        return _split_slice(part)
    if isinstance(part, (bool, np.bool_)):
        return [IndexArray(np.asarray(part))]
    if isinstance(part, str):
        raise SelectionError(f"{_INDEX_KINDS}: not {safe_repr(part)}")
    if hasattr(part, "__index__") and not _has_axes(part):
        return [_read_index(part)]
    try:
        values = np.asarray(part)
    except ValueError as error:
        raise SelectionError(f"{_INDEX_KINDS}: {error}") from None
    except Exception as error:  # the object's method can raise any error
        raise SelectionError(f"{_INDEX_KINDS}: not {safe_repr(part)}") from error
    if values.dtype == bool:
        return [IndexArray(values.copy(order="C"))]
    if values.size == 0 and not hasattr(part, "dtype"):
        values = values.astype(np.int64)  # an empty list has no type
    if not np.issubdtype(values.dtype, np.integer):
        raise SelectionError(f"{_INDEX_KINDS}: not an array of {values.dtype}")
    if values.dtype == np.uint64 and values.size and values.max() > INFINITE:
        raise SelectionError(f"index {values.max()} is beyond the range of indices")
    return [IndexArray(values.astype(np.int64, order="C"))]


def _has_axes(part: Any) -> bool:
    """Return whether a key is an array with axes for NumPy."""
    return isinstance(part, np.ndarray) or getattr(part, "ndim", 0) > 0


def _read_index(value: Any) -> int:
    try:
        return as_integer(value)
    except TypeError as error:
        raise SelectionError(f"{_INDEX_KINDS}: {error}") from None


def _split_slice(part: slice) -> list[slice]:
    """Split a slice of tuples, such as ``(1, 2):(3, 4)``, into a slice for each dimension."""
    sides = _slice_parts(part)
    counts = {len(side) for side in sides if _is_vector(side)}
    if not counts:
        return [_read_slice(*sides)]
    if len(counts) > 1:
        raise SelectionError(f"{part}: vectors of different lengths")
    count = counts.pop()
    columns = [list(side) if _is_vector(side) else [side] * count for side in sides]
    return [_read_slice(*row) for row in zip(*columns, strict=True)]


def _read_slice(start: Any, stop: Any, step: Any) -> slice:
    each = _optional_integer(step)
    return slice(_optional_integer(start), _optional_integer(stop), None if each == 1 else each)


def _slice_parts(part: slice) -> tuple[Any, Any, Any]:
    return part.start, part.stop, part.step


def _is_vector(side: Any) -> bool:
    if isinstance(side, np.ndarray):
        return side.ndim > 0
    return isinstance(side, Sequence) and not isinstance(side, (str, bytes))


def _optional_integer(value: Any) -> int | None:
    return None if value is None else as_integer(value)
