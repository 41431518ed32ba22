"""Convert a hierarchy to another format in place, without touching what chunks hold.

First all is planned: what each node becomes, and what has no equivalent. Nothing is
stored unless all nodes can be converted. Then the new documents are stored beside the old
ones, the root's last, and only when all are there the old ones are deleted, the root's
first. At every point each node is there in one format or the other, with the same
contents; a conversion that was interrupted is finished by another.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from tessarr.errors import ExistsError, Problem, TessarrError
from tessarr.flow import consolidate, walk
from tessarr.flow.open import find, missing, parse, prefix_of
from tessarr.flow.run import Delete, Flow, Get, List, Put, Replace
from tessarr.format.chunk_key_encoding import select_chunk_keys
from tessarr.format.node_path import ancestors
from tessarr.metadata import v2, v3
from tessarr.metadata.consolidated import MEMBER, ZMETADATA, remove_copies
from tessarr.metadata.convert import convert_metadata
from tessarr.metadata.node import ArrayMeta, GroupMeta

if TYPE_CHECKING:
    from tessarr.metadata.node import NodeOrError
    from tessarr.types import ZarrFormat

__all__ = ["Step", "apply", "chunk_keys", "plan"]

_DOCUMENTS: Final = {
    1: ("meta", "attrs"),
    2: (".zarray", ".zgroup", ".zattrs"),
    3: ("zarr.json",),
}
"""What a node may have by format, what makes it first."""

_MARK: Final = f'"{MEMBER}"'.encode()


@dataclass(slots=True)
class Step:
    """What is to be done for one node.

    Parameters
    ----------
    path
        Of the node.
    kind
        "array", "group", or "unreadable".
    before
        Its format; None where that cannot be told.
    old, new
        What the metadata is, and becomes.
    documents
        What has to be stored, by name, what makes the node first.
    obsolete
        The names of what has to be deleted.
    renamed
        Whether chunks are called differently in the new format.
    consolidated
        Whether it keeps copies of metadata.
    problems, notes
        What has no equivalent; what is told in another way, or not any more.
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


def plan(path: str, to: ZarrFormat, *, in_place: bool) -> Flow[list[Step]]:
    """Return what has to be done to have the node at `path`, and all below, in format `to`.

    Parameters
    ----------
    path
        Of an array or a group.
    to
        The format.
    in_place
        Whether the new documents are to be stored beside the old ones, which the
        groups above have to fit.

    Raises
    ------
    NotFoundError
        If there is no node.
    """
    root = yield from find(path)
    if root is None:
        raise missing(path, None)
    nodes: dict[str, NodeOrError] = {path: root}
    if isinstance(root, GroupMeta):
        nodes |= yield from walk.members(path, root.zarr_format, max_depth=None, warn=False)
    names = [name for known in _DOCUMENTS.values() for name in known] + [ZMETADATA]
    stored = yield tuple(Get(prefix_of(at) + name) for at in nodes for name in names)
    steps = []
    for i, (at, meta) in enumerate(nodes.items()):
        own = dict(zip(names, stored[i * len(names) : (i + 1) * len(names)], strict=True))
        present = {name: content for name, content in own.items() if content is not None}
        if isinstance(meta, TessarrError):
            step = Step(at, "unreadable", None, problems=[Problem("", str(meta), meta.kind)])
        else:
            step = _step(at, meta, present, to)
        steps.append(step)
    if in_place and steps:
        yield from _check_above(path, to, steps[0])
    return steps


def _step(
    path: str, meta: ArrayMeta | GroupMeta, present: dict[str, bytes], to: ZarrFormat
) -> Step:
    kind = "array" if isinstance(meta, ArrayMeta) else "group"
    step = Step(path, kind, meta.document_format, meta, meta)
    mine = {name: present[name] for name in _DOCUMENTS[to] if name in present}
    others = {name: present[name] for name in _DOCUMENTS[5 - to] if name in present}
    leftover = meta.document_format == to and any(name != ".zattrs" for name in others)
    holder = present.get("zarr.json", b"") if meta.document_format == 3 else b""
    copies = ZMETADATA in present if meta.document_format == 2 else _MARK in holder
    step.consolidated = kind == "group" and copies
    if meta.document_format == to and not leftover:
        return step
    if leftover:  # of a conversion that was interrupted, or of another program
        step.old = parse(others, path)
    assert step.old is not None
    converted = convert_metadata(step.old, path, to)
    step.problems += converted.problems.found
    step.notes += converted.notes
    if converted.meta is None:
        return step
    step.new = converted.meta
    documents = converted.documents
    marker = next(iter(documents))
    if marker not in mine:
        step.documents = documents
    elif not _same(step.new, parse(mine, path), bare=leftover and ".zattrs" not in others):
        what = f"{marker} is there already and says something else: delete one of the two"
        step.problems.append(Problem("", what, "no_equivalent"))
    if isinstance(step.old, ArrayMeta) and isinstance(step.new, ArrayMeta):
        encodings = step.old.chunk_key_encoding, step.new.chunk_key_encoding
        step.renamed = type(encodings[0]) is not type(encodings[1])
    obsolete = [*_DOCUMENTS[step.old.document_format], *([ZMETADATA] if to == 3 else [])]
    step.obsolete = tuple(name for name in obsolete if name in present)
    return step


