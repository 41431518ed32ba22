"""Updates of consolidated metadata after a node has changed.

A change first finds the groups above the node that have copies, in one batch of requests. So a
missing permission raises an error before any change. The change is marked in the copies (see
`tessarr.flow.changes`). Afterwards the copies are rebuilt from the stored documents.

A writer reads the document with copies, then the node, and replaces the document only if it is
unchanged. So the last of several writers stores current copies.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from tessarr.errors import StoreError
from tessarr.flow.batch import ConsolidatedGroup, FindBatch
from tessarr.flow.open import prefix_of
from tessarr.flow.run import Flow, Get, KnownDocument, Replace
from tessarr.format import json
from tessarr.format.node_path import ancestors, join
from tessarr.format.user_warnings import warn_user
from tessarr.metadata import v2
from tessarr.metadata.consolidated import MEMBER, ZMETADATA
from tessarr.metadata.copies_text import DOCUMENTS, CopiesText

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from tessarr.types import ZarrFormat

__all__ = [
    "DOCUMENTS",
    "ConsolidatedGroup",
    "attempt_updates",
    "copies_key",
    "dump_copies",
    "find_consolidated_groups",
    "find_consolidated_groups_of_array",
    "update_entries",
]

_TRIES: Final = 1000

_DOCUMENT_WITH_COPIES: Final = {2: ZMETADATA, 3: "zarr.json"}
_MARK: Final = {2: b'"metadata"', 3: f'"{MEMBER}"'.encode()}


def copies_key(path: str, zarr_format: ZarrFormat) -> str:
    """Return the key of the document that holds the copies of the group at `path`."""
    return prefix_of(path) + _DOCUMENT_WITH_COPIES[zarr_format]


def find_consolidated_groups(
    path: str, *formats: ZarrFormat, include_self: bool = False
) -> Flow[list[ConsolidatedGroup]]:
    """Return the groups above a node that have consolidated metadata.

    Parameters
    ----------
    path
        The path of the node.
    *formats
        The possible formats of such groups.
    include_self
        Whether the node itself can be one of the groups; in format 2 the copies include the group's
        own documents.
    """
    requests = _candidate_requests(path, formats, include_self)
    if not requests:
        return []
    batch = yield FindBatch((path,))
    # The batch itself checks before each change whether marked copies still exist.
    marked = () if batch is None else batch.marked_groups()
    unknown = [group for group in requests if group not in marked]
    documents = (yield tuple([requests[group] for group in unknown])) if unknown else ()
    absent = {
        group
        for group, document in zip(unknown, documents, strict=True)
        if document is None or _MARK[group[1]] not in document
    }
    return [group for group in requests if group not in absent]


def find_consolidated_groups_of_array(
    path: str, zarr_format: ZarrFormat
) -> Flow[list[ConsolidatedGroup]]:
    """Return the groups above an array that have consolidated metadata.

    An array outside of a hierarchy takes one request: without a parent group, the function looks up
    no further ancestors.

    Parameters
    ----------
    path, zarr_format
        The path and the format of the array.
    """
    if not path:
        return []
    marker = "zarr.json" if zarr_format == 3 else ".zgroup"
    if (yield Get(join(path.rpartition("/")[0], marker))) is None:
        return []
    return (yield from find_consolidated_groups(path, zarr_format))


@lru_cache(512)
def _candidate_requests(
    path: str, formats: tuple[ZarrFormat, ...], include_self: bool
) -> dict[ConsolidatedGroup, Get]:
    """Return requests for the documents of groups that may have consolidated metadata."""
    groups: list[ConsolidatedGroup] = [
        (group, form) for group in ancestors(path) for form in formats
    ]
    if include_self and 2 in formats:
        groups.append((path, 2))
    return {group: Get(copies_key(*group)) for group in groups}


def attempt_updates(updates: Iterable[tuple[Flow[Any], str, str]]) -> Flow[None]:
    """Update the copies of groups, also if the update of one fails; warn of failures.

    Parameters
    ----------
    updates
        The flow that updates the copies, the group, and the path of a changed node.
    """
    errors = []
    for change, group, path in updates:
        try:
            yield from _attempt_update(change, group, path)
        except Exception as error:  # noqa: BLE001 (a warning that is an error)
            errors.append(error)
    if errors:
        raise errors[0]


def _attempt_update(change: Flow[Any], group: str, path: str) -> Flow[None]:
    try:
        yield from change
    except Exception as error:  # noqa: BLE001 (whatever the store raises)
        warn_user(
            f"the change of {path or '/'!r} is stored, but the consolidated metadata of group "
            f"{group or '/'!r} does not show it: {error}; call consolidate_metadata again",
        )


def update_entries(
    keeper: ConsolidatedGroup,
    changes: Mapping[str, bool],
    *,
    is_own: Callable[[str], bool],
    reread: bool = False,
) -> Flow[None]:
    """Update the copies of a group from the stored documents of changed nodes.

    Parameters
    ----------
    keeper
        The group.
    changes
        The paths of the nodes. The value is whether the change created or deleted the node: groups
        above it may be new, and nodes below it no longer exist.
    is_own
        Tells whether a mark belongs to the changes; the update removes it.
    reread
        Whether nodes may exist again below created and deleted ones, so that the update reads
        their documents.
    """
    group, zarr_format = keeper
    prefix = len(prefix_of(group))
    key = copies_key(group, zarr_format)
    names = DOCUMENTS[zarr_format]
    changed = dict.fromkeys(_changed_nodes(group, changes))
    seen = KnownDocument()
    for _ in range(_TRIES):
        old = yield Get(key, seen)
        copies = None if old is None else CopiesText.find(old, zarr_format, what=_what(key))
        if copies is None:
            return
        new = [path[prefix:] for path, is_new in changes.items() if is_new]
        below = [join(group, other) for other in copies.paths_below(new)]
        nodes = [*dict.fromkeys((*changed, *below))] if reread else [*changed]
        removed = [] if reread else [path[prefix:] for path in below if path not in changed]
        values = yield tuple(Get(prefix_of(node) + name) for node in nodes for name in names)
        contents = zip(*[iter(values)] * len(names), strict=True)
        copied = {
            node[prefix:]: _load_documents(node, dict(zip(names, parts, strict=True)))
            for node, parts in zip(nodes, contents, strict=True)
        }
        marks = {mark: path for mark, path in copies.marks().items() if not is_own(mark)}
        document = copies.replace(copied, removed, marks)
        if document == old or (yield Replace(key, document, old, seen)):
            return
    raise StoreError(
        f"cannot change {key!r}: other programs changed it {_TRIES} times",
        retryable=True,
        key=key,
    )


def _changed_nodes(group: str, changes: Mapping[str, bool]) -> Iterator[str]:
    """Yield the nodes whose copies may change, groups first."""
    for path, is_new in changes.items():
        if is_new:
            yield from (node for node in ancestors(path) if len(node) > len(group))
        yield path


def _load_documents(node: str, contents: Mapping[str, bytes | None]) -> dict[str, Any]:
    """Return the documents of a node as JSON; none if only attributes exist."""
    documents = {
        name: v2.load(content, name, what=_what(join(node, name)))[0]
        for name, content in contents.items()
        if content is not None
    }
    return documents if documents.keys() != {v2.ATTRIBUTES} else {}


def _what(key: str) -> str:
    """Return the name of a document in messages."""
    return f"metadata {key!r}"


def dump_copies(document: dict[str, Any], zarr_format: ZarrFormat) -> bytes:
    """Return the bytes of a document with copies."""
    return json.dump(document, indent=4 if zarr_format == 2 else 2, sort_keys=zarr_format == 2)
