"""Which class stands for which name: one registry per extension point.

Names come from Tessarr itself, from the ``register_…`` decorators and from the
entry points of installed packages. Entry points are looked up, and loaded, only
when a name is not known otherwise. A later registration replaces an earlier one.

And the names by which users know our own classes, which they are called and pickled by. A
pickle holds the names of classes: those of the modules where these happen to be written would
make every stored pickle break when one moves.
"""

from __future__ import annotations

import threading
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tessarr.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Registry", "set_public_module"]

T = TypeVar("T")


class Registry(Generic[T]):
    """The names of one extension point.

    Parameters
    ----------
    what : str
        The extension point, for messages: ``"codec"``.
    group : str
        The group of entry points: ``"tessarr.codecs"``.

    Examples
    --------
    >>> colours = Registry[str]("colour", "example.colours")
    >>> colours.add("red", "#ff0000")
    >>> colours.find("red"), colours.find("blue")
    ('#ff0000', None)
    """

    def __init__(self, what: str, group: str) -> None:
        self._what = what
        self._group = group
        self._known: dict[str, T] = {}
        self._entry_points: dict[str, Any] | None = None
        self._lock = threading.Lock()

    def add(self, name: str, value: T) -> None:
        """Let `name` stand for `value`."""
        self._known[name] = value

    def __contains__(self, name: str) -> bool:
        """Tell whether the name is registered; entry points are not looked up."""
        return name in self._known

    def find(self, name: str) -> T | None:
        """Return what `name` stands for, or None.

        Raises
        ------
        UnsupportedError
            ``missing_package``, where an installed package offers the name but fails to load.
        """
        try:
            return self._known[name]
        except KeyError:
            return self._load(name)

    def names(self) -> Iterable[str]:
        """Return all names, sorted; nothing is loaded."""
        return sorted({*self._known, *self._find_entry_points()})

    def _load(self, name: str) -> T | None:
        entry = self._find_entry_points().get(name)
        if entry is None:
            return None
        try:
            value: T = entry.load()
        except Exception as error:
            raise UnsupportedError(
                f"{self._what} {name!r}: the entry point {entry.value!r} cannot be loaded: {error}",
                kind="missing_package",
                extension=name,
            ) from error
        # Loading may have registered the name already, under a better value.
        return self._known.setdefault(name, value)

    def _find_entry_points(self) -> dict[str, Any]:
        with self._lock:
            if self._entry_points is None:
                # Costs milliseconds, so it is left until an unknown name turns up.
                from importlib.metadata import entry_points

                self._entry_points = {
                    entry.name: entry for entry in entry_points(group=self._group)
                }
            return self._entry_points


def set_public_module(module: str, *given: Any) -> None:
    """Say that classes, with those inside of them, and functions are of a module.

    Parameters
    ----------
    module
        The name by which it is imported.
    *given
        What has its own name there; what is neither class nor function is left as it is.

    Examples
    --------
    >>> class Shown:
    ...     class Inner: ...
    >>> set_public_module("tessarr", Shown)
    >>> Shown, Shown.Inner
    (<class 'tessarr.Shown'>, <class 'tessarr.Shown.Inner'>)
    """
    for one in given:
        if isinstance(one, FunctionType | TypeVar):
            one.__module__ = module
        elif isinstance(one, type):
            _set_class_module(one, module, one.__name__)


def _set_class_module(one: type, module: str, name: str) -> None:
    one.__module__, one.__qualname__ = module, name
    for inner, found in vars(one).items():
        if isinstance(found, type) and found.__module__.startswith("tessarr."):
            _set_class_module(found, module, f"{name}.{inner}")
        method = getattr(found, "__func__", found)  # of a class method
        if isinstance(method, FunctionType):
            method.__module__ = module  # examples of a class are looked for by it
