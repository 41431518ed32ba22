"""List a hierarchy, level by level.

Each level takes one batch that lists its groups and one or two that fetch the
documents of what is in them, so the number of round trips grows with the depth
and not with the number of nodes. Arrays are never listed, so a million chunks
cost nothing.
"""

from __future__ import annotations

import warnings

from tessarr.drive import Flow, Get, ListDir
from tessarr.errors import TessarrWarning
from tessarr.flow.open import Node, parse_v2, parse_v3, prefix_of
from tessarr.keys import is_node_name, split
from tessarr.metadata.node import GroupMeta
from tessarr.types import ZarrFormat

__all__ = ["members", "names"]


def names(path: str, zarr_format: ZarrFormat) -> Flow[list[str]]:
    """Return the names of the members of the group at `path`, sorted; parses nothing."""
    found = yield from _documents([(path, zarr_format)])
    prefix = prefix_of(path)
    return sorted(child[len(prefix) :] for child in found)


def members(
    path: str, zarr_format: ZarrFormat, *, max_depth: int | None = 0
) -> Flow[dict[str, Node]]:
    """Return the metadata of the nodes below a group, by whole path, sorted.

    Parameters
    ----------
    path
        Of the group.
    zarr_format
        Of the group: what its members are looked for in first.
    max_depth
        0 for the group's members, 1 for these and theirs, …; None for all.
    """
    found: dict[str, Node] = {}
    level = [(path, zarr_format)]
    depth = 0
    while level:
        documents = yield from _documents(level)
        level = []
        for child, (name, document, attributes) in documents.items():
            if name == "zarr.json":
                meta = parse_v3(document, child)
            else:
                meta = parse_v2(name, document, attributes, child)
            found[child] = meta
            if isinstance(meta, GroupMeta):
                level.append((child, meta.zarr_format))
        if max_depth is not None and depth >= max_depth:
            break
        depth += 1
    return {child: found[child] for child in sorted(found, key=lambda child: child.split("/"))}


_Documents = dict[str, tuple[str, bytes, bytes | None]]


def _documents(level: list[tuple[str, ZarrFormat]]) -> Flow[_Documents]:
    """Return what makes each member of the groups of one level a node, by whole path."""
    listings = yield tuple(ListDir(prefix_of(path)) for path, _ in level)
    children = [
        (child, form)
        for (_, form), (_, prefixes) in zip(level, listings, strict=True)
        for child in (prefix[:-1] for prefix in prefixes)
        if is_node_name(split(child)[1], form)
    ]
    found: _Documents = {}
    yield from _fetch([child for child, form in children if form == 3], 3, found)
    yield from _fetch([child for child, _ in children if child not in found], 2, found)
    # A group of format 2 may hold nodes of format 3, though no tool makes such.
    left = [child for child, form in children if form == 2 and child not in found]
    yield from _fetch(left, 3, found)
    return found


def _fetch(children: list[str], zarr_format: ZarrFormat, found: _Documents) -> Flow[None]:
    if not children:
        return
    if zarr_format == 3:
        documents = yield tuple(Get(f"{child}/zarr.json") for child in children)
        for child, document in zip(children, documents, strict=True):
            if document is not None:
                found[child] = ("zarr.json", document, None)
        return
    marks = (".zarray", ".zgroup", ".zattrs")
    documents = yield tuple(Get(f"{child}/{name}") for child in children for name in marks)
    for i, child in enumerate(children):
        zarray, zgroup, zattrs = documents[3 * i : 3 * i + 3]
        if zarray is not None:
            found[child] = (".zarray", zarray, zattrs)
            if zgroup is not None:
                warnings.warn(
                    f"{child!r} has both .zarray and .zgroup: it is taken for an array",
                    TessarrWarning,
                    stacklevel=2,
                )
        elif zgroup is not None:
            found[child] = (".zgroup", zgroup, zattrs)
