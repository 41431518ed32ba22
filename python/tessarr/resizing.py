"""Growing, shrinking and appending, so that a failure leaves the array as it was.

The stored shape is what makes chunks part of an array, and it is replaced in
one atomic step. Growing is only that. Shrinking comes first in the shape, then
removes what nobody can see any more. Appending writes the data where nobody
sees it yet, then grows.

Whoever does one of these holds the key ``.shape`` of the array meanwhile, under
which nothing is ever stored: two that append at once would write to the same
place, and what one appends another could be about to remove. It is not the key
of the document, so that attributes can be edited while a long append goes on.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

import numpy as np

from tessarr import drive
from tessarr._engine import ArrayBase, Description, MemoryStore
from tessarr.drive import Delete
from tessarr.errors import ArgumentError, StoreError
from tessarr.flow import edit, measure
from tessarr.flow.open import prefix_of
from tessarr.indexing import axis_number, basic, broadcast_value, objects
from tessarr.layout import normalize_shape
from tessarr.metadata.node import check_codecs
from tessarr.problems import Problems
from tessarr.store.transformed import chunk_store
from tessarr.synchronizer import chunk_keys, held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from tessarr.drive import Flow, Seen
    from tessarr.flow.copies import Keeper
    from tessarr.indexing import Selection
    from tessarr.metadata.node import ArrayMeta
    from tessarr.store import Store
    from tessarr.synchronizer import Synchronizer
    from tessarr.types import Shape

__all__ = [
    "again",
    "append",
    "delete_outside",
    "lengths",
    "reshaped",
    "resize",
    "set_fill_value",
    "shrinks",
]

Accept: TypeAlias = "Callable[[ArrayMeta], None]"
"""Makes the array what its stored metadata has become."""

T = TypeVar("T")

_FEW: Final = 1000
"""So many chunks are deleted without asking which of them are stored: one answer tells no more."""


class _Array(Protocol):
    _store: Store

    @property
    def metadata(self) -> ArrayMeta: ...
    @property
    def path(self) -> str: ...
    @property
    def write_empty_chunks(self) -> bool: ...
    @property
    def synchronizer(self) -> Synchronizer | None: ...


def lengths(shape: tuple[Any, ...], rank: int) -> Shape:
    """Return the shape that the arguments of `Array.resize` mean.

    Examples
    --------
    >>> lengths((2, 3), 2), lengths(((2, 3),), 2), lengths((5,), 1)
    ((2, 3), (2, 3), (5,))
    """
    given = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence | np.ndarray) else shape
    new = normalize_shape(given)
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
    keepers: list[Keeper] | None = None,
    seen: Seen | None = None,
    below: Store | None = None,
    check: Accept | None = None,
) -> None:
    """Store another shape, then remove what is outside of it.

    Parameters
    ----------
    array
        The array.
    change
        Gives the new shape, from the one that is stored.
    trim
        Whether what is outside within kept chunks is removed, too.
    accept
        Makes the array what its stored metadata has become.
    delete
        Whether chunks that are all outside are removed.
    keepers
        The groups above that keep copies of metadata, where that is known.
    seen
        What is known of the document.
    below
        The store below caches, where these need not forget what may have changed meanwhile.
    check
        Raises if what is stored now is not what may be resized.
    """
    old = new = array.metadata

    def changed(found: ArrayMeta) -> ArrayMeta:
        nonlocal old, new
        if check is not None:
            check(found)
        old = _current(array, found, accept)
        new = reshaped(old, change(old.shape))
        if old is found:
            return new
        return found.resized(new.shape, new.chunk_grid)

    def work() -> None:
        drive.run(edit.shape(array.path, old.zarr_format, changed, keepers, seen), array._store)
        accept(new)
        if not delete or not shrinks(old, new):
            return
        delete_outside(array._store, array.path, old, new)
        if trim:
            _trim(array, old, new)

    _alone(array, work, below)


def again(
    array: _Array, change: Callable[[Shape], Shape], check: Accept, overtaken: Accept
) -> Callable[[bytes | None], bytes | None]:
    """Return what makes the document of a resized array of another one that others have stored.

    Parameters
    ----------
    array, change, check
        As for `resize`; the array as it was before.
    overtaken
        Told of the metadata that are found, where others have changed the shape: there may be
        chunks to be removed that the array did not have.
    """
    old = array.metadata
    name = "zarr.json" if old.zarr_format == 3 else ".zarray"

    def changed(found: ArrayMeta) -> ArrayMeta:
        check(found)
        new = reshaped(found, change(found.shape))
        if found.shape != old.shape:
            overtaken(found)
        return new

    def make(document: bytes | None) -> bytes | None:
        store = MemoryStore() if document is None else MemoryStore({name: document})
        drive.run(edit.shape("", old.zarr_format, changed, []), store)
        return store.get(name)

    return make


def shrinks(old: ArrayMeta, new: ArrayMeta) -> bool:
    """Tell whether an array gets shorter along any axis."""
    return any(after < before for after, before in zip(new.shape, old.shape, strict=True))


def append(array: _Array, data: Any, axis: int, *, part_bytes: int | None, accept: Accept) -> Shape:
    """Store data behind the end of an axis, then the shape that covers it.

    Parameters
    ----------
    array, data, axis
        As for `Array.append`.
    part_bytes
        If the data is not in memory, how much of it may be.
    accept
        Makes the array what its stored metadata has become.
    """
    return _alone(array, lambda: _append(array, data, axis, part_bytes, accept))


def set_fill_value(array: _Array, value: Any, *, accept: Accept) -> None:
    """Store another fill value: what all chunks read as that are not stored."""
    _alone(array, lambda: _set_fill_value(array, value, accept))


def _set_fill_value(array: _Array, value: Any, accept: Accept) -> None:
    from tessarr.metadata.build import fill_bytes

    meta = _refreshed(array, accept)
    form, fill = meta.zarr_format, None
    if value is not None:
        fill = meta.data_type.storable_fill(fill_bytes(meta.data_type, value), form)
    elif form == 3:
        fill = meta.data_type.default_fill()
    stated = None if fill is None else meta.data_type.fill_to_json(fill, form)
    drive.run(edit.fill_value(array.path, form, stated), array._store)
    accept(replace(meta, fill_value=fill))


def _alone(array: _Array, work: Callable[[], T], below: Store | None = None) -> T:
    """Do `work` while nobody else changes the shape of the array in this way."""
    prefix = prefix_of(array.path)
    document = "zarr.json" if array.metadata.zarr_format == 3 else ".zarray"
    with held(array.synchronizer, [prefix + document]):
        store = array._store if below is None else below
        return store.hold(prefix + ".shape", work)


class _OvertakenError(StoreError):
    """Somebody else has changed the shape in the meantime."""


def _append(array: _Array, data: Any, axis: int, part_bytes: int | None, accept: Accept) -> Shape:
    # What is behind the end is nobody else's as long as it is held. Where that excludes only
    # those of this process, it is ours as soon as the shape covers it: then that comes first.
    last = array._store.is_exclusive
    while True:
        old = _refreshed(array, accept)
        axis = axis_number(axis, len(old.shape))
        values = _behind(old, data, axis, part_bytes)
        end, count = old.shape[axis], int(values.shape[axis])
        new = reshaped(old, tuple(n + count * (i == axis) for i, n in enumerate(old.shape)))
        grown = partial(_grown, path=array.path, old=old, new=new)
        grow = partial(edit.shape, array.path, old.zarr_format, grown)
        try:
            if not last:
                drive.run(grow(), array._store)
            break
        except _OvertakenError:
            continue

    def along(start: int | None, stop: int | None) -> tuple[slice, ...]:
        return tuple(slice(start, stop) if i == axis else slice(None) for i in range(old.rank))

    try:
        for start, stop in _parts(new, axis, end, count, part_bytes):
            part = values if part_bytes is None else _values(old, values[along(start, stop)])
            chosen = basic(along(end + start, end + stop), new.shape)
            ready = broadcast_value(part, chosen, old.data_type.numpy)
            _write(array, new, chosen, ready, store_fill=array.write_empty_chunks)
        if last:
            drive.run(grow(), array._store)
    except BaseException as error:
        _undo_append(array, old, new, basic(along(end, None), new.shape), error)
        raise
    accept(new)
    return new.shape


def _behind(old: ArrayMeta, data: Any, axis: int, part_bytes: int | None) -> Any:
    """Return what is to be appended, if it has a shape that fits; all in memory, or in parts."""
    values = _values(old, data) if part_bytes is None else data
    others = [i for i in range(old.rank) if i != axis]
    if len(values.shape) != old.rank or any(values.shape[i] != old.shape[i] for i in others):
        raise ArgumentError(
            f"cannot append data of shape {values.shape} along axis {axis} "
            f"of an array of shape {old.shape}",
            kind="shape_mismatch",
        )
    return values


def _values(meta: ArrayMeta, data: Any) -> npt.NDArray[Any]:
    if meta.data_type.elements is not None:
        return objects(data, meta.rank)
    return np.asarray(meta.data_type.given(data))


def _parts(
    meta: ArrayMeta, axis: int, end: int, count: int, part_bytes: int | None
) -> Iterator[tuple[int, int]]:
    """Yield the bounds of what is appended at a time: up to the end of a chunk, where it can."""
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
    behind: Selection,
    error: BaseException,
) -> None:
    """Remove what was stored behind the end, unless it has become somebody else's."""
    form, stored = old.zarr_format, old if array._store.is_exclusive else new
    try:
        if drive.run(edit.stored(array.path, form), array._store).shape == stored.shape:
            fill = np.broadcast_to(_fill(old), behind.buffer_shape)
            _write(array, new, behind, fill)
            if stored is new:
                shrunk = partial(_grown, path=array.path, old=new, new=old)
                drive.run(edit.shape(array.path, form, shrunk), array._store)
    except Exception as second:  # noqa: BLE001 (the first error is what matters)
        error.add_note(f"what had been stored behind the end could not be removed: {second}")


