"""``a[key] = other``, where the other is an array that is not in memory.

It is copied region by region, as long as both follow the same order. What NumPy does with
two views of one array holds here, too: where the other is stored in the same place, and its
elements are to be moved, all of it is read first, to memory or, if it is large, to a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr._engine import LocalStore
from tessarr.errors import ArgumentError
from tessarr.flow.open import prefix_of
from tessarr.indexing.array_likes import has_unit
from tessarr.options import current
from tessarr.transfer.endpoints import as_stored, in_memory, source_of, target_of
from tessarr.transfer.execute import plan_of, run
from tessarr.transfer.raw_copy import chunk_keys, has_same_chunks, move, renamed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from tessarr.indexing import Selection
    from tessarr.transfer.endpoints import Source, StoredArray, Target

__all__ = ["assign", "is_lazy"]

_SMALL_BYTES: Final = 1 << 20
"""So little is read as a whole."""

_CASTABLE: Final = frozenset("biufcmM")


def is_lazy(value: Any, dtype: np.dtype[Any]) -> bool:
    """Tell whether `assign` is what copies a value to an array of `dtype`.

    That is so for arrays that need not be in memory: those of h5py, zarr-python, Dask, xarray,
    and all that have a shape, a data type of NumPy, and slices; and for large arrays in memory
    that are to be cast.
    """
    if isinstance(value, np.ndarray):
        kinds = {value.dtype.kind, dtype.kind}
        large = value.size * dtype.itemsize > _SMALL_BYTES
        return large and value.dtype != dtype and kinds <= _CASTABLE
    shape = getattr(value, "shape", None)
    # What has `iloc` is indexed by labels.
    if not isinstance(shape, tuple) or not shape or hasattr(value, "iloc") or has_unit(value):
        return False
    return hasattr(type(value), "__getitem__") and isinstance(
        getattr(value, "dtype", None), np.dtype
    )


def assign(array: StoredArray, selection: Selection, value: Any) -> npt.NDArray[Any] | None:
    """Copy an array to what is selected of another, region by region.

    Parameters
    ----------
    array
        What is written to.
    selection
        What of it.
    value
        What is copied; broadcast to the selection.

    Returns
    -------
    numpy.ndarray or None
        None if that is done. Else all of the value, which remains to be assigned: where it is
        small, or index arrays or new axes are in the way.

    Raises
    ------
    ArgumentError
        If the value does not broadcast to the selection; nothing has been stored then.
    """
    _check_known(value)
    _check_shape(tuple(value.shape), selection)
    target = _box(array, selection)
    if target is None or len(value.shape) > len(target.shape):
        return _whole(value)
    source = source_of(value, target.shape)
    if prod(target.shape) * max(source.dtype.itemsize, target.dtype.itemsize) <= _SMALL_BYTES:
        return _whole(value)
    if _shares(array, value):
        if not _is_same(array, target, value):
            source = _staged(source)
    elif _moved(array, target, value):
        return None
    run(source, target, plan_of(source, target))
    return None


def _box(array: StoredArray, selection: Selection) -> Target | None:
    """Return what ranges select, in the order of their axes; None for all other selections."""
    plain = all(isinstance(axis, tuple) and len(axis) == 3 for axis in selection.axes)
    if not plain or selection.order is not None or selection.shape != selection.buffer_shape:
        return None
    return target_of(array, selection)


def _whole(value: Any) -> npt.NDArray[Any]:
    return in_memory(value, (slice(None),) * len(value.shape))


def _check_known(value: Any) -> None:
    if not all(isinstance(length, int | np.integer) for length in value.shape):
        raise ArgumentError(
            f"cannot copy {type(value).__name__} of shape {value.shape}: its lengths have to be "
            "known; call its compute_chunk_sizes() first"
        )


def _check_shape(shape: tuple[int, ...], selection: Selection) -> None:
    wanted = selection.shape
    shown = shape
    while len(shape) > len(wanted) and shape[0] == 1:
        shape = shape[1:]
    padded = (1,) * (len(wanted) - len(shape)) + shape
    if len(padded) != len(wanted) or any(
        here not in (1, there) for here, there in zip(padded, wanted, strict=True)
    ):
        raise ArgumentError(
            f"cannot assign a value of shape {shown} to a selection of shape {wanted}",
            kind="shape_mismatch",
        )


def _moved(array: StoredArray, target: Target, value: Any) -> bool:
    """Copy chunks as they are stored, where both arrays have the same; tell whether they have."""
    other = as_stored(value)
    if (
        other is None
        or not _is_whole(array, target)
        or array.write_empty_chunks
        or array._synchronizer is not None
        or not has_same_chunks(other.metadata, array.metadata)
    ):
        return False
    keys = other._store.list(prefix_of(other.path))
    pairs = renamed(keys, other.path, other.metadata, array.path, array.metadata)
    move(other._store, array._store, pairs, memory_bytes=current().copy_bytes)
    new = {key for _, key in pairs}
    for key, _ in chunk_keys(array._store.list(prefix_of(array.path)), array.path, array.metadata):
        if key not in new:
            array._store.delete(key)
    return True


def _is_whole(array: StoredArray, target: Target) -> bool:
    """Tell whether all of an array is written, its axes in their order."""
    return target.axes == tuple(range(len(array.shape))) and target.ranges == tuple(
        (0, 1, length) for length in array.shape
    )


# Where both are one array


def _shares(array: StoredArray, value: Any) -> bool:
    """Tell whether an array is stored in the same place, or made of what is."""
    return any(_is_at(array, origin) for origin in _origins(value))


def _origins(value: Any) -> Iterator[Any]:
    """Yield an array, and what Dask makes it of."""
    yield value
    graph = getattr(value, "dask", None)
    for task in dict(graph).values() if isinstance(graph, Mapping) else ():
        yield getattr(task, "value", task)
        yield from getattr(task, "args", ())


def _is_at(array: StoredArray, other: Any) -> bool:
    stored = as_stored(other)
    if stored is not None:
        return bool(stored._store == array._store and stored.path == array.path)
    root = getattr(getattr(other, "store", None), "root", None)  # of zarr-python
    if root is None or not isinstance(array._store, LocalStore):
        return False
    from pathlib import Path

    ours = Path(array._store.path, array.path)
    return ours.resolve() == Path(str(root), other.path).resolve()


def _is_same(array: StoredArray, target: Target, value: Any) -> bool:
    """Tell whether every element would be copied to its own place."""
    other = as_stored(value)
    same = other is not None and other.metadata == array.metadata
    return same and _is_whole(array, target)


def _staged(source: Source) -> Source:
    """Return a copy of a source, in memory or in a file that goes with it."""
    shape = tuple(count for _, _, count in source.ranges)
    if source.dtype.hasobject or prod(shape) * source.dtype.itemsize <= current().copy_bytes:
        held = _whole(source.array)
    else:
        import tempfile

        with tempfile.TemporaryFile(prefix="tessarr-") as file:
            held = np.memmap(file, source.dtype, "w+", shape=shape)
        own = source_of(source.array)
        goal = target_of(held)
        run(own, goal, plan_of(own, goal))
    return source_of(held, source.shape)
