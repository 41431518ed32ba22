"""Checksum of all stored chunks and metadata documents of an array."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from tessarr.errors import ArgumentError
from tessarr.flow import stored_sizes
from tessarr.flow.open import prefix_of
from tessarr.flow.run import run_flow
from tessarr.store.wrappers.transformer_adapter import get_chunk_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tessarr.metadata.node import ArrayMeta
    from tessarr.store import Store

__all__ = ["compute_digest", "sort_chunk_keys"]

_PIECE_BYTES: Final = 1 << 24


def compute_digest(store: Store, path: str, meta: ArrayMeta, hashname: str) -> bytes:
    """Return the checksum of the chunks in the order of the grid, then that of the documents.

    The order is that of zarr-python 2.18, so that arrays of format 2 have the same checksum.
    """
    try:
        checksum = hashlib.new(hashname, usedforsecurity=False)
    except ValueError as error:
        raise ArgumentError(f"there is no hash {hashname!r}: {error}") from None
    if not checksum.digest_size:
        raise ArgumentError(f"hash {hashname!r} has no length of its own")
    chunks, below = get_chunk_store(store, path, meta.storage_transformers)
    keys_below = run_flow(stored_sizes.list_keys(below), chunks)
    names = {1: ("meta", "attrs"), 2: (".zarray", ".zattrs"), 3: ("zarr.json",)}
    keys = [(chunks, prefix_of(below) + key) for key in sort_chunk_keys(meta, keys_below)]
    keys += [(store, prefix_of(path) + name) for name in names[meta.document_format]]
    for where, key in keys:
        for piece in _read_pieces(where, key):
            checksum.update(piece)
    return checksum.digest()


def sort_chunk_keys(meta: ArrayMeta, keys: Iterable[str]) -> list[str]:
    """Return the keys of the chunks of the grid, in its order; keys are relative to the array."""
    cells_and_keys = ((meta.chunk_key_encoding.decode(key, meta.rank), key) for key in keys)
    grid_shape = meta.grid_shape
    stored = sorted(
        (cell, key)
        for cell, key in cells_and_keys
        if cell is not None
        and all(index < count for index, count in zip(cell, grid_shape, strict=True))
    )
    return [key for _, key in stored]


def _read_pieces(store: Store, key: str) -> Iterator[bytes]:
    value = store.open_value(key)
    if value is not None:
        for start in range(0, value.size, _PIECE_BYTES):
            yield value.read(start, min(_PIECE_BYTES, value.size - start))
