"""From what a user asks for to a new array in a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr import drive
from tessarr import dtype as dtypes
from tessarr.array import Array, bind
from tessarr.dtype.struct import Struct
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.flow import create, edit
from tessarr.indexing import broadcast_value, default, objects
from tessarr.layout import normalize_shape
from tessarr.likeness import type_of
from tessarr.metadata.build import AUTO, array_meta
from tessarr.options import current
from tessarr.settings import sort
from tessarr.store.given import given, separator
from tessarr.transfer import is_lazy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from tessarr.metadata.node import ArrayMeta
    from tessarr.settings import Settings
    from tessarr.store import Store
    from tessarr.types import Shape, ShapeLike

__all__ = ["Plan", "create_array"]


def create_array(
    store: Store,
    path: str,
    *,
    shape: ShapeLike | None = None,
    data: Any = None,
    within: str | None = None,
    **settings: Unpack[Settings],
) -> Array:
    """Create an array and, where there is `data`, write that.

    Everything is checked before anything changes; if storing `data` fails, the
    array is removed again. `within` is the path of a group known to exist; the
    rest is as for `tessarr.create_array`.
    """
    return Plan.of(store, shape=shape, data=data, **settings).carry_out(path, within=within)


@dataclass(slots=True)
class Plan:
    """A new array, checked, that is not stored yet.

    Parameters
    ----------
    store
        Where it is to be.
    meta
        Its metadata.
    values
        What is to be written into it: an array of NumPy that fits, or another that can be
        read part by part; None for nothing.
    opened
        How it is to be open.
    overwrite
        Whether what is there is deleted.
    """

    store: Store
    meta: ArrayMeta
    values: Any
    opened: dict[str, Any]
    overwrite: bool

    @classmethod
    def of(
        cls,
        store: Store,
        *,
        shape: ShapeLike | None = None,
        data: Any = None,
        **settings: Unpack[Settings],
    ) -> Plan:
        """Return the array that settings describe; nothing is stored, or read from `data`."""
        wanted = sort(settings)
        if wanted.meta["zarr_format"] == 2:
            wanted.meta.update(_separated(store, wanted.meta.get("dimension_separator")))
        content = _Data.of(data, shape, wanted.meta)
        meta = _meta(content, shape, wanted.meta)
        _check_maxshape(wanted.maxshape, meta.shape)
        values = content.ready(meta) if wanted.write_data else None
        return cls(store, meta, values, wanted.opened, wanted.overwrite)

    def keep_apart(self, path: str) -> None:
        """Read what is to be written, if deleting the node at `path` would delete it."""
        source = self.values
        if isinstance(source, Array) and source._store == self.store:
            inside = not path or f"{source.path}/".startswith(f"{path}/")
            self.values = source[...] if inside else source

    def carry_out(self, path: str, *, within: str | None = None) -> Array:
        """Create the array and write what it holds."""
        if self.overwrite:
            self.keep_apart(path)
        flow = create.create(
            path, self.meta, overwrite=self.overwrite, within=within, store=self.store
        )
        drive.run(flow, self.store)
        opened: dict[str, Any] = {"read_only": False, **self.opened}
        if self.values is None:
            return bind(self.meta, self.store, path, **opened)
        writable: dict[str, Any] = {**opened, "read_only": False}
        created = bind(self.meta, self.store, path, **writable)
        try:
            created[...] = self.values
        except BaseException:
            drive.run(edit.delete(path), self.store)
            raise
        return bind(self.meta, self.store, path, **opened) if opened["read_only"] else created


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


class _Data:
    """What is to be written into a new array, if anything is.

    An array of another library or in another store is not read here, but part by part when it
    is written.
    """

    def __init__(self, source: Any, values: Any = None, dtype: Any = None) -> None:
        self.source = source
        self.values = values
        self.dtype = dtype

    @classmethod
    def of(cls, data: Any, shape: ShapeLike | None, settings: Mapping[str, Any]) -> _Data:
        dtype = settings.get("dtype")
        if data is None:
            return cls(None, None, dtype)
        if not isinstance(data, np.ndarray) and is_lazy(data, np.dtype(float)):
            return cls(data, data, type_of(data) if dtype is None else dtype)
        if dtype is not None and _is_flexible(dtype):
            # Not by way of NumPy's types of fixed length, which drop NULs at the end.
            rank = None if shape is None else len(normalize_shape(shape))
            values = np.asarray(data, object) if rank is None else objects(data, rank)
            return cls(data, values, dtype)
        values = np.asarray(data, None if isinstance(data, np.ndarray) else _record_type(dtype))
        return cls(data, values, _type_of(values, settings) if dtype is None else dtype)

    @property
    def shape(self) -> Shape | None:
        return None if self.values is None else tuple(self.values.shape)

    def ready(self, meta: ArrayMeta) -> Any:
        """Return what can be assigned to the whole array, checked, or None."""
        if self.values is None or not isinstance(self.values, np.ndarray):
            return self.values
        data_type = meta.data_type
        given = self.values if data_type.numpy.names is None else data_type.given(self.source)
        return broadcast_value(given, default(..., meta.shape), data_type.numpy)


def _meta(content: _Data, shape: ShapeLike | None, settings: dict[str, Any]) -> ArrayMeta:
    if content.shape is not None:
        if shape is not None and normalize_shape(shape) != content.shape:
            raise ArgumentError(
                f"shape {shape} does not fit data of shape {content.shape}", kind="shape_mismatch"
            )
        shape = content.shape
    if shape is None:
        raise TypeError("a new array needs a shape, or data")
    if settings.get("codecs") is None:
        settings.setdefault("compressors", current().compressor)
    dtype = "float64" if content.dtype is None else content.dtype
    asked: dict[str, Any] = {**settings, "shape": shape, "dtype": dtype}
    return array_meta(**asked)


def _check_maxshape(maxshape: Any, shape: Shape) -> None:
    """Check the lengths that h5py wants to know; every array here may grow."""
    if maxshape is None:
        return
    limits = tuple(maxshape) if np.iterable(maxshape) else (maxshape,)
    fits = len(limits) == len(shape)
    if not fits or any(m is not None and m < n for m, n in zip(limits, shape, strict=True)):
        raise ArgumentError(f"maxshape {maxshape!r} does not fit shape {shape}")


def _type_of(values: np.ndarray[Any, Any], settings: Mapping[str, Any]) -> Any:
    """Return the data type of values; of objects that are all text or all bytes, that."""
    dtype = values.dtype
    told = settings.get("object_codec") is not None or settings.get("filters", AUTO) != AUTO
    if dtype.kind == "O" and not told:
        kinds = {type(value) for value in values.reshape(-1)}
        return next((kind for kind in (str, bytes) if kinds == {kind}), dtype)
    return dtype


def _record_type(dtype: Any) -> np.dtype[Any] | None:
    """Return NumPy's type of records, whose elements are tuples in lists; None for others."""
    try:
        found = None if dtype is None else dtypes.of(dtype)
    except (ArgumentError, UnsupportedError):
        return None  # which is told with what else is wrong
    return found.numpy if isinstance(found, Struct) else None


def _is_flexible(dtype: Any) -> bool:
    try:
        return dtypes.of(dtype).elements is not None
    except UnsupportedError:
        return False
    except ArgumentError:
        return dtype is object or dtype == np.dtype(object)
