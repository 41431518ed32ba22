"""Public functions that save and load whole arrays and groups, like NumPy's."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from os import PathLike
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from tessarr._safe_repr import safe_repr
from tessarr.api.create import create_group
from tessarr.api.open import open as open_node
from tessarr.array import Array
from tessarr.array.create import CreationPlan
from tessarr.array.keywords import SETTING_NAMES, check_signature
from tessarr.errors import ArgumentError
from tessarr.format.node_path import join, normalize_path
from tessarr.format.registry import set_public_module, with_keywords
from tessarr.group import Group
from tessarr.metadata.node import GroupMeta
from tessarr.node.replace import replace_node
from tessarr.options import current
from tessarr.store.adapt import close_user_store
from tessarr.store.resolve import locate_node

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from typing import Unpack

    from tessarr.array.keyword_types import LoadSettings, SaveSettings
    from tessarr.store import Store
    from tessarr.store.resolve import StoreLike
    from tessarr.types import ZarrFormat

    Loaded: TypeAlias = "np.ndarray[Any, Any] | LazyLoader"

__all__ = ["LazyLoader", "load", "save", "save_array", "save_group"]

_SAVE_ARRAY_NAMES: Final = SETTING_NAMES | {"mode"}
"""Keyword arguments that `save_group` accepts only as arrays: the settings of `save_array`."""


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
        The location, as for `save_group`. An existing node is replaced.
    *args, **kwargs
        The arrays, as for `save_group`.

    Raises
    ------
    ArgumentError
        If no array is passed.
    TypeError
        As for `save_group`.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.save("memory://saved", [1, 2, 3])
    >>> tessarr.load("memory://saved")
    array([1, 2, 3])
    """
    location: dict[str, Any] = {"path": path, "zarr_format": zarr_format}
    location["storage_options"] = storage_options
    if len(args) == 1 and not kwargs:
        save_array(store, args[0], **location)
    else:
        save_group(store, *args, **location, **kwargs)


@with_keywords("tessarr.array.keyword_types")
def save_array(
    store: StoreLike,
    arr: Any,
    *,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    storage_options: Mapping[str, Any] | None = None,
    overwrite: bool = True,
    **settings: Unpack[SaveSettings],
) -> None:
    """Save an array.

    Parameters
    ----------
    store, path, zarr_format, storage_options, **settings
        As for `tessarr.create_array`.
    arr
        An array of NumPy, Tessarr, zarr-python, h5py or Dask, or any array-like.
    overwrite
        Whether to replace an existing node. If False, an existing node is an error.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.save_array("memory://one", [[1, 2], [3, 4]], chunks=(1, 2))
    >>> tessarr.open_array("memory://one").chunks
    (1, 2)
    """
    check_signature(settings, save_array)
    keywords: dict[str, Any] = {**settings, "overwrite": overwrite}
    zarr_format_ = keywords["zarr_format"] = _resolve_format(zarr_format, keywords)
    with _open_store_for_save(store, path, zarr_format_, storage_options) as (resolved, node_path):
        CreationPlan.from_settings(resolved, data=arr, **keywords).execute(node_path)


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
        Arrays, which get the names ``arr_0``, ``arr_1``, …
    path
        The path of the group in the store. An existing node is replaced.
    zarr_format
        2 or 3; by default as the options say, which is 3.
    **kwargs
        Arrays by their names.

    Raises
    ------
    ArgumentError
        If no array is passed, or an argument is no array; then nothing is deleted.
    TypeError
        If a keyword is a setting of `save_array`, such as ``chunks``, and its value is no array.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.save_group("memory://several", [1, 2], height=[0.5, 1.5])
    >>> saved = tessarr.load("memory://several")
    >>> list(saved), saved["height"]
    (['arr_0', 'height'], array([0.5, 1.5]))
    """
    arrays = {f"arr_{i}": arr for i, arr in enumerate(args)}
    for name in kwargs.keys() & _SAVE_ARRAY_NAMES:
        if not hasattr(kwargs[name], "__array__"):
            raise TypeError(
                f"{name}={safe_repr(kwargs[name])} is a setting, and each keyword argument is "
                "saved as an array: create the arrays with save_array"
            )
    duplicates = arrays.keys() & kwargs.keys()
    if duplicates:
        raise ArgumentError(f"{min(duplicates)!r} is the name of two arrays to save")
    arrays |= kwargs
    if not arrays:
        raise ArgumentError("there is nothing to save: give at least one array")
    zarr_format_ = _resolve_format(zarr_format, {})
    with _open_store_for_save(store, path, zarr_format_, storage_options) as (resolved, group_path):
        plans = {
            normalize_path(name, zarr_format_): CreationPlan.from_settings(
                resolved, data=arr, zarr_format=zarr_format_
            )
            for name, arr in arrays.items()
        }

        def build(store: Store, path: str = "") -> None:
            create_group(store, path=path, zarr_format=zarr_format_, overwrite=True)
            for name, plan in plans.items():
                plan.build(store, join(path, name), within=path)

        if not replace_node(resolved, group_path, GroupMeta(zarr_format_), build=build):
            for plan in plans.values():
                plan.read_own_source(group_path)
            build(resolved, group_path)


@with_keywords("tessarr.array.keyword_types")
def load(
    store: StoreLike,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    **settings: Unpack[LoadSettings],
) -> Loaded:
    """Load an array as a NumPy array, or a group as a mapping that loads members lazily.

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
    check_signature(settings, load)
    node = open_node(
        store,
        "r",
        path=path,
        zarr_format=zarr_format,
        storage_options=storage_options,
        **settings,
    )
    return _load_node(node)


class LazyLoader(Mapping[str, "Loaded"]):
    """The members of a group as NumPy arrays, each read on first access and cached.

    `load` returns it. Groups below are mappings of the same class; a name may be a path.
    """

    __slots__ = ("_group", "_loaded")

    def __init__(self, group: Group) -> None:
        self._group = group
        self._loaded: dict[str, Loaded] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return LazyLoader, (self._group,)

    def __getitem__(self, name: str) -> Loaded:
        if name not in self._loaded:
            self._loaded[name] = _load_node(self._group[name])
        return self._loaded[name]

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


def _load_node(node: Array | Group) -> Loaded:
    if isinstance(node, Array):
        return np.asarray(node[...])
    return LazyLoader(node)


def _resolve_format(zarr_format: ZarrFormat | None, settings: dict[str, Any]) -> ZarrFormat:
    return zarr_format or settings.pop("zarr_version", None) or current().zarr_format


@contextmanager
def _open_store_for_save(
    store: StoreLike,
    path: str | None,
    zarr_format: ZarrFormat,
    storage_options: Mapping[str, Any] | None,
) -> Generator[tuple[Store, str]]:
    """Open a store, and close it at the end if it was opened here, as a Zip file needs."""
    resolved, node_path = locate_node(
        store, "w", path, zarr_format, storage_options=storage_options
    )
    try:
        yield resolved, node_path
    finally:
        if isinstance(store, str | PathLike):
            close_user_store(resolved)


set_public_module("tessarr", LazyLoader)
