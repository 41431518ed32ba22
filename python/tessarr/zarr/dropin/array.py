"""`Array` of the drop-in: Tessarr's array with zarr-python 3's indexing and attributes."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.array import array as own
from tessarr.array.array import bind_as
from tessarr.format.registry import set_public_module
from tessarr.zarr.dropin.errors import raises_zarr_errors, translate_errors
from tessarr.zarr.dropin.metadata import build_original_metadata
from tessarr.zarr.dropin.originals import Delegating, OriginalArray, delegate

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.metadata.node import ArrayMeta

__all__ = ["Array", "adopt_array", "set_config"]


class Array(Delegating, own.Array, OriginalArray):  # type: ignore[misc] # an optional package
    """An array of zarr-python's interface, read and written with Tessarr.

    Indexing follows zarr-python 3: several lists or masks in ``a[…]`` select orthogonally unless
    all of them are lists. Attributes with classes of zarr-python, such as `metadata`, `compressors`
    and `async_array`, are those of a ``zarr.core.array.Array`` at the same location.
    """

    __slots__ = ("_known_original", "_zarr_config")

    def __new__(cls, store: Any, *arguments: Any, **settings: Any) -> Any:
        """Return the array of a ``zarr.AsyncArray`` without I/O, or open an array in a store."""
        from zarr.core.array import AsyncArray

        if isinstance(store, AsyncArray):
            return _adopt_async(store)
        with translate_errors():
            return super().__new__(cls, store, *arguments, **settings)

    def __init__(self, store: Any, *arguments: Any, **settings: Any) -> None:
        """Do nothing: `__new__` creates arrays."""

    @classmethod
    @raises_zarr_errors
    def open(cls, store: Any, path: str | None = None, **settings: Any) -> Array:
        """Open an existing array, as zarr-python does."""
        return adopt_array(own.Array.open(store, path, **settings))

    @classmethod
    def from_dict(cls, store_path: Any, data: Any) -> Array:
        """Return the array that a metadata document describes, without I/O."""
        return adopt_array(own.Array.from_dict(store_path, data))

    @property
    def config(self) -> Any:
        """The runtime settings, as an object of zarr-python.

        Results are in the memory order of the settings.
        """
        known = getattr(self, "_zarr_config", None)
        if known is None:
            from zarr.core.array_spec import ArrayConfig, parse_array_config

            fields = ArrayConfig.__dataclass_fields__
            settings: Any = {
                name: value for name, value in self._config_settings().items() if name in fields
            }
            known = self._zarr_config = parse_array_config(settings)
        return known

    def _config_settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"write_empty_chunks": self._write_empty_chunks}
        if self._meta.zarr_format == 2:
            settings["order"] = self._meta.order
        if self._missing != "fill":
            settings["read_missing_chunks"] = False
        return settings

    def with_config(self, config: Any) -> Array:
        """Return the same array with another `config`."""
        from zarr.core.array_spec import ArrayConfig, parse_array_config

        array: Array = super().with_config(config)
        if not isinstance(config, ArrayConfig):
            merged: Any = {**self.config.to_dict(), **config}
            config = parse_array_config(merged)
        array._zarr_config = config
        return array

    @property
    def order(self) -> Any:
        """The memory order of results."""
        return self.config.order

    def __getitem__(self, key: Any) -> Any:
        indexing = _find_indexing(key, self.ndim)
        if indexing == "basic":
            return self._reorder(super().__getitem__(key))
        return self._reorder(self.vindex[key] if indexing == "points" else self.oindex[key])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self._reorder(super().__array__(dtype, copy=copy))

    def _reorder(self, result: Any) -> Any:
        """Return a result in the memory order of the settings."""
        if getattr(result, "ndim", 0) < _RANK_WITH_ORDER or self.order != "F":
            return result
        return np.asfortranarray(result)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_array, (*super().__reduce__(), getattr(self, "_zarr_config", None))

    def __setitem__(self, key: Any, value: Any) -> None:
        indexing = _find_indexing(key, self.ndim)
        if indexing == "basic":
            super().__setitem__(key, value)
        elif indexing == "points":
            self.vindex[key] = value
        else:
            self.oindex[key] = value

    def _build_original(self, meta: ArrayMeta) -> Any:
        from zarr.core.array import AsyncArray
        from zarr.storage import StorePath

        metadata = build_original_metadata(meta)
        location = StorePath(self.store, self.path)
        return OriginalArray(AsyncArray(metadata, location, self.config))

    def nbytes_stored(self) -> int:  # type: ignore[override]
        """Return the number of bytes of all values of the array in the store."""
        stored: int = own.Array.nbytes_stored.fget(self)  # type: ignore[attr-defined]
        return stored

    def __repr__(self) -> str:
        return repr(self._original)

    @raises_zarr_errors
    def resize(self, *shape: Any, **settings: Any) -> None:
        """Change the shape: see `tessarr.Array.resize`."""
        super().resize(*shape, **settings)


_RANK_WITH_ORDER: Final = 2

_DELEGATED: Final = (
    "_async_array",
    "async_array",
    "compressor",
    "compressors",
    "fill_value",
    "filters",
    "info",
    "metadata",
    "serializer",
    "store_path",
)
delegate(Array, *_DELEGATED)


_SELECTIONS: Final = ("basic", "block", "coordinate", "mask", "orthogonal")


def _accept_prototype(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that accepts a buffer prototype; results are always NumPy arrays."""

    @wraps(method)
    def call(self: Any, *arguments: Any, prototype: Any = None, **settings: Any) -> Any:
        del prototype
        return method(self, *arguments, **settings)

    return call


