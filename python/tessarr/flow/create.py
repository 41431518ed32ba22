"""Creation of nodes: ancestors first, then the documents of the node, exclusively.

One atomic step stores the document of a node if none exists: if two programs create one node, one
of them fails. All checks of the new node run before any request changes the store. So `overwrite`
deletes the old node only if its replacement is valid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessarr.errors import ArgumentError, ExistsError
from tessarr.flow import consolidated_copies, deletion, stored_sizes
from tessarr.flow.changes import change_with_copies
from tessarr.flow.edit import delete_node
from tessarr.flow.open import MARKERS, Node, check_node_with, node_exists, parse_v3, prefix_of
from tessarr.flow.run import (
    Create,
    Delete,
    Flow,
    Get,
    HasAtomicDelete,
    HasFolder,
    KnownDocument,
    Put,
    Size,
)
from tessarr.format.node_path import ancestors, find_reserved_names, normalize_path, split
from tessarr.format.user_warnings import warn_user
from tessarr.metadata import v2, v3
from tessarr.metadata.node import ArrayMeta, GroupMeta

if TYPE_CHECKING:
    from collections.abc import Mapping


__all__ = [
    "create_ancestors",
    "create_documents",
    "create_node",
    "create_nodes",
    "dump_documents",
    "exists_error",
    "is_below_deleted",
    "prepare_ancestors",
    "warn_of_reserved",
]


def create_node(
    path: str,
    meta: Node,
    *,
    overwrite: bool = False,
    clear: bool = False,
    beside: bool = False,
    within: str | None = None,
    store: object = "the store",
) -> Flow[None]:
    """Store a new node and the groups above it.

    Parameters
    ----------
    path
        The normalised path.
    meta
        The metadata.
    overwrite
        Delete an existing node, with everything below it.
    clear
        With `overwrite`, and if no node exists: delete chunks that the new array would contain.
    beside
        Whether a new group may share its path with a group of the other format.
    within
        The path of a group that exists; the flow does not look up this group and those above it.
    store
        The name of the store in errors.

    Raises
    ------
    ExistsError
        Kind ``node_exists``: a node exists and `overwrite` is false, or an ancestor is an array.
    ArgumentError
        If a name is not allowed.
    """
    documents = dump_documents(meta)
    form = meta.zarr_format
    normalize_path(path, form)
    exists, marked = yield from _check_occupied(path)
    if exists and not overwrite and not (yield from is_below_deleted(path)):
        if not beside or not (yield from _is_other_group(path, form)):
            raise exists_error(path, store)
        exists = False
    if form == 3:
        warn_of_reserved(path, within)
    groups = yield from consolidated_copies.find_consolidated_groups(path, form)

    def store_node() -> Flow[None]:
        gone = yield from create_ancestors(path, meta, within)
        if exists and not gone:
            yield from deletion.delete_all(path)
        elif overwrite and path and (yield from deletion.remove_dangling_link(path)):
            pass
        elif marked and not gone:
            yield from deletion.complete_deletion(path)
        elif overwrite and clear and isinstance(meta, ArrayMeta):
            yield from _delete_chunks(path, meta)
        if not (yield from create_documents(prefix_of(path), documents)):
            raise exists_error(path, store)

    yield from change_with_copies(groups, path, store_node, below=True)


def _delete_chunks(path: str, meta: ArrayMeta) -> Flow[None]:
    """Delete only chunks that another program left without an array."""
    encoding, rank = meta.chunk_key_encoding, meta.rank
    keys = yield from stored_sizes.list_keys(path)
    chunks = [key for key in keys if encoding.decode(key, rank) is not None]
    if chunks:
        yield tuple(Delete(prefix_of(path) + key) for key in chunks)


def warn_of_reserved(path: str, within: str | None = None) -> None:
    """Warn about names that the specification of format 3 reserves, except those in `within`."""
    names = find_reserved_names(path.removeprefix(f"{within}/") if within else path)
    if names:
        warn_user(
            f"creating {path!r}: format 3 reserves names that begin with '__', such as "
            f"{names[0]!r}; other readers may not list the node"
        )


def prepare_ancestors(
    path: str, meta: Node, within: str | None = None
) -> Flow[list[consolidated_copies.ConsolidatedGroup]]:
    """Check that a node may be stored at a path, and create the groups above it.

    Parameters
    ----------
    path, meta, within
        As for `create_node`.

    Returns
    -------
    list
        The groups above with consolidated metadata.
    """
    dump_documents(meta)
    normalize_path(path, meta.zarr_format)
    if meta.zarr_format == 3:
        warn_of_reserved(path, within)
    groups = yield from consolidated_copies.find_consolidated_groups(path, meta.zarr_format)
    yield from create_ancestors(path, meta, within)
    return groups


def _check_occupied(path: str) -> Flow[tuple[bool, bool]]:
    """Return whether a node exists, and whether its deletion is incomplete."""
    mark = (Size(deletion.mark_key(path)),)
    if (yield HasFolder(prefix_of(path))):
        exists, (marked,) = yield from check_node_with(path, mark, v1=True)
    else:
        exists, (marked,) = False, (yield mark)
    return exists, marked is not None


def _is_other_group(path: str, zarr_format: int) -> Flow[bool]:
    """Return whether the only node at a path is a group of the other format."""
    own, other = MARKERS[zarr_format], MARKERS[5 - zarr_format]
    documents = yield tuple(Get(prefix_of(path) + name) for name in (*own, *other))
    if any(document is not None for document in documents[: len(own)]):
        return False
    first = documents[len(own)]  # ``zarr.json`` or ``.zarray``
    if zarr_format == 3:
        return first is None
    return first is not None and isinstance(parse_v3(first, path), GroupMeta)


def is_below_deleted(path: str, within: str | None = None) -> Flow[bool]:
    """Return whether the deletion of a group above is incomplete; no node below it then exists.

    Parameters
    ----------
    path
        The path of the node.
    within
        The path of a group that exists.
    """
    marked = []
    for ancestor in _unknown_ancestors(path, within):
        if (yield HasAtomicDelete(prefix_of(ancestor))):
            continue
        if (yield from deletion.has_mark(ancestor)):
            marked.append(ancestor)
    for ancestor in marked:
        if not (yield from node_exists(ancestor)):
            return True
    return False


def create_nodes(
    nodes: Mapping[str, Node],
    *,
    overwrite: bool = False,
    within: str | None = None,
    store: object = "the store",
) -> Flow[dict[str, Node]]:
    """Store several new nodes and the groups above them.

    Parameters
    ----------
    nodes
        The metadata by normalised path.
    overwrite, within, store
        As for `create_node`.

    Returns
    -------
    dict
        All new nodes by path, sorted: `nodes`, and missing groups above them.

    Raises
    ------
    ExistsError
        If a node exists at one of the paths, or an array above one; the store is unchanged.
    ArgumentError
        If a node lies below an array of `nodes`.

    Notes
    -----
    If the store fails, the flow deletes the new nodes.
    """
    new = dict(nodes)
    for path, meta in nodes.items():
        for above in _unknown_ancestors(path, within):
            if isinstance(nodes.get(above), ArrayMeta):
                raise ArgumentError(f"{path!r} cannot lie below array {above!r}", path=path)
            if above not in new and not (yield from node_exists(above)):
                new[above] = GroupMeta(meta.zarr_format)
    for path in nodes:
        if not overwrite and (yield from node_exists(path, v1=True)):
            raise exists_error(path, store)
    created: dict[str, Node] = {}
    try:
        for path in sorted(new, key=lambda path: path.split("/") if path else []):
            parent = split(path)[0]
            known = parent if path and parent in created else within
            yield from create_node(path, new[path], overwrite=overwrite, within=known, store=store)
            created[path] = new[path]
    except BaseException:
        for path in reversed(created):
            yield from delete_node(path)
        raise
    return created


def dump_documents(meta: Node) -> dict[str, bytes]:
    """Return the documents of a node by name, its marker first."""
    documents: dict[str, bytes] | None = meta.derived.get(dump_documents)
    if documents is None:
        documents = {"zarr.json": v3.dump(meta)} if meta.zarr_format == 3 else v2.dump(meta)
        if isinstance(meta, ArrayMeta) and not meta.attributes:
            meta.derived[dump_documents] = documents  # many new arrays may share the metadata
    return documents


def create_ancestors(path: str, meta: Node, within: str | None = None) -> Flow[bool]:
    """Create missing groups above `path`, from the root downwards.

    Returns
    -------
    bool
        Whether the flow completed the deletion of an ancestor; no node then exists at `path`.
    """
    above = _unknown_ancestors(path, within)
    if not above:
        return False
    form = meta.zarr_format
    other = 5 - form
    own = yield tuple(
        Get(prefix_of(ancestor) + name) for ancestor in above for name in MARKERS[form]
    )
    absent = []
    for i, ancestor in enumerate(above):
        documents = own[i * len(MARKERS[form]) : (i + 1) * len(MARKERS[form])]
        if all(document is None for document in documents):
            absent.append(ancestor)
        else:
            _check_group(path, ancestor, form, documents[0])
    if not absent:
        return False
    responses = yield (
        *(Get(prefix_of(ancestor) + name) for ancestor in absent for name in MARKERS[other]),
        *(Size(deletion.mark_key(ancestor)) for ancestor in absent),
    )
    count = len(MARKERS[other])
    marks = dict(zip(absent, responses[len(absent) * count :], strict=True))
    for i, ancestor in enumerate(tuple(absent)):  # a group of the other format
        documents = responses[i * count : (i + 1) * count]
        if any(document is not None for document in documents):
            _check_group(path, ancestor, other, documents[0])
            absent.remove(ancestor)
    deleted = next((ancestor for ancestor in absent if marks[ancestor] is not None), None)
    if deleted is not None:
        yield from deletion.complete_deletion(deleted)
        absent = [
            ancestor
            for ancestor in above
            if ancestor in absent or ancestor.startswith(prefix_of(deleted))
        ]
    group = dump_documents(GroupMeta(zarr_format=form, attributes={}))
    for ancestor in absent:
        if not (yield from create_documents(prefix_of(ancestor), group)):
            # Another program may have created the group concurrently.
            documents = yield tuple(Get(prefix_of(ancestor) + name) for name in MARKERS[form])
            _check_group(path, ancestor, form, documents[0])
    return deleted is not None


def _unknown_ancestors(path: str, within: str | None) -> list[str]:
    """Return the paths above `path` and below `within`."""
    above = list(ancestors(path))
    return above[above.index(within) + 1 :] if within in above else above


def _check_group(path: str, above: str, zarr_format: int, document: bytes | None) -> None:
    """Raise an error if the ancestor with this ``zarr.json`` or ``.zarray`` is an array."""
    if document is None:
        return
    if zarr_format == 2 or isinstance(parse_v3(document, above), ArrayMeta):
        raise ExistsError(
            f"cannot create {path!r}: {above or '/'!r} above it is an array",
            kind="node_exists",
            path=above,
        )


def create_documents(
    prefix: str, documents: dict[str, bytes], seen: KnownDocument | None = None
) -> Flow[bool]:
    """Store the documents of a node, unless it exists; a failure stores nothing.

    `seen` records the first document.
    """
    (name, document), *rest = documents.items()
    if not (yield Create(prefix + name, document, KnownDocument() if seen is None else seen)):
        return False
    try:
        for name_, document_ in rest:
            yield Put(prefix + name_, document_)
    except BaseException:
        yield Delete(prefix + name)
        raise
    return True


def exists_error(path: str, store: object) -> ExistsError:
    """Return the error for a node that exists already."""
    location = f"at path {path!r} of {store}" if path else f"at the root of {store}"
    return ExistsError(
        f"there is a node {location} already: open it, or give overwrite=True to replace it "
        "with everything below it",
        kind="node_exists",
        path=path,
    )
