"""Measure what is stored under a node, with one listing."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tessarr.flow.open import prefix_of
from tessarr.flow.run import Flow, List, Size

if TYPE_CHECKING:
    from tessarr.metadata.node import ArrayMeta
    from tessarr.types import Shape

__all__ = ["keys", "stored_bytes", "stored_chunks"]


def keys(path: str) -> Flow[list[str]]:
    """Return the keys under the node at `path`, relative to it."""
    prefix = prefix_of(path)
    found = yield List(prefix)
    return [key[len(prefix) :] for key in found]


def stored_bytes(path: str) -> Flow[int]:
    """Return the size of everything under the node at `path`, its metadata included."""
    found = yield List(prefix_of(path))
    # A key may have gone since the listing.
    sizes: tuple[int | None, ...] = yield tuple(Size(key) for key in found)
    return sum(size or 0 for size in sizes)


def stored_chunks(path: str, meta: ArrayMeta) -> Flow[int]:
    """Return how many chunks of an array are stored; all chunks of a stored shard count."""
    found = yield from keys(path)
    cells = (meta.chunk_key_encoding.decode(key, meta.rank) for key in found)
    return sum(_chunks_in(meta, cell) for cell in cells if cell is not None)


def _chunks_in(meta: ArrayMeta, cell: Shape) -> int:
    """Return how many chunks the stored object at `cell` has inside of the array."""
    cuts = meta.chunk_grid.cuts
    inside = [
        min(size - axis.start(at), axis.length(at))
        for axis, at, size in zip(cuts, cell, meta.shape, strict=True)
    ]
    if any(length <= 0 for length in inside):
        return 0
    if not meta.is_sharded:
        return 1
    return prod(-(-length // short) for length, short in zip(inside, meta.chunk_shape, strict=True))