def _same(one: ArrayMeta | GroupMeta, other: ArrayMeta | GroupMeta, *, bare: bool) -> bool:
    """Tell whether two metadata are dumped to the same documents; `bare`: but for attributes."""
    if bare:
        one, other = replace(one, attributes={}), replace(other, attributes={})
        if isinstance(one, ArrayMeta) and isinstance(other, ArrayMeta):
            one = replace(one, dimension_names=other.dimension_names)
    return type(one) is type(other) and _text(one) == _text(other)


def _text(meta: ArrayMeta | GroupMeta) -> str:
    if meta.zarr_format == 3:
        return json.dumps(remove_copies(v3.to_json(meta)), sort_keys=True)
    return str(v2.dump(meta))


def _check_above(path: str, to: ZarrFormat, root: Step) -> Flow[None]:
    """Note that groups above are of another format, which would then have a member of this."""
    above = list(ancestors(path))
    names = [name for name in _DOCUMENTS[5 - to] if name != ".zattrs"]
    found = yield tuple(Get(prefix_of(at) + name) for at in above for name in names)
    if any(document is not None for document in found):
        what = f"the groups above are of format {5 - to}: convert the hierarchy from its root"
        root.problems.append(Problem("", what, "no_equivalent"))


def apply(steps: list[Step], to: ZarrFormat, *, keep: bool = False) -> Flow[None]:
    """Do what was planned, in place.

    Parameters
    ----------
    steps
        As `plan` returned them, without problems.
    to
        The format.
    keep
        Leave the old documents where they are. Chunks that get other keys are then
        stored twice.

    Raises
    ------
    ExistsError
        If a document has appeared in the meantime.
    """
    steps = yield from _store_all(steps)
    for step in reversed(steps):
        if step.consolidated and step.obsolete:
            yield from consolidate.consolidate(step.path, zarr_format=to, warn=False)
    for step in steps if not keep else ():
        prefix = prefix_of(step.path)
        renamed = (yield from chunk_keys(step)) if step.renamed else []
        # What makes the node goes last, so that what is left over is always found again.
        for name in reversed(step.obsolete):
            yield Delete(prefix + name)
        if renamed:
            yield tuple(Delete(old) for old, _ in renamed)


def _store_all(steps: list[Step]) -> Flow[list[Step]]:
    """Store the new chunks and documents of all nodes.

    Returns
    -------
    list
        The steps, without those of nodes that were converted under another path: two
        symbolic links may lead to one node.
    """
    own = []
    for step in reversed(steps):
        if step.documents:
            if (yield from _is_stored(step)):
                continue
            if step.renamed:
                for old, new in (yield from chunk_keys(step)):
                    value = yield Get(old)
                    if value is not None:
                        yield Put(new, value)
            yield from _store(step)
        own.append(step)
    return own[::-1]


def _is_stored(step: Step) -> Flow[bool]:
    """Return whether the documents of a node have been stored since they were planned."""
    prefix = prefix_of(step.path)
    stored = yield tuple(Get(prefix + name) for name in step.documents)
    return all(content == own for content, own in zip(stored, step.documents.values(), strict=True))


def _store(step: Step) -> Flow[None]:
    """Store the documents of a node, what makes it last."""
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


def chunk_keys(step: Step) -> Flow[list[tuple[str, str]]]:
    """Return the keys of the stored chunks of an array, old and new."""
    old, new = step.old, step.new
    if not isinstance(old, ArrayMeta) or not isinstance(new, ArrayMeta):
        return []
    prefix = prefix_of(step.path)
    found = yield List(prefix)
    encode = new.chunk_key_encoding.encode
    cells = select_chunk_keys(found, prefix, old.chunk_key_encoding, old.rank)
    return [(key, prefix + encode(cell)) for key, cell in cells]
