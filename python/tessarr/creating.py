"""From what a user asks for to a new array in a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr import drive
from tessarr import dtype as dtypes
from tessarr.array import bind
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.flow import create, edit
from tessarr.indexing import broadcast_value, default, objects
from tessarr.layout import normalize_shape
from tessarr.metadata.build import AUTO, array_meta
from tessarr.options import current
from tessarr.store.given import given, separator

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.array import Array
    from tessarr.dtype.names import DataTypeLike
    from tessarr.store import Store
    from tessarr.types import ArrayLike, ShapeLike

__all__ = ["create_array"]


def create_array(
    store: Store,
    path: str,
    *,
    shape: ShapeLike | None = None,
    dtype: DataTypeLike | None = None,
    data: ArrayLike | None = None,
    overwrite: bool = False,
    write_empty_chunks: bool | None = None,
    within: str | None = None,
    codecs: Any = None,
    compressors: Any = AUTO,
    **settings: Any,
) -> Array:
    """Create an array and, where there is `data`, write that.

    Everything is checked before anything changes; if storing `data` fails, the
    array is removed again. `within` is the path of a group known to exist; the
    rest is as for `tessarr.create_array`.
    """
    values, dtype = _values(data, dtype, shape, settings)
    if values is not None:
        if shape is not None and normalize_shape(shape) != values.shape:
            raise ArgumentError(
                f"shape {shape} does not fit data of shape {values.shape}",
                kind="shape_mismatch",
            )
        shape = values.shape
    if shape is None:
        raise TypeError("a new array needs a shape, or data")
    if settings.get("zarr_format") == 2:
        settings = settings | _separated(store, settings.get("dimension_separator"))
    if codecs is None and isinstance(compressors, str) and compressors == AUTO:
        compressors = current().compressor
    meta = array_meta(
        shape=shape,
        dtype="float64" if dtype is None else dtype,
        codecs=codecs,
        compressors=compressors,
        **settings,
    )
    whole = default(..., meta.shape)
    fields = values if meta.data_type.numpy.names is None else meta.data_type.given(data)
    ready = None if values is None else broadcast_value(fields, whole, meta.data_type.numpy)
    drive.run(create.create(path, meta, overwrite=overwrite, within=within), store)
    created = bind(meta, store, path, read_only=False, write_empty_chunks=write_empty_chunks)
    if ready is not None:
        try:
            created[...] = ready
        except BaseException:
            drive.run(edit.delete(path), store)
            raise
    return created


def _separated(store: Store, wanted: str | None) -> dict[str, Any]:
    """Return the separator in the keys of chunks, where the store has a say in it."""
    own = separator(store)
    if own is None:
        return {}
    if wanted not in (None, own):
        raise ArgumentError(
            f"dimension_separator {wanted!r} is not that of the store {given(store)!r}, {own!r}"
        )
    return {"dimension_separator": own}


def _values(
    data: Any, dtype: Any, shape: ShapeLike | None, settings: dict[str, Any]
) -> tuple[npt.NDArray[Any] | None, Any]:
    """Return `data` as an array, and the data type that it has or is to have."""
    if data is None:
        return None, dtype
    if dtype is not None and _is_flexible(dtype):
        # Not by way of NumPy's types of fixed length, which drop NULs at the end.
        rank = None if shape is None else len(normalize_shape(shape))
        return np.asarray(data, object) if rank is None else objects(data, rank), dtype
    values = np.asarray(data)
    if dtype is None:
        dtype = values.dtype
        told = settings.get("object_codec") is not None or settings.get("filters", AUTO) != AUTO
        if dtype.kind == "O" and not told:
            kinds = {type(value) for value in values.reshape(-1)}
            dtype = next((kind for kind in (str, bytes) if kinds == {kind}), dtype)
    return values, dtype


def _is_flexible(dtype: Any) -> bool:
    try:
        return dtypes.of(dtype).elements is not None
    except UnsupportedError:
        return False
    except ArgumentError:
        return dtype is object or dtype == np.dtype(object)
