"""Base class of stores that derive repr, equality and pickle from their arguments."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

from tessarr._engine import Store
from tessarr.store.mapping import StoreMapping

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DescribedStore"]


class DescribedStore(Store, StoreMapping):
    """A store that derives repr, equality and pickle from its arguments.

    The method ``__new__`` of a subclass ends in ``return cls._build(arguments, store)``.
    ``arguments`` contains the arguments that create an equal store, by name. ``store`` is the
    engine's store that performs the requests. Two stores are equal if their classes and arguments
    are equal.
    """

    _arguments: dict[str, Any]

    @classmethod
    def _build(cls, arguments: dict[str, Any], *engine: Any) -> Self:
        store = super().__new__(cls, *engine)
        store._arguments = arguments
        return store

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self._arguments == other._arguments)

    def __hash__(self) -> int:
        first = next(iter(self._arguments.values()), None)
        return hash((type(self), first))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return partial(type(self), **self._arguments), ()

    def __repr__(self) -> str:
        defaults = type(self).__new__.__kwdefaults__ or {}
        shown = [
            repr(value) if position == 0 else f"{name}={value!r}"
            for position, (name, value) in enumerate(self._arguments.items())
            if name not in defaults or value != defaults[name]
        ]
        return f"{type(self).__name__}({', '.join(shown)})"
