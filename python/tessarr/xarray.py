"""xarray: `open_dataset(…, engine="tessarr")`, and `to_zarr`, which writes datasets.

Reading needs xarray; writing needs zarr-python 3, too, of which xarray's writer uses a function.
"""

from __future__ import annotations

import os
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Self
from urllib.parse import urlsplit

from tessarr.api.hierarchy import consolidate_metadata
from tessarr.api.open import open_group
from tessarr.array.array import Array
from tessarr.errors import NotFoundError
from tessarr.format.registry import set_public_module

try:
    from xarray.backends import BackendArray, BackendEntrypoint, StoreBackendEntrypoint, ZarrStore
    from xarray.backends.common import ArrayWriter
    from xarray.backends.zarr import FillValueCoder
    from xarray.coding.strings import create_vlen_dtype
    from xarray.core import indexing
    from xarray.core.variable import Variable
except ImportError as error:
    error.add_note("tessarr.xarray needs xarray 2025.10 or newer: install tessarr[xarray]")
    raise

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping

    import xarray

    from tessarr.group import Group
    from tessarr.store.resolve import StoreLike

__all__ = ["TessarrBackend", "TessarrStore", "to_zarr"]

_DIMENSIONS: Final = "_ARRAY_DIMENSIONS"
_SUFFIXES: Final = (".zarr", ".zarr.zip", ".ozx")
WriteMode = Literal["w", "w-", "a", "a-", "r+"]


