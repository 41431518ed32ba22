"""Stores that are opened without a context, whose resources nobody else has."""

from __future__ import annotations

from threading import RLock
from typing import TYPE_CHECKING, Final

from tessarr.tensorstore.context.context import Context
from tessarr.tensorstore.kvstore.logging import told

if TYPE_CHECKING:
    from tessarr.tensorstore.kvstore.kvstore_driver import Driver
    from tessarr.tensorstore.kvstore.kvstore_spec import Spec
    from tessarr.tensorstore.kvstore.values import Place

__all__ = ["Alone"]

_binding: Final = RLock()


class Alone:
    """In place of the spec of a store: one with a context of its own, which nobody has asked for.

    The context is made then. Most stores are only read and written.

    Parameters
    ----------
    spec
        The spec, which nobody changes; its driver has to have `alone`.
    """

    __slots__ = ("_bound", "_driver", "_place", "_spec")

    _driver: Driver
    _spec: Spec
    _place: Place
    _bound: Spec | None

    base = None

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._driver = spec._driver
        self._bound = None

    def _open(self) -> Place:
        """Return the place of keys; once."""
        alone = self._driver.alone
        assert alone is not None
        self._place = alone(self._spec._path)
        return told(self._place, self._driver.name)

    def _settled(self) -> Spec:
        """Return the spec with resources, which are the same each time."""
        if self._bound is None:
            with _binding:
                if self._bound is None:
                    self._bound = self._bind()
        return self._bound

    def _bind(self) -> Spec:
        made = self._spec._bound(Context())
        if self._driver.store is not None:
            resource = made._references.resource(self._driver.store)
            resource._made(lambda _: self._place.store)
        return made
