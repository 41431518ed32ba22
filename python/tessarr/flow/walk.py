"""Listing of a hierarchy, level by level.

Each level takes one batch of requests that lists its groups, and one or two batches that fetch
the documents of their members. So the number of round trips depends on the depth, not on the
number of nodes. The flow never lists arrays, so that their chunks cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tessarr.errors import AccessError, DataError, MetadataError, UnsupportedError
from tessarr.flow.open import MARKERS, parse_v2, parse_v3, prefix_of
from tessarr.flow.run import Flow, Get, ListDir, Size, TryRequest, run_flow
from tessarr.format import json as _json
from tessarr.format.node_path import is_node_name, join, split
from tessarr.format.user_warnings import warn_user
from tessarr.metadata import v2
from tessarr.metadata.node import GroupMeta, NodeOrError
from tessarr.store import LocalStore, MemoryStore
from tessarr.store.resolve import ICECHUNK_REMEDY, is_icechunk
from tessarr.types import ZarrFormat

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.store import Store

__all__ = [
    "BELOW",
    "StoredNode",
    "describe_nodes_below",
    "find_nodes_below",
    "list_documents",
    "list_first_members",
    "list_folders",
    "list_members",
    "list_names",
]

_MARKERS: Final = tuple(name for names in MARKERS.values() for name in names)
_DOCUMENTS: Final = frozenset((*_MARKERS, ".zattrs", ".zmetadata"))
_LEVELS_BELOW: Final = 2
_LOCAL_FOLDERS: Final = 100
_REMOTE_FOLDERS: Final = 8
"""The maximum number of folders of a level to list in a remote store."""
BELOW: Final = "; below it lie nodes"
"""The start of the list of nodes below in an error."""
_NAMED: Final = 8
"""The number of nodes that an error names."""


class StoredNode(NamedTuple):
    """The stored documents of a node."""

    name: str
    document: bytes
    attributes: bytes | None
    error: AccessError | DataError | MetadataError | None = None
    """The error, if the documents could not be read."""

    @property
    def zarr_format(self) -> ZarrFormat:
        """The format of the node."""
        return 3 if self.name == "zarr.json" else 2

    def json(self, path: str) -> dict[str, object]:
        """Return the documents by name as JSON.

        Raises
        ------
        MetadataError
            If a document is not JSON that another document can contain. In format 3 that excludes
            the token NaN outside of attributes.
        """
        key = join(path, self.name)
        what = f"metadata {key!r}"
        value, defects = _json.load(
            self.document, what=what, tokens=self.zarr_format == 2, tokens_in="attributes"
        )
        if defects and self.zarr_format == 3:
            raise MetadataError(f"invalid {what}: {'; '.join(defects)}", path=path, key=key)
        documents = {self.name: value}
        if self.attributes is not None:
            what = f"metadata {join(path, '.zattrs')!r}"
            documents[".zattrs"], _ = v2.load(self.attributes, ".zattrs", what=what)
        return documents


def list_names(
    path: str, zarr_format: ZarrFormat, on_unknown: Callable[[str], None] | None = None
) -> Flow[list[str]]:
    """Return the sorted names of the members of the group at `path`, without parsing metadata.

    `on_unknown` is as for `list_members`.
    """
    level: list[tuple[str, ZarrFormat]] = [(path, zarr_format)]
    members = yield from _list_level(level, root=path, warn=True, on_unknown=on_unknown)
    prefix = prefix_of(path)
    return sorted(child[len(prefix) :] for child in members)


def list_folders(path: str, zarr_format: ZarrFormat) -> Flow[list[str]]:
    """Return the sorted names of folders in the group at `path`: its members, and perhaps others.

    The flow takes one listing, and reads no documents.
    """
    listings = yield (ListDir(prefix_of(path)),)
    names = (split(prefix[:-1])[1] for prefix in listings[0][1])
    return sorted(name for name in names if is_node_name(name, zarr_format))


def list_first_members(
    path: str, zarr_format: ZarrFormat, max_members: int
) -> Flow[tuple[dict[str, NodeOrError], int]]:
    """Return the first members of a group by name, and the number of folders in the group.

    The flow takes one listing, and reads the documents of at most `max_members` folders.
    """
    names = yield from list_folders(path, zarr_format)
    prefix = prefix_of(path)
    children: list[tuple[str, ZarrFormat]] = [
        (prefix + name, zarr_format) for name in names[:max_members]
    ]
    nodes = yield from _fetch_documents(children, warn=False)
    return {
        child[len(prefix) :]: _parse_node(nodes[child], child)
        for child, _ in children
        if child in nodes
    }, len(names) - (len(children) - len(nodes))


def find_nodes_below(path: str, max_folders: int) -> Flow[list[str]]:
    """Return the relative paths of the topmost nodes below a path without a node.

    Parameters
    ----------
    path
        A path without a node.
    max_folders
        The maximum number of folders of a level to list.

    Notes
    -----
    The result has the nodes of the first level with nodes. The flow never lists arrays, because
    they may have many chunks.
    """
    prefix = prefix_of(path)
    level = [path]
    for depth in range(_LEVELS_BELOW):
        listings = yield tuple(ListDir(prefix_of(folder)) for folder in level)
        if depth == 0 and any(key[len(prefix) :] in _MARKERS for key in listings[0][0]):
            return []  # a node of another format exists
        level = sorted(folder[:-1] for _, prefixes in listings for folder in prefixes)[:max_folders]
        sizes = yield tuple(Size(f"{folder}/{name}") for folder in level for name in _MARKERS)
        marked = {level[i // len(_MARKERS)] for i, size in enumerate(sizes) if size is not None}
        if marked or not level:
            return [folder[len(prefix) :] for folder in level if folder in marked]
    return []


def describe_nodes_below(path: str, store: Store) -> str:
    """Return text for an error that lists the nodes below a missing node; "" without any."""
    max_folders = _LOCAL_FOLDERS if isinstance(store, LocalStore | MemoryStore) else _REMOTE_FOLDERS
    try:
        _, prefixes = store.list_dir(prefix_of(path))
        folders = {prefix[len(prefix_of(path)) : -1] for prefix in prefixes}
        if is_icechunk(folders.__contains__):
            return f"; {ICECHUNK_REMEDY}"
        paths = run_flow(find_nodes_below(path, max_folders), store)
    except Exception:  # noqa: BLE001 (a hint is no reason for another error)
        return ""
    if not paths:
        return ""
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    names = ", ".join(repr(name) for name in paths[:_NAMED])
    return (
        f"{BELOW}: {names}{more}; open one of them by its path, or make a group of it with "
        "create_group"
    )


def list_members(
    path: str,
    zarr_format: ZarrFormat,
    *,
    max_depth: int | None = 0,
    warn: bool = True,
    on_unknown: Callable[[str], None] | None = None,
) -> Flow[dict[str, NodeOrError]]:
    """Return the metadata of the nodes below a group, sorted by complete path.

    Parameters
    ----------
    path
        The path of the group.
    zarr_format
        The format of the group, which the flow tries first for its members.
    max_depth
        0 for the group's members, 1 for these and their members, …; None for all levels.
    warn
        Whether to warn about nodes with documents of several formats.
    on_unknown
        The flow calls this function with each key and each folder in a group that is neither a
        node nor a metadata document.

    Returns
    -------
    dict
        The metadata of each node, or the error of an unreadable node.
    """
    nodes = yield from list_documents(
        path, zarr_format, max_depth=max_depth, warn=warn, on_unknown=on_unknown
    )
    return {child: meta for child, (_, meta) in nodes.items()}


def list_documents(
    path: str,
    zarr_format: ZarrFormat,
    *,
    max_depth: int | None = 0,
    warn: bool = True,
    on_unknown: Callable[[str], None] | None = None,
) -> Flow[dict[str, tuple[StoredNode, NodeOrError]]]:
    """Return the nodes as `list_members` does, with their documents."""
    nodes: dict[str, tuple[StoredNode, NodeOrError]] = {}
    level = [(path, zarr_format)]
    depth = 0
    while level:
        stored = yield from _list_level(level, root=path, warn=warn, on_unknown=on_unknown)
        level = []
        for child, node in stored.items():
            meta = _parse_node(node, child)
            nodes[child] = (node, meta)
            if isinstance(meta, GroupMeta):
                level.append((child, meta.zarr_format))
        if max_depth is not None and depth >= max_depth:
            break
        depth += 1
    return {child: nodes[child] for child in sorted(nodes, key=lambda child: child.split("/"))}


def _parse_node(node: StoredNode, path: str) -> NodeOrError:
    if node.error is not None:
        return node.error
    try:
        if node.zarr_format == 3:
            return parse_v3(node.document, path)
        return parse_v2(node.name, node.document, node.attributes, path=path)
    except (MetadataError, UnsupportedError) as error:
        return error


def _list_level(
    level: list[tuple[str, ZarrFormat]],
    *,
    root: str,
    warn: bool,
    on_unknown: Callable[[str], None] | None,
) -> Flow[dict[str, StoredNode]]:
    """Return the documents of the members of the groups of one level, by complete path.

    If listing the group at `root` is denied, the flow raises an error. It omits other such groups
    with a warning.
    """
    listings = yield tuple(TryRequest(ListDir(prefix_of(path))) for path, _ in level)
    children = []
    unknown: list[str] = []
    for (path, form), listing in zip(level, listings, strict=True):
        if isinstance(listing, Exception):
            if path == root:
                raise listing
            warn_user(f"the members of group {path!r} are left out: {listing}")
            continue
        keys, prefixes = listing
        if warn:
            _warn_of_both_formats(path, keys)
        if on_unknown is not None:
            unknown += (key for key in keys if split(key)[1] not in _DOCUMENTS)
            unknown += (prefix[:-1] for prefix in prefixes)
        paths = (prefix[:-1] for prefix in prefixes)
        children += [(child, form) for child in paths if is_node_name(split(child)[1], form)]
    nodes = yield from _fetch_documents(children, warn=warn)
    for path in unknown:
        if on_unknown is not None and path not in nodes:
            on_unknown(path)
    return nodes


def _fetch_documents(
    children: list[tuple[str, ZarrFormat]], *, warn: bool
) -> Flow[dict[str, StoredNode]]:
    """Return the documents of the nodes among folders, which have a format to try first."""
    nodes: dict[str, StoredNode] = {}
    yield from _fetch_nodes([child for child, form in children if form == 3], 3, nodes, warn=warn)
    yield from _fetch_nodes(
        [child for child, _ in children if child not in nodes], 2, nodes, warn=warn
    )
    # A group of format 2 may have members of format 3, although no tool creates them.
    missing = [child for child, form in children if form == 2 and child not in nodes]
    yield from _fetch_nodes(missing, 3, nodes, warn=warn)
    return nodes


def _warn_of_both_formats(path: str, keys: list[str]) -> None:
    """Warn about documents of both formats at one path."""
    names_ = {split(key)[1] for key in keys}
    old = names_ & {".zarray", ".zgroup"}
    if old and "zarr.json" in names_:
        warn_user(
            f"{path or '/'!r} has both zarr.json and {min(old)}: format 3 is what the node is; "
            "delete the documents of one format, or open with zarr_format=2",
        )


def _fetch_nodes(
    children: list[str], zarr_format: ZarrFormat, nodes: dict[str, StoredNode], *, warn: bool
) -> Flow[None]:
    if not children:
        return
    if zarr_format == 3:
        documents = yield tuple(TryRequest(Get(f"{child}/zarr.json")) for child in children)
        for child, document in zip(children, documents, strict=True):
            if isinstance(document, AccessError | DataError | MetadataError):
                nodes[child] = StoredNode("zarr.json", b"", None, document)
            elif document is not None:
                nodes[child] = StoredNode("zarr.json", document, None)
        return
    marks = (".zarray", ".zgroup", ".zattrs")
    documents = yield tuple(
        TryRequest(Get(f"{child}/{name}")) for child in children for name in marks
    )
    for i, child in enumerate(children):
        contents = documents[3 * i : 3 * i + 3]
        zarray, zgroup, zattrs = contents
        errors = [
            document
            for document in contents
            if isinstance(document, AccessError | DataError | MetadataError)
        ]
        if errors:
            nodes[child] = StoredNode(".zarray", b"", None, errors[0])
        elif zarray is not None:
            nodes[child] = StoredNode(".zarray", zarray, zattrs)
            if zgroup is not None and warn:
                warn_user(
                    f"{child!r} has both .zarray and .zgroup: it is taken for an array",
                )
        elif zgroup is not None:
            nodes[child] = StoredNode(".zgroup", zgroup, zattrs)
