"""Identity of stores and states of stored values, for tokens of cached results."""

from __future__ import annotations

import time
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from tessarr._engine import SplitStore
from tessarr.format.node_path import join
from tessarr.store.adapt import ForeignStore, get_user_store
from tessarr.store.fsspec.store import FsspecStore
from tessarr.store.local import LocalStore
from tessarr.store.memory import MemoryStore
from tessarr.store.repr_mixin import DescribedStore
from tessarr.store.sqlite import SQLiteStore
from tessarr.store.wrappers.wrapper import PrefixStore, WrapperStore
from tessarr.store.zip import ZipStore

if TYPE_CHECKING:
    from tessarr._engine import Store

__all__ = ["describe_location", "list_states"]

_RUNTIME_ARGUMENTS: Final = frozenset({"mode", "read_only"})
"""The arguments of stores that do not change what a read returns."""
_TICK_S: Final = 0.025
"""The time after which a further change of a file has another time stamp, if stamps are fine."""
_MAX_TICKS: Final = 130
"""The same for stamps of whole seconds, in ticks."""


def describe_location(store: Store) -> Any:
    """Return a description that is equal for stores of the same values.

    The access mode does not matter, and wrappers without a prefix have the description of their
    store. The description of a foreign object contains the object itself.
    """
    if isinstance(store, SplitStore):
        return describe_location(store.metadata), describe_location(store.chunks)
    if isinstance(store, WrapperStore):
        inner = describe_location(store._arguments["store"])
        prefix = store._arguments["prefix"] if isinstance(store, PrefixStore) else ""
        return ("prefix", inner, prefix) if prefix else inner
    if isinstance(store, MemoryStore):
        return ("memory",)  # `list_states` describes the values
    if isinstance(store, LocalStore):
        return "folder", store.path
    if isinstance(store, ZipStore):
        return "zip", store.path
    if isinstance(store, DescribedStore):
        arguments = sorted(store._arguments.items())
        kept = tuple((name, value) for name, value in arguments if name not in _RUNTIME_ARGUMENTS)
        return type(store).__name__, kept
    user_store = get_user_store(store)
    if user_store is store and isinstance(store, ForeignStore):
        user_store = store.object
    return type(store).__name__, user_store


def list_states(store: Store, prefix: str) -> dict[str, bytes] | None:
    """Return a state for each key below a prefix, which changes with the value.

    Parameters
    ----------
    store
        Any store.
    prefix
        "" or the path of a node and ``/``.

    Returns
    -------
    dict or None
        The states by key, without the prefix. Files have their inode and time stamps; object
        stores list their tags; values in memory and of SQLite have a checksum. None if the store
        has no states.
    """
    if isinstance(store, SplitStore):
        return list_states(store.chunks, prefix)
    if isinstance(store, WrapperStore):
        if isinstance(store, PrefixStore):
            prefix = f"{join(store._arguments['prefix'], prefix.rstrip('/'))}/".lstrip("/")
        return list_states(store._arguments["store"], prefix)
    if isinstance(store, (MemoryStore, SQLiteStore)):
        return {key[len(prefix) :]: _digest(store, key) for key in store.list(prefix)}
    if isinstance(store, LocalStore):
        return _list_file_states(store, prefix)
    if isinstance(store, ZipStore):
        return store.list_states(prefix)
    if isinstance(store, FsspecStore):
        if store._files is None:
            return _list_file_states(store, prefix)
        return store._files.list_states(prefix)
    lister = getattr(getattr(store, "object", None), "list_states", None)
    states: dict[str, bytes] | None = None if lister is None else lister(prefix)
    return states


def _digest(store: Store, key: str) -> bytes:
    return sha256(store.get(key, b"")).digest()


def _list_file_states(store: Store, prefix: str) -> dict[str, bytes]:
    """Return the states of files; wait until a later change has another state."""
    states: dict[str, bytes] = {}
    recent = store.list(prefix)
    for tick in range(_MAX_TICKS):
        if tick:
            time.sleep(_TICK_S)
        keys, recent = recent, []
        for key in keys:
            value = store.open_value(key)
            states[key[len(prefix) :]] = b"" if value is None else value.state or b""
            if value is not None and value.version is None:  # the time stamps are recent
                recent.append(key)
        if not recent:
            break
    return states
