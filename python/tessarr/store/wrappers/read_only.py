"""A store that refuses every change of another store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tessarr import _engine
from tessarr.format.registry import set_public_module
from tessarr.store.wrappers.prefix import open_wrapped_store
from tessarr.store.wrappers.wrapper import WrapperStore

if TYPE_CHECKING:
    from tessarr.store.resolve import StoreLike

__all__ = ["ReadOnlyStore"]


class ReadOnlyStore(WrapperStore):
    """A store that refuses every change of another store with a `ReadOnlyError`.

    Parameters
    ----------
    store : StoreLike
        The other store, as for `tessarr.open`.

    Examples
    --------
    >>> store = ReadOnlyStore({"a": b"1"})
    >>> store.get("a"), store.read_only
    (b'1', True)
    >>> store.put("a", b"2")
    Traceback (most recent call last):
    tessarr.errors.ReadOnlyError: key "a": the store is open for reading only
    """

    def __new__(cls, store: StoreLike) -> Self:
        opened = open_wrapped_store(store)
        return cls._build({"store": opened}, _engine.guard_store(opened))


set_public_module("tessarr.stores", ReadOnlyStore)
