"""Sizes and numbers of stored values of a node, from one listing."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tessarr.flow.open import prefix_of
from tessarr.flow.run import Flow, List, Size

if TYPE_CHECKING:
    from tessarr.metadata.node import ArrayMeta
    from tessarr.types import Shape

__all__ = ["count_stored_chunks", "list_keys", "measure_stored_bytes"]


def list_keys(path: str) -> Flow[list[str]]:
    """Return the keys under the node at `path`, relative to it."""
    prefix = prefix_of(path)
    keys = yield List(prefix)
    return [key[len(prefix) :] for key in keys]


def measure_stored_bytes(path: str) -> Flow[int]:
    """Return the size of all values under the node at `path`, including metadata."""
    keys = yield List(prefix_of(path))
    # Another program may have deleted a key since the listing.
    sizes: tuple[int | None, ...] = yield tuple(Size(key) for key in keys)
    return sum(size or 0 for size in sizes)


def count_stored_chunks(path: str, meta: ArrayMeta) -> Flow[int]:
    """Return the number of stored chunks of an array, with all subchunks of stored shards."""
    keys = yield from list_keys(path)
    cells = (meta.chunk_key_encoding.decode(key, meta.rank) for key in keys)
    return sum(_count_chunks_in(meta, cell) for cell in cells if cell is not None)


def _count_chunks_in(meta: ArrayMeta, cell: Shape) -> int:
    """Return the number of chunks of the stored object at `cell` inside of the array."""
    cuts = meta.chunk_grid.cuts
    lengths = [
        min(size - axis.start(index), axis.length(index))
        for axis, index, size in zip(cuts, cell, meta.shape, strict=True)
    ]
    if any(length <= 0 for length in lengths):
        return 0
    if not meta.is_sharded:
        return 1
    return prod(
        -(-length // chunk_length)
        for length, chunk_length in zip(lengths, meta.chunk_shape, strict=True)
    )
