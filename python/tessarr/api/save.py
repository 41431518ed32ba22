"""Whole arrays and groups of them to a store and back, as NumPy's `save` and `load` do."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tessarr.api.create import create_group
from tessarr.api.open import open as open_node
from tessarr.array import Array
from tessarr.array.create import Plan
from tessarr.errors import ArgumentError
from tessarr.format.node_path import join, normalize_path
from tessarr.format.registry import set_public_module
from tessarr.group import Group
from tessarr.metadata.node import GroupMeta
from tessarr.node.replace import replace_node
from tessarr.options import current
from tessarr.store.adapt import close_user_store
from tessarr.store.resolve import locate_node

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from tessarr.store import Store
    from tessarr.store.resolve import StoreLike
    from tessarr.types import ZarrFormat

    Loaded: TypeAlias = "np.ndarray[Any, Any] | LazyLoader"

__all__ = ["LazyLoader", "load", "save", "save_array", "save_group"]


def save(
    store: StoreLike,
    *args: Any,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> None:
    """Save an array, or a group of arrays if there are several or they have names.

    Parameters
    ----------
    store, path, zarr_format, storage_options
        Where, as for `save_group`. An existing node is replaced.
    *args, **kwargs
        The arrays, as for `save_group`.

    Raises
    ------
    ArgumentError
        If there is nothing to save.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.save("memory://saved", [1, 2, 3])
    >>> tessarr.load("memory://saved")
    array([1, 2, 3])
    """
    where: dict[str, Any] = {"path": path, "zarr_format": zarr_format}
    where["storage_options"] = storage_options
    if len(args) == 1 and not kwargs:
        save_array(store, args[0], **where)
    else:
        save_group(store, *args, **where, **kwargs)


def save_array(
    store: StoreLike,
    arr: Any,
    *,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> None:
    """Save an array.

    Parameters
    ----------
    store, path, zarr_format, storage_options, **settings
        As for `tessarr.create_array`. An existing node is replaced.
    arr
        The array: of NumPy, Tessarr, zarr-python, h5py, Dask, or what NumPy makes an array of.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.save_array("memory://one", [[1, 2], [3, 4]], chunks=(1, 2))
    >>> tessarr.open_array("memory://one").chunks
    (1, 2)
    """
    form = _format(zarr_format, settings)
    with _opened(store, path, form, storage_options) as (place, at):
        asked: dict[str, Any] = {**settings, "zarr_format": form, "overwrite": True}
        Plan.of(place, data=arr, **asked).carry_out(at)


def save_group(
    store: StoreLike,
    *args: Any,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> None:
    """Save arrays as the members of a group.

    Parameters
    ----------
    store, storage_options
        Where, as for `tessarr.create_array`.
    *args
        Arrays, which are called ``arr_0``, ``arr_1``, …
    path
        The path of the group in the store. An existing node is replaced.
    zarr_format
        2 or 3; by default as the options say, which is 3.
    **kwargs
        Arrays by their names.

    Raises
    ------
    ArgumentError
        If there is nothing to save, or what is no array: then nothing is deleted.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.save_group("memory://several", [1, 2], height=[0.5, 1.5])
    >>> saved = tessarr.load("memory://several")
    >>> list(saved), saved["height"]
    (['arr_0', 'height'], array([0.5, 1.5]))
    """
    arrays = {f"arr_{i}": arr for i, arr in enumerate(args)}
    twice = arrays.keys() & kwargs.keys()
    if twice:
        raise ArgumentError(f"{min(twice)!r} is the name of two arrays to save")
    arrays |= kwargs
    if not arrays:
        raise ArgumentError("there is nothing to save: give at least one array")
    form = _format(zarr_format, {})
    with _opened(store, path, form, storage_options) as (place, at):
        plans = {
            normalize_path(name, form): Plan.of(place, data=arr, zarr_format=form)
            for name, arr in arrays.items()
        }

        def build(store: Store, path: str = "") -> None:
            create_group(store, path=path, zarr_format=form, overwrite=True)
            for name, plan in plans.items():
                plan.build(store, join(path, name), within=path)

        if not replace_node(place, at, GroupMeta(form), build=build):
            for plan in plans.values():
                plan.keep_apart(at)
            build(place, at)


def load(
    store: StoreLike,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Loaded:
    """Load an array as a NumPy array, or a group as a mapping that loads its members when asked.

    Parameters
    ----------
    store, path, zarr_format, storage_options, **settings
        As for `tessarr.open`.

    Returns
    -------
    numpy.ndarray or LazyLoader

    Raises
    ------
    NotFoundError
        If there is neither an array nor a group.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.save("memory://loaded", a=[1, 2], b=[3.0])
    >>> tessarr.load("memory://loaded")
    <LazyLoader: a, b>
    >>> tessarr.load("memory://loaded")["b"], tessarr.load("memory://loaded", "a")
    (array([3.]), array([1, 2]))
    """
    node = open_node(
        store,
        "r",
        path=path,
        zarr_format=zarr_format,
        storage_options=storage_options,
        **settings,
    )
    return _loaded(node)


class LazyLoader(Mapping[str, "Loaded"]):
    """The members of a group as NumPy arrays, each read when it is first asked for, and kept.

    Made by `load`. Groups below are mappings of the same kind; a name may be a path.
    """

    __slots__ = ("_group", "_kept")

    def __init__(self, group: Group) -> None:
        self._group = group
        self._kept: dict[str, Loaded] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return LazyLoader, (self._group,)

    def __getitem__(self, name: str) -> Loaded:
        if name not in self._kept:
            self._kept[name] = _loaded(self._group[name])
        return self._kept[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._group)

    def __len__(self) -> int:
        return len(self._group)

    def __contains__(self, name: object) -> bool:
        return name in self._group

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    def __repr__(self) -> str:
        return f"<LazyLoader: {', '.join(self)}>"


def _loaded(node: Array | Group) -> Loaded:
    if isinstance(node, Array):
        return np.asarray(node[...])
    return LazyLoader(node)


def _format(zarr_format: ZarrFormat | None, settings: dict[str, Any]) -> ZarrFormat:
    return zarr_format or settings.pop("zarr_version", None) or current().zarr_format


@contextmanager
def _opened(
    store: StoreLike,
    path: str | None,
    zarr_format: ZarrFormat,
    storage_options: Mapping[str, Any] | None,
) -> Generator[tuple[Store, str]]:
    """Find a store, and close it at the end if it was opened here: a zip file has to be."""
    place, at = locate_node(store, "w", path, zarr_format, storage_options=storage_options)
    try:
        yield place, at
    finally:
        if isinstance(store, str | PathLike):
            close_user_store(place)


set_public_module("tessarr", LazyLoader)
