"""A store of the keys below a prefix of another store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tessarr import _engine
from tessarr.format.node_path import join, normalize_path
from tessarr.format.registry import set_public_module
from tessarr.store.resolve import open_store
from tessarr.store.wrappers.wrapper import WrapperStore

if TYPE_CHECKING:
    from tessarr._engine import Store
    from tessarr.store.resolve import StoreLike

__all__ = ["PrefixStore", "open_wrapped_store"]


def open_wrapped_store(store: StoreLike) -> Store:
    """Resolve a store argument to a store whose root is the argument's path."""
    opened, path = open_store(store)
    return PrefixStore(opened, path) if path else opened


class PrefixStore(WrapperStore):
    """A store of the keys below a path of another store.

    Parameters
    ----------
    store : StoreLike
        The other store, as for `tessarr.open`.
    prefix : str
        The path: names joined by ``/``.

    Notes
    -----
    No key leads out of the prefix. Errors name the keys of the other store.

    Examples
    --------
    >>> below = PrefixStore({"a/b": b"1", "c": b"2"}, "a")
    >>> below.list(), below.get("b")
    (['b'], b'1')
    """

    def __new__(cls, store: StoreLike, prefix: str) -> Self:
        opened, path = open_store(store)
        whole = normalize_path(join(path, prefix))
        engine = _engine.prefix_store(opened, f"{whole}/" if whole else "")
        return cls._build({"store": opened, "prefix": whole}, engine)


set_public_module("tessarr.stores", PrefixStore)
