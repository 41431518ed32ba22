"""Objects of zarr-python: the classes of nodes, and the nodes that the drop-in delegates to."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, MutableMapping
from operator import attrgetter
from typing import Any, Final

from tessarr.store.adapt import get_user_store
from tessarr.store.local import LocalStore
from tessarr.store.memory import MemoryStore

__all__ = ["Delegating", "OriginalArray", "OriginalGroup", "delegate", "import_zarr_python"]


def import_zarr_python(module: str) -> Any:
    """Import a module of zarr-python, which is an optional package."""
    return importlib.import_module(module)


import_zarr_python("zarr.api.asynchronous")  # the order in which zarr-python imports
OriginalArray: Final = import_zarr_python("zarr.core.array").Array
OriginalGroup: Final = import_zarr_python("zarr.core.group").Group


class Delegating:
    """A node whose other attributes are those of a node of zarr-python at the same location.

    Subclasses have the slot ``_known_original``.
    """

    __slots__: tuple[str, ...] = ()
    __setattr__ = object.__setattr__  # the groups of zarr-python are frozen

    def _build_original(self, meta: Any) -> Any:
        """Return the node of zarr-python for metadata."""
        raise NotImplementedError

    @property
    def _original(self) -> Any:
        """The node of zarr-python for the present metadata."""
        meta = self._metadata
        known = getattr(self, "_known_original", None)
        if known is None or known[0] is not meta:
            known = meta, self._build_original(meta)
            object.__setattr__(self, "_known_original", known)
        return known[1]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_metadata" or name in type(self).__slots__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._original, name)

    @property
    def store(self) -> Any:
        """The store, as an object of zarr-python."""
        return _get_zarr_store(self._store)


def delegate(cls: type, *names: str) -> None:
    """Let attributes of a class be those of the node of zarr-python."""
    for name in names:
        setattr(
            cls,
            name,
            property(attrgetter(f"_original.{name}"), doc="The attribute of zarr-python."),
        )


def _get_zarr_store(store: Any) -> Any:
    """Return a store of zarr-python for a store of Tessarr; itself if there is none."""
    from zarr import storage
    from zarr.abc.store import Store

    user_store = get_user_store(store)
    if isinstance(user_store, Store):
        return user_store
    if isinstance(store, LocalStore):
        return storage.LocalStore(store.path, read_only=store.read_only)
    if isinstance(user_store, dict | MemoryStore):
        return storage.MemoryStore(_Buffers(user_store), read_only=store.read_only)
    return user_store


class _Buffers(MutableMapping[str, Any]):
    """The values of a store in memory, as buffers of zarr-python."""

    def __init__(self, values: MutableMapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        from zarr.core.buffer.cpu import Buffer

        return Buffer.from_bytes(bytes(self._values[key]))

    def __setitem__(self, key: str, value: Any) -> None:
        self._values[key] = value.to_bytes()

    def __delitem__(self, key: str) -> None:
        del self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)
