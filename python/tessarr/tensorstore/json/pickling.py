"""Pickles and copies of objects, also of derived classes.

What is of one of our own classes is pickled as a call of it, which is short. The constructor of a
derived class may be given anything else: an object of it is made without, and begun as one of ours.
"""

from __future__ import annotations

from copy import deepcopy
from copyreg import __newobj__  # type: ignore[attr-defined]
from typing import Any, TypeVar

__all__ = ["copy_attributes", "reduce_object", "restore_object"]

T = TypeVar("T")


def reduce_object(value: Any, plain: Any, *given: Any) -> tuple[Any, ...]:
    """Return how an object is pickled.

    Parameters
    ----------
    value
        The object.
    plain
        The class of ours that its class is, or derives from.
    *given
        What that class makes an equal object of.
    """
    if type(value) is plain:
        return plain, given
    return __newobj__, (type(value),), (given, _attributes(value))


def restore_object(value: Any, plain: Any, state: Any) -> None:
    """Begin an object of a derived class, of what `reduce_object` told as its state."""
    given, attributes = state
    plain.__init__(value, *given)
    if attributes:
        vars(value).update(attributes)


def copy_attributes(copy: T, value: T, memo: dict[int, Any] | None = None) -> T:
    """Return a copy, with what is kept in the object; of that, too, with a memo, it has copies."""
    attributes = _attributes(value)
    if memo is not None:
        memo[id(value)] = copy  # which may be kept in itself
    if attributes:
        vars(copy).update(attributes if memo is None else deepcopy(attributes, memo))
    return copy


def _attributes(value: Any) -> Any:
    return getattr(value, "__dict__", None)
