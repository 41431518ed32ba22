"""Consolidated metadata: creation, comparison with the stored documents, and reading."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from tessarr.errors import ArgumentError, NotFoundError, StoreError
from tessarr.flow import consolidated_copies, walk
from tessarr.flow.consolidated_copies import DOCUMENTS, copies_key
from tessarr.flow.open import (
    MARKERS,
    not_found_error,
    open_group,
    parse_copies_v2,
    parse_v3,
    prefix_of,
    read_documents,
)
from tessarr.flow.run import Change, Delete, Flow, Get, Hold, KnownDocument, Replace
from tessarr.format import json
from tessarr.format.node_path import join
from tessarr.format.user_warnings import warn_user
from tessarr.metadata import v2
from tessarr.metadata.consolidated import (
    MEMBER,
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

__all__ = [
    "Difference",
    "compare_copies",
    "consolidate",
    "find_consolidated",
    "rebuild_copies",
    "remove_consolidated",
]

_TRIES: Final = 20

Difference: TypeAlias = Literal["missing", "gone", "changed"]
"""The difference between a copy and the stored node: no copy, no node, or other content."""


def find_consolidated(
    path: str,
    *,
    zarr_format: ZarrFormat | None = None,
    name: str | None = None,
    marked: bool = False,
) -> Flow[tuple[GroupMeta, Consolidated]]:
    """Return the group at `path` and its consolidated metadata.

    Parameters
    ----------
    path
        The path of the group.
    zarr_format
        The only format to look for.
    name
        The name of the document of format 2; a name excludes format 3.
    marked
        Whether to return copies that may be stale.

    Raises
    ------
    NotFoundError
        If the group or its consolidated metadata does not exist.
    MetadataError
        If the consolidated metadata is invalid.

    Notes
    -----
    This takes one request: format 3 reads ``zarr.json``, and format 2 reads ``.zmetadata``, which
    also contains the group's own documents. A mark means that a program is changing a node, or
    died during a change. The function then reads the documents of the nodes instead.
    """
    if zarr_format != 2 and name is None:
        document = yield Get(copies_key(path, 3))
        if document is not None:
            return (yield from _read_copies(document, path, 3, marked=marked))
    if zarr_format == 3:
        raise not_found_error(path, "group", 3)
    document = yield Get(_key_of(path, 2, name))
    if document is None:
        if all(mark is None for mark in (yield _marker_requests(path))):
            raise not_found_error(path, "group", zarr_format)
        raise _no_copies_error(path)
    return (yield from _read_copies(document, path, 2, name=name, marked=marked))


def _read_copies(
    document: bytes,
    path: str,
    zarr_format: ZarrFormat,
    *,
    name: str | None = None,
    marked: bool = False,
) -> Flow[tuple[GroupMeta, Consolidated]]:
    """Return the group at `path` and the consolidated metadata in a document."""
    if zarr_format == 3:
        meta = parse_v3(document, path)
        if not isinstance(meta, GroupMeta):
            raise not_found_error(path, "group", other=True)
        if meta.consolidated is None:
            raise _no_copies_error(path)
        return meta, (yield from _read_trusted_copies(meta, path, marked=marked))
    meta = parse_copies_v2(document, _key_of(path, 2, name))
    consolidated = yield from _read_trusted_copies(meta, path, marked=marked)
    consolidated.name = name
    own_meta = consolidated.find(path)
    if not isinstance(own_meta, GroupMeta):
        own_meta = yield from open_group(path, zarr_format=2)
    return own_meta, consolidated


def _key_of(path: str, zarr_format: ZarrFormat, name: str | None) -> str:
    """Return the key of the document with the copies, which may have another name in format 2."""
    return copies_key(path, zarr_format) if name is None else prefix_of(path) + name


def _read_trusted_copies(meta: GroupMeta, path: str, *, marked: bool) -> Flow[Consolidated]:
    """Return the copies of a group, or the stored documents if the copies may be stale."""
    consolidated = Consolidated.of(meta, path, marked=marked)
    if consolidated is not None:
        return consolidated
    stored = yield from _read_stored_documents(path, meta.zarr_format, warn=False)
    nodes = {join(path, node_path): contents for node_path, contents in stored.items()}
    if meta.zarr_format == 2:
        nodes[path] = yield from _read_group_documents(path)
    return Consolidated(path, nodes)


def _read_group_documents(path: str) -> Flow[JSONObject]:
    """Return the documents of a group of format 2 as JSON."""
    documents = yield from read_documents(path, DOCUMENTS[2])
    return {
        name: v2.load(document, name, what=f"metadata {join(path, name)!r}")[0]
        for name, document in documents.items()
    }


def consolidate(
    path: str,
    *,
    zarr_format: ZarrFormat | None = None,
    name: str | None = None,
    warn: bool = True,
) -> Flow[tuple[GroupMeta, Consolidated]]:
    """Copy the documents of all nodes below a group to one document; return the new copies.

    Parameters
    ----------
    path
        The path of the group.
    zarr_format
        The only format to look for.
    name
        The name of the document of format 2; a name excludes format 3.
    warn
        Whether to warn of nodes of another format.

    Returns
    -------
    tuple
        The group and its copies, as `find_consolidated` returns them.

    Raises
    ------
    MetadataError
        If a document is not JSON. A document that is JSON but invalid is copied, too.
    ArgumentError
        If `name` is not None and the group has format 3.

    Notes
    -----
    This takes one listing per group, one or three requests per node, and one replacement. The
    lock of the key ``.copies`` excludes programs that mark their changes in copies of the group.
    """
    seen = KnownDocument()
    meta = yield from open_group(path, zarr_format=zarr_format, seen=seen)
    form = meta.zarr_format
    if form == 3 and name is not None:
        message = f"group {path or '/'!r} is of format 3, which has no document {name!r} for it"
        raise ArgumentError(message, path=path)

    def copy_nodes(*_: object) -> Flow[bytes | None]:
        return rebuild_copies(path, form, name=name, warn=warn, seen=seen)

    document: bytes = yield Hold((prefix_of(path) + ".copies",), copy_nodes)
    return (yield from _read_copies(document, path, form, name=name))


def rebuild_copies(
    path: str,
    form: ZarrFormat,
    *,
    name: str | None = None,
    warn: bool = False,
    is_active: Callable[[str], bool] | None = None,
    seen: KnownDocument | None = None,
) -> Flow[bytes | None]:
    """Rebuild the copies of a group from the stored documents; return the new document.

    An update returns None if the group has no copies anymore. If another program changes the
    document with the copies concurrently, the function reads the nodes again.

    Parameters
    ----------
    path, form
        The path and the format of the group. The caller holds its key ``.copies``.
    name, warn
        As for `consolidate`.
    is_active
        For an update of existing copies. Returns whether the program that stored a mark may still
        change nodes; the mark then stays.
    seen
        The document of the group, if the caller has read it in format 3. If it is outdated, the
        replacement fails and the function reads it again.

    Raises
    ------
    StoreError
        If every attempt conflicts with another program.
    """
    key = _key_of(path, form, name)
    seen = seen or KnownDocument()
    for attempt in range(_TRIES):
        old = seen.document if attempt == 0 else None
        if old is None:
            old = yield Get(key, seen)
        before: JSONObject | None = None
        if old is not None and (form == 3 or is_active is not None):
            before, _ = json.load(old, what=f"metadata {key!r}", tokens=form == 2)
        if is_active is not None and (before is None or (form == 3 and MEMBER not in before)):
            return None
        nodes = yield from _read_stored_documents(path, form, warn=warn and attempt == 0)
        if form == 2:
            nodes[""] = yield from _read_group_documents(path)
        elif before is None:
            raise not_found_error(path, "group")
        base = None if before is None or form == 2 else remove_copies(before)
        live = {
            mark: node_path
            for mark, node_path in (read_marks(before, form) if before else {}).items()
            if is_active is not None and is_active(mark)
        }
        new = replace_copies(base, form, nodes)
        document = consolidated_copies.dump_copies(replace_marks(new, form, live), form)
        if (yield Replace(key, document, old, seen)):
            return document
    raise StoreError(
        f"cannot consolidate group {path or '/'!r}: other programs change nodes below it "
        "continually; try again later",
        retryable=True,
        path=path,
    )


def compare_copies(
    path: str, *, zarr_format: ZarrFormat | None = None, name: str | None = None
) -> Flow[dict[str, Difference]]:
    """Return the differences between consolidated metadata and the stored documents.

    Parameters
    ----------
    path, zarr_format, name
        As for `find_consolidated`.

    Returns
    -------
    dict
        The differences, by path relative to the group.
    """
    meta, consolidated = yield from find_consolidated(
        path, zarr_format=zarr_format, name=name, marked=True
    )
    form = meta.zarr_format
    stored = yield from _read_stored_documents(path, form, warn=False)
    prefix = len(prefix_of(path))
    copied = {
        node_path[prefix:]: documents
        for node_path, documents in consolidated.documents().items()
        if node_path != path and documents
    }
    result: dict[str, Difference] = {}
    for node_path in sorted({*stored, *copied}):
        if node_path not in copied:
            result[node_path] = "missing"
        elif node_path not in stored:
            result[node_path] = "gone"
        elif not is_equivalent(stored[node_path], copied[node_path]):
            result[node_path] = "changed"
    return result


def remove_consolidated(path: str, *, zarr_format: ZarrFormat | None = None) -> Flow[bool]:
    """Remove the consolidated metadata of a group; return whether it existed."""
    meta = yield from open_group(path, zarr_format=zarr_format)
    key = copies_key(path, meta.zarr_format)
    if meta.zarr_format == 2:
        if (yield Get(key)) is None:
            return False
        yield Delete(key)
        return True

    def make(old: bytes | None) -> tuple[bytes | None, bool]:
        if old is None:
            raise not_found_error(path, "group")
        document, _ = json.load(old, what=f"metadata {key!r}")
        if MEMBER not in document:
            return old, False
        return consolidated_copies.dump_copies(remove_copies(document), 3), True

    is_removed: bool = yield Change(key, make)
    return is_removed


def _read_stored_documents(
    path: str, zarr_format: ZarrFormat, *, warn: bool
) -> Flow[dict[str, JSONObject]]:
    """Return the documents of the nodes below a group, by path relative to it, as JSON."""
    nodes = yield from walk.list_documents(path, zarr_format, max_depth=None, warn=warn)
    prefix = len(prefix_of(path))
    others = [
        node_path for node_path, (stored, _) in nodes.items() if stored.zarr_format != zarr_format
    ]
    if others and warn:
        warn_user(
            f"{len(others)} nodes below {path or '/'!r} are not of format {zarr_format} and have "
            f"no copies in its consolidated metadata, {others[0]!r} among them",
        )
    for node_path, (stored, _) in nodes.items():
        if stored.error is not None:
            warn_user(f"{node_path!r} has no copy in consolidated metadata: {stored.error}")
    return {
        node_path[prefix:]: stored.json(node_path)
        for node_path, (stored, _) in nodes.items()
        if stored.zarr_format == zarr_format and stored.error is None
    }


def _marker_requests(path: str) -> tuple[Get, ...]:
    return tuple(Get(prefix_of(path) + name) for names in MARKERS.values() for name in names)


def _no_copies_error(path: str) -> NotFoundError:
    return NotFoundError(
        f"group {path or '/'!r} has no consolidated metadata: call consolidate_metadata, or open "
        "it without use_consolidated",
        kind="consolidated_not_found",
        path=path,
    )
