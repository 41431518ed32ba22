"""Measure what is stored under a node, with one listing."""

from __future__ import annotations

from tessarr.drive import Flow, List, Size
from tessarr.flow.open import prefix_of

__all__ = ["keys", "stored_bytes"]


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
