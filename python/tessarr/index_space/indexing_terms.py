"""Index operations by name, and the keys of their brackets as values.

In an index space, negative integers do not count from the end, and a slice keeps its origin; for
NumPy's keys on arrays see `tessarr.indexing.normalize`. The engine reads most keys itself and
applies the operations (`View.apply_operations`); this module reads all other keys and arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tessarr._engine import as_bool
from tessarr._safe_repr import safe_repr
from tessarr.errors import SelectionError
from tessarr.index_space.dimension_names import (
    MAX_INT64,
    MIN_INT64,
    as_integer,
    as_label,
    read_dimensions,
)
from tessarr.index_space.intervals import INFINITE

__all__ = [
    "Mode",
    "Operation",
    "format_operation",
    "format_value",
    "parse_key",
    "parse_operation",
    "pickle_operation",
    "unpickle_operation",
]

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


def format_slice(value: slice) -> str:
    """Return a slice as source text."""
    parts = ["" if part is None else str(part) for part in (value.start, value.stop)]
    return ":".join(parts if value.step is None else [*parts, str(value.step)])


def _format_term(term: Any) -> str:
    if isinstance(term, slice):
        return format_slice(term)
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


Operation: TypeAlias = "tuple[str, Any]"
"""An operation: its name, "" for plain brackets, and the argument in its brackets."""


def parse_operation(name: str, key: Any) -> Operation:
    """Return an operation.

    Parameters
    ----------
    name
        The name.
    key
        The argument in brackets.

    Raises
    ------
    TypeError, SelectionError
        If the operation does not take the argument.

    Examples
    --------
    >>> parse_operation("translate_to", [1, None])
    ('translate_to', (1, None))
    """
    return name, _READERS[name](key)


def format_operation(operation: Operation) -> str:
    """Return an operation as source text.

    Examples
    --------
    >>> format_operation(parse_operation("translate_to", [1, None]))
    '.translate_to[1,None]'
    """
    name, value = operation
    if name == "diagonal":
        return ".diagonal"
    if _READERS[name] is _read_integers and isinstance(value, tuple) and len(value) == 1:
        return f".{name}[{format_value(value)},]"  # one dimension, not any number
    return f".{name}[{format_value(value)}]" if name else f"[{format_value(value)}]"


def format_value(value: Any) -> str:
    """Return an argument as source text."""
    if isinstance(value, Key):
        return str(value)
    if isinstance(value, tuple):
        return ",".join(map(format_value, value)) if value else "()"
    return format_slice(value) if isinstance(value, slice) else repr(value)


def pickle_operation(operation: Operation) -> Operation:
    """Return an operation with Python and NumPy objects only; see `unpickle_operation`."""
    name, value = operation
    if not isinstance(value, Key):
        return operation
    terms = [term.values if isinstance(term, IndexArray) else term for term in value.terms]
    return name, (terms, value.single)


def unpickle_operation(operation: Operation) -> Operation:
    """Return an operation that was pickled."""
    name, value = operation
    if _READERS[name] is not parse_key:
        return operation
    terms, single = value
    items = [IndexArray(term) if isinstance(term, np.ndarray) else term for term in terms]
    return name, Key(tuple(items), single)


def _read_integers(key: Any) -> Any:
    if key is None or (type(key) is int and MIN_INT64 <= key <= MAX_INT64):
        return key
    if hasattr(key, "__index__") and not getattr(key, "ndim", 0):
        return as_integer(key)
    if isinstance(key, (str, bytes)) or not isinstance(key, Iterable):
        raise TypeError(f"give an integer, or one for each dimension: not {safe_repr(key)}")
    return tuple(None if item is None else as_integer(item) for item in key)


def _read_labels(key: Any) -> Any:
    if isinstance(key, (str, bytes)):
        return (as_label(key),)
    items: tuple[Any, ...] = key if type(key) is tuple else tuple(_as_iterable(key))
    for item in items:
        if type(item) is not str:
            return tuple(map(as_label, items))
    return items


def _as_iterable(key: Any) -> Iterable[Any]:
    return key if isinstance(key, Iterable) else (None,)


def _read_axes(key: Any) -> Any:
    items = read_dimensions(key)
    return items[0] if len(items) == 1 else items


def _read_flags(key: Any) -> slice | bool:
    if not isinstance(key, slice):
        flag = _read_flag(key)
        return slice(None, None) if flag is None else flag
    if key.step is not None:
        raise TypeError("mark_bounds_implicit takes [lower:upper]")
    lower, upper = _read_flag(key.start), _read_flag(key.stop)
    return slice(lower, upper) if lower is None or lower != upper else lower


def _read_flag(value: Any) -> bool | None:
    return None if value is None else as_bool(value, "mark_bounds_implicit")


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "": parse_key,
    "oindex": parse_key,
    "vindex": parse_key,
    "translate_to": _read_integers,
    "translate_by": _read_integers,
    "translate_backward_by": _read_integers,
    "stride": _read_integers,
    "label": _read_labels,
    "transpose": _read_axes,
    "mark_bounds_implicit": _read_flags,
    "diagonal": lambda _: None,
}
