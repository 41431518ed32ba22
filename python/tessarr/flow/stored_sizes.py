"""Sizes and numbers of stored values of a node, from one listing."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from tessarr.flow.open import prefix_of
from tessarr.flow.run import Flow, List, Size, Sizes

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.metadata.node import ArrayMeta

__all__ = [
    "count_stored_chunks",
    "list_keys",
    "list_sizes",
    "measure_array",
    "measure_stored_bytes",
]


def list_keys(path: str) -> Flow[list[str]]:
    """Return the keys under the node at `path`, relative to it."""
    prefix = prefix_of(path)
    keys = yield List(prefix)
    return [key[len(prefix) :] for key in keys]


def list_sizes(path: str) -> Flow[dict[str, int | None]]:
    """Return the sizes of all values under the node at `path`, by keys relative to it.

    A size is None if another program has deleted the key since the listing.
    """
    prefix = prefix_of(path)
    listed: dict[str, int | None] | None = yield Sizes(prefix)
    if listed is None:
        keys: list[str] = yield List(prefix)
        sizes = yield tuple(Size(key) for key in keys)
        listed = dict(zip(keys, sizes, strict=True))
    return {key[len(prefix) :]: size for key, size in listed.items()}


def measure_stored_bytes(path: str) -> Flow[int]:
    """Return the size of all values under the node at `path`, including metadata."""
    sizes = yield from list_sizes(path)
    return sum(size or 0 for size in sizes.values())


def measure_array(path: str, meta: ArrayMeta) -> Flow[tuple[int, int]]:
    """Return the results of `measure_stored_bytes` and `count_stored_chunks`."""
    sizes = yield from list_sizes(path)
    return sum(size or 0 for size in sizes.values()), _count_chunks(list(sizes), "", meta)


def count_stored_chunks(path: str, meta: ArrayMeta) -> Flow[int]:
    """Return the number of stored chunks of an array, with all subchunks of stored shards."""
    prefix = prefix_of(path)
    keys = yield List(prefix)
    return _count_chunks(keys, prefix, meta)


def _count_chunks(keys: list[str], prefix: str, meta: ArrayMeta) -> int:
    encoding, rank = meta.chunk_key_encoding, meta.rank
    if not rank:
        return sum(encoding.decode(key[len(prefix) :], 0) is not None for key in keys)
    columns = []
    for axis, indices in enumerate(encoding.decode_columns(keys, prefix, rank)):
        numbers = _Numbers(_select_counter(meta, axis))
        columns.append(map(numbers.__getitem__, indices))
    return sum(map(prod, zip(*columns, strict=True)))


class _Numbers(dict[int | str, int]):
    """The number of chunks of an object along one axis, by its index along the axis."""

    def __init__(self, count: Callable[[int], int]) -> None:
        self._count = count

    def __missing__(self, index: int | str) -> int:
        number = self[index] = self._count(int(index))
        return number


def _select_counter(meta: ArrayMeta, axis: int) -> Callable[[int], int]:
    """Return a function that counts the chunks of an object inside of the array along an axis."""
    if not meta.is_sharded:
        return meta.grid_shape[axis].__gt__
    cuts, length = meta.chunk_grid.cuts[axis], meta.shape[axis]
    chunk_length = meta.chunk_shape[axis]

    def count(index: int) -> int:
        inside = min(length - cuts.start(index), cuts.length(index))
        return -(-max(inside, 0) // chunk_length)

    return count
