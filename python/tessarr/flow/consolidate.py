"""Make consolidated metadata, compare it with what is stored, and open by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from tessarr.errors import ArgumentError, NotFoundError, StoreError
from tessarr.flow import copies, walk
from tessarr.flow.copies import DOCUMENTS, copied_from
from tessarr.flow.open import MARKERS, group, missing, parse_v3, prefix_of
from tessarr.flow.replace import replace
from tessarr.flow.run import Delete, Flow, Get, Hold, Replace
from tessarr.format import json
from tessarr.format.node_path import join
from tessarr.format.user_warnings import warn_user
from tessarr.metadata import v2
from tessarr.metadata.consolidated import (
    MEMBER,
    ZMETADATA,
    Consolidated,
    is_equivalent,
    read_marks,
    remove_copies,
    replace_copies,
    replace_marks,
)
from tessarr.metadata.node import GroupMeta

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.types import JSONObject, ZarrFormat

__all__ = ["Difference", "consolidate", "differences", "find", "rebuild", "remove"]

_TRIES: Final = 20

Difference: TypeAlias = Literal["missing", "gone", "changed"]
"""How a copy differs from what is stored: there is none, there is no node, or another."""


def find(
    path: str,
    *,
    zarr_format: ZarrFormat | None = None,
    name: str | None = None,
    marked: bool = False,
) -> Flow[tuple[GroupMeta, Consolidated]]:
    """Return the group at `path` and its consolidated metadata, which it has to have.

    Parameters
    ----------
    path
        Of the group.
    zarr_format
        The only format to look for.
    name
        The name of the document of format 2; given, format 3 is not looked for.
    marked
        Whether copies are wanted that may be stale.

    Raises
    ------
    NotFoundError
        Where there is no such group, or it keeps no copies.
    MetadataError
        Where the copies cannot be read.

    Notes
    -----
    One request in format 3. In format 2 ``.zmetadata`` alone, because it says what the
    group itself is, too. If the copies are marked, because a node is being changed or a program
    died while it changed one, the nodes are looked up instead.
    """
    prefix = prefix_of(path)
    if zarr_format != 2 and name is None:
        document = yield Get(prefix + "zarr.json")
        if document is not None:
            meta = parse_v3(document, path)
            if not isinstance(meta, GroupMeta):
                raise missing(path, "group", other=True)
            if meta.consolidated is None:
                raise _absent(path)
            return meta, (yield from _trusted(meta, path, marked=marked))
    if zarr_format == 3:
        raise missing(path, "group", 3)
    key = prefix + (name or ZMETADATA)
    document = yield Get(key)
    if document is None:
        if all(mark is None for mark in (yield _marks(path))):
            raise missing(path, "group", zarr_format)
        raise _absent(path)
    value, _ = json.load(document, what=f"metadata {key!r}", tokens=True)
    found = yield from _trusted(GroupMeta(2, consolidated=value), path, marked=marked)
    found.name = name
    own = found.find(path)
    if not isinstance(own, GroupMeta):
        own = yield from group(path, zarr_format=2)
    return own, found


def _trusted(meta: GroupMeta, path: str, *, marked: bool) -> Flow[Consolidated]:
    """Return the copies that a group keeps; if they may be stale, what is stored."""
    found = Consolidated.of(meta, path, marked=marked)
    if found is not None:
        return found
    own = yield tuple(Get(prefix_of(path) + name) for name in DOCUMENTS[2])
    stored = yield from _stored(path, meta.zarr_format, warn=False)
    nodes = {join(path, at) if path else at: documents for at, documents in stored.items()}
    if meta.zarr_format == 2:
        nodes[path] = _own_documents(path, own)
    return Consolidated(path, nodes)


def _own_documents(path: str, own: tuple[bytes | None, ...]) -> JSONObject:
    """Return the documents of a group of format 2 as JSON."""
    return {
        name: v2.load(document, name, what=f"metadata {join(path, name)!r}")[0]
        for name, document in zip(DOCUMENTS[2], own, strict=True)
        if document is not None
    }


def consolidate(
    path: str,
    *,
    zarr_format: ZarrFormat | None = None,
    name: str | None = None,
    warn: bool = True,
) -> Flow[tuple[int, ZarrFormat]]:
    """Copy the documents of all nodes below a group into one place.

    Parameters
    ----------
    path
        Of the group.
    zarr_format
        The only format to look for.
    name
        The name of the document of format 2; given, a group of format 3 is an error.
    warn
        Whether to warn of nodes of another format.

    Returns
    -------
    tuple
        How many nodes below have copies, and the format.

    Raises
    ------
    MetadataError
        Where a document is not JSON. One that is JSON but cannot be used is copied as it is.
    ArgumentError
        Where there is a name, but the group is of format 3.

    Notes
    -----
    One listing per group and one or three requests per node, then one replacement. The key
    ``.copies`` is held: programs that mark their changes in copies of the group wait.
    """
    meta = yield from group(path, zarr_format=zarr_format)
    form = meta.zarr_format
    if form == 3 and name is not None:
        message = f"group {path or '/'!r} is of format 3, which has no document {name!r} for it"
        raise ArgumentError(message, path=path)

    def copy_nodes(*_: object) -> Flow[int]:
        return rebuild(path, form, name=name, warn=warn)

    count: int = yield Hold((prefix_of(path) + ".copies",), copy_nodes)
    return count, form


def rebuild(
    path: str,
    form: ZarrFormat,
    *,
    name: str | None = None,
    warn: bool = False,
    is_live: Callable[[str], bool] | None = None,
) -> Flow[int]:
    """Make the copies of a group from what is stored; return how many nodes below have one.

    If the document with the copies changes meanwhile, another program has changed a node: then
    the nodes are read again.

    Parameters
    ----------
    path, form
        Of the group, whose key ``.copies`` is held.
    name, warn
        As for `consolidate`.
    is_live
        Tells whether the program that made a mark may still change nodes: then the mark stays.

    Raises
    ------
    StoreError
        If the document changes each time.
    """
    key = copied_from(path, form) if name is None else prefix_of(path) + name
    for attempt in range(_TRIES):
        old = yield Get(key)
        nodes = yield from _stored(path, form, warn=warn and attempt == 0)
        if form == 2:
            own = yield tuple(Get(prefix_of(path) + name) for name in DOCUMENTS[2])
            nodes[""] = _own_documents(path, own)
        elif old is None:
            raise missing(path, "group")
        kept: JSONObject | None = None
        live: dict[str, str] = {}
        if old is not None and (form == 3 or is_live is not None):
            before, _ = json.load(old, what=f"metadata {key!r}", tokens=form == 2)
            kept = remove_copies(before) if form == 3 else None
            marks = read_marks(before, form) if is_live is not None else {}
            live = {mark: at for mark, at in marks.items() if is_live and is_live(mark)}
        new = replace_copies(kept, form, nodes)
        document = copies.dump(replace_marks(new, form, live), form)
        if (yield Replace(key, document, old)):
            return len(nodes) - (form == 2)
    raise StoreError(
        f"cannot consolidate group {path or '/'!r}: other programs changed nodes below it all the "
        "time; try again later",
        retryable=True,
        path=path,
    )


def differences(
    path: str, *, zarr_format: ZarrFormat | None = None, name: str | None = None
) -> Flow[dict[str, Difference]]:
    """Return how consolidated metadata differs from what is stored; empty: not at all.

    Parameters
    ----------
    path, zarr_format, name
        As for `find`.

    Returns
    -------
    dict
        By path relative to the group.
    """
    meta, found = yield from find(path, zarr_format=zarr_format, name=name, marked=True)
    form = meta.zarr_format
    stored = yield from _stored(path, form, warn=False)
    prefix = len(prefix_of(path))
    copied = {at[prefix:]: own for at, own in found.documents().items() if at != path and own}
    result: dict[str, Difference] = {}
    for at in sorted({*stored, *copied}):
        if at not in copied:
            result[at] = "missing"
        elif at not in stored:
            result[at] = "gone"
        elif not is_equivalent(stored[at], copied[at]):
            result[at] = "changed"
    return result


def remove(path: str, *, zarr_format: ZarrFormat | None = None) -> Flow[bool]:
    """Remove the consolidated metadata of a group; return whether there was any."""
    meta = yield from group(path, zarr_format=zarr_format)
    key = copied_from(path, meta.zarr_format)
    if meta.zarr_format == 2:
        if (yield Get(key)) is None:
            return False
        yield Delete(key)
        return True

    def make(old: bytes | None) -> tuple[bytes | None, bool]:
        if old is None:
            raise missing(path, "group")
        document, _ = json.load(old, what=f"metadata {key!r}")
        if MEMBER not in document:
            return old, False
        return copies.dump(remove_copies(document), 3), True

    return (yield from replace(key, make))


def _stored(path: str, zarr_format: ZarrFormat, *, warn: bool) -> Flow[dict[str, JSONObject]]:
    """Return the documents of the nodes below a group, by path relative to it, as JSON."""
    found = yield from walk.documents(path, zarr_format, max_depth=None, warn=warn)
    prefix = len(prefix_of(path))
    others = [at for at, (own, _) in found.items() if own.zarr_format != zarr_format]
    if others and warn:
        warn_user(
            f"{len(others)} nodes below {path or '/'!r} are not of format {zarr_format} and have "
            f"no copies in its consolidated metadata, {others[0]!r} among them",
        )
    for at, (own, _) in found.items():
        if own.error is not None:
            warn_user(f"{at!r} has no copy in consolidated metadata: {own.error}")
    return {
        at[prefix:]: own.json(at)
        for at, (own, _) in found.items()
        if own.zarr_format == zarr_format and own.error is None
    }


def _marks(path: str) -> tuple[Get, ...]:
    return tuple(Get(prefix_of(path) + name) for names in MARKERS.values() for name in names)


def _absent(path: str) -> NotFoundError:
    return NotFoundError(
        f"group {path or '/'!r} has no consolidated metadata: call consolidate_metadata, or open "
        "it without use_consolidated",
        kind="consolidated_not_found",
        path=path,
    )
