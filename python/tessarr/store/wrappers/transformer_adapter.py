"""Adapter between storage transformers and the engine's stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessarr._engine import ForeignStore
from tessarr.errors import ArgumentError
from tessarr.format.storage_transformer import IgnoredTransformer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tessarr._engine import Store, ValueReader
    from tessarr.format.storage_transformer import ChunkStore, StorageTransformer

__all__ = ["get_chunk_store"]


def get_chunk_store(
    store: Store, path: str, transformers: Sequence[StorageTransformer]
) -> tuple[Store, str]:
    """Return the store of an array's chunks and the path in it.

    Parameters
    ----------
    store, path
        The location of the array.
    transformers
        The storage transformers, from the array to the store.

    Returns
    -------
    store, path
        The arguments, if no transformer is active.
    """
    active = [
        transformer
        for transformer in transformers
        if not isinstance(transformer, IgnoredTransformer)
    ]
    if not active:
        return store, path
    chunks: ChunkStore = _ChunkKeys(store, f"{path}/" if path else "")
    for transformer in reversed(active):
        chunks = transformer.transform(chunks)
    return ForeignStore(chunks, read_only=store.read_only), ""


_METADATA = "zarr.json"


class _ChunkKeys:
    """The keys below the path of an array, except its metadata."""

    def __init__(self, store: Store, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

    def get(self, key: str) -> bytes | None:
        return self._store.get(self._to_full_key(key))

    def put(self, key: str, data: bytes) -> None:
        self._store.put(self._to_full_key(key), data)

    def delete(self, key: str) -> None:
        self._store.delete(self._to_full_key(key))

    def list(self, prefix: str) -> list[str]:
        full_prefix = self._prefix + prefix
        # A listing requires a prefix that ends in "/"; filter its result by the longer prefix.
        listed = self._store.list(full_prefix[: full_prefix.rfind("/") + 1])
        start = len(self._prefix)
        keys = [key[start:] for key in listed if key.startswith(full_prefix)]
        return [key for key in keys if key != _METADATA]

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        return self._store.replace(self._to_full_key(key), data, expected)

    def open_value(self, key: str) -> ValueReader | None:
        return self._store.open_value(self._to_full_key(key))

    def _to_full_key(self, key: str) -> str:
        if key == _METADATA:
            message = f"a storage transformer uses the key {key!r} of the metadata for a chunk"
            raise ArgumentError(message, key=self._prefix + key)
        return self._prefix + key