def _refreshed(array: _Array, accept: Accept) -> ArrayMeta:
    """Return the metadata with the shape and the chunks that are stored now."""
    found = drive.run(edit.stored(array.path, array.metadata.zarr_format), array._store)
    return _current(array, found, accept)


def _current(array: _Array, found: ArrayMeta, accept: Accept) -> ArrayMeta:
    """Return the metadata of the array with the shape and the chunks of those that were found."""
    meta = array.metadata
    if (found.shape, found.chunk_grid) != (meta.shape, meta.chunk_grid):
        if found.rank != meta.rank:
            raise ArgumentError(f"array {array.path!r} was replaced by another: open it again")
        meta = meta.resized(found.shape, found.chunk_grid)
        accept(meta)
    return meta


def reshaped(meta: ArrayMeta, shape: Shape) -> ArrayMeta:
    """Return the metadata of an array with another shape, and chunk grid if it takes one."""
    problems = Problems()
    grid = meta.chunk_grid.resized(shape, meta.parts).fit(shape, "chunks", problems)
    if grid is not None and grid != meta.chunk_grid:
        check_codecs(meta.codecs, grid, meta.chunk_spec, "codecs", problems)
    problems.check_arguments(f"resize to shape {shape}")
    assert grid is not None
    return meta.resized(shape, grid)


