"""Conversion of a hierarchy to another format in place; chunks stay unchanged.

A plan lists the new metadata of each node, and all content without an equivalent. The conversion
stores nothing unless it can convert all nodes. First it stores the new documents beside the old
ones, the root's last. Then it deletes the old documents, the root's first.

At every point each node exists in one of the formats with the same contents. Another conversion
completes an interrupted one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tessarr.errors import ExistsError, NotFoundError, Problem, TessarrError
from tessarr.flow import consolidate, walk
from tessarr.flow.open import (
    MARKERS,
    find_node,
    not_found_error,
    parse_documents,
    prefix_of,
    read_documents,
)
from tessarr.flow.run import Delete, Flow, Get, List, Put, Replace
from tessarr.format.chunk_key_encoding import select_chunk_keys
from tessarr.format.node_path import ancestors
from tessarr.metadata import v1, v2, v3
from tessarr.metadata.consolidated import MEMBER, ZMETADATA, remove_copies
from tessarr.metadata.convert import convert_metadata
from tessarr.metadata.node import ArrayMeta, GroupMeta

if TYPE_CHECKING:
    from tessarr.metadata.node import NodeOrError
    from tessarr.types import MemoryOrder, ZarrFormat

__all__ = ["ConversionStep", "apply_steps", "list_chunk_keys", "migrate_array", "plan_conversion"]

_DOCUMENTS: Final = {
    1: ("meta", "attrs"),
    2: (".zarray", ".zgroup", ".zattrs"),
    3: ("zarr.json",),
}
"""The documents of a node by format; the first one marks the node."""

_MARK: Final = f'"{MEMBER}"'.encode()


@dataclass(slots=True)
class ConversionStep:
    """The conversion of one node.

    Parameters
    ----------
    path
        The path of the node.
    kind
        "array", "group", or "unreadable".
    before
        The old format; None for an unreadable node.
    old, new
        The old and the new metadata.
    documents
        The documents to store by name, the marker first.
    obsolete
        The names of documents to delete.
    renamed
        Whether chunk keys differ in the new format.
    consolidated
        Whether the node has consolidated metadata.
    problems, notes
        Content without an equivalent; content that the new format expresses differently or omits.
    """

    path: str
    kind: str
    before: int | None
    old: ArrayMeta | GroupMeta | None = None
    new: ArrayMeta | GroupMeta | None = None
    documents: dict[str, bytes] = field(default_factory=dict)
    obsolete: tuple[str, ...] = ()
    renamed: bool = False
    consolidated: bool = False
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def plan_conversion(path: str, to: ZarrFormat, *, in_place: bool) -> Flow[list[ConversionStep]]:
    """Return the steps that convert the node at `path`, and all nodes below, to format `to`.

    Parameters
    ----------
    path
        The path of an array or a group.
    to
        The new format.
    in_place
        Whether to store the new documents beside the old ones; groups above must then fit.

    Raises
    ------
    NotFoundError
        If the node does not exist.
    """
    root = yield from find_node(path)
    if root is None:
        raise not_found_error(path, None)
    nodes: dict[str, NodeOrError] = {path: root}
    if isinstance(root, GroupMeta):
        nodes |= yield from walk.list_members(path, root.zarr_format, max_depth=None, warn=False)
    names = [name for known in _DOCUMENTS.values() for name in known] + [ZMETADATA]
    stored = yield tuple(Get(prefix_of(node_path) + name) for node_path in nodes for name in names)
    steps = []
    for i, (node_path, meta) in enumerate(nodes.items()):
        contents = dict(zip(names, stored[i * len(names) : (i + 1) * len(names)], strict=True))
        present = {name: content for name, content in contents.items() if content is not None}
        if isinstance(meta, TessarrError):
            step = ConversionStep(
                node_path, "unreadable", None, problems=[Problem("", str(meta), meta.kind)]
            )
        else:
            step = _plan_step(node_path, meta, present, to)
        steps.append(step)
    if in_place and steps:
        yield from _check_above(path, to, steps[0])
    return steps


def _plan_step(
    path: str, meta: ArrayMeta | GroupMeta, present: dict[str, bytes], to: ZarrFormat
) -> ConversionStep:
    kind = "array" if isinstance(meta, ArrayMeta) else "group"
    step = ConversionStep(path, kind, meta.document_format, meta, meta)
    new_contents = {name: present[name] for name in _DOCUMENTS[to] if name in present}
    old_contents = {name: present[name] for name in _DOCUMENTS[5 - to] if name in present}
    leftover = meta.document_format == to and any(name != ".zattrs" for name in old_contents)
    marker_content = present.get("zarr.json", b"") if meta.document_format == 3 else b""
    copies = ZMETADATA in present if meta.document_format == 2 else _MARK in marker_content
    step.consolidated = kind == "group" and copies
    if meta.document_format == to and not leftover:
        return step
    if leftover:  # of an interrupted conversion, or of another program
        step.old = parse_documents(old_contents, path)
    assert step.old is not None
    converted = convert_metadata(step.old, path, to)
    step.problems += converted.problems.found
    step.notes += converted.notes
    if converted.meta is None:
        return step
    step.new = converted.meta
    documents = converted.documents
    marker = next(iter(documents))
    if marker not in new_contents:
        step.documents = documents
    elif not _is_same_metadata(
        step.new,
        parse_documents(new_contents, path),
        bare=leftover and ".zattrs" not in old_contents,
    ):
        problem = f"{marker} exists already with other metadata: delete one of the two documents"
        step.problems.append(Problem("", problem, "no_equivalent"))
    if isinstance(step.old, ArrayMeta) and isinstance(step.new, ArrayMeta):
        encodings = step.old.chunk_key_encoding, step.new.chunk_key_encoding
        step.renamed = type(encodings[0]) is not type(encodings[1])
    obsolete = [*_DOCUMENTS[step.old.document_format], *([ZMETADATA] if to == 3 else [])]
    step.obsolete = tuple(name for name in obsolete if name in present)
    return step


def _is_same_metadata(
    first: ArrayMeta | GroupMeta, second: ArrayMeta | GroupMeta, *, bare: bool
) -> bool:
    """Return whether two nodes have equal documents; `bare` ignores attributes."""
    if bare:
        first, second = replace(first, attributes={}), replace(second, attributes={})
        if isinstance(first, ArrayMeta) and isinstance(second, ArrayMeta):
            first = replace(first, axis_names=second.axis_names)
    return type(first) is type(second) and _dump_text(first) == _dump_text(second)


def _dump_text(meta: ArrayMeta | GroupMeta) -> str:
    if meta.zarr_format == 3:
        return json.dumps(remove_copies(v3.to_json(meta)), sort_keys=True)
    return str(v2.dump(meta))


def _check_above(path: str, to: ZarrFormat, root: ConversionStep) -> Flow[None]:
    """Add a problem if a group above keeps the old format."""
    above = list(ancestors(path))
    names = [name for name in _DOCUMENTS[5 - to] if name != ".zattrs"]
    documents = yield tuple(Get(prefix_of(ancestor) + name) for ancestor in above for name in names)
    if any(document is not None for document in documents):
        message = f"the groups above are of format {5 - to}: convert the hierarchy from its root"
        root.problems.append(Problem("", message, "no_equivalent"))


def apply_steps(steps: list[ConversionStep], to: ZarrFormat, *, keep: bool = False) -> Flow[None]:
    """Execute a plan in place.

    Parameters
    ----------
    steps
        Steps from `plan_conversion` without problems.
    to
        The new format.
    keep
        Keep the old documents. The store then holds chunks whose keys differ twice.

    Raises
    ------
    ExistsError
        If another program creates a document concurrently.
    """
    steps = yield from _store_steps(steps)
    for step in reversed(steps):
        if step.consolidated and step.obsolete:
            yield from consolidate.consolidate(step.path, zarr_format=to, warn=False)
    for step in steps if not keep else ():
        prefix = prefix_of(step.path)
        renamed = (yield from list_chunk_keys(step)) if step.renamed else []
        # Delete the marker last, so that another conversion can find the leftover documents.
        for name in reversed(step.obsolete):
            yield Delete(prefix + name)
        if renamed:
            yield tuple(Delete(old) for old, _ in renamed)


def _store_steps(steps: list[ConversionStep]) -> Flow[list[ConversionStep]]:
    """Store the new chunks and documents of all nodes.

    Returns
    -------
    list
        The steps, except those of nodes that are already converted under another path: two symbolic
        links may lead to one node.
    """
    stored = []
    for step in reversed(steps):
        if step.documents:
            if (yield from _has_documents(step)):
                continue
            if step.renamed:
                for old, new in (yield from list_chunk_keys(step)):
                    value = yield Get(old)
                    if value is not None:
                        yield Put(new, value)
            yield from _store_documents(step)
        stored.append(step)
    return stored[::-1]


def _has_documents(step: ConversionStep) -> Flow[bool]:
    """Return whether the store already holds the planned documents of a node."""
    stored = yield from read_documents(step.path, step.documents)
    return stored == step.documents


def _store_documents(step: ConversionStep) -> Flow[None]:
    """Store the documents of a node, the marker last."""
    prefix = prefix_of(step.path)
    marker, *others = step.documents
    for name in others:
        yield Put(prefix + name, step.documents[name])
    if not (yield Replace(prefix + marker, step.documents[marker], None)):
        raise ExistsError(
            f"cannot convert {step.path or '/'!r}: {marker} has appeared in the meantime",
            kind="node_exists",
            path=step.path,
        )


def list_chunk_keys(step: ConversionStep) -> Flow[list[tuple[str, str]]]:
    """Return the keys of the stored chunks of an array, old and new."""
    old, new = step.old, step.new
    if not isinstance(old, ArrayMeta) or not isinstance(new, ArrayMeta):
        return []
    prefix = prefix_of(step.path)
    keys = yield List(prefix)
    encode = new.chunk_key_encoding.encode
    cells = select_chunk_keys(keys, prefix, old.chunk_key_encoding, old.rank)
    return [(key, prefix + encode(cell)) for key, cell in cells]


def migrate_array(path: str, *, order: MemoryOrder | None = None) -> Flow[ArrayMeta]:
    """Replace ``meta`` and ``attrs`` by ``.zarray`` and ``.zattrs``.

    The array stays readable at every point: the migration stores ``.zarray`` last and exclusively,
    and then deletes the old documents. Another migration completes an interrupted one.

    Parameters
    ----------
    path
        The path of the array.
    order
        The actual order of elements, if it differs from ``meta``.

    Raises
    ------
    NotFoundError
        If no array of format 1 exists.
    ExistsError
        If a node of another format exists and differs from the result.
    """
    prefix = prefix_of(path)
    markers = [name for names in MARKERS.values() for name in names]
    documents = yield from read_documents(path, (v1.ARRAY, v1.ATTRIBUTES, *markers))
    document = documents.pop(v1.ARRAY, None)
    attributes = documents.pop(v1.ATTRIBUTES, None)
    if document is None or not v1.is_v1(document):
        raise NotFoundError(
            f"there is no array of format 1 at {path or '/'!r}: nothing to migrate",
            kind="array_not_found",
            path=path,
        )
    meta = v1.parse(document, attributes, where=path, order=order)
    new = v2.dump(meta)
    if not documents:
        yield Put(prefix + v2.ATTRIBUTES, new[v2.ATTRIBUTES])
        if not (yield Replace(prefix + v2.ARRAY, new[v2.ARRAY], None)):
            raise _migration_error(path, v2.ARRAY)
    elif documents != {v2.ARRAY: new[v2.ARRAY]}:
        raise _migration_error(path, min(documents))
    # Delete ``meta`` last: another migration looks for it.
    yield Delete(prefix + v1.ATTRIBUTES)
    yield Delete(prefix + v1.ARRAY)
    return meta


def _migration_error(path: str, name: str) -> ExistsError:
    return ExistsError(
        f"cannot migrate {path or '/'!r}: it would replace {name!r}",
        kind="node_exists",
        path=path,
    )
