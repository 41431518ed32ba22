"""Removal of stored elements outside of an array's shape.

The functions delete chunks outside of the shape, and set elements of edge chunks beyond the edge
to the fill value. A shrinking resize calls them after it stores the new shape. A growing resize
calls them before: a killed program or another library may have left such elements.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from itertools import pairwise, product
from math import prod
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from tessarr._engine import ArrayBase
from tessarr.array.description import describe_array
from tessarr.flow import stored_sizes
from tessarr.flow.open import prefix_of
from tessarr.flow.run import Delete, run_flow
from tessarr.indexing import read_target, select_basic
from tessarr.node.synchronizer import hold_locks, touched_chunk_keys
from tessarr.store.wrappers.transformer_adapter import get_chunk_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from tessarr.flow.run import Flow
    from tessarr.format.chunk_grid import Cuts
    from tessarr.indexing import Selection
    from tessarr.metadata.node import ArrayMeta
    from tessarr.node.synchronizer import Synchronizer
    from tessarr.store import Store
    from tessarr.types import Shape

    Box = tuple[tuple[int, int], ...]

__all__ = [
    "StoredArray",
    "clear_exposed",
    "delete_outside",
    "fill_array",
    "trim_edges",
    "write_region",
]

_MAX_KEYS: Final = 1000
"""Up to this number of chunks are deleted without a listing, whose response has as many keys."""

_BLOCK_BYTES: Final = 1 << 26
"""Edge chunks are read in blocks of about this size."""


class StoredArray(Protocol):
    """The attributes of an array that this module uses."""

    _store: Store

    @property
    def _metadata(self) -> ArrayMeta:
        """The metadata."""
        ...

    @property
    def path(self) -> str:
        """The path in the store."""
        ...

    @property
    def write_empty_chunks(self) -> bool:
        """Whether chunks that hold only the fill value are stored."""
        ...

    @property
    def synchronizer(self) -> Synchronizer | None:
        """The synchronizer of the array."""
        ...


# Shrinking


def delete_outside(store: Store, path: str, old: ArrayMeta, new: ArrayMeta) -> None:
    """Delete the chunks of an array that the old grid has and the new grid lacks."""
    below, within = get_chunk_store(store, path, old.storage_transformers)
    run_flow(_delete_outside(within, old, new), below)


def _delete_outside(path: str, old: ArrayMeta, new: ArrayMeta) -> Flow[None]:
    keys = yield from _keys_outside(path, old, old.grid_shape, new.grid_shape, _MAX_KEYS)
    if keys:
        yield tuple(Delete(key) for key in keys)


def _keys_outside(
    path: str, meta: ArrayMeta, large: Shape, small: Shape, few: int
) -> Flow[list[str]]:
    """Return the keys of cells of a large grid that a small grid lacks.

    More than `few` keys come from one listing, which omits keys that are not stored.
    """
    encoding = meta.chunk_key_encoding
    if prod(large) - prod(map(min, large, small)) <= few:
        keys = [encoding.encode(cell) for cell in _cells_outside(large, small)]
    else:
        stored_keys = yield from stored_sizes.list_keys(path)
        cells = [(key, encoding.decode(key, meta.rank)) for key in stored_keys]
        keys = [key for key, cell in cells if cell and any(map(operator.ge, cell, small))]
    return [prefix_of(path) + key for key in keys]


def _cells_outside(large: Shape, small: Shape) -> Iterator[Shape]:
    """Yield the cells of a grid that another grid lacks."""
    for axis, (before, after) in enumerate(zip(large, small, strict=True)):
        inside = map(range, map(min, large[:axis], small[:axis]))
        yield from product(*inside, range(after, before), *map(range, large[axis + 1 :]))


def trim_edges(array: StoredArray, old: ArrayMeta, new: ArrayMeta) -> None:
    """Set elements of remaining chunks outside of the new shape to the fill value."""
    kept_shape = tuple(
        min(before, axis.start(count))
        for before, count, axis in zip(old.shape, new.grid_shape, new.chunk_grid.cuts, strict=True)
    )
    for box in _boxes_outside(new.shape, kept_shape):
        edge = _box_selection(box, kept_shape)
        fill = np.broadcast_to(fill_array(old), edge.buffer_shape)
        write_region(array, replace(old, shape=kept_shape), edge, fill)


def _boxes_outside(inner: Shape, outer: Shape) -> Iterator[Box]:
    """Yield disjoint boxes that cover `outer` without `inner`."""
    for axis, (low, high) in enumerate(zip(inner, outer, strict=True)):
        if low < high:
            before = ((0, min(a, b)) for a, b in zip(inner[:axis], outer[:axis], strict=True))
            after = ((0, length) for length in outer[axis + 1 :])
            yield (*before, (low, high), *after)


# Growing


def clear_exposed(
    array: StoredArray,
    old: ArrayMeta,
    new: ArrayMeta,
    *,
    edges: bool,
    confirm: Callable[[], None],
) -> None:
    """Remove stored elements that belong to `new` but not to `old`.

    Parameters
    ----------
    array
        The array, whose shape lock is held.
    old, new
        The stored and the new metadata.
    edges
        Whether to clear edge chunks of the old shape, too. The function reads them, and writes
        only those that hold another value than the fill value.
    confirm
        Raises an error if the stored shape differs from that of `old`.
    """
    if all(after <= before for before, after in zip(old.shape, new.shape, strict=True)):
        return
    _delete_exposed(array, old, new, confirm)
    if edges:
        _clear_edges(array, old, new, confirm)


def _delete_exposed(
    array: StoredArray, old: ArrayMeta, new: ArrayMeta, confirm: Callable[[], None]
) -> None:
    store, path = get_chunk_store(array._store, array.path, old.storage_transformers)
    few = _MAX_KEYS
    if array._store.write_concurrency:  # remote store: a listing of a few chunks costs one request
        few = min(few, 1 + prod(map(max, old.grid_shape, new.grid_shape)) // _MAX_KEYS)
    keys = run_flow(_keys_outside(path, old, new.grid_shape, old.grid_shape, few), store)
    if array._store.is_exclusive:
        run_flow(_delete(keys), store)
        return
    # Another process may have grown the array, and written to it, since the shape was read. A
    # value that exists before `confirm` succeeds is not from that process.
    for key in keys:
        value = store.get(key)
        if value is not None:
            confirm()
            store.replace(key, None, value)


def _delete(keys: list[str]) -> Flow[None]:
    if keys:
        yield tuple(Delete(key) for key in keys)


def _clear_edges(
    array: StoredArray, old: ArrayMeta, new: ArrayMeta, confirm: Callable[[], None]
) -> None:
    """Set elements of chunks between the old edge and the new one to the fill value."""
    cuts = old.chunk_grid.cuts
    ends = [cut.start(count) for cut, count in zip(cuts, old.grid_shape, strict=True)]
    outer = tuple(map(min, new.shape, ends))
    meta = old.resized(tuple(map(max, old.shape, outer)), old.chunk_grid)
    fill = fill_array(old)
    for slab in _boxes_outside(old.shape, outer):
        for block in _split_box(slab, cuts, meta.data_type.item_bytes):
            values = _read_region(array, meta, _box_selection(block, meta.shape))
            if _is_fill(values, fill):
                continue
            for cell in product(*map(_split_bounds, block, cuts)):
                part = tuple(
                    slice(start - low, stop - low)
                    for (start, stop), (low, _) in zip(cell, block, strict=True)
                )
                if not _is_fill(values[part], fill):
                    edge = _box_selection(cell, meta.shape)
                    filled = np.broadcast_to(fill, edge.buffer_shape)
                    stored = array.write_empty_chunks
                    if not array._store.is_exclusive:  # another process may have grown the array
                        confirm()
                    write_region(array, meta, edge, filled, store_fill=stored)


def _split_box(box: Box, cuts: tuple[Cuts, ...], item_bytes: int) -> Iterator[Box]:
    """Yield parts of a box that fit in memory, or lie in one chunk."""
    if prod(stop - start for start, stop in box) * max(item_bytes, 1) > _BLOCK_BYTES:
        counts = [
            cut.cell(stop - 1) - cut.cell(start)
            for (start, stop), cut in zip(box, cuts, strict=True)
        ]
        axis = counts.index(max(counts))
        if counts[axis]:
            (start, stop), cut = box[axis], cuts[axis]
            middle = cut.start((cut.cell(start) + cut.cell(stop - 1) + 1) // 2)
            for part in ((start, middle), (middle, stop)):
                yield from _split_box((*box[:axis], part, *box[axis + 1 :]), cuts, item_bytes)
            return
    if all(start < stop for start, stop in box):
        yield box


def _split_bounds(bounds: tuple[int, int], cut: Cuts) -> list[tuple[int, int]]:
    """Return the bounds of the parts that chunks cut an interval into."""
    start, stop = bounds
    cut_points = [cut.start(cell) for cell in range(cut.cell(start) + 1, cut.cell(stop - 1) + 1)]
    return list(pairwise((start, *cut_points, stop)))


def _is_fill(values: npt.NDArray[Any], fill: npt.NDArray[Any]) -> bool:
    """Return whether all elements equal the fill value, bit by bit."""
    if values.dtype.kind == "O":
        fill_element = fill[()]
        return all(np.array_equal(value, fill_element) for value in values.flat)
    if values.dtype.kind == "T":
        return bool((values == fill).all())
    item_bytes = values.dtype.itemsize
    fill_bytes = np.frombuffer(fill.astype(values.dtype, copy=False).tobytes(), np.uint8)
    element_bytes = np.ascontiguousarray(values).view(np.uint8).reshape(-1, item_bytes)
    return bool((element_bytes == fill_bytes).all())


# Shrinking and growing


def _box_selection(box: Box, shape: Shape) -> Selection:
    return select_basic(tuple(slice(start, stop) for start, stop in box), shape)


def fill_array(meta: ArrayMeta) -> npt.NDArray[Any]:
    """Return the fill value as an array of rank 0."""
    return meta.data_type.single(meta.fill_or_default)


def _read_region(array: StoredArray, meta: ArrayMeta, selection: Selection) -> npt.NDArray[Any]:
    """Read from the array with other metadata."""
    buffer, finish = read_target(selection, meta.data_type.numpy, None)
    _engine_array(array, meta, store_fill=False)._read(selection.axes, selection.out_axes, buffer)
    values: npt.NDArray[Any] = finish(buffer)
    return values


def write_region(
    array: StoredArray,
    meta: ArrayMeta,
    selection: Selection,
    values: npt.NDArray[Any],
    *,
    store_fill: bool = False,
) -> None:
    """Write to the array with other metadata."""
    if not values.size:
        return
    handle = _engine_array(array, meta, store_fill=store_fill)
    with hold_locks(array.synchronizer, touched_chunk_keys(meta, array.path, selection.axes)):
        handle._write(selection.axes, selection.out_axes, values)


def _engine_array(array: StoredArray, meta: ArrayMeta, *, store_fill: bool) -> ArrayBase:
    description = describe_array(meta, store_fill, "fill")
    store, path = get_chunk_store(array._store, array.path, meta.storage_transformers)
    read_only = False
    handle = ArrayBase(description, store, prefix_of(path), read_only)
    if isinstance(array, ArrayBase):
        handle._check_presence_as(array)
    if array.synchronizer is not None:
        handle._disable_buffer()
    return handle
