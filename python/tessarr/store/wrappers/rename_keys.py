"""A store in which some documents have other keys than in the underlying store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessarr import _engine
from tessarr.store.adapt import ForeignStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr._engine import Store

__all__ = ["rename_keys"]


def rename_keys(store: Store, names: Mapping[str, str]) -> Store:
    """Return a store in which some documents of `store` have other keys.

    Parameters
    ----------
    store
        The other store. Only documents (names that begin with a dot) have other keys.
    names
        A mapping from new keys to keys of `store`.

    Examples
    --------
    >>> from tessarr.stores import MemoryStore
    >>> store = MemoryStore()
    >>> other = rename_keys(store, {"a/.zarray": "a/meta.json"})
    >>> other.put("a/.zarray", b"{}")
    >>> other.put("a/0.0", b"1")
    >>> store.list(), other.get("a/.zarray")
    (['a/0.0', 'a/meta.json'], b'{}')
    """
    return _engine.SplitStore(ForeignStore(_RenamedKeys(store, names)), store)


class _RenamedKeys:
    """The documents of a store under other keys; equal if store and names are equal."""

    def __init__(self, store: Store, names: Mapping[str, str]) -> None:
        self._store, self._names = store, dict(names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _RenamedKeys):
            return NotImplemented
        return (self._store, self._names) == (other._store, other._names)

    def __hash__(self) -> int:
        return hash(self._store)

    def get(self, key: str) -> bytes | None:
        return self._store.get(self._names.get(key, key))

    def put(self, key: str, data: bytes) -> None:
        self._store.put(self._names.get(key, key), data)

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        return self._store.replace(self._names.get(key, key), data, expected)

    def delete(self, key: str) -> None:
        self._store.delete(self._names.get(key, key))

    def list(self, prefix: str) -> list[str]:
        return self._store.list(prefix)

    def delete_prefix(self, prefix: str) -> None:
        self._store.delete_prefix(prefix)
