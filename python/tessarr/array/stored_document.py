"""Comparison of a stored metadata document with the metadata of an open array."""

from __future__ import annotations

from typing import Any

from tessarr.flow.open import parse_documents
from tessarr.format.chunk_grid import RectilinearGrid
from tessarr.metadata.node import ArrayMeta

__all__ = ["has_same_chunks"]


def has_same_chunks(meta: ArrayMeta, name: str, document: bytes) -> bool:
    """Return whether a stored document describes chunks with the same encoding and positions.

    The shape, the fill value and the attributes may differ.

    Parameters
    ----------
    meta
        The metadata of the open array.
    name, document
        The name of the document, and its current content.

    Examples
    --------
    >>> import tessarr
    >>> store = tessarr.stores.MemoryStore()
    >>> meta = tessarr.create_array(store, shape=4, chunks=2, dtype="i4")._meta
    >>> tessarr.open_array(store).resize(3)
    >>> has_same_chunks(meta, "zarr.json", store.get("zarr.json"))
    True
    >>> _ = tessarr.create_array(store, shape=4, chunks=2, dtype="u4", overwrite=True)
    >>> has_same_chunks(meta, "zarr.json", store.get("zarr.json"))
    False
    """
    stored = parse_documents({name: document}, "")
    if not isinstance(stored, ArrayMeta) or stored.rank != meta.rank:
        return False
    return _has_same_grid(meta, stored) and _encoding(meta) == _encoding(stored)


def _encoding(meta: ArrayMeta) -> dict[str, Any]:
    """Return the members of the document on which the bytes of a chunk and its key depend."""
    members = meta.to_dict()
    # In format 2, a store may define the separator that a document omits.
    names = {
        2: ("dtype", "compressor", "filters", "order"),
        3: ("data_type", "codecs", "chunk_key_encoding"),
    }[meta.zarr_format]
    return {name: members.get(name) for name in names}


def _has_same_grid(meta: ArrayMeta, stored: ArrayMeta) -> bool:
    old, new = meta.chunk_grid, stored.chunk_grid
    if not (isinstance(old, RectilinearGrid) and isinstance(new, RectilinearGrid)):
        return old == new
    # A resize changes the chunks at the end.
    counts = map(min, meta.grid_shape, stored.grid_shape)
    axes = zip(old.chunk_shapes, new.chunk_shapes, old.cuts, new.cuts, counts, strict=True)
    return all(
        before == after or all(cut.start(i) == other.start(i) for i in range(count))
        for before, after, cut, other, count in axes
    )
