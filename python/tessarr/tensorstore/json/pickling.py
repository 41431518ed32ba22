"""Pickling and copying of objects, including objects of user-defined subclasses.

An object of a Tessarr class pickles as a short call of its class. The constructor of a subclass
may have other parameters. Pickle therefore creates its objects without a call of the constructor.
"""

from __future__ import annotations

from copy import deepcopy
from copyreg import __newobj__  # type: ignore[attr-defined]
from typing import Any, Self

__all__ = ["Copyable", "Picklable"]


class Picklable:
    """Base class of objects that pickle as a call of their class, by default with their JSON."""

    __slots__ = ()

    def _arguments(self) -> tuple[Any, ...]:
        """Return the arguments with which the Tessarr class creates an equal object."""
        value: Any = self
        return (value.to_json(),)

    def __reduce__(self) -> tuple[Any, ...]:
        kind = _library_class(self)
        if type(self) is kind:
            return kind, self._arguments()
        return __newobj__, (type(self),), (self._arguments(), _attributes(self))

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Initialize an unpickled object of a user-defined subclass."""
        arguments, attributes = state
        _library_class(self).__init__(self, *arguments)
        if attributes:
            vars(self).update(attributes)


def _library_class(value: Picklable) -> Any:
    """Return the Tessarr class of an object, which is a base class of a user-defined class."""
    return next(kind for kind in type(value).__mro__ if Picklable in kind.__bases__)


class Copyable:
    """Base class of objects with a method ``copy``; copies have the attributes of subclasses."""

    __slots__ = ()

    def copy(self) -> Self:
        """Return a copy without the attributes of a user-defined subclass."""
        raise NotImplementedError

    def __copy__(self) -> Self:
        new = self.copy()
        if attributes := _attributes(self):
            vars(new).update(attributes)
        return new

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        memo[id(self)] = new = self.copy()  # an attribute may refer to the object
        if attributes := _attributes(self):
            vars(new).update(deepcopy(attributes, memo))
        return new


def _attributes(value: Any) -> Any:
    return getattr(value, "__dict__", None)
