"""Creation of an array in a store from the user's settings and data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr import dtype as dtypes
from tessarr.array import Array, bind_array
from tessarr.array.keywords import parse_keywords
from tessarr.array.like import type_of
from tessarr.dtype.struct import Struct
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.flow import create, edit
from tessarr.flow.run import run_flow
from tessarr.format.chunk_shape import normalize_shape
from tessarr.indexing import broadcast_value, select, to_objects
from tessarr.indexing.array_likes import (
    element_kinds,
    has_mask,
    mask_lists,
    strip_unit,
    values_in_memory,
)
from tessarr.indexing.assigned_values import is_raised_by_value
from tessarr.metadata.build import AUTO, encode_fill_value, is_auto
from tessarr.metadata.known_settings import build_known_meta
from tessarr.node.replace import replace_node
from tessarr.store.adapt import get_dimension_separator, get_user_store
from tessarr.transfer import is_lazy

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Unpack

    from tessarr.array.keyword_types import Settings
    from tessarr.array.keywords import CreationSettings
    from tessarr.metadata.node import ArrayMeta
    from tessarr.store import Store
    from tessarr.types import Shape, ShapeLike

__all__ = ["CreationPlan", "create_array"]


def create_array(
    store: Store,
    path: str,
    *,
    shape: ShapeLike | None = None,
    data: Any = None,
    within: str | None = None,
    **settings: Unpack[Settings],
) -> Array:
    """Create an array and write `data`, if any.

    All checks run before any change; if storing `data` fails, the function removes the array.
    `within` is the path of a group that exists. The other parameters are those of
    `tessarr.create_array`.
    """
    return CreationPlan.from_settings(store, shape=shape, data=data, **settings).execute(
        path, within=within
    )


@dataclass(slots=True)
class CreationPlan:
    """A validated new array that is not stored yet.

    Parameters
    ----------
    store
        The store of the new array.
    meta
        The metadata of the new array.
    values
        The values to write: a NumPy array, or a lazy array that is read part by part; None for no
        values.
    opened
        Keywords of `bind_array`.
    overwrite
        Whether to delete an existing node.
    """

    store: Store
    meta: ArrayMeta
    values: Any
    opened: dict[str, Any]
    overwrite: bool

    @classmethod
    def from_settings(
        cls,
        store: Store,
        *,
        shape: ShapeLike | None = None,
        data: Any = None,
        **settings: Unpack[Settings],
    ) -> CreationPlan:
        """Return the plan for an array with these settings, without I/O."""
        return cls.from_keywords(store, parse_keywords(settings), shape=shape, data=data)

    @classmethod
    def from_keywords(
        cls,
        store: Store,
        keywords: CreationSettings,
        *,
        shape: ShapeLike | None = None,
        data: Any = None,
    ) -> CreationPlan:
        """Return the plan for an array with parsed settings, without I/O."""
        if keywords.meta["zarr_format"] == 2:
            keywords.meta.update(_store_separator(store, keywords.meta.get("dimension_separator")))
        initial = None if data is None else _InitialData.from_user(data, shape, keywords.meta)
        meta = _build_meta(initial, shape, keywords.meta)
        if keywords.maxshape is not None:
            _check_maxshape(keywords.maxshape, meta.shape)
        values = None
        if initial is not None and keywords.write_data:
            values = initial.prepare_values(meta)
        return cls(store, meta, values, keywords.opened, keywords.overwrite)

    def read_own_source(self, path: str) -> None:
        """Read the values into memory if deleting the node at `path` would delete them."""
        source = self.values
        if isinstance(source, Array) and source._store == self.store:
            inside = not path or f"{source.path}/".startswith(f"{path}/")
            self.values = source[...] if inside else source

    def execute(self, path: str, *, within: str | None = None) -> Array:
        """Create the array and write its values.

        If the store supports it, the old node stays until the new one is complete.
        """
        build = None if self.values is None else self.build
        if not self.overwrite or not replace_node(
            self.store, path, self.meta, build=build, within=within
        ):
            if self.overwrite:
                self.read_own_source(path)
            self.build(self.store, path, within=within, overwrite=self.overwrite)
        opened: dict[str, Any] = {"read_only": False, "present": "document", **self.opened}
        return bind_array(self.meta, self.store, path, **opened)

    def build(
        self,
        store: Store,
        path: str = "",
        *,
        within: str | None = None,
        overwrite: bool = False,
    ) -> None:
        """Create the array in a store and write its values; a failure leaves no array."""
        # Data replaces all stored chunks.
        clear = self.values is None
        flow = create.create_node(
            path, self.meta, overwrite=overwrite, clear=clear, within=within, store=store
        )
        run_flow(flow, store)
        if self.values is None:
            return
        try:
            self._write(store, path)
        except BaseException:
            run_flow(edit.delete_node(path), store)
            raise

    def _write(self, store: Store, path: str) -> None:
        opened: dict[str, Any] = {"present": "document", **self.opened, "read_only": False}
        created = bind_array(self.meta, store, path, **opened)
        created[...] = self.values


def _store_separator(store: Store, requested: str | None) -> dict[str, Any]:
    """Return the separator of chunk keys that the store prescribes, if any."""
    separator_of_store = get_dimension_separator(store)
    if separator_of_store is None:
        return {}
    if requested not in (None, separator_of_store):
        raise ArgumentError(
            f"dimension_separator {requested!r} is not that of the store "
            f"{get_user_store(store)!r}, {separator_of_store!r}"
        )
    return {"dimension_separator": separator_of_store}


@dataclass(slots=True)
class _InitialData:
    """The initial values of a new array.

    An array of another library or in another store stays unread until `tessarr` writes it part
    by part.
    """

    source: Any
    values: Any
    dtype: Any

    @classmethod
    def from_user(
        cls, data: Any, shape: ShapeLike | None, settings: Mapping[str, Any]
    ) -> _InitialData:
        dtype = settings.get("dtype")
        if not isinstance(data, np.ndarray) and is_lazy(data, np.dtype(float)):
            return cls(data, data, _lazy_data_type(data) if dtype is None else dtype)
        source = data if type(data) is np.ndarray else _load_values(data)
        if dtype is not None and _is_flexible(dtype):
            # Avoid NumPy's fixed-length types, which drop trailing NULs.
            rank = None if shape is None else len(normalize_shape(shape))
            values = _as_objects(source) if rank is None else to_objects(source, rank)
            return cls(source, values, dtype)
        if isinstance(source, np.ndarray):
            values = source if isinstance(source, np.ma.MaskedArray) else np.asarray(source)
        else:
            values = _as_array(source, _record_type(dtype))
        return cls(source, values, _infer_data_type(values, settings) if dtype is None else dtype)

    def prepare_values(self, meta: ArrayMeta) -> Any:
        """Return validated values for an assignment to the whole array."""
        if not isinstance(self.values, np.ndarray):
            return self.values
        data_type = meta.data_type
        values: Any = self.values
        if data_type.numpy.names is not None:
            values = data_type.to_numpy_input(self.source)
        elif data_type.elements is None and self.values.dtype != data_type.numpy:
            values = self.source  # the assignment checks each number of a list
        selection = select(..., meta.shape)
        return broadcast_value(values, selection, data_type.numpy, meta.fill_element)

    def fill(self, dtype: Any) -> Any:
        """Return the fill value of the data, or AUTO if it has none.

        Raises
        ------
        ArgumentError
            If elements may be masked, and the fill value does not fit the data type.
        """
        fill_value = _data_fill_value(self.source)
        if fill_value is None:
            return AUTO
        try:
            data_type = dtypes.to_data_type(dtype)
            if data_type.has_missing:
                return AUTO
            encode_fill_value(data_type, fill_value)
        except UnsupportedError:
            return AUTO  # validation reports this problem together with others
        except (ValueError, TypeError, OverflowError):
            if isinstance(self.source, np.ma.MaskedArray) and not has_mask(self.source):
                return AUTO
            raise ArgumentError(
                f"the fill value of the masked array, {fill_value!r}, does not fit "
                f"{dtype}: give another "
                "one as fill_value="
            ) from None
        return fill_value


def _build_meta(
    initial: _InitialData | None, shape: ShapeLike | None, settings: dict[str, Any]
) -> ArrayMeta:
    dtype = settings.get("dtype") if initial is None else initial.dtype
    keywords: dict[str, Any] = {**settings, "dtype": "float64" if dtype is None else dtype}
    if initial is not None:
        data_shape = tuple(initial.values.shape)
        if shape is not None and normalize_shape(shape) != data_shape:
            raise ArgumentError(
                f"shape {shape} does not fit data of shape {data_shape}", kind="shape_mismatch"
            )
        shape = data_shape
        if is_auto(settings.get("fill_value", AUTO)):
            keywords["fill_value"] = initial.fill(keywords["dtype"])
    if shape is None:
        raise TypeError("a new array needs a shape, or data")
    return build_known_meta({**keywords, "shape": shape})


def _load_values(data: Any) -> Any:
    """Return data without a unit, and with the mask of the data or of its elements."""
    if isinstance(data, list | tuple):
        return mask_lists(data, element_kinds(data))
    data = strip_unit(data)
    return values_in_memory(data) if hasattr(data, "__array__") else data


def _as_objects(source: Any) -> np.ndarray[Any, Any]:
    if isinstance(source, np.ma.MaskedArray):
        return source.astype(object)
    return np.asarray(source, object)


def _as_array(source: Any, dtype: np.dtype[Any] | None) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(source, dtype)
    except (ValueError, TypeError, OverflowError) as error:
        if is_raised_by_value(error):
            raise
        expected = "an array" if dtype is None else f"records of {dtype}"
        raise ArgumentError(
            f"cannot make {expected} of data: {error}", kind="cannot_cast"
        ) from error


def _data_fill_value(data: Any) -> Any:
    """Return the fill value of an array with masked elements, or None if it has none.

    These are arrays of ``numpy.ma``, Dask's arrays of these, and variables of netCDF4.
    """
    sample = getattr(data, "_meta", data)  # in Dask
    if isinstance(sample, np.ma.MaskedArray):
        return sample.fill_value
    if _is_netcdf(data) and data.mask and data.dtype.kind != "O":
        # The fill value of a packed variable applies to the packed numbers.
        return data.get_fill_value() if _lazy_data_type(data) == data.dtype else np.nan
    return None


def _lazy_data_type(data: Any) -> Any:
    """Return the data type of elements after reading: netCDF4 unpacks some variables."""
    if _is_netcdf(data) and data.scale and data.dtype.kind in "iuf":
        return data[(slice(0, 1),) * len(data.shape)].dtype
    return type_of(data)


def _is_netcdf(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "netCDF4"


def _check_maxshape(maxshape: Any, shape: Shape) -> None:
    """Check h5py's maximum lengths, which are otherwise ignored: every array can grow."""
    limits = tuple(maxshape) if np.iterable(maxshape) else (maxshape,)
    fits = len(limits) == len(shape)
    if not fits or any(m is not None and m < n for m, n in zip(limits, shape, strict=True)):
        raise ArgumentError(f"maxshape {maxshape!r} does not fit shape {shape}")


def _infer_data_type(values: np.ndarray[Any, Any], settings: Mapping[str, Any]) -> Any:
    """Return the data type of values; text or bytes if all objects have that type."""
    dtype = values.dtype
    has_codec = settings.get("object_codec") is not None or settings.get("filters", AUTO) != AUTO
    if dtype.kind == "O" and not has_codec:
        kinds = {type(value) for value in values.reshape(-1)}
        return next((kind for kind in (str, bytes) if kinds == {kind}), dtype)
    return dtype


def _record_type(dtype: Any) -> np.dtype[Any] | None:
    """Return a structured data type, whose elements are tuples in lists; None for other types."""
    try:
        data_type = None if dtype is None else dtypes.to_data_type(dtype)
    except (ArgumentError, UnsupportedError):
        return None  # validation reports this problem together with others
    return data_type.numpy if isinstance(data_type, Struct) else None


def _is_flexible(dtype: Any) -> bool:
    try:
        return dtypes.to_data_type(dtype).elements is not None
    except UnsupportedError:
        return False
    except ArgumentError:
        return dtype is object or dtype == np.dtype(object)
