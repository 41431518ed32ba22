"""Resizing and appending; a failure leaves the array unchanged.

The stored shape determines which chunks belong to an array, and one atomic step replaces it.
Growing first removes all elements beyond the old shape, which a killed program or another library
may have left. Shrinking first stores the shape and then removes the elements outside. Appending
writes the data beyond the stored shape and then grows the array.

Each of these operations locks the key ``.shape`` of the array, which never has a value. Without
this lock, two concurrent appends would write to the same region, and a resize would remove
elements that an append has just written. The document has another key, so that programs can edit
attributes during a long append.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from tessarr._engine import MemoryStore
from tessarr.array.clear_outside import (
    clear_exposed,
    delete_outside,
    fill_array,
    trim_edges,
    write_region,
)
from tessarr.errors import ArgumentError, StoreError
from tessarr.flow import edit
from tessarr.flow.open import prefix_of
from tessarr.flow.run import run_flow
from tessarr.format.chunk_shape import normalize_shape
from tessarr.format.validation import Problems
from tessarr.indexing import axis_number, broadcast_value, has_dtype, select_basic, to_objects
from tessarr.indexing.assigned_values import convert_value, replace_masked
from tessarr.metadata.node import check_codecs
from tessarr.node.synchronizer import hold_locks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from tessarr.array.clear_outside import StoredArray as _Array
    from tessarr.flow.consolidated_copies import ConsolidatedGroup
    from tessarr.flow.run import KnownDocument
    from tessarr.indexing import Selection
    from tessarr.metadata.node import ArrayMeta
    from tessarr.store import Store
    from tessarr.types import Shape

__all__ = [
    "append",
    "is_shrinking",
    "parse_shape",
    "reshape_meta",
    "resize",
    "resize_document",
    "set_fill_value",
]

Accept: TypeAlias = "Callable[[ArrayMeta], None]"
"""Updates the array to its stored metadata."""

T = TypeVar("T")


def parse_shape(shape: tuple[Any, ...], rank: int) -> Shape:
    """Return the shape that the arguments of `Array.resize` denote.

    Examples
    --------
    >>> parse_shape((2, 3), 2), parse_shape(((2, 3),), 2), parse_shape((5,), 1)
    ((2, 3), (2, 3), (5,))
    """
    lengths = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence | np.ndarray) else shape
    new = normalize_shape(lengths)
    if len(new) != rank:
        raise ArgumentError(
            f"cannot resize an array of {rank} dimensions to shape {new} of {len(new)}",
            kind="shape_mismatch",
        )
    return new


def resize(
    array: _Array,
    change: Callable[[Shape], Shape],
    *,
    trim: bool,
    accept: Accept,
    delete: bool = True,
    clear: bool = False,
    groups: list[ConsolidatedGroup] | None = None,
    known_document: KnownDocument | None = None,
    lock_store: Store | None = None,
    check: Accept | None = None,
) -> None:
    """Store another shape, then remove elements outside of it.

    Parameters
    ----------
    array
        The array.
    change
        Returns the new shape for the stored shape.
    trim
        Whether to remove elements outside of the shape in remaining chunks, too.
    clear
        Whether to first remove stored elements that become part of the array; with `trim`, also
        those in edge chunks.
    accept
        Updates the array to its stored metadata.
    delete
        Whether to remove chunks that are completely outside.
    groups
        The groups above with consolidated metadata, if known.
    known_document
        The last known content of the document, if any.
    lock_store
        The store below caches; its lock does not invalidate cached values.
    check
        Raises an error if the array with the stored metadata cannot be resized.
    """
    old = new = array._metadata
    cleared: ArrayMeta | None = None

    def change_meta(stored: ArrayMeta) -> ArrayMeta:
        nonlocal old, new
        if check is not None:
            check(stored)
        if cleared is not None and stored.shape not in {cleared.shape, new.shape}:
            raise _resize_conflict(array.path, cleared, stored)
        old = _accept_stored(array, stored, accept)
        new = reshape_meta(old, change(old.shape))
        if old is stored:
            return new
        return stored.resized(new.shape, new.chunk_grid)

    def store_shape() -> None:
        nonlocal cleared, new
        if clear:
            cleared = _refresh_meta(array, accept)
            new = reshape_meta(cleared, change(cleared.shape))
            _clear_exposed(array, cleared, new, edges=trim)
        run_flow(
            edit.edit_shape(array.path, old.zarr_format, change_meta, groups, known_document),
            array._store,
        )

    def store_and_trim() -> None:
        if clear:
            _retry_conflicts(store_shape)
        else:
            store_shape()
        accept(new)
        if not delete or not is_shrinking(old, new):
            return
        delete_outside(array._store, array.path, old, new)
        if trim:
            trim_edges(array, old, new)

    _with_shape_lock(array, store_and_trim, lock_store)


def resize_document(
    array: _Array, change: Callable[[Shape], Shape], check: Accept, overtaken: Accept
) -> Callable[[bytes | None], bytes | None]:
    """Return a function that resizes the array in a document that another program has stored.

    Parameters
    ----------
    array, change, check
        As for `resize`; the array has its state before the change.
    overtaken
        Receives the stored metadata if another program has changed the shape: the resize may then
        have to remove more chunks.
    """
    old = array._metadata
    name = "zarr.json" if old.zarr_format == 3 else ".zarray"

    def change_meta(stored: ArrayMeta) -> ArrayMeta:
        check(stored)
        new = reshape_meta(stored, change(stored.shape))
        if stored.shape != old.shape:
            overtaken(stored)
        return new

    def make(document: bytes | None) -> bytes | None:
        store = MemoryStore() if document is None else MemoryStore({name: document})
        run_flow(edit.edit_shape("", old.zarr_format, change_meta, []), store)
        return store.get(name)

    return make


def is_shrinking(old: ArrayMeta, new: ArrayMeta) -> bool:
    """Return whether an array gets shorter along any axis."""
    return any(after < before for after, before in zip(new.shape, old.shape, strict=True))


def append(array: _Array, data: Any, axis: int, *, part_bytes: int | None, accept: Accept) -> Shape:
    """Store data after the end of an axis, then the shape that covers the data.

    Parameters
    ----------
    array, data, axis
        As for `Array.append`.
    part_bytes
        The maximum size of a part of data outside of memory.
    accept
        Updates the array to its stored metadata.
    """
    return _with_shape_lock(array, lambda: _append(array, data, axis, part_bytes, accept))


def set_fill_value(array: _Array, value: Any, *, accept: Accept) -> None:
    """Store another fill value, which is the value of all chunks that are not stored."""
    _with_shape_lock(array, lambda: _set_fill_value(array, value, accept))


def _set_fill_value(array: _Array, value: Any, accept: Accept) -> None:
    from tessarr.metadata.build import encode_fill_value

    meta = _refresh_meta(array, accept)
    form, fill = meta.zarr_format, None
    if value is not None:
        fill = meta.data_type.storable_fill(encode_fill_value(meta.data_type, value), form)
    elif form == 3:
        fill = meta.data_type.default_fill()
    fill_json = None if fill is None else meta.data_type.fill_to_json(fill, form)
    run_flow(edit.edit_fill_value(array.path, form, fill_json), array._store)
    accept(replace(meta, fill_value=fill))


def _with_shape_lock(array: _Array, work: Callable[[], T], lock_store: Store | None = None) -> T:
    """Call `work` while the shape lock of the array is held."""
    prefix = prefix_of(array.path)
    document = "zarr.json" if array._metadata.zarr_format == 3 else ".zarray"
    with hold_locks(array.synchronizer, [prefix + document]):
        store = array._store if lock_store is None else lock_store
        return store.hold(prefix + ".shape", work)


class _ResizeConflictError(StoreError):
    """Another program has changed the shape concurrently."""


def _resize_conflict(path: str, old: ArrayMeta, stored: ArrayMeta) -> _ResizeConflictError:
    return _ResizeConflictError(
        f"array {path!r} was resized from {old.shape} to {stored.shape} by another writer in "
        "the meantime: open it again",
        retryable=True,
        path=path,
    )


def _retry_conflicts(work: Callable[[], T]) -> T:
    while True:
        try:
            return work()
        except _ResizeConflictError:
            continue


def _clear_exposed(array: _Array, old: ArrayMeta, new: ArrayMeta, *, edges: bool) -> None:
    """Remove stored elements that become part of the array."""

    def confirm() -> None:
        stored = run_flow(edit.read_stored_array(array.path, old.zarr_format), array._store)
        if stored.shape != old.shape:
            raise _resize_conflict(array.path, old, stored)

    clear_exposed(array, old, new, edges=edges, confirm=confirm)


def _append(array: _Array, data: Any, axis: int, part_bytes: int | None, accept: Accept) -> Shape:
    # If the lock excludes other programs, no other writer uses the region beyond the end. If it
    # excludes only this process, store the shape first to reserve the region.
    shape_last = array._store.is_exclusive
    while True:
        old = _refresh_meta(array, accept)
        axis = axis_number(axis, len(old.shape))
        values = _check_appended(old, data, axis, part_bytes)
        end, count = old.shape[axis], int(values.shape[axis])
        new = reshape_meta(old, tuple(n + count * (i == axis) for i, n in enumerate(old.shape)))
        grown = partial(_grow_meta, path=array.path, old=old, new=new)
        grow = partial(edit.edit_shape, array.path, old.zarr_format, grown)
        try:
            if not shape_last:
                # Skip edge chunks: another program may have grown the array and written there
                # meanwhile, and the appended data covers the whole new region.
                _clear_exposed(array, old, new, edges=False)
                run_flow(grow(), array._store)
            break
        except _ResizeConflictError:
            continue

    def select(start: int | None, stop: int | None) -> tuple[slice, ...]:
        return tuple(slice(start, stop) if i == axis else slice(None) for i in range(old.rank))

    try:
        for start, stop in _split_appended(new, axis, end, count, part_bytes):
            part = (
                values if part_bytes is None else _convert_values(old, values[select(start, stop)])
            )
            selection = select_basic(select(end + start, end + stop), new.shape)
            prepared = broadcast_value(part, selection, old.data_type.numpy, old.fill_element)
            write_region(array, new, selection, prepared, store_fill=array.write_empty_chunks)
        if shape_last:
            run_flow(grow(), array._store)
    except BaseException as error:
        _undo_append(array, old, new, select_basic(select(end, None), new.shape), error)
        raise
    accept(new)
    return new.shape


def _check_appended(old: ArrayMeta, data: Any, axis: int, part_bytes: int | None) -> Any:
    """Return the data to append, in memory or as a lazy array; check its shape."""
    values = _convert_values(old, data) if part_bytes is None else data
    others = [i for i in range(old.rank) if i != axis]
    if len(values.shape) != old.rank or any(values.shape[i] != old.shape[i] for i in others):
        raise ArgumentError(
            f"cannot append data of shape {values.shape} along axis {axis} "
            f"of an array of shape {old.shape}",
            kind="shape_mismatch",
        )
    return values


def _convert_values(meta: ArrayMeta, data: Any) -> npt.NDArray[Any]:
    data_type = meta.data_type
    value = replace_masked(data_type.to_numpy_input(data), data_type.numpy, meta.fill_element)
    if data_type.elements is not None:
        return to_objects(value, meta.rank)
    return np.asarray(value) if has_dtype(value) else convert_value(value, data_type.numpy)


def _split_appended(
    meta: ArrayMeta, axis: int, end: int, count: int, part_bytes: int | None
) -> Iterator[tuple[int, int]]:
    """Yield the bounds of the parts to append, at ends of chunks where possible."""
    if part_bytes is None:
        yield 0, count
        return
    row_bytes = prod(meta.shape) // meta.shape[axis] * meta.data_type.item_bytes if count else 1
    rows = max(part_bytes // max(row_bytes, 1), 1)
    cut = meta.chunk_grid.cuts[axis]
    start = 0
    while start < count:
        stop = min(start + rows, count)
        border = cut.start(cut.cell(end + stop)) - end
        if stop < count and border > start:
            stop = border
        yield start, stop
        start = stop


def _undo_append(
    array: _Array,
    old: ArrayMeta,
    new: ArrayMeta,
    appended: Selection,
    error: BaseException,
) -> None:
    """Remove the appended data, unless another program has resized the array."""
    form, covering = old.zarr_format, old if array._store.is_exclusive else new
    try:
        if run_flow(edit.read_stored_array(array.path, form), array._store).shape == covering.shape:
            fill = np.broadcast_to(fill_array(old), appended.buffer_shape)
            write_region(array, new, appended, fill)
            if covering is new:
                shrunk = partial(_grow_meta, path=array.path, old=new, new=old)
                run_flow(edit.edit_shape(array.path, form, shrunk), array._store)
    except Exception as second:  # noqa: BLE001 (the first error is what matters)
        error.add_note(f"what had been stored behind the end could not be removed: {second}")


def _refresh_meta(array: _Array, accept: Accept) -> ArrayMeta:
    """Return the metadata with the stored shape and chunk grid."""
    stored = run_flow(edit.read_stored_array(array.path, array._metadata.zarr_format), array._store)
    return _accept_stored(array, stored, accept)


def _accept_stored(array: _Array, stored: ArrayMeta, accept: Accept) -> ArrayMeta:
    """Return the metadata of the array with the shape and chunk grid of `stored`."""
    meta = array._metadata
    if (stored.shape, stored.chunk_grid) != (meta.shape, meta.chunk_grid):
        if stored.rank != meta.rank:
            raise ArgumentError(f"array {array.path!r} was replaced by another: open it again")
        meta = meta.resized(stored.shape, stored.chunk_grid)
        accept(meta)
    return meta


def reshape_meta(meta: ArrayMeta, shape: Shape) -> ArrayMeta:
    """Return the metadata of an array with another shape, and another chunk grid if needed."""
    problems = Problems()
    grid = meta.chunk_grid.resized(shape, meta.parts).fit(shape, "chunks", problems)
    if grid is not None and grid != meta.chunk_grid:
        check_codecs(meta.codecs, grid, meta.chunk_spec, "codecs", problems)
    problems.check_arguments(f"resize to shape {shape}")
    assert grid is not None
    return meta.resized(shape, grid)


def _grow_meta(stored: ArrayMeta, *, path: str, old: ArrayMeta, new: ArrayMeta) -> ArrayMeta:
    """Return the stored metadata with the new shape, if its shape is the old one."""
    if stored.shape != old.shape:
        raise _resize_conflict(path, old, stored)
    return stored.resized(new.shape, new.chunk_grid)
