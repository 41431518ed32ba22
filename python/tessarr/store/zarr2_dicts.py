"""Stores in Python dicts with zarr-python 2's names: `DictStore`, `KVStore`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from threading import RLock
from typing import Any, Literal, Self, TypeAlias

from tessarr._engine import ForeignStore
from tessarr.errors import StoreError
from tessarr.format.registry import set_public_module
from tessarr.store.repr_mixin import DescribedStore

__all__ = ["DictStore", "KVStore"]

_Dict: TypeAlias = "MutableMapping[str, Any]"


class _ObjectStore(DescribedStore):
    """A store that wraps an object; stores that wrap the same object are equal."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._object is other._object

    def __hash__(self) -> int:
        return id(self._object)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(<{type(self._object).__name__}>)"

    @property
    def _object(self) -> Any:
        return next(iter(self._arguments.values()))


class DictStore(_ObjectStore):
    """A store in dicts in dicts: ``root["a"]["b"]`` is the value of the key ``a/b``.

    Prefer `MemoryStore`, which is faster, unless a program reads the dicts.

    Parameters
    ----------
    root : MutableMapping, optional
        The outermost dict; by default a new one.
    cls : callable, default dict
        Creates the inner dicts.
    dimension_separator : {".", "/"}, optional
        As for `DirectoryStore`.

    Examples
    --------
    >>> store = DictStore()
    >>> store["foo"] = b"bar"
    >>> store["a/b/c"] = b"xxx"
    >>> store.listdir(), store.root
    (['a', 'foo'], {'foo': b'bar', 'a': {'b': {'c': b'xxx'}}})
    >>> store.rmdir("a")
    >>> list(store)
    ['foo']
    """

    dimension_separator: Literal[".", "/"] | None

    def __new__(
        new_class: type[Self],  # pyright: ignore[reportSelfClsParameterName]
        root: _Dict | None = None,
        cls: Callable[[], _Dict] = dict,
        *,
        dimension_separator: Literal[".", "/"] | None = None,
    ) -> Self:
        arguments: dict[str, Any] = {"root": cls() if root is None else root, "cls": cls}
        if dimension_separator is not None:
            arguments["dimension_separator"] = dimension_separator
        store = new_class._build(arguments, ForeignStore(_NestedDicts(arguments["root"], cls)))
        store.dimension_separator = dimension_separator
        return store

    @property
    def root(self) -> _Dict:
        """The outermost dict."""
        root: _Dict = self._object
        return root


class KVStore(_ObjectStore):
    """A store over any mutable mapping of keys to bytes.

    Parameters
    ----------
    mutablemapping : MutableMapping
        The mapping of keys to values.

    Examples
    --------
    >>> items = {}
    >>> store = KVStore(items)
    >>> store["a/b"] = b"1"
    >>> items, store.listdir("a")
    ({'a/b': b'1'}, ['b'])
    """

    def __new__(cls, mutablemapping: MutableMapping[str, Any]) -> Self:
        return cls._build({"mutablemapping": mutablemapping}, ForeignStore(mutablemapping))


class _NestedDicts:
    """Nested dicts with the methods of `tessarr.store.protocol.StoreProtocol`."""

    def __init__(self, root: _Dict, make: Callable[[], _Dict]) -> None:
        self._root = root
        self._build = make
        self._lock = RLock()

    def get(self, key: str) -> Any:
        *folders, name = key.split("/")
        parent = self._find_folder(folders)
        value = None if parent is None else parent.get(name)
        return None if isinstance(value, Mapping) else value

    def put(self, key: str, data: bytes) -> None:
        *folders, name = key.split("/")
        with self._lock:
            parent: Any = self._root
            for folder in folders:
                if folder not in parent:
                    parent[folder] = self._build()
                parent = parent[folder]
                if not isinstance(parent, MutableMapping):
                    raise StoreError(f"cannot store {key!r}: {folder!r} in it is a value", key=key)
            if isinstance(parent.get(name), Mapping):
                raise StoreError(f"cannot store {key!r}: there are keys below it", key=key)
            parent[name] = data

    def delete(self, key: str) -> None:
        with self._lock:
            if self.get(key) is not None:
                self._remove(key)

    def delete_prefix(self, prefix: str) -> None:
        with self._lock:
            if not prefix:
                self._root.clear()
            elif self._find_folder(prefix[:-1].split("/")) is not None:
                self._remove(prefix[:-1])

    def _remove(self, path: str) -> None:
        """Remove a value or a dict, and each outer dict that becomes empty."""
        *folders, name = path.split("/")
        around = [self._find_folder(folders[:depth]) for depth in range(len(folders) + 1)]
        for parent, inner in zip(reversed(around), (name, *reversed(folders)), strict=True):
            assert parent is not None
            del parent[inner]
            if parent:
                break

    def list(self, prefix: str) -> Iterator[str]:
        with self._lock:
            parent = self._find_folder(prefix[:-1].split("/") if prefix else [])
            keys = [*_iterate_keys(parent, prefix)] if parent is not None else []
        return iter(keys)

    def list_dir(self, prefix: str) -> tuple[Any, Any]:
        with self._lock:
            parent = self._find_folder(prefix[:-1].split("/") if prefix else [])
            items = [] if parent is None else [*parent.items()]
        folders = [f"{prefix}{name}/" for name, value in items if isinstance(value, Mapping)]
        keys = [f"{prefix}{name}" for name, value in items if not isinstance(value, Mapping)]
        return keys, folders

    def _find_folder(self, names: Any) -> _Dict | None:
        folder: Any = self._root
        for name in names:
            folder = folder.get(name)
            if not isinstance(folder, MutableMapping):
                return None
        return folder  # type: ignore[no-any-return] # checked at each step


def _iterate_keys(root: Mapping[str, Any], prefix: str) -> Iterator[str]:
    # No recursion: keys may have more levels than the call stack allows.
    folders = [(prefix, root)]
    while folders:
        path, folder = folders.pop()
        for name, value in folder.items():
            if isinstance(value, Mapping):
                folders.append((f"{path}{name}/", value))
            else:
                yield path + name


set_public_module("tessarr.stores", DictStore, KVStore)
