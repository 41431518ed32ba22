"""Storage transformers: what stands between an array and its store. An extension point of format 3.

Theory
------
The chunks of an array are values under keys. A storage transformer (ZEP 1) has its own
way to keep them: under other keys, with other values, or several values in one. It
wraps the store for one array, so that the array sees its chunks as if there was no
transformer, under keys relative to its own path. The array's metadata say which
transformers there are, and are therefore not transformed themselves.

Transformers are listed from the array to the store: the first is asked by the array,
the last asks the store.
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
    """The chunks of one array: what a transformer is given, and what it has to return.

    `tessarr.stores.StoreProtocol` says what the methods do. Two may be absent: without
    ``replace`` only writers through one opened array exclude each other, without
    ``open_value`` values are read whole, also where a part of a shard would do.
    """

    def get(self, key: str) -> bytes | None:
        """Return the value of a key, or None if there is none."""

    def put(self, key: str, data: bytes) -> object:
        """Store a value."""

    def delete(self, key: str) -> object:
        """Remove a key, which need not exist."""

    def list(self, prefix: str) -> Iterable[str]:
        """Return the keys that begin with `prefix`."""
        ...

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        """Store a value, or remove it, if the one before is as expected; tell whether it was."""
        ...

    def open_value(self, key: str) -> Any:
        """Return what reads parts of a value."""


@dataclass(frozen=True, slots=True)
class StorageTransformer(ABC):
    """How the chunks of an array are kept in its store: the extension point.

    A class of your own has a `name`, `from_json` and `to_json`, and what it changes: the
    key of a value, a value, or, for everything else, `transform` itself. Its methods are
    called from several threads at a time.
    """

    name: ClassVar[str] = ""

    @classmethod
    @abstractmethod
    def from_json(cls, configuration: Members) -> StorageTransformer | None:
        """Return the transformer of a ``configuration``, or None and problems."""

    @abstractmethod
    def to_json(self) -> JSONObject:
        """Return the transformer as metadata of format 3 states it."""

    def transform(self, store: ChunkStore) -> Any:
        """Return a `ChunkStore` that keeps its values in `store`.

        By default it keeps each value, as `encode` makes it, under the key that `key` gives.
        """
        return _TransformedStore(store, self)

    def key(self, key: str) -> str:
        """Return under which key the value of `key` is kept; by default the same."""
        return key

    def original(self, key: str) -> str | None:
        """Return whose value is kept under `key`; None if it is not one of the array's."""
        return key

    def encode(self, data: bytes) -> bytes:
        """Return what is kept for a value; by default the same."""
        return data

    def decode(self, data: bytes) -> bytes:
        """Return the value that `encode` made `data` of, or raise `DataError`."""
        return data


class _TransformedStore:
    """Keeps each value under one key of another store."""

    def __init__(self, store: ChunkStore, transformer: StorageTransformer) -> None:
        self._store = store
        self._transformer = transformer
        # What the other store lacks, this one lacks, too.
        if hasattr(store, "replace"):
            self.replace = self._replace
        as_they_are = type(transformer).decode is StorageTransformer.decode
        if as_they_are and hasattr(store, "open_value"):
            self.open_value = self._open_value

    def get(self, key: str) -> bytes | None:
        kept = self._store.get(self._transformer.key(key))
        return None if kept is None else self._transformer.decode(bytes(kept))

    def put(self, key: str, data: bytes) -> None:
        self._store.put(self._transformer.key(key), self._transformer.encode(bytes(data)))

    def delete(self, key: str) -> None:
        self._store.delete(self._transformer.key(key))

    def list(self, prefix: str) -> Iterator[str]:
        for kept in self._store.list(""):
            key = self._transformer.original(kept)
            if key is not None and key.startswith(prefix):
                yield key

    def _open_value(self, key: str) -> Any:
        return self._store.open_value(self._transformer.key(key))

    def _replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        at = self._transformer.key(key)
        kept = self._store.get(at)
        if (None if kept is None else self._transformer.decode(bytes(kept))) != expected:
            return False
        new = None if data is None else self._transformer.encode(bytes(data))
        return self._store.replace(at, new, kept)


@dataclass(frozen=True, slots=True)
class IgnoredTransformer(StorageTransformer):
    """A transformer that is not known but need not be understood: kept in the metadata."""

    document: str
    """The transformer's JSON."""

    @classmethod
    def from_json(cls, configuration: Members) -> None:
        """Return None: it is never looked up by name."""

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
    _transformers.add(transformer.name, transformer)
    return transformer


def find_transformer(name: str) -> type[StorageTransformer] | None:
    """Return the storage transformer called `name`, or None."""
    return _transformers.find(name)
