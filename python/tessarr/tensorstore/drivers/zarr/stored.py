"""What of a view is stored, told by the smallest chunks that it touches."""

from __future__ import annotations

from math import prod
from os.path import commonprefix
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.array import bind
from tessarr.errors import NotFoundError
from tessarr.flow.open import prefix_of
from tessarr.indexing.cells import cells
from tessarr.space import lower
from tessarr.store.kept import sharing
from tessarr.tensorstore.schema.bounds import extents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tessarr.array import Array
    from tessarr.indexing import Selection
    from tessarr.space import IndexTransform
    from tessarr.types import Shape

__all__ = ["statistics"]

_FEW: Final = 8


def statistics(
    array: Array, view: IndexTransform, *, not_stored: bool, fully_stored: bool
) -> tuple[bool | None, bool | None]:
    """Tell whether nothing is stored of a view of an array, and whether all is.

    Parameters
    ----------
    array
        The array.
    view
        A view of it. What is beyond the shape is not stored.
    not_stored, fully_stored
        What to find out; None is told of what is not asked.
    """
    reach = tuple(max(*pair) for pair in zip(array._meta.shape, _ends(view), strict=True))
    chosen = lower(view, reach)
    none = every = True
    for stored in _each(array, chosen) if chosen.size else ():
        none, every = none and not stored, every and stored
        if not (none and not_stored) and not (every and fully_stored):
            break
    return none if not_stored else None, every if fully_stored else None


def _ends(view: IndexTransform) -> list[int]:
    return [0] * view.output_rank if view.size == 0 else [end for _, end in extents(view)]


def _each(array: Array, chosen: Selection) -> Iterator[bool]:
    """Yield for each of the smallest chunks whether it is stored."""
    meta = array._meta
    places = list(cells(chosen.axes, meta.chunk_grid.cuts))
    is_there = _looked_up(array, places)
    if not meta.is_sharded:
        yield from map(is_there, places)
        return
    known: dict[Shape, bool] = {}
    holds = _probe(array)
    for part in cells(chosen.axes, meta.chunk_cuts):
        start = tuple(cut.start(at) for cut, at in zip(meta.chunk_cuts, part, strict=True))
        shard = tuple(cut.cell(at) for cut, at in zip(meta.chunk_grid.cuts, start, strict=True))
        if shard not in known:
            known[shard] = is_there(shard)
        yield known[shard] and holds(start)


def _looked_up(array: Array, places: list[Shape]) -> Callable[[Shape], bool]:
    """Return what tells whether there is a key for a cell: by one listing, if that is less."""
    meta, store, prefix = array._meta, array._store, prefix_of(array._path)

    def key(cell: Shape) -> str:
        return prefix + meta.chunk_key_encoding.encode(cell)

    lows, highs = (tuple(map(end, zip(*places, strict=True))) for end in (min, max))
    varying = [low != high for low, high in zip(lows, highs, strict=True)]
    first = varying.index(True) if True in varying else meta.rank
    around = prod(meta.chunk_grid.grid_shape(meta.shape)[first:])
    if len(places) <= _FEW or 4 * len(places) < around:
        return lambda cell: store.size(key(cell)) is not None
    shared = commonprefix([key(lows), key(highs)])  # noqa: RUF071 (keys are no paths)
    listed = frozenset(store.list(shared[: shared.rfind("/") + 1]))
    return lambda cell: key(cell) in listed


def _probe(array: Array) -> Callable[[Shape], bool]:
    """Return what tells whether the chunk with an element is stored in its shard."""
    meta: Any = array._meta
    together = sharing(array._store)  # of each shard the index is read once
    strict = bind(meta, together, array._path, read_only=True, missing="refuse")
    item = np.empty((), meta.data_type.numpy)

    def holds(at: Shape) -> bool:
        if any(index >= size for index, size in zip(at, meta.shape, strict=True)):
            return False
        try:
            strict._read(tuple((index, 1, 1) for index in at), (None,) * len(at), item, None)
        except NotFoundError:
            return False
        return True

    return holds
