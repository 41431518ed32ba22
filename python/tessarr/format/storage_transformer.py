"""Storage transformers between an array and its store: an extension point of format 3.

Theory
------
The chunks of an array are values under keys. A storage transformer (ZEP 1) stores them under
other keys, with other values, or several values in one. It wraps the store of one array. The array
still sees its chunks under keys relative to its own path. The metadata document lists the
transformers, so it is not transformed itself.

Transformers are listed from the array to the store: the array calls the first one, and the last
one calls the store.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from tessarr.format.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tessarr.format.validation import Members
    from tessarr.types import JSONObject

__all__ = [
    "ChunkStore",
    "IgnoredTransformer",
    "StorageTransformer",
    "find_transformer",
    "register",
]


class ChunkStore(Protocol):
    """The store of the chunks of one array, before or after a transformer.

    `tessarr.stores.StoreProtocol` describes the methods. Two of them are optional. Without
    ``replace``, only writers through the same open array exclude each other. Without
    ``open_value``, every read loads whole values, also when a part of a shard would do.
    """

    def get(self, key: str) -> bytes | None:
        """Return the value of a key, or None if the key is absent."""

    def put(self, key: str, data: bytes) -> object:
        """Store a value."""

    def delete(self, key: str) -> object:
        """Delete a key if it exists."""

    def list(self, prefix: str) -> Iterable[str]:
        """Return the keys that begin with `prefix`."""
        ...

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        """Store or delete a value if the current one is as expected; tell whether it was."""
        ...

    def open_value(self, key: str) -> Any:
        """Return an open value, which reads parts of a value."""


@dataclass(frozen=True, slots=True)
class StorageTransformer(ABC):
    """The base class of storage transformers.

    A subclass defines `name`, `from_json` and `to_json`. It overrides what it changes: the key
    of a value, the value, or, for everything else, `transform`. Several threads call its
    methods concurrently.
    """

    name: ClassVar[str] = ""

    @classmethod
    @abstractmethod
    def from_json(cls, configuration: Members) -> StorageTransformer | None:
        """Return the transformer of a ``configuration``; if invalid, add problems, return None."""

    @abstractmethod
    def to_json(self) -> JSONObject:
        """Return the JSON of the transformer in format 3."""

    def transform(self, store: ChunkStore) -> Any:
        """Return a `ChunkStore` that stores its values in `store`.

        By default it stores the result of `encode` under the result of `key`.
        """
        return _TransformedStore(store, self)

    def key(self, key: str) -> str:
        """Return the key in the underlying store; by default the same key."""
        return key

    def original(self, key: str) -> str | None:
        """Return the array's key for a key of the underlying store, or None for a foreign key."""
        return key

    def encode(self, data: bytes) -> bytes:
        """Return the stored form of a value; by default the same value."""
        return data

    def decode(self, data: bytes) -> bytes:
        """Return the value of a stored form, or raise `DataError`: the inverse of `encode`."""
        return data


class _TransformedStore:
    """A store that stores each value under one key of another store."""

    def __init__(self, store: ChunkStore, transformer: StorageTransformer) -> None:
        self._store = store
        self._transformer = transformer
        # Optional methods exist only if the other store has them.
        if hasattr(store, "replace"):
            self.replace = self._replace
        values_unchanged = type(transformer).decode is StorageTransformer.decode
        if values_unchanged and hasattr(store, "open_value"):
            self.open_value = self._open_value

    def get(self, key: str) -> bytes | None:
        stored = self._store.get(self._transformer.key(key))
        return None if stored is None else self._transformer.decode(bytes(stored))

    def put(self, key: str, data: bytes) -> None:
        self._store.put(self._transformer.key(key), self._transformer.encode(bytes(data)))

    def delete(self, key: str) -> None:
        self._store.delete(self._transformer.key(key))

    def list(self, prefix: str) -> Iterator[str]:
        for stored in self._store.list(""):
            key = self._transformer.original(stored)
            if key is not None and key.startswith(prefix):
                yield key

    def _open_value(self, key: str) -> Any:
        return self._store.open_value(self._transformer.key(key))

    def _replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        store_key = self._transformer.key(key)
        stored = self._store.get(store_key)
        if (None if stored is None else self._transformer.decode(bytes(stored))) != expected:
            return False
        new = None if data is None else self._transformer.encode(bytes(data))
        return self._store.replace(store_key, new, stored)


@dataclass(frozen=True, slots=True)
class IgnoredTransformer(StorageTransformer):
    """An unknown transformer with ``must_understand: false``, which only the metadata contains."""

    document: str
    """The transformer's JSON."""

    @classmethod
    def from_json(cls, configuration: Members) -> None:
        """Return None: this class has no name."""

    def to_json(self) -> JSONObject:
        import json

        document: JSONObject = json.loads(self.document)
        return document

    def transform(self, store: ChunkStore) -> ChunkStore:
        return store


_transformers: Registry[type[StorageTransformer]] = Registry(
    "storage transformer", "tessarr.storage_transformers"
)


def register(transformer: type[StorageTransformer]) -> type[StorageTransformer]:
    """Register a storage transformer by its name; a class decorator."""
    _transformers[transformer.name] = transformer
    return transformer


find_transformer = _transformers.find
"""Return the storage transformer with a name, or None."""
