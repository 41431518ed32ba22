"""The acts of indexing by name, and what stands in their brackets.

The engine carries them out (`View.after` of `_engine.pyi`); here is only read what users write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import numpy as np

from tessarr._engine import as_flag
from tessarr._safe_repr import safe_repr
from tessarr.index_space.dimension_names import LEAST, MOST, integer, label, names_of
from tessarr.index_space.indexing_terms import IndexArray, Key, parsed

__all__ = ["Operation", "operation", "pickled", "restored", "shown", "written"]


Operation: TypeAlias = "tuple[str, Any]"
"""One act: its name, "" for brackets alone, and what stood in its brackets."""


def operation(name: str, key: Any) -> Operation:
    """Return an act.

    Parameters
    ----------
    name
        What is done.
    key
        What stood in brackets.

    Raises
    ------
    TypeError, SelectionError
        If that is nothing for the act.

    Examples
    --------
    >>> operation("translate_to", [1, None])
    ('translate_to', (1, None))
    """
    return name, _READ[name](key)


def written(act: Operation) -> str:
    """Return an act as it was written.

    Examples
    --------
    >>> written(operation("translate_to", [1, None]))
    '.translate_to[1,None]'
    """
    name, value = act
    if name == "diagonal":
        return ".diagonal"
    if _READ[name] is _integers and isinstance(value, tuple) and len(value) == 1:
        return f".{name}[{shown(value)},]"  # for one dimension, not for any number of them
    return f".{name}[{shown(value)}]" if name else f"[{shown(value)}]"


def shown(value: Any) -> str:
    """Return what stood in brackets as text."""
    if isinstance(value, Key):
        return str(value)
    if isinstance(value, tuple):
        return ",".join(map(shown, value)) if value else "()"
    if isinstance(value, slice):
        parts = ["" if part is None else str(part) for part in (value.start, value.stop)]
        return ":".join(parts if value.step is None else [*parts, str(value.step)])
    return repr(value)


def pickled(act: Operation) -> Operation:
    """Return an act in classes of Python and NumPy alone: see `restored`."""
    name, value = act
    if not isinstance(value, Key):
        return act
    terms = [term.values if isinstance(term, IndexArray) else term for term in value.terms]
    return name, (terms, value.single)


def restored(act: Operation) -> Operation:
    """Return an act that was pickled."""
    name, value = act
    if _READ[name] is not parsed:
        return act
    terms, single = value
    found = [IndexArray(term) if isinstance(term, np.ndarray) else term for term in terms]
    return name, Key(tuple(found), single)


def _integers(key: Any) -> Any:
    if key is None or (type(key) is int and LEAST <= key <= MOST):
        return key
    if hasattr(key, "__index__") and not getattr(key, "ndim", 0):
        return integer(key)
    if isinstance(key, (str, bytes)) or not isinstance(key, Iterable):
        raise TypeError(f"give an integer, or one for each dimension: not {safe_repr(key)}")
    return tuple(None if item is None else integer(item) for item in key)


def _labels(key: Any) -> Any:
    if isinstance(key, (str, bytes)):
        return (label(key),)
    items: tuple[Any, ...] = key if type(key) is tuple else tuple(_each(key))
    for item in items:
        if type(item) is not str:
            return tuple(map(label, items))
    return items


def _each(key: Any) -> Iterable[Any]:
    return key if isinstance(key, Iterable) else (None,)


def _places(key: Any) -> Any:
    items = names_of(key)
    return items[0] if len(items) == 1 else items


def _flags(key: Any) -> slice | bool:
    if not isinstance(key, slice):
        flag = _flag(key)
        return slice(None, None) if flag is None else flag
    if key.step is not None:
        raise TypeError("mark_bounds_implicit takes [lower:upper]")
    lower, upper = _flag(key.start), _flag(key.stop)
    return slice(lower, upper) if lower is None or lower != upper else lower


def _flag(value: Any) -> bool | None:
    return None if value is None else as_flag(value, "mark_bounds_implicit")


_READ: Final[dict[str, Callable[[Any], Any]]] = {
    "": parsed,
    "oindex": parsed,
    "vindex": parsed,
    "translate_to": _integers,
    "translate_by": _integers,
    "translate_backward_by": _integers,
    "stride": _integers,
    "label": _labels,
    "transpose": _places,
    "mark_bounds_implicit": _flags,
    "diagonal": lambda _: None,
}
