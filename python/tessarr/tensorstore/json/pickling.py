"""Pickling and copying of objects, including objects of user-defined subclasses.

An object of a Tessarr class pickles as a short call of its class. The constructor of a subclass
may have other parameters. Pickle therefore creates its objects without a call of the constructor.
"""

from __future__ import annotations

from copy import deepcopy
from copyreg import __newobj__  # type: ignore[attr-defined]
from typing import Any, TypeVar

__all__ = ["copy_attributes", "reduce_object", "restore_object"]

T = TypeVar("T")


def reduce_object(value: Any, plain: Any, *given: Any) -> tuple[Any, ...]:
    """Return the pickle state of an object, as ``__reduce__`` does.

    Parameters
    ----------
    value
        The object to pickle.
    plain
        The Tessarr class of the object, or the base class of its subclass.
    *given
        The arguments with which `plain` creates an equal object.
    """
    if type(value) is plain:
        return plain, given
    return __newobj__, (type(value),), (given, _attributes(value))


def restore_object(value: Any, plain: Any, state: Any) -> None:
    """Initialize an unpickled object of a subclass from the state of `reduce_object`."""
    given, attributes = state
    plain.__init__(value, *given)
    if attributes:
        vars(value).update(attributes)


def copy_attributes(copy: T, value: T, memo: dict[int, Any] | None = None) -> T:
    """Add the instance attributes of `value` to `copy`; with `memo`, add deep copies."""
    attributes = _attributes(value)
    if memo is not None:
        memo[id(value)] = copy  # an attribute may refer to the object
    if attributes:
        vars(copy).update(attributes if memo is None else deepcopy(attributes, memo))
    return copy


def _attributes(value: Any) -> Any:
    return getattr(value, "__dict__", None)
