"""Index operations by name, with their arguments.

The engine applies them (`View.after` of `_engine.pyi`); this module only reads the arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import numpy as np

from tessarr._engine import as_bool
from tessarr._safe_repr import safe_repr
from tessarr.index_space.dimension_names import (
    MAX_INT64,
    MIN_INT64,
    as_integer,
    as_label,
    read_dimensions,
)
from tessarr.index_space.indexing_terms import IndexArray, Key, parse_key

__all__ = [
    "Operation",
    "format_operation",
    "format_value",
    "parse_operation",
    "pickle_operation",
    "unpickle_operation",
]


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
    if isinstance(value, slice):
        parts = ["" if part is None else str(part) for part in (value.start, value.stop)]
        return ":".join(parts if value.step is None else [*parts, str(value.step)])
    return repr(value)


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
