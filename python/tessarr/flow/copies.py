"""Keep consolidated metadata in step with the nodes that it has copies of.

Every change of a node first looks for groups above it that keep copies (one batch of
requests), so that what cannot be looked at fails before anything has changed. The change is
marked in the copies (see `tessarr.flow.changes`). After
the change they are built again from the stored documents. Each copy is replaced only if
it is still the one that was read, and the node is read after it: the last of several
writers stores copies that are current.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tessarr.flow.open import prefix_of
from tessarr.flow.replace import replace
from tessarr.flow.run import Flow, Get
from tessarr.format import json
from tessarr.format.node_path import ancestors, join
from tessarr.format.user_warnings import warn_user
from tessarr.metadata import v2
from tessarr.metadata.consolidated import (
    MEMBER,
    ZMETADATA,
    has_copies,
    read_marks,
    replace_copies,
    replace_marks,
)

if TYPE_CHECKING:
    from tessarr.types import ZarrFormat

__all__ = [
    "DOCUMENTS",
    "Keeper",
    "attempt",
    "copied_from",
    "dump",
    "keepers",
    "keepers_around",
    "update_entry",
]

Keeper: TypeAlias = "tuple[str, ZarrFormat]"
"""A group that keeps copies, and its format."""

DOCUMENTS: Final[dict[ZarrFormat, tuple[str, ...]]] = {
    2: (".zarray", ".zgroup", ".zattrs"),
    3: ("zarr.json",),
}
"""What a node may have, by format."""

_HOLDER: Final = {2: ZMETADATA, 3: "zarr.json"}
_MARK: Final = {2: b'"metadata"', 3: f'"{MEMBER}"'.encode()}


def copied_from(path: str, zarr_format: ZarrFormat) -> str:
    """Return the key of the document that holds the copies of the group at `path`."""
    return prefix_of(path) + _HOLDER[zarr_format]


def keepers(path: str, *formats: ZarrFormat, own: bool = False) -> Flow[list[Keeper]]:
    """Return the groups above a node that keep copies of metadata.

    Parameters
    ----------
    path
        Of the node.
    *formats
        In which format such groups may be.
    own
        Whether the node may be such a group itself: matters in format 2, whose copies
        include those of the group's own documents.
    """
    groups, requests = _above(path, formats, own)
    if not groups:
        return []
    found = yield requests
    return [
        group
        for group, document in zip(groups, found, strict=True)
        if document is not None and _MARK[group[1]] in document
    ]


def keepers_around(path: str, zarr_format: ZarrFormat) -> Flow[list[Keeper]]:
    """Return the same for an array that may be in no hierarchy: one request tells that it is not.

    A node of a hierarchy is in a group. Where there is none, nothing further up is looked at.

    Parameters
    ----------
    path, zarr_format
        Of the array.
    """
    if not path:
        return []
    marker = "zarr.json" if zarr_format == 3 else ".zgroup"
    if (yield Get(join(path.rpartition("/")[0], marker))) is None:
        return []
    return (yield from keepers(path, zarr_format))


@lru_cache(512)
def _above(
    path: str, formats: tuple[ZarrFormat, ...], own: bool
) -> tuple[list[Keeper], tuple[Get, ...]]:
    """Return the groups that may keep copies, and what tells whether they do."""
    groups: list[Keeper] = [(group, form) for group in ancestors(path) for form in formats]
    if own and 2 in formats:
        groups.append((path, 2))
    return groups, tuple(Get(copied_from(*group)) for group in groups)


def attempt(change: Flow[Any], group: str, path: str) -> Flow[None]:
    """Change the copies that `group` keeps because the node at `path` was changed; or warn."""
    try:
        yield from change
    except Exception as error:  # noqa: BLE001 (whatever the store raises)
        warn_user(
            f"the change of {path or '/'!r} is stored, but the consolidated metadata of group "
            f"{group or '/'!r} does not show it: {error}; call consolidate_metadata again",
        )


def update_entry(keeper: Keeper, path: str, *, below: bool, mark: str) -> Flow[None]:
    """Bring the copies of a group in step with what is stored of the node at `path`.

    Parameters
    ----------
    keeper
        The group.
    path
        Of the node.
    below
        Whether the node was made or deleted, so that groups above it may be new, and
        what was below it is gone.
    mark
        The mark of the change, which goes.
    """
    group, zarr_format = keeper
    nodes = [path]
    if below:
        nodes = [at for at in (*ancestors(path), path) if len(at) > len(group)]
    names = DOCUMENTS[zarr_format]
    key = copied_from(group, zarr_format)
    prefix = len(prefix_of(group))

    def make(old: bytes | None, *found: bytes | None) -> tuple[bytes | None, None]:
        if old is None:
            return None, None
        document, _ = json.load(old, what=f"metadata {key!r}", tokens=zarr_format == 2)
        if not has_copies(document, zarr_format):
            return old, None
        stated: dict[str, dict[str, Any]] = {}
        answers = iter(found)
        for at in nodes:
            own = {}
            for name, content in zip(names, answers, strict=False):
                if content is not None:
                    what = f"metadata {join(at, name)!r}"
                    own[name], _ = v2.load(content, name, what=what)
            stated[at[prefix:]] = own if own.keys() != {".zattrs"} else {}
        marks = read_marks(document, zarr_format)
        marks.pop(mark, None)
        new = replace_copies(document, zarr_format, stated, below=path[prefix:] if below else None)
        return dump(replace_marks(new, zarr_format, marks), zarr_format), None

    beside = tuple(Get(prefix_of(at) + name) for at in nodes for name in names)
    yield from replace(key, make, beside)


def dump(document: dict[str, Any], zarr_format: ZarrFormat) -> bytes:
    """Return a document with copies as it is stored."""
    return json.dump(document, indent=4 if zarr_format == 2 else 2, sort_keys=zarr_format == 2)