class TessarrBackend(BackendEntrypoint):  # type: ignore[misc] # untyped
    """The engine "tessarr" of `xarray.open_dataset`, `open_datatree` and `open_mfdataset`.

    Stores are those of `tessarr.open`. Consolidated metadata is read where it exists. Paths and
    URLs that end in ``.zarr``, ``.zarr.zip`` or ``.ozx`` need no ``engine``, if no engine before
    this one accepts them.

    Examples
    --------
    >>> import tessarr, xarray  # doctest: +SKIP
    >>> xarray.open_dataset("data.zarr", engine="tessarr")  # doctest: +SKIP
    """

    description: ClassVar[str] = "Zarr stores of both formats, read with Tessarr"
    url: ClassVar[str] = "https://tessarr.readthedocs.io/en/stable/guide/xarray/"
    supports_groups: ClassVar[bool] = True

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Return whether a path or URL names a Zarr store."""
        if not isinstance(filename_or_obj, str | os.PathLike):
            return False
        text = os.fspath(filename_or_obj)
        path = urlsplit(text).path if "://" in text else text
        return path.rstrip("/").endswith(_SUFFIXES)

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        mode: str = "r",
        consolidated: bool | None = None,
        storage_options: Mapping[str, Any] | None = None,
        zarr_format: Literal[2, 3] | None = None,
        use_zarr_fill_value_as_mask: bool | None = None,
        cache_members: bool = True,
    ) -> xarray.Dataset:
        """Open a group as a dataset: the same parameters as the engine "zarr" of xarray."""
        store = TessarrStore.open_group(
            filename_or_obj,
            mode=mode,
            group=group,
            consolidated=consolidated,
            storage_options=storage_options,
            zarr_format=zarr_format,
            use_zarr_fill_value_as_mask=use_zarr_fill_value_as_mask,
            cache_members=cache_members,
        )
        return StoreBackendEntrypoint().open_dataset(
            store,
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            drop_variables=drop_variables,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        group: str | None = None,
        mode: str = "r",
        consolidated: bool | None = None,
        storage_options: Mapping[str, Any] | None = None,
        zarr_format: Literal[2, 3] | None = None,
        **decoding: Any,
    ) -> dict[str, xarray.Dataset]:
        """Open a group and the groups below it: datasets by path, "/" for the group itself."""
        stores = TessarrStore.open_store(
            filename_or_obj,
            group=group,
            mode=mode,
            consolidated=consolidated,
            storage_options=storage_options,
            zarr_format=zarr_format,
        )
        return {
            path: StoreBackendEntrypoint().open_dataset(store, **decoding)
            for path, store in stores.items()
        }

    def open_datatree(self, filename_or_obj: Any, **settings: Any) -> xarray.DataTree:
        """Open a group and the groups below it as a tree."""
        from xarray import DataTree

        return DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **settings))


class TessarrStore(ZarrStore):  # type: ignore[misc] # untyped
    """xarray's data store for a group that Tessarr opened."""

    __slots__ = ()

    @classmethod
    def open_group(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, store: Any, **settings: Any
    ) -> Self:
        """Open one group; the keywords are those of `xarray.backends.ZarrStore.open_group`."""
        settings, opened = _open(store, settings)
        return cls(opened, **settings)

    @classmethod
    def open_store(  # pyright: ignore[reportIncompatibleMethodOverride]
        cls, store: Any, **settings: Any
    ) -> dict[str, Self]:
        """Open a group and the groups below it: stores by path, "/" for the group itself."""
        settings, opened = _open(store, settings)
        return {path: cls(node, **settings) for path, node in _iterate_groups(opened, "/")}

    def array_keys(self) -> tuple[str, ...]:
        """Return the names of the variables."""
        return tuple(name for name, node in self.members.items() if isinstance(node, Array))

    def arrays(self) -> tuple[tuple[str, Any], ...]:
        """Return the names and arrays of the variables."""
        return tuple(item for item in self.members.items() if isinstance(item[1], Array))

    def open_store_variable(self, name: str) -> Variable:
        """Return the variable of an array, with lazily indexed data and its encoding."""
        array: Any = self.members[name]
        dimensions, attributes = _get_dimensions(array)
        lengths = array.chunks
        encoding = {
            "chunks": lengths,
            "preferred_chunks": dict(zip(dimensions, lengths, strict=True)),
            **_encode_codecs(array),
        }
        data = _BackendArray(array)
        if data.dtype.kind == "T":
            encoding["dtype"] = data.dtype
        if self._use_zarr_fill_value_as_mask:
            fill_value = array.fill_value
            if fill_value is not None:
                attributes["_FillValue"] = fill_value
        else:
            if array.zarr_format == 3:
                encoding["fill_value"] = array.fill_value
            if "_FillValue" in attributes:
                attributes["_FillValue"] = FillValueCoder.decode(
                    attributes["_FillValue"], array.dtype
                )
        return Variable(dimensions, indexing.LazilyIndexedArray(data), attributes, encoding)

    def get_dimensions(self) -> dict[Any, int]:
        """Return the length of each dimension."""
        lengths: dict[Any, int] = {}
        for _, array in self.arrays():
            for name, length in zip(_get_dimensions(array)[0], array.shape, strict=True):
                if lengths.setdefault(name, length) != length:
                    raise ValueError(
                        f"found conflicting lengths for dimension {name} "
                        f"({length} != {lengths[name]})"
                    )
        return lengths

    def store(self, *arguments: Any, **settings: Any) -> None:
        """Store variables and attributes, and consolidate the metadata."""
        xarrays: Any = self  # with the attributes of xarray's class
        consolidates, xarrays._consolidate_on_close = xarrays._consolidate_on_close, False
        try:
            super().store(*arguments, **settings)
        finally:
            xarrays._consolidate_on_close = consolidates
        if consolidates:
            consolidate_metadata(self.zarr_group.store, zarr_format=self.zarr_group.zarr_format)

    def _open_existing_array(self, *, name: str) -> Any:
        array = self.zarr_group[name]
        if self._write_empty is None:
            return array
        return array.with_config({"write_empty_chunks": self._write_empty})