def _grown(found: ArrayMeta, *, path: str, old: ArrayMeta, new: ArrayMeta) -> ArrayMeta:
    """Return those that were found with the new shape, if they have the old one still."""
    if found.shape != old.shape:
        raise _OvertakenError(
            f"array {path!r} was resized from {old.shape} to {found.shape} by somebody else in the "
            "meantime: open it again",
            retryable=True,
            path=path,
        )
    return found.resized(new.shape, new.chunk_grid)


def _write(
    array: _Array,
    meta: ArrayMeta,
    selection: Selection,
    values: npt.NDArray[Any],
    *,
    store_fill: bool = False,
) -> None:
    """Write to the array as if it had other metadata."""
    if not values.size:
        return
    description = Description(meta.description(store_fill=store_fill))
    store, path = chunk_store(array._store, array.path, meta.storage_transformers)
    read_only = False
    handle = ArrayBase(description, store, prefix_of(path), read_only)
    with held(array.synchronizer, chunk_keys(meta, array.path, selection.axes)):
        handle._write(selection.axes, selection.out_axes, values)


def delete_outside(store: Store, path: str, old: ArrayMeta, new: ArrayMeta) -> None:
    """Delete the chunks of an array that are part of the old grid but not of the new one."""
    below, within = chunk_store(store, path, old.storage_transformers)
    drive.run(_delete_outside(within, old, new), below)


def _delete_outside(path: str, old: ArrayMeta, new: ArrayMeta) -> Flow[None]:
    encoding, grid = old.chunk_key_encoding, new.grid_shape
    if prod(old.grid_shape) - prod(map(min, old.grid_shape, grid)) <= _FEW:
        keys = [encoding.encode(cell) for cell in _outside(old.grid_shape, grid)]
    else:
        found = yield from measure.keys(path)
        cells = [(key, encoding.decode(key, old.rank)) for key in found]
        keys = [key for key, cell in cells if cell and any(map(operator.ge, cell, grid))]
    if keys:
        yield tuple(Delete(prefix_of(path) + key) for key in keys)


def _outside(old: Shape, new: Shape) -> Iterator[Shape]:
    """Yield the positions in a grid that are not in another one."""
    for axis, (before, after) in enumerate(zip(old, new, strict=True)):
        inside = map(range, map(min, old[:axis], new[:axis]))
        yield from product(*inside, range(after, before), *map(range, old[axis + 1 :]))


def _trim(array: _Array, old: ArrayMeta, new: ArrayMeta) -> None:
    """Set what kept chunks hold outside the new shape to the fill value."""
    kept = tuple(
        min(before, axis.start(count))
        for before, count, axis in zip(old.shape, new.grid_shape, new.chunk_grid.cuts, strict=True)
    )
    before = replace(old, shape=kept)
    for axis in range(old.rank):
        if new.shape[axis] >= kept[axis]:
            continue
        # Earlier axes are trimmed already: from here on only what is inside along them.
        key = tuple(
            slice(new.shape[i], None) if i == axis else slice(new.shape[i] if i < axis else None)
            for i in range(old.rank)
        )
        edge = basic(key, kept)
        fill = np.broadcast_to(_fill(old), edge.buffer_shape)
        _write(array, before, edge, fill)


def _fill(meta: ArrayMeta) -> npt.NDArray[Any]:
    fill = meta.fill_or_default
    return meta.data_type.single(fill)
