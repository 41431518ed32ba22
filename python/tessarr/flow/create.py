"""Make a node: its ancestors first, its own document last and exclusively.

The document of the node is stored only if none is there, in one atomic step,
so that of two programs that create the same node one fails. Everything that can
be wrong with the new node is found before a request changes anything: with
`overwrite`, the old node is deleted only when its replacement is known to be good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessarr.errors import ArgumentError, ExistsError
from tessarr.flow import copies, deletion, measure
from tessarr.flow.changes import tracked
from tessarr.flow.edit import delete
from tessarr.flow.open import MARKERS, Node, exists, exists_beside, parse_v3, prefix_of
from tessarr.flow.run import Create, Delete, DeletesAtOnce, Flow, Get, Put, Seen, Size
from tessarr.format.node_path import ancestors, find_reserved_names, normalize_path, split
from tessarr.format.user_warnings import warn_user
from tessarr.metadata import v2, v3
from tessarr.metadata.node import ArrayMeta, GroupMeta

if TYPE_CHECKING:
    from collections.abc import Mapping


__all__ = [
    "ancestors_of",
    "commit",
    "create",
    "create_all",
    "documents",
    "is_below_deleted",
    "prepare",
    "warn_of_reserved",
]


def create(
    path: str,
    meta: Node,
    *,
    overwrite: bool = False,
    clear: bool = False,
    within: str | None = None,
    store: object = "the store",
) -> Flow[None]:
    """Store a new node and the groups above it.

    Parameters
    ----------
    path
        Where; normalised.
    meta
        What.
    overwrite
        Delete the node that is there, with everything below it.
    clear
        With `overwrite`, where no node is: delete chunks that would become part of a new array.
    within
        The path of a group that is known to exist, so that the groups from it
        upwards are not looked for, if the node is below it.
    store
        How errors call the store.

    Raises
    ------
    ExistsError
        Kind ``node_exists``: there is a node and `overwrite` is false, or an
        ancestor is an array.
    ArgumentError
        If an ancestor is a group of another format, or a name is not allowed.
    """
    own = documents(meta)
    form = meta.zarr_format
    normalize_path(path, form)
    found, marked = yield from _occupied(path)
    if found and not overwrite and not (yield from is_below_deleted(path)):
        raise _exists(path, store)
    if form == 3:
        warn_of_reserved(path, within)
    keepers = yield from copies.keepers(path, form)

    def store_node() -> Flow[None]:
        gone = yield from ancestors_of(path, meta, within)
        if found and not gone:
            yield from deletion.delete(path)
        elif overwrite and path and (yield from deletion.remove_dangling_link(path)):
            pass
        elif marked and not gone:
            yield from deletion.complete(path)
        elif overwrite and clear and isinstance(meta, ArrayMeta):
            yield from _delete_chunks(path, meta)
        if not (yield from commit(prefix_of(path), own)):
            raise _exists(path, store)

    yield from tracked(keepers, path, store_node, below=True)


def _delete_chunks(path: str, meta: ArrayMeta) -> Flow[None]:
    """Delete chunks that another program left without an array, and nothing else."""
    encoding, rank = meta.chunk_key_encoding, meta.rank
    found = yield from measure.keys(path)
    chunks = [key for key in found if encoding.decode(key, rank) is not None]
    if chunks:
        yield tuple(Delete(prefix_of(path) + key) for key in chunks)


def warn_of_reserved(path: str, within: str | None = None) -> None:
    """Warn of names that the specification of format 3 reserves, but those of `within`."""
    known = prefix_of(within or "")
    names = find_reserved_names(path.removeprefix(known))
    if names:
        warn_user(
            f"creating {path!r}: format 3 reserves names that begin with '__', such as "
            f"{names[0]!r}; other readers may not list the node"
        )


def prepare(path: str, meta: Node, within: str | None = None) -> Flow[list[copies.Keeper]]:
    """Find out whether a node may be stored at a path, and create the groups above it.

    Parameters
    ----------
    path, meta, within
        As for `create`.

    Returns
    -------
    list
        The groups above that keep copies of metadata.
    """
    documents(meta)
    normalize_path(path, meta.zarr_format)
    if meta.zarr_format == 3:
        warn_of_reserved(path, within)
    keepers = yield from copies.keepers(path, meta.zarr_format)
    yield from ancestors_of(path, meta, within)
    return keepers


def _occupied(path: str) -> Flow[tuple[bool, bool]]:
    """Return whether there is a node, and whether its deletion has begun."""
    mark = deletion.mark_of(path)
    found, (marked,) = yield from exists_beside(path, (Size(mark),), v1=True)
    return found, marked is not None


def is_below_deleted(path: str, within: str | None = None) -> Flow[bool]:
    """Return whether the deletion of a group above has begun: then nothing below is a node.

    Parameters
    ----------
    path
        Of what is there.
    within
        The path of a group that is known to exist.
    """
    marked = []
    for at in _not_known(path, within):
        if (yield DeletesAtOnce(prefix_of(at))):
            continue
        if (yield from deletion.is_marked(at)):
            marked.append(at)
    for at in marked:
        if not (yield from exists(at)):
            return True
    return False


def create_all(
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
        What, by path; normalised.
    overwrite, within, store
        As for `create`.

    Returns
    -------
    dict
        All that are new, by path, sorted: `nodes`, and the groups above.

    Raises
    ------
    ExistsError
        If there is a node at one of the paths, or an array above one; nothing has changed then.
    ArgumentError
        If a node lies below an array of `nodes`.

    Notes
    -----
    If the store fails, nodes that have been created are deleted again.
    """
    new = dict(nodes)
    for path, meta in nodes.items():
        for above in _not_known(path, within):
            if isinstance(nodes.get(above), ArrayMeta):
                raise ArgumentError(f"{path!r} cannot lie below array {above!r}", path=path)
            if above not in new and not (yield from exists(above)):
                new[above] = GroupMeta(meta.zarr_format)
    for path in nodes:
        if not overwrite and (yield from exists(path, v1=True)):
            raise _exists(path, store)
    done: dict[str, Node] = {}
    try:
        for path in sorted(new, key=lambda path: path.split("/") if path else []):
            parent = split(path)[0]
            near = parent if path and parent in done else within
            yield from create(path, new[path], overwrite=overwrite, within=near, store=store)
            done[path] = new[path]
    except BaseException:
        for path in reversed(done):
            yield from delete(path)
        raise
    return done