def to_zarr(
    dataset: xarray.Dataset | xarray.DataArray,
    store: StoreLike = None,
    *,
    mode: WriteMode | None = None,
    group: str | None = None,
    encoding: Mapping[str, Any] | None = None,
    compute: bool = True,
    consolidated: bool | None = None,
    append_dim: Hashable | None = None,
    region: Mapping[str, slice | Literal["auto"]] | Literal["auto"] | None = None,
    safe_chunks: bool = True,
    align_chunks: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    zarr_format: Literal[2, 3] | None = None,
    write_empty_chunks: bool | None = None,
    chunkmanager_store_kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Write a dataset to a store: `xarray.Dataset.to_zarr` with Tessarr.

    Parameters
    ----------
    dataset
        The dataset, or a named array.
    store
        A store as for `tessarr.open`; None is a new store in memory.
    mode, group, encoding, compute, consolidated, append_dim, region
        As for `xarray.Dataset.to_zarr`.
    safe_chunks, align_chunks, storage_options, zarr_format, write_empty_chunks
        As for `xarray.Dataset.to_zarr`. With ``safe_chunks=False``, Dask blocks may share chunks:
        Tessarr loses no change.
    chunkmanager_store_kwargs
        As for `xarray.Dataset.to_zarr`.

    Returns
    -------
    TessarrStore or dask.delayed.Delayed
        The store; with ``compute=False``, an object whose ``compute`` writes the Dask arrays.

    Examples
    --------
    >>> import tessarr.xarray, xarray  # doctest: +SKIP
    >>> tessarr.xarray.to_zarr(xarray.Dataset({"a": ("x", [1, 2])}), "data.zarr")  # doctest: +SKIP
    """
    from xarray.backends.api import delayed_close_after_writes
    from xarray.backends.writers import dump_to_store

    dataset = _to_dataset(dataset)
    mode = _choose_mode(mode, append_dim, region)
    opened = TessarrStore.open_group(
        store,
        mode=mode,
        group=group,
        consolidated=consolidated if mode == "r+" else False,
        consolidate_on_close=mode != "r+" and consolidated is not False,
        storage_options=storage_options,
        append_dim=append_dim,
        write_region=region,
        safe_chunks=safe_chunks,
        align_chunks=align_chunks,
        zarr_format=zarr_format,
        write_empty=write_empty_chunks,
    )
    dataset = opened._validate_and_autodetect_region(dataset)
    opened._validate_encoding(encoding or {})
    writer = ArrayWriter()
    dump_to_store(dataset, opened, writer, encoding=dict(encoding or {}))
    writes = writer.sync(compute=compute, chunkmanager_store_kwargs=chunkmanager_store_kwargs)
    return opened if compute else delayed_close_after_writes(writes, opened)


def _to_dataset(dataset: xarray.Dataset | xarray.DataArray) -> xarray.Dataset:
    """Return a dataset with names that a store accepts; an unnamed array gets xarray's name."""
    import xarray

    if isinstance(dataset, xarray.DataArray):
        name = dataset.name or "__xarray_dataarray_variable__"
        dataset = dataset.to_dataset(name=name)
    for name in dataset.variables:
        if not isinstance(name, str) or not name:
            raise TypeError(f"variable names are strings that are not empty, not {name!r}")
    return dataset


def _choose_mode(mode: WriteMode | None, append_dim: Any, region: Any) -> WriteMode:
    if mode is None:
        mode = "a" if append_dim is not None else "r+" if region is not None else "w-"
    if mode not in {"w", "w-", "a", "a-", "r+"}:
        raise ValueError(f"mode {mode!r} is not one of 'w', 'w-', 'a', 'a-' and 'r+'")
    if append_dim is not None and mode not in {"a", "a-"}:
        raise ValueError("cannot set append_dim unless mode='a' or mode=None")
    if region is not None and mode not in {"a", "a-", "r+"}:
        raise ValueError("cannot set region unless mode='a', mode='a-', mode='r+' or mode=None")
    return mode


def _open(store: Any, settings: dict[str, Any]) -> tuple[dict[str, Any], Group]:
    """Open a group, and return the settings of its data store."""
    settings = dict(settings)
    names = ("group", "consolidated", "storage_options", "zarr_format")
    group, consolidated, options, zarr_format = (settings.pop(name, None) for name in names)
    mode = settings.get("mode") or "r"
    opened = _open_group(
        store,
        group,
        mode="a" if mode == "a-" else mode,
        use_consolidated=consolidated,
        storage_options=options,
        zarr_format=zarr_format,
    )
    if settings.get("use_zarr_fill_value_as_mask") is None:
        settings["use_zarr_fill_value_as_mask"] = opened.zarr_format == 2
    return settings, opened


def _open_group(store: Any, path: str | None, **settings: Any) -> Group:
    """Open a group; the consolidated metadata of the root serve the groups below."""
    path = (path or "").strip("/")
    try:
        if path and settings["use_consolidated"] is not False and settings["mode"] in {"r", "r+"}:
            root = open_group(store, **settings)
            if root.consolidated:
                return root.get_group(path)
        return open_group(store, path=path or None, **settings)
    except NotFoundError as error:
        if settings["mode"] in {"r", "r+"}:
            raise FileNotFoundError(str(error)) from error
        raise


def _iterate_groups(group: Group, path: str) -> Iterator[tuple[str, Group]]:
    yield path, group
    for name, below in group.groups():
        yield from _iterate_groups(below, str(PurePosixPath(path) / name))


def _get_dimensions(array: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the names of the dimensions of an array, and its other attributes."""
    attributes = array.metadata.attributes
    names = array.dimension_names if array.zarr_format == 3 else attributes.pop(_DIMENSIONS, None)
    if names is None and array.zarr_format == 2:
        names = array.dimension_names  # of NCZarr
        attributes = {
            name: value for name, value in attributes.items() if not name.lower().startswith("_nc")
        }
    if len(names or ()) != array.ndim:
        raise KeyError(
            f"the array {array.path!r} has no dimension names, which xarray needs: "
            f"{'dimension_names' if array.zarr_format == 3 else _DIMENSIONS} is {names!r}"
        )
    return tuple(names or ()), attributes


def _encode_codecs(array: Any) -> dict[str, Any]:
    """Return the codecs in a form that zarr-python accepts, too: documents in format 3."""
    compressors, filters = array.compressors, array.filters
    if array.zarr_format == 2:
        return {"compressors": compressors, "filters": filters, "shards": None}
    return {
        "compressors": tuple(codec.to_json(3) for codec in compressors),
        "filters": tuple(codec.to_json(3) for codec in filters),
        "serializer": array.serializer.to_json(3),
        "shards": array.shards,
    }


class _BackendArray(BackendArray):  # type: ignore[misc] # untyped
    """An array of Tessarr, as xarray indexes it lazily."""

    __slots__ = ("_array", "dtype", "shape")

    def __init__(self, array: Any) -> None:
        self._array = array
        self.shape = array.shape
        dtype = array.dtype
        is_text = dtype.kind == "O" and array.metadata.data_type.name == "string"
        self.dtype = create_vlen_dtype(str) if is_text else dtype

    def get_array(self) -> Any:
        return self._array

    def __getitem__(self, key: Any) -> Any:
        return indexing.explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.VECTORIZED, self._select(key, self._array)
        )

    async def async_getitem(self, key: Any) -> Any:
        array = self._array.async_array
        if isinstance(key, indexing.BasicIndexer):
            method = array.getitem
        else:
            method = self._select(key, array, "getitem")
        return await indexing.async_explicit_indexing_adapter(
            key, self.shape, indexing.IndexingSupport.VECTORIZED, method
        )

    def _select(self, key: Any, array: Any, method: str = "__getitem__") -> Any:
        if isinstance(key, indexing.BasicIndexer):
            return getattr(array, method)
        is_outer = isinstance(key, indexing.OuterIndexer)
        return getattr(array.oindex if is_outer else array.vindex, method)


set_public_module("tessarr.xarray", TessarrBackend, TessarrStore, to_zarr)
