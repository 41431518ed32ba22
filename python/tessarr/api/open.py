"""Public functions that open arrays and groups, or create them.

Modes are those of zarr-python and h5py:

====  ========================================================================= mode  meaning ====
========================================================================= r     read only; must
exist r+    read and write; must exist a     read and write; created if it does not exist w created;
what exists is deleted first, with everything below it w-    created; an error if it exists (also:
x) ====  =========================================================================
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from tessarr.api.create import create_array, create_group
from tessarr.array import bind_array
from tessarr.errors import ArgumentError, ExistsError, MetadataError
from tessarr.flow import open as open_flow
from tessarr.flow.run import run_flow
from tessarr.format.node_path import check_path
from tessarr.format.registry import with_keywords
from tessarr.group import bind_node
from tessarr.metadata.node import ArrayMeta, GroupMeta
from tessarr.store.resolve import get_folder, locate_node, refuse_icechunk

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Unpack

    from tessarr.array import Array
    from tessarr.array.keyword_types import (
        ChunksLike,
        CodecsLike,
        GroupSettings,
        OpenArraySettings,
        OpenGroupSettings,
        OpenLikeSettings,
        OpenSettings,
    )
    from tessarr.dtype.names import DataTypeLike
    from tessarr.flow.open import Kind
    from tessarr.group import Group
    from tessarr.metadata.consolidated import Consolidated
    from tessarr.store import Store
    from tessarr.store.resolve import Mode, StoreLike
    from tessarr.types import MemoryOrder, ShapeLike, ZarrFormat

__all__ = ["group", "open", "open_array", "open_group", "open_like"]

T = TypeVar("T")


@with_keywords("tessarr.array.keyword_types")
def open(
    store: StoreLike = None,
    mode: Mode = "a",
    *,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    use_consolidated: bool | str | None = None,
    chunk_store: StoreLike = None,
    storage_options: Mapping[str, Any] | None = None,
    **settings: Unpack[OpenSettings],
) -> Array | Group:
    """Open an array or a group of any format.

    Parameters
    ----------
    store
        The path of a folder, ``file://…``, ``memory://name``, a store, a mapping of
        keys to bytes, or None for a new store in memory.
    mode
        r, r+, a, w or w-: see `tessarr.api.open`. Modes a, w and w- create an array if a shape or
        data is passed, else a group.
    path
        The path of the node in the store; by default the root.
    zarr_format
        The only format to look for, and the format of a new node.
    use_consolidated
        As for `open_group`; True and a name open a group only.
    chunk_store
        The store of the chunks, if it differs from `store`.
    storage_options
        Options of the file system of a URL, such as ``{"anon": True}``.
    **settings
        For an array, as for `open_array`; for a new group, ``attributes``.

    Returns
    -------
    Array or Group

    Raises
    ------
    NotFoundError
        If the mode requires a node and none exists, or shape or data are passed and a group exists.
    ExistsError
        If the mode forbids an existing node and one exists.
    MetadataError
        If the metadata is invalid; ``.problems`` lists all problems.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.open("memory://opened", mode="w", shape=(3,), dtype="i2")
    >>> tessarr.open("memory://opened", mode="r")
    Array((3,), int16, chunks=(3,), order=C)
    """
    keywords: dict[str, Any] = {**settings}
    runtime, form = _parse_settings(keywords, zarr_format, open) if keywords else ({}, zarr_format)
    resolved, node_path = locate_node(
        store, mode, path, form, chunk_store=chunk_store, storage_options=storage_options
    )
    if use_consolidated:
        return _open_consolidated(resolved, node_path, mode, form, use_consolidated, runtime)
    is_array = keywords.get("shape") is not None or keywords.get("data") is not None
    copies = _uses_copies(resolved, mode, use_consolidated)

    def create(*, overwrite: bool) -> Array | Group:
        if is_array:
            array_settings: dict[str, Any] = {**keywords, "overwrite": overwrite}
            return create_array(resolved, path=node_path, zarr_format=form, **array_settings)
        from tessarr.array.keywords import RUNTIME_NAMES

        if keywords.keys() - {*RUNTIME_NAMES, "attributes", "shape", "data"}:
            raise TypeError("a new array needs a shape, or data")
        group_ = create_group(
            resolved,
            path=node_path,
            zarr_format=form,
            overwrite=overwrite,
            attributes=keywords.get("attributes"),
        )
        return _rebind_group(group_, runtime)

    kind: Kind | None = "array" if is_array else None
    return _OpenRequest(resolved, node_path, form, kind, runtime, copies=copies).node(mode, create)


@with_keywords("tessarr.array.keyword_types")
def open_array(  # noqa: PLR0917 (the order that zarr-python 2 has)
    store: StoreLike = None,
    mode: Mode = "a",
    shape: ShapeLike | None = None,
    chunks: ChunksLike = None,
    dtype: DataTypeLike | None = None,
    compressor: CodecsLike = "auto",
    fill_value: Any = "auto",
    order: MemoryOrder | None = None,
    synchronizer: Any = None,
    filters: CodecsLike = "auto",
    cache_metadata: bool = True,  # noqa: FBT002
    path: str | None = None,
    *,
    zarr_format: ZarrFormat | None = None,
    chunk_store: StoreLike = None,
    storage_options: Mapping[str, Any] | None = None,
    **settings: Unpack[OpenArraySettings],
) -> Array:
    """Open an array, or create it, depending on the mode.

    Parameters
    ----------
    store, mode, path, chunk_store, storage_options
        As for `open`.
    shape, chunks, dtype, compressor, fill_value, order, filters
        For a new array, as for `create_array`. Ignored if the array exists.
    synchronizer
        Locks for writes; see `tessarr.ThreadSynchronizer`. Most stores do not need one.
    cache_metadata
        Whether the array keeps its metadata. If False, each access checks whether another program
        has changed it.
    zarr_format
        The only format to look for, and the format of a new array.
    **settings
        ``write_empty_chunks`` and ``missing``, as for `create_array`, and for a new array all its
        other keywords.

    Returns
    -------
    Array

    Raises
    ------
    NotFoundError
        If the mode requires an array and none exists, or a group exists.
    ExistsError
        If it must not exist and does.
    MetadataError
        If its metadata is broken; ``.problems`` are all of them.
    TypeError
        If an array is to be created without a shape, or a keyword is unknown.

    Notes
    -----
    An array of format 3 costs one request, an array of format 2 three. Unchanged metadata is not
    parsed again.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.open_array(None, shape=(2, 2), dtype="u1")[0]
    array([0, 0], dtype=uint8)
    """
    keywords: dict[str, Any] = {**settings}
    if synchronizer is not None:
        keywords["synchronizer"] = synchronizer
    if not cache_metadata:
        keywords["cache_metadata"] = False
    runtime, form = (
        _parse_settings(keywords, zarr_format, open_array) if keywords else ({}, zarr_format)
    )
    resolved, node_path = locate_node(
        store, mode, path, form, chunk_store=chunk_store, storage_options=storage_options
    )
    common = {
        "chunks": chunks,
        "dtype": dtype,
        "compressor": compressor,
        "fill_value": fill_value,
        "order": order,
        "filters": filters,
    }

    def create(*, overwrite: bool) -> Array:
        array_settings: dict[str, Any] = {**keywords, **common, "overwrite": overwrite}
        return create_array(
            resolved, path=node_path, shape=shape, zarr_format=form, **array_settings
        )

    # Without a shape nothing can be created, so that something is missing.
    may_create = mode != "a" or shape is not None or keywords.get("data") is not None
    opening = _OpenRequest(resolved, node_path, form, "array", runtime)
    return cast("Array", opening.node(mode, create if may_create else None))


@with_keywords("tessarr.array.keyword_types")
def open_like(
    a: Any, path: StoreLike, store: StoreLike = None, **settings: Unpack[OpenLikeSettings]
) -> Array:
    """Open an array, or create one with the settings of another array.

    Parameters
    ----------
    a
        An array of Tessarr, zarr-python, h5py, NumPy, …
    path
        The location of the array: `store` of `open_array`.
    store
        The store, if `path` is a path in it.
    **settings
        As for `open_array`; a new array has all other settings of `a`.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.ones((4, 6), dtype="i2", chunks=(2, 3))
    >>> tessarr.open_like(a, "memory://alike", mode="w")
    Array((4, 6), int16, chunks=(2, 3), order=C)
    """
    from tessarr.array.keywords import check_signature
    from tessarr.array.like import fill_settings_like

    check_signature(settings, open_like)
    like = fill_settings_like(a, "keep", settings)
    if store is None:
        return open_array(path, **like)
    check_path(path)
    assert isinstance(path, str)
    return open_array(store, path=path, **like)


@with_keywords("tessarr.array.keyword_types")
def open_group(
    store: StoreLike = None,
    mode: Mode = "a",
    synchronizer: Any = None,
    path: str | None = None,
    *,
    zarr_format: ZarrFormat | None = None,
    attributes: Mapping[str, Any] | None = None,
    use_consolidated: bool | str | None = None,
    chunk_store: StoreLike = None,
    storage_options: Mapping[str, Any] | None = None,
    **settings: Unpack[OpenGroupSettings],
) -> Group:
    """Open a group, or create it, depending on the mode.

    Parameters
    ----------
    store, mode, path, chunk_store, storage_options
        As for `open`.
    synchronizer
        Guards what is written to arrays of the group; see `open_array`.
    zarr_format
        The only format to look for, and the format of a new group.
    attributes
        Attributes of a new group. Ignored if the group exists.
    use_consolidated
        Whether the group finds its members in its consolidated metadata, which costs no further
        request. None: only if it has such metadata and is opened for reading; otherwise it looks up
        members in the store, so that nodes of other programs show. True: consolidated metadata is
        required. A string: its document has this name in place of ``.zmetadata`` (format 2). False:
        it is ignored.
    **settings
        ``cache_attrs``, ``meta_array`` and ``zarr_version``, as zarr-python has them.

    Returns
    -------
    Group

    Raises
    ------
    NotFoundError
        If the mode requires a group and none exists, or an array exists.
    ExistsError
        If it must not exist and does.
    MetadataError
        If its metadata is broken; ``.problems`` are all of them.

    Notes
    -----
    The copies in consolidated metadata may differ from the documents of the nodes if a program
    other than Tessarr changed those; a node that is opened by its path uses its own document. See
    `tessarr.consolidate_metadata`.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.open_group("memory://data", path="a/b")
    Group(/a/b, zarr_format=3)
    """
    keywords: dict[str, Any] = {**settings}
    if synchronizer is not None:
        keywords["synchronizer"] = synchronizer
    runtime, form = (
        _parse_settings(keywords, zarr_format, open_group) if keywords else ({}, zarr_format)
    )
    resolved, node_path = locate_node(
        store, mode, path, form, chunk_store=chunk_store, storage_options=storage_options
    )
    if use_consolidated:
        return _open_consolidated(resolved, node_path, mode, form, use_consolidated, runtime)
    copies = _uses_copies(resolved, mode, use_consolidated)

    def create(*, overwrite: bool) -> Group:
        new_group = create_group(
            resolved, path=node_path, overwrite=overwrite, zarr_format=form, attributes=attributes
        )
        return _rebind_group(new_group, runtime)

    opening = _OpenRequest(resolved, node_path, form, "group", runtime, copies=copies)
    return cast("Group", opening.node(mode, create))


@with_keywords("tessarr.array.keyword_types")
def group(
    store: StoreLike = None,
    overwrite: bool = False,  # noqa: FBT002 (where zarr-python 2 has it)
    chunk_store: StoreLike = None,
    synchronizer: Any = None,
    path: str | None = None,
    **settings: Unpack[GroupSettings],
) -> Group:
    """Open a group, or create it.

    Parameters
    ----------
    store, chunk_store, synchronizer, path, **settings
        As for `open_group`.
    overwrite
        Delete an existing node, with everything below it, and create a group.

    Examples
    --------
    >>> import tessarr
    >>> tessarr.group()
    Group(/, zarr_format=3)
    """
    mode: Mode = "w" if overwrite else "a"
    return open_group(store, mode, synchronizer, path, chunk_store=chunk_store, **settings)


_KINDS: Final[dict[Kind | None, Any]] = {
    "array": ArrayMeta,
    "group": GroupMeta,
    None: (ArrayMeta, GroupMeta),
}


@dataclass(frozen=True, slots=True)
class _OpenRequest:
    """A request to open a node: location, format, kind (None means any) and runtime settings."""

    store: Store
    path: str
    zarr_format: ZarrFormat | None
    kind: Kind | None
    runtime: Mapping[str, Any]
    copies: bool = False

    def node(self, mode: str, create: Callable[..., Array | Group] | None) -> Array | Group:
        """Return the existing node, or the new one, depending on the mode.

        Parameters
        ----------
        mode
            r, r+, a, w or w-.
        create
            A function of ``overwrite``; None if nothing can be created.
        """
        if mode in ("r", "r+", "a"):
            copies = ".zmetadata" if self.copies else None
            flow = open_flow.find_node(
                self.path, zarr_format=self.zarr_format, kind=self.kind, copies=copies
            )
            meta = run_flow(flow, self.store)
            may_create = mode == "a" and not self.store.read_only and create is not None
            if isinstance(meta, ArrayMeta) and may_create and self._is_below_deleted():
                meta = None
            if meta is not None and isinstance(meta, _KINDS[self.kind]):
                return self._bind_meta(meta, read_only=mode == "r")
            if meta is not None or not may_create or self._is_in_file():
                raise open_flow.not_found_error(
                    self.path,
                    self.kind,
                    self.zarr_format,
                    other=meta is not None,
                    store=self.store,
                    hint="" if meta is not None else self._hint(mode),
                )
        assert create is not None
        refuse_icechunk(self.store)
        try:
            return create(overwrite=mode == "w")
        except ExistsError:
            if mode != "a":
                raise
            # Another program created it concurrently.
            return self.node("r+", None)

    def _bind_meta(self, meta: ArrayMeta | GroupMeta, *, read_only: bool) -> Array | Group:
        runtime = {**self.runtime}
        read_only = runtime.pop("read_only", False) or read_only
        if isinstance(meta, ArrayMeta):
            runtime["present"] = "document"
            return bind_array(meta, self.store, self.path, read_only=read_only, **runtime)
        copies = _read_copies(meta, self.path) if self.copies else None
        return bind_node(meta, self.store, self.path, read_only=read_only, copies=copies, **runtime)

    def _is_below_deleted(self) -> bool:
        from tessarr.flow.create import is_below_deleted

        # Opening an existing array, without a shape for a new one, costs one request.
        needs_check = bool(self.path) and self.kind == "array"
        return needs_check and run_flow(is_below_deleted(self.path), self.store)

    def _is_in_file(self) -> bool:
        folder = get_folder(self.store)
        return folder is not None and os.path.isfile(folder)  # noqa: PTH113 (pathlib is slow)

    def _hint(self, mode: str) -> str:
        folder = get_folder(self.store)
        if folder is not None and self._is_in_file():
            from tessarr.store.file_signatures import suggest_remedy

            return suggest_remedy(folder)
        if folder is not None and mode in ("r", "r+") and not os.path.lexists(folder):
            return ", which does not exist"
        from tessarr.flow.walk import describe_nodes_below

        below = describe_nodes_below(self.path, self.store)
        if below:
            return below
        if mode == "a" and not self.store.read_only:
            return "; to create one, give its shape, or data"
        return ""


def _parse_settings(
    settings: dict[str, Any], zarr_format: ZarrFormat | None, function: Callable[..., Any]
) -> tuple[dict[str, Any], ZarrFormat | None]:
    """Return the runtime settings and the format; reject unknown keywords."""
    from tessarr.array.keywords import check_signature, runtime_settings

    check_signature(settings, function)
    zarr_version = settings.pop("zarr_version", None)
    if zarr_version is not None and zarr_format not in (None, zarr_version):
        raise TypeError("give zarr_format or zarr_version, not both: they mean the same")
    return runtime_settings(settings), zarr_version if zarr_format is None else zarr_format


def _rebind_group(group: Group, runtime: Mapping[str, Any]) -> Group:
    """Return a new group with runtime settings."""
    settings: dict[str, Any] = {"read_only": False, **runtime}
    rebound: Group = bind_node(group._metadata, group._store, group.path, **settings)
    return rebound


def _uses_copies(store: Store, mode: str, use_consolidated: bool | str | None) -> bool:
    return use_consolidated is None and (mode == "r" or store.read_only)


def _read_copies(meta: GroupMeta, path: str) -> Consolidated | None:
    """Return the usable consolidated metadata of a group, if any."""
    if meta.consolidated is None:
        return None
    from tessarr.metadata.consolidated import Consolidated

    try:
        return Consolidated.of(meta, path)
    except MetadataError as error:
        from tessarr.format.user_warnings import warn_user

        warn_user(f"it is not used: {error}")
    return None


def _open_consolidated(  # noqa: PLR0917 (one call)
    store: Store,
    path: str,
    mode: str,
    zarr_format: ZarrFormat | None,
    name: bool | str,
    runtime: Mapping[str, Any],
) -> Group:
    if mode not in ("r", "r+", "a"):
        raise ArgumentError(f"use_consolidated opens what exists: mode {mode!r} creates")
    from tessarr.flow import consolidate

    key = name if isinstance(name, str) else None
    meta, copies = run_flow(
        consolidate.find_consolidated(path, zarr_format=zarr_format, name=key), store
    )
    return bind_node(meta, store, path, read_only=mode == "r", copies=copies, **runtime)
