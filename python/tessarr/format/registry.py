"""Registries of extensions, and what users see of public classes and functions.

Names come from Tessarr itself, from the ``register_…`` decorators and from the entry points of
installed packages. A registry looks up and loads entry points only for names that are not
registered. A later registration replaces an earlier one.

`set_public_module` gives a class the module name that users see. Pickles contain this name, so
they stay readable when the class moves to another module.

`with_keywords` gives a function a signature with the keywords of a `TypedDict`. Type checkers know
these from ``**settings: Unpack[Settings]``; `help` and the completion of IPython need a signature.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module
from inspect import Parameter, Signature, signature
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tessarr.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Registry", "set_public_module", "with_keywords"]

T = TypeVar("T")
_F = TypeVar("_F", bound=Callable[..., Any])


class Registry(dict[str, T]):
    """The values of one extension point by name; entry points are not included.

    Parameters
    ----------
    what : str
        The extension point, for messages: ``"codec"``.
    group : str
        The group of entry points: ``"tessarr.codecs"``.

    Examples
    --------
    >>> colours = Registry[str]("colour", "example.colours")
    >>> colours["red"] = "#ff0000"
    >>> colours.find("red"), colours.find("blue")
    ('#ff0000', None)
    """

    def __init__(self, what: str, group: str) -> None:
        self._what = what
        self._group = group
        self._entry_points: dict[str, Any] | None = None
        self._lock = threading.Lock()

    def find(self, name: str) -> T | None:
        """Return the value with a name, or None; load an entry point if necessary.

        Raises
        ------
        UnsupportedError
            ``missing_package``, if an installed package has the name but fails to load.
        """
        return self[name] if name in self else self._load(name)

    def names(self) -> Iterable[str]:
        """Return all names, sorted, without loading entry points."""
        return sorted({*self, *self._find_entry_points()})

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
        # The module may have registered the name itself.
        return self.setdefault(name, value)

    def _find_entry_points(self) -> dict[str, Any]:
        with self._lock:
            if self._entry_points is None:
                # This takes milliseconds, so it waits for the first unknown name.
                from importlib.metadata import entry_points

                self._entry_points = {
                    entry.name: entry for entry in entry_points(group=self._group)
                }
            return self._entry_points


def set_public_module(module: str, *objects: Any) -> None:
    """Set the module of classes, their inner classes, and functions.

    Parameters
    ----------
    module
        The name of the public module.
    *given
        Classes and functions; other objects stay unchanged.

    Examples
    --------
    >>> class Shown:
    ...     class Inner: ...
    >>> set_public_module("tessarr", Shown)
    >>> Shown, Shown.Inner
    (<class 'tessarr.Shown'>, <class 'tessarr.Shown.Inner'>)
    """
    for item in objects:
        if isinstance(item, FunctionType | TypeVar):
            item.__module__ = module
        elif isinstance(item, type):
            _set_class_module(item, module, item.__name__)


def _set_class_module(cls: type, module: str, name: str) -> None:
    cls.__module__, cls.__qualname__ = module, name
    for inner, member in vars(cls).items():
        if isinstance(member, type) and member.__module__.startswith("tessarr."):
            _set_class_module(member, module, f"{name}.{inner}")
        method = getattr(member, "__func__", member)  # the function of a class method
        if isinstance(method, FunctionType):
            method.__module__ = module  # doctest finds the examples of a class by it


_CONTENT: Final = ("_parameters", "_return_annotation")
"""The slots in which `Signature` stores its content."""


def with_keywords(module: str) -> Callable[[_F], _F]:
    """Return a decorator that shows the names of keywords in the signature of a function.

    The decorator returns the same function, so that calls take no longer, and imports nothing
    until a program reads the signature.

    Parameters
    ----------
    module
        The module of the `TypedDict` that the function unpacks. Its optional mapping
        ``KEYWORD_DEFAULTS`` has the defaults of keywords other than None.

    Examples
    --------
    >>> from inspect import signature
    >>> import tessarr
    >>> [*signature(tessarr.zeros).parameters][:4]
    ['shape', 'dtype', 'chunks', 'filters']
    >>> signature(tessarr.zeros).parameters["chunks"].default is None
    True
    """

    def add_signature(function: _F) -> _F:
        target: Any = function
        target.__signature__ = _KeywordSignature._of(function, module)
        return function

    return add_signature


class _KeywordSignature(Signature):
    """The signature of a function with the names of unpacked keywords.

    The first access to an empty slot of `Signature` computes the content.
    """

    __slots__ = ("_function", "_module")

    _function: Any
    _module: str

    @classmethod
    def _of(cls, function: Callable[..., Any], module: str) -> _KeywordSignature:
        new = cls.__new__(cls)
        new._function, new._module = function, module
        return new

    def __getattr__(self, name: str) -> Any:
        if name not in _CONTENT:
            raise AttributeError(name)
        own = _own_signature(self._function)
        *others, keywords = own.parameters.values()
        named = _read_keywords(keywords.annotation, self._module)
        Signature.__init__(self, [*others, *named], return_annotation=own.return_annotation)
        return getattr(self, name)


def _own_signature(function: Any) -> Signature:
    """Return the signature of a function without its ``__signature__``."""
    copy = FunctionType(function.__code__, {}, argdefs=function.__defaults__)
    copy.__kwdefaults__, copy.__annotations__ = function.__kwdefaults__, function.__annotations__
    return signature(copy)


def _read_keywords(annotation: str, module: str) -> list[Parameter]:
    """Return the parameters of the keywords in an annotation ``Unpack[Name]``."""
    members = vars(import_module(module))
    defaults = members.get("KEYWORD_DEFAULTS", {})
    types = members[annotation.removeprefix("Unpack[").removesuffix("]")].__annotations__
    return [
        Parameter(
            name,
            Parameter.KEYWORD_ONLY,
            default=defaults.get(name),
            annotation=getattr(kind, "__forward_arg__", kind),
        )
        for name, kind in types.items()
    ]