for _kind in _SELECTIONS:
    for _name in (f"get_{_kind}_selection", f"set_{_kind}_selection"):
        setattr(Array, _name, _accept_prototype(getattr(own.Array, _name)))


def adopt_array(array: own.Array) -> Array:
    """Return an array of the drop-in for an array of Tessarr."""
    if isinstance(array, Array):
        return array
    adopted = bind_as(
        Array,
        array._meta,
        array._store,
        array._path,
        read_only=array._read_only,
        write_empty_chunks=array._write_empty_chunks,
        missing=array._missing,
        chunk_cache_bytes=array._chunk_cache_bytes,
        synchronizer=array._synchronizer,
        cache_metadata=array._cache_metadata,
        present=array._present,
    )
    adopted._consolidated = array._consolidated
    return adopted


def set_config(node: Any, config: Any) -> Any:
    """Set the runtime settings that a user passed, and return the node."""
    if config is not None and isinstance(node, Array):
        node._zarr_config = config
    return node


def _rebuild_array(function: Callable[..., Any], arguments: Any, config: Any) -> Array:
    """Return a pickled array."""
    array: Array = function(*arguments)
    array._zarr_config = config
    return array


def _adopt_async(array: Any) -> Array:
    """Return the array of the drop-in for a ``zarr.AsyncArray``, without I/O."""
    location = array.store_path
    adopted = Array.from_dict(location, array.metadata)
    if location.read_only and not adopted.read_only:
        adopted = bind_as(Array, adopted._meta, adopted._store, adopted._path, read_only=True)
    adopted = adopted.with_config(array.config)
    adopted._known_original = adopted._meta, OriginalArray(array)
    return adopted


def _find_indexing(key: Any, rank: int) -> str:
    """Return how zarr-python selects with a key: "basic", "points" or "orthogonal"."""
    entries = key if isinstance(key, tuple) else (key,)
    if all(isinstance(entry, int | slice) or entry is Ellipsis for entry in entries):
        return "basic"
    from zarr.core.indexing import (
        is_pure_fancy_indexing,
        is_pure_orthogonal_indexing,
        pop_fields,
    )

    _, selection = pop_fields(key)
    if is_pure_fancy_indexing(selection, rank):
        return "points"
    return "orthogonal" if is_pure_orthogonal_indexing(selection, rank) else "basic"


set_public_module("tessarr.zarr", Array)
