"""Assignment ``a[key] = other`` of an array that is not in memory.

The copy proceeds region by region if the axes of both arrays have the same order. NumPy's rule for
two views of one array applies: if both arrays share storage and elements move, the copy first reads
all elements of the source, to memory or, if they are large, to a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr._engine import LocalStore
from tessarr.errors import ArgumentError, StoreError
from tessarr.flow.open import prefix_of
from tessarr.indexing.array_likes import has_unit
from tessarr.options import current
from tessarr.transfer.endpoints import as_tessarr_array, make_source, make_target, read_part
from tessarr.transfer.execute import execute_plan, plan_copy
from tessarr.transfer.raw_copy import copy_values, find_chunk_keys, has_same_chunks, map_chunk_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from tessarr.indexing import Selection
    from tessarr.transfer.endpoints import Source, StoredArray, Target

__all__ = ["assign_array", "is_lazy"]

_SMALL_BYTES: Final = 1 << 20
"""Arrays up to this size are read in one step."""

_CASTABLE: Final = frozenset("biufcmM")


def is_lazy(value: Any, dtype: np.dtype[Any]) -> bool:
    """Return whether `assign_array` copies a value to an array of `dtype`.

    These values are arrays outside of memory, such as those of h5py, zarr-python, Dask and xarray;
    all objects with a shape, a NumPy data type and slicing; and large arrays in memory that need a
    cast.
    """
    if isinstance(value, np.ndarray):
        kinds = {value.dtype.kind, dtype.kind}
        large = value.size * dtype.itemsize > _SMALL_BYTES
        return large and value.dtype != dtype and kinds <= _CASTABLE
    shape = getattr(value, "shape", None)
    # Objects with `iloc` use labels as indices.
    if not isinstance(shape, tuple) or not shape or hasattr(value, "iloc") or has_unit(value):
        return False
    return hasattr(type(value), "__getitem__") and isinstance(
        getattr(value, "dtype", None), np.dtype
    )


def assign_array(array: StoredArray, selection: Selection, value: Any) -> npt.NDArray[Any] | None:
    """Copy an array to a selection of another, region by region.

    Parameters
    ----------
    array
        The array to write to.
    selection
        The selection in it.
    value
        The array to copy, broadcast to the selection.

    Returns
    -------
    numpy.ndarray or None
        None if the copy is done. If the value is small, or the selection has index arrays or new
        axes, the result is the whole value, and the caller assigns it.

    Raises
    ------
    ArgumentError
        If the value does not broadcast to the selection; the store is unchanged.
    """
    _check_lengths_known(value)
    _check_shape(tuple(value.shape), selection)
    target = _target_box(array, selection)
    if target is None or len(value.shape) > len(target.shape):
        return _read_all(value)
    source = make_source(value, target.shape)
    if prod(target.shape) * max(source.dtype.itemsize, target.dtype.itemsize) <= _SMALL_BYTES:
        return _read_all(value)
    if _shares_storage(array, value):
        if not _is_identity(array, target, value):
            source = _buffer_source(source)
    elif _copy_raw_chunks(array, target, value):
        return None
    execute_plan(source, target, plan_copy(source, target))
    return None


def _target_box(array: StoredArray, selection: Selection) -> Target | None:
    """Return the target of a selection of ranges in axis order; None for other selections."""
    plain = all(isinstance(axis, tuple) and len(axis) == 3 for axis in selection.axes)
    if not plain or selection.order is not None or selection.shape != selection.buffer_shape:
        return None
    return make_target(array, selection)


def _read_all(value: Any) -> npt.NDArray[Any]:
    return read_part(value, (slice(None),) * len(value.shape))


def _check_lengths_known(value: Any) -> None:
    if not all(isinstance(length, int | np.integer) for length in value.shape):
        raise ArgumentError(
            f"cannot copy {type(value).__name__} of shape {value.shape}: its lengths have to be "
            "known; call its compute_chunk_sizes() first"
        )


def _check_shape(shape: tuple[int, ...], selection: Selection) -> None:
    selected = selection.shape
    value_shape = shape
    while len(shape) > len(selected) and shape[0] == 1:
        shape = shape[1:]
    padded = (1,) * (len(selected) - len(shape)) + shape
    if len(padded) != len(selected) or any(
        length not in (1, selected_length)
        for length, selected_length in zip(padded, selected, strict=True)
    ):
        raise ArgumentError(
            f"cannot assign a value of shape {value_shape} to a selection of shape {selected}",
            kind="shape_mismatch",
        )


def _copy_raw_chunks(array: StoredArray, target: Target, value: Any) -> bool:
    """Copy raw chunks if both arrays have equal chunks and codecs; return whether they have."""
    other = as_tessarr_array(value)
    if (
        other is None
        or not _is_whole(array, target)
        or array.write_empty_chunks
        or array._synchronizer is not None
        or not has_same_chunks(other._metadata, array._metadata)
    ):
        return False
    try:
        keys = other._store.list(prefix_of(other.path))
    except StoreError as error:
        if error.retryable:
            raise
        return False  # the store refuses listings: the elements are copied
    pairs = map_chunk_keys(keys, other.path, other._metadata, array.path, array._metadata)
    copy_values(other._store, array._store, pairs, memory_bytes=current().copy_bytes)
    new = {key for _, key in pairs}
    for key, _ in find_chunk_keys(
        array._store.list(prefix_of(array.path)), array.path, array._metadata
    ):
        if key not in new:
            array._store.delete(key)
    return True


def _is_whole(array: StoredArray, target: Target) -> bool:
    """Return whether the target is the whole array, with its axes in order."""
    return target.axes == tuple(range(len(array.shape))) and target.ranges == tuple(
        (0, 1, length) for length in array.shape
    )


# Shared storage


def _shares_storage(array: StoredArray, value: Any) -> bool:
    """Return whether an array has the same storage as another, or is derived from it."""
    return any(_is_stored_at(array, origin) for origin in _find_origins(value))


def _find_origins(value: Any) -> Iterator[Any]:
    """Yield an array, and the inputs of a Dask array."""
    yield value
    graph = getattr(value, "dask", None)
    for task in dict(graph).values() if isinstance(graph, Mapping) else ():
        yield getattr(task, "value", task)
        yield from getattr(task, "args", ())


def _is_stored_at(array: StoredArray, other: Any) -> bool:
    tessarr_array = as_tessarr_array(other)
    if tessarr_array is not None:
        return bool(tessarr_array._store == array._store and tessarr_array.path == array.path)
    root = getattr(getattr(other, "store", None), "root", None)  # in zarr-python
    if root is None or not isinstance(array._store, LocalStore):
        return False
    from pathlib import Path

    array_folder = Path(array._store.path, array.path)
    return array_folder.resolve() == Path(str(root), other.path).resolve()


def _is_identity(array: StoredArray, target: Target, value: Any) -> bool:
    """Return whether the assignment would copy every element to itself."""
    other = as_tessarr_array(value)
    same = other is not None and other._metadata == array._metadata
    return same and _is_whole(array, target)


def _buffer_source(source: Source) -> Source:
    """Return a copy of a source, in memory or in a temporary file."""
    shape = tuple(count for _, _, count in source.ranges)
    if source.dtype.hasobject or prod(shape) * source.dtype.itemsize <= current().copy_bytes:
        buffer = _read_all(source.array)
    else:
        import tempfile

        with tempfile.TemporaryFile(prefix="tessarr-") as file:
            buffer = np.memmap(file, source.dtype, "w+", shape=shape)
        unbroadcast = make_source(source.array)
        buffer_target = make_target(buffer)
        execute_plan(unbroadcast, buffer_target, plan_copy(unbroadcast, buffer_target))
    return make_source(buffer, source.shape)
