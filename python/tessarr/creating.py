"""From what a user asks for to a new array in a store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr import drive
from tessarr.array import bind
from tessarr.errors import ArgumentError
from tessarr.flow import create, edit
from tessarr.indexing import broadcast_value, default
from tessarr.layout import normalize_shape
from tessarr.metadata.build import AUTO, array_meta
from tessarr.options import current

if TYPE_CHECKING:
    from tessarr.array import Array
    from tessarr.store import Store
    from tessarr.types import ArrayLike, DTypeLike, ShapeLike

__all__ = ["create_array"]


def create_array(
    store: Store,
    path: str,
    *,
    shape: ShapeLike | None = None,
    dtype: DTypeLike | None = None,
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
    values = None if data is None else np.asarray(data)
    if values is not None:
        if shape is not None and normalize_shape(shape) != values.shape:
            raise ArgumentError(
                f"shape {shape} does not fit data of shape {values.shape}",
                kind="shape_mismatch",
            )
        shape = values.shape
        dtype = values.dtype if dtype is None else dtype
    if shape is None:
        raise TypeError("a new array needs a shape, or data")
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
    ready = None if values is None else broadcast_value(values, whole, meta.data_type.numpy)
    drive.run(create.create(path, meta, overwrite=overwrite, within=within), store)
    created = bind(meta, store, path, read_only=False, write_empty_chunks=write_empty_chunks)
    if ready is not None:
        try:
            created[...] = ready
        except BaseException:
            drive.run(edit.delete(path), store)
            raise
    return created
