"""Public functions for hierarchies: creation, tree view, consolidated metadata, migration.

*Consolidated metadata* are copies of the documents of all nodes below a group, in one document.
A group that is opened by them needs no further request to know every array. On a remote store
that saves hundreds of round trips.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tessarr.api.open import open as open_node
from tessarr.api.open import open_group
from tessarr.array import Array, bind_array
from tessarr.errors import ArgumentError
from tessarr.flow import consolidate, convert, create
from tessarr.flow import open as open_flow
from tessarr.flow.run import run_flow
from tessarr.format.registry import with_keywords
from tessarr.group import Group, bind_node
from tessarr.group.create import parse_nodes
from tessarr.metadata.from_user import read_user_metadata
from tessarr.options import current
from tessarr.store.resolve import locate_node, refuse_icechunk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Literal, Unpack

    from tessarr.array.keyword_types import OpenConsolidatedSettings
    from tessarr.flow.consolidate import Difference
    from tessarr.flow.run import Flow
    from tessarr.node.tree import Tree
    from tessarr.store.resolve import StoreLike
    from tessarr.types import MemoryOrder, ZarrFormat

__all__ = [
    "consolidate_metadata",
    "consolidated_differences",
    "create_hierarchy",
    "migrate_1to2",
    "open_consolidated",
    "remove_consolidated",
    "tree",
]


_MODES: Final[Mapping[str | None, Literal["r", "r+", "a"]]] = {"r": "r", "r+": "r+", "a": "a"}
"""Modes that open existing nodes."""


def create_hierarchy(
    store: StoreLike,
    nodes: Mapping[str, Any],
    *,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    overwrite: bool = False,
) -> Iterator[tuple[str, Array | Group]]:
    """Create several nodes, and missing groups above them: all of them, or none.

    Parameters
    ----------
    store, path
        Where, as for `tessarr.open`.
    nodes
        The nodes to create, by path, as for `tessarr.Group.create_hierarchy`. The path ``""`` is
        the group above all others.
    zarr_format
        2 or 3; by default the format of an existing group, else that of metadata in `nodes`, else
        as in the options.
    overwrite
        Delete existing nodes, with everything below them. By default existing nodes are an error.

    Returns
    -------
    iterator of (str, Array or Group)
        The new nodes by path, sorted, including missing groups above them. They exist already.

    Raises
    ------
    ExistsError
        If there is a node at one of the paths, or an array above one; nothing has changed.
    ArgumentError, MetadataError
        If a node is invalid.

    Examples
    --------
    >>> import tessarr
    >>> items = {}
    >>> nodes = {"": {"attributes": {"k": 1}}, "a/b": {"shape": (3,), "dtype": "i2"}}
    >>> for path, node in tessarr.create_hierarchy(items, nodes):
    ...     print(repr(path), node)
    '' Group(/, zarr_format=3)
    'a' Group(/a, zarr_format=3)
    'a/b' Array(/a/b, (3,), int16, chunks=(3,), order=C)
    """
    resolved, base = locate_node(store, "a", path, zarr_format)
    refuse_icechunk(resolved)
    form = zarr_format or run_flow(_find_format(base), resolved) or _get_user_format(nodes)
    metas = parse_nodes(nodes, resolved, base, form or current().zarr_format)
    created = run_flow(create.create_nodes(metas, overwrite=overwrite, store=resolved), resolved)
    below = len(open_flow.prefix_of(base))
    nodes_by_path = [
        (path[below:], bind_node(meta, resolved, path, read_only=False))
        for path, meta in created.items()
    ]
    return iter(nodes_by_path)


def _find_format(path: str) -> Flow[ZarrFormat | None]:
    meta = yield from open_flow.find_node(path, kind="group")
    return None if meta is None else meta.zarr_format


def _get_user_format(nodes: Mapping[str, Any]) -> ZarrFormat | None:
    if not isinstance(nodes, Mapping):
        raise TypeError(f"nodes are a mapping of paths, not {type(nodes).__name__}")
    metas = (read_user_metadata(value, path) for path, value in nodes.items())
    return next((meta.zarr_format for meta in metas if meta is not None), None)


def tree(
    grp: StoreLike | Group | Array,
    expand: bool | None = None,
    level: int | None = None,
    *,
    path: str | None = None,
    max_nodes: int | None = 500,
    plain: bool = True,
) -> Tree:
    """Return a tree view of a hierarchy, for printing and for notebooks.

    Parameters
    ----------
    grp
        A group, an array, or the location of one, as for `tessarr.open`.
    path
        Of the group in the store; by default the root.
    expand, level, max_nodes, plain
        As for `tessarr.Group.tree`.

    Examples
    --------
    >>> import tessarr
    >>> items = {}
    >>> _ = tessarr.zeros((3, 4), store=items, path="a/b", dtype="i4")
    >>> tessarr.tree(items)
    /
    └── a
        └── b (3, 4) int32
    """
    from tessarr.node.tree import Tree

    node = grp if isinstance(grp, Array | Group) else open_node(grp, "r", path=path)
    if isinstance(node, Array):
        return Tree(repr(node), {})
    return node.tree(expand, level, max_nodes=max_nodes, plain=plain)


def consolidate_metadata(
    store: StoreLike,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    *,
    metadata_key: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Group:
    """Store copies of the metadata of all nodes below a group in one document.

    Parameters
    ----------
    store
        Where, as for `tessarr.open`.
    path
        The path of the group in the store; by default the root.
    zarr_format
        The only format to look for.
    metadata_key
        The name of the document of format 2, instead of ``.zmetadata``. Changes of nodes do not
        update copies under another name.
    storage_options
        As for `tessarr.open`.

    Returns
    -------
    Group
        Opened by the copies, for reading and writing.

    Raises
    ------
    NotFoundError
        If there is no group.
    MetadataError
        If a document is not JSON.
    ArgumentError
        If a name is passed for a group of format 3.

    Notes
    -----
    Costs one listing per group and one or three requests per node. Format 2 stores the copies in
    ``.zmetadata``, format 3 in the ``zarr.json`` of the group.

    Every change of a node by Tessarr (attributes, creation, deletion, resize) also updates the
    copies of all groups above it. Other programs may not do so: call this function again, or
    `consolidated_differences` to check. If the group had copies before, concurrent changes by
    Tessarr in other processes are included; other concurrent changes may be missed.

    Examples
    --------
    >>> import tessarr
    >>> g = tessarr.create_group("memory://consolidated")
    >>> _ = g.create_array("a/b", shape=(3,), dtype="i4")
    >>> list(tessarr.consolidate_metadata("memory://consolidated")["a"])
    ['b']
    """
    resolved, base = locate_node(store, "r+", path, storage_options=storage_options)
    flow = consolidate.consolidate(base, zarr_format=zarr_format, name=metadata_key)
    meta, copies = run_flow(flow, resolved)
    return bind_node(meta, resolved, base, read_only=False, copies=copies)


@with_keywords("tessarr.array.keyword_types")
def open_consolidated(
    store: StoreLike,
    metadata_key: str | None = None,
    mode: Literal["r", "r+", "a"] = "r+",
    *,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    use_consolidated: bool | str | None = None,
    **settings: Unpack[OpenConsolidatedSettings],
) -> Group:
    """Open a group by its consolidated metadata, which must exist.

    Parameters
    ----------
    store, mode, path, zarr_format, use_consolidated, **settings
        As for `tessarr.open_group`.
    metadata_key
        The name of the document of format 2, if it is not ``.zmetadata``. The argument has this
        position in zarr-python 2; a mode at this position is accepted as the mode.

    Returns
    -------
    Group

    Raises
    ------
    NotFoundError
        If there is no group, or it has no consolidated metadata.
    MetadataError
        If the consolidated metadata is invalid.

    Notes
    -----
    Costs one request. Members, nodes below them, and the tree view cost none.

    Examples
    --------
    >>> import tessarr
    >>> _ = tessarr.create_group("memory://plain")
    >>> tessarr.open_consolidated("memory://plain")
    Traceback (most recent call last):
    tessarr.errors.NotFoundError: group '/' has no consolidated metadata: ...
    """
    if settings:
        from tessarr.array.keywords import check_signature

        check_signature(settings, open_consolidated)
    if metadata_key in _MODES:
        mode, metadata_key = _MODES[metadata_key], None
    if use_consolidated is False:
        raise ArgumentError("use_consolidated=False contradicts open_consolidated: call open_group")
    if isinstance(use_consolidated, str) and metadata_key not in {None, use_consolidated}:
        raise ArgumentError(
            f"metadata_key {metadata_key!r} and use_consolidated {use_consolidated!r} are "
            "different names of one document"
        )
    name = metadata_key or use_consolidated or True
    return open_group(
        store, mode, path=path, zarr_format=zarr_format, use_consolidated=name, **settings
    )


def consolidated_differences(
    store: StoreLike,
    *,
    path: str | None = None,
    zarr_format: ZarrFormat | None = None,
    metadata_key: str | None = None,
) -> dict[str, Difference]:
    """Compare consolidated metadata with the documents of which it has copies.

    Parameters
    ----------
    store, path, zarr_format, metadata_key
        As for `open_consolidated`.

    Returns
    -------
    dict
        By path from the group: "missing" for a node without a copy, "gone" for a copy without a
        node, "changed" for a copy that differs. Empty if all copies are current.

    Notes
    -----
    Costs as much as looking up all nodes: one listing per group and one or three requests
    per node.

    Examples
    --------
    >>> import json, tessarr
    >>> items = {}
    >>> _ = tessarr.create_group(items).create_group("a", attributes={"x": 1})
    >>> _ = tessarr.consolidate_metadata(items)
    >>> tessarr.consolidated_differences(items)
    {}
    >>> items["a/zarr.json"] = items["a/zarr.json"].replace(b"1", b"2")
    >>> tessarr.consolidated_differences(items)
    {'a': 'changed'}
    """
    resolved, base = locate_node(store, "r", path)
    flow = consolidate.compare_copies(base, zarr_format=zarr_format, name=metadata_key)
    return run_flow(flow, resolved)


def remove_consolidated(
    store: StoreLike, *, path: str | None = None, zarr_format: ZarrFormat | None = None
) -> bool:
    """Remove the consolidated metadata of a group; the nodes do not change.

    Parameters
    ----------
    store, path, zarr_format
        As for `consolidate_metadata`.

    Returns
    -------
    bool
        Whether there was any.

    Examples
    --------
    >>> import tessarr
    >>> _ = tessarr.create_group("memory://bare")
    >>> tessarr.remove_consolidated("memory://bare")
    False
    """
    resolved, base = locate_node(store, "r+", path)
    return run_flow(consolidate.remove_consolidated(base, zarr_format=zarr_format), resolved)


def migrate_1to2(
    store: StoreLike, *, path: str | None = None, order: MemoryOrder | None = None
) -> Array:
    """Migrate an array of format 1 to format 2, in place.

    Parameters
    ----------
    store
        Where, as for `tessarr.open`. Format 1 has one array in a store.
    path
        The path of the array in the store, if it is not the root.
    order
        The actual order of elements in chunks, "C" or "F"; by default that of the metadata.
        zarr-python 1 always stored "C" unless the compressor was Blosc; other libraries followed
        the metadata. The data does not show the order: if values look scrambled after a warning,
        pass the other order.

    Returns
    -------
    Array
        Open for reading and writing.

    Raises
    ------
    NotFoundError
        If there is no array of format 1; nothing has changed then.
    ExistsError
        If there is a node of format 2 or 3 already.
    MetadataError
        If the metadata is broken; ``.problems`` are all of them.

    Notes
    -----
    Only metadata is written; chunks do not change. After an interruption at any point the array
    exists in one of the formats, and another call completes the migration.

    Examples
    --------
    >>> import tessarr
    >>> meta = b'''{"zarr_format": 1, "shape": [3], "chunks": [3], "dtype": "|u1",
    ...     "compression": "none", "compression_opts": null, "fill_value": 0, "order": "C"}'''
    >>> items = {"meta": meta, "attrs": b"{}", "0": bytes([1, 2, 3])}
    >>> tessarr.open(items, "r").zarr_format
    1
    >>> tessarr.migrate_1to2(items)[:]
    array([1, 2, 3], dtype=uint8)
    >>> sorted(items)
    ['.zarray', '.zattrs', '0']
    """
    resolved, base = locate_node(store, "r+", path)
    run_flow(convert.migrate_array(base, order=order), resolved)
    meta = run_flow(open_flow.open_array(base, zarr_format=2), resolved)
    return bind_array(meta, resolved, base, read_only=False, present="document")