def documents(meta: Node) -> dict[str, bytes]:
    """Return the documents of a node by name, the one that makes it first."""
    return {"zarr.json": v3.dump(meta)} if meta.zarr_format == 3 else v2.dump(meta)


def ancestors_of(path: str, meta: Node, within: str | None = None) -> Flow[bool]:
    """Create the groups above `path` that are missing, from the root downwards.

    Returns
    -------
    bool
        Whether the deletion of one of them had begun, and is now complete: then nothing is left
        at `path`.
    """
    above = _not_known(path, within)
    if not above:
        return False
    form = meta.zarr_format
    other = 5 - form
    marks = yield tuple(Get(prefix_of(at) + name) for at in above for name in MARKERS[form])
    absent = []
    for i, at in enumerate(above):
        own = marks[i * len(MARKERS[form]) : (i + 1) * len(MARKERS[form])]
        if all(document is None for document in own):
            absent.append(at)
        else:
            _check_group(path, at, form, own[0])
    if not absent:
        return False
    found = yield (
        *(Get(prefix_of(at) + name) for at in absent for name in MARKERS[other]),
        *(Size(deletion.mark_of(at)) for at in absent),
    )
    others, marks = found[: -len(absent)], found[-len(absent) :]
    if any(document is not None for document in others):
        raise ArgumentError(
            f"cannot create {path!r} in format {form}: a node above it is of format {other}; "
            f"give zarr_format={other}",
            path=path,
        )
    deleted = next((at for at, mark in zip(absent, marks, strict=True) if mark is not None), None)
    if deleted is not None:
        yield from deletion.complete(deleted)
        absent = [at for at in above if at in absent or at.startswith(prefix_of(deleted))]
    group = documents(GroupMeta(zarr_format=form, attributes={}))
    for at in absent:
        if not (yield from commit(prefix_of(at), group)):
            # Somebody else was faster, which is fine if that is a group.
            own = yield tuple(Get(prefix_of(at) + name) for name in MARKERS[form])
            _check_group(path, at, form, own[0])
    return deleted is not None


def _not_known(path: str, within: str | None) -> list[str]:
    """Return the paths above `path` but for those of a group that is there, and above that."""
    above = list(ancestors(path))
    return above[above.index(within) + 1 :] if within in above else above


def _check_group(path: str, above: str, zarr_format: int, document: bytes | None) -> None:
    """Check that the ancestor is no array, given its ``zarr.json`` or ``.zarray``."""
    if document is None:
        return
    if zarr_format == 2 or isinstance(parse_v3(document, above), ArrayMeta):
        raise ExistsError(
            f"cannot create {path!r}: {above or '/'!r} above it is an array",
            kind="node_exists",
            path=above,
        )


def commit(prefix: str, own: dict[str, bytes], seen: Seen | None = None) -> Flow[bool]:
    """Store the documents of a node, unless there is one; a failure leaves nothing behind.

    What is then known of the first is told by `seen`.
    """
    (name, document), *rest = own.items()
    if not (yield Create(prefix + name, document, Seen() if seen is None else seen)):
        return False
    try:
        for name_, document_ in rest:
            yield Put(prefix + name_, document_)
    except BaseException:
        yield Delete(prefix + name)
        raise
    return True


def _exists(path: str, store: object) -> ExistsError:
    at = f"at path {path!r} of {store}" if path else f"at the root of {store}"
    return ExistsError(
        f"there is a node {at} already: open it, or give overwrite=True to replace it "
        "with everything below it",
        kind="node_exists",
        path=path,
    )
