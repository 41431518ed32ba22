"""List a hierarchy, level by level.

Each level takes one batch that lists its groups and one or two that fetch the
documents of what is in them, so the number of round trips grows with the depth
and not with the number of nodes. Arrays are never listed, so a million chunks
cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tessarr.errors import AccessError, DataError, MetadataError, UnsupportedError
from tessarr.flow.open import MARKERS, parse_v2, parse_v3, prefix_of
from tessarr.flow.run import Allowed, Flow, Get, ListDir, Size, run_flow
from tessarr.format import json as _json
from tessarr.format.node_path import is_node_name, join, split
from tessarr.format.user_warnings import warn_user
from tessarr.metadata import v2
from tessarr.metadata.node import GroupMeta, NodeOrError
from tessarr.store import LocalStore, MemoryStore
from tessarr.types import ZarrFormat

if TYPE_CHECKING:
    from tessarr.store import Store

__all__ = ["BELOW", "Stored", "below", "documents", "hint_below", "members", "names"]

_MARKERS: Final = tuple(name for names in MARKERS.values() for name in names)
_LEVELS_BELOW: Final = 2
_FOLDERS_NEAR: Final = 100
_FOLDERS_FAR: Final = 8
"""How many folders of a level are looked into, where a request takes long."""
BELOW: Final = "; below it lie nodes"
"""How the names of nodes below begin in an error."""
_NAMED: Final = 8
"""How many nodes an error names."""


class Stored(NamedTuple):
    """The documents that make a node, as they are stored."""

    name: str
    document: bytes
    attributes: bytes | None
    error: AccessError | DataError | MetadataError | None = None
    """Why the documents could not be read, if they could not."""

    @property
    def zarr_format(self) -> ZarrFormat:
        """The format of the node."""
        return 3 if self.name == "zarr.json" else 2

    def json(self, path: str) -> dict[str, object]:
        """Return the documents by name as JSON.

        Raises
        ------
        MetadataError
            Where one is no JSON that may stand in another document: in format 3 that
            includes the token NaN outside of attributes.
        """
        key = join(path, self.name)
        what = f"metadata {key!r}"
        value, defects = _json.load(
            self.document, what=what, tokens=self.zarr_format == 2, tokens_in="attributes"
        )
        if defects and self.zarr_format == 3:
            raise MetadataError(f"invalid {what}: {'; '.join(defects)}", path=path, key=key)
        found = {self.name: value}
        if self.attributes is not None:
            what = f"metadata {join(path, '.zattrs')!r}"
            found[".zattrs"], _ = v2.load(self.attributes, ".zattrs", what=what)
        return found


def names(path: str, zarr_format: ZarrFormat) -> Flow[list[str]]:
    """Return the names of the members of the group at `path`, sorted; parses nothing."""
    found = yield from _members([(path, zarr_format)], root=path, warn=True)
    prefix = prefix_of(path)
    return sorted(child[len(prefix) :] for child in found)


def below(path: str, most: int) -> Flow[list[str]]:
    """Return the paths of nodes below what is no node itself, relative to it; not of all levels.

    Parameters
    ----------
    path
        Where there is no node.
    most
        How many folders of a level are looked into.

    Notes
    -----
    Of the first level that has nodes. Arrays are never listed, as they may have any number of
    chunks.
    """
    prefix = prefix_of(path)
    level = [path]
    for depth in range(_LEVELS_BELOW):
        listings = yield tuple(ListDir(prefix_of(at)) for at in level)
        if depth == 0 and any(key[len(prefix) :] in _MARKERS for key in listings[0][0]):
            return []  # there is a node, of another format
        level = sorted(at[:-1] for _, prefixes in listings for at in prefixes)[:most]
        sizes = yield tuple(Size(f"{at}/{name}") for at in level for name in _MARKERS)
        marked = {level[i // len(_MARKERS)] for i, size in enumerate(sizes) if size is not None}
        if marked or not level:
            return [at[len(prefix) :] for at in level if at in marked]
    return []


def hint_below(path: str, store: Store) -> str:
    """Return what an error about a missing node adds: which nodes lie below; "" for none."""
    most = _FOLDERS_NEAR if isinstance(store, LocalStore | MemoryStore) else _FOLDERS_FAR
    try:
        found = run_flow(below(path, most), store)
    except Exception:  # noqa: BLE001 (a hint is no reason for another error)
        return ""
    if not found:
        return ""
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    names = ", ".join(repr(name) for name in found[:_NAMED])
    return (
        f"{BELOW}: {names}{more}; open one of them by its path, or make a group of it with "
        "create_group"
    )


def members(
    path: str, zarr_format: ZarrFormat, *, max_depth: int | None = 0, warn: bool = True
) -> Flow[dict[str, NodeOrError]]:
    """Return the metadata of the nodes below a group, by whole path, sorted.

    Parameters
    ----------
    path
        Of the group.
    zarr_format
        Of the group: what its members are looked for in first.
    max_depth
        0 for the group's members, 1 for these and theirs, …; None for all.
    warn
        Whether to warn of nodes with documents of several kinds.

    Returns
    -------
    dict
        In the place of a node that cannot be read, the error that says why.
    """
    found = yield from documents(path, zarr_format, max_depth=max_depth, warn=warn)
    return {child: meta for child, (_, meta) in found.items()}


def documents(
    path: str, zarr_format: ZarrFormat, *, max_depth: int | None = 0, warn: bool = True
) -> Flow[dict[str, tuple[Stored, NodeOrError]]]:
    """Return like `members`, with the documents of each node."""
    found: dict[str, tuple[Stored, NodeOrError]] = {}
    level = [(path, zarr_format)]
    depth = 0
    while level:
        stored = yield from _members(level, root=path, warn=warn)
        level = []
        for child, own in stored.items():
            meta = _parse(own, child)
            found[child] = (own, meta)
            if isinstance(meta, GroupMeta):
                level.append((child, meta.zarr_format))
        if max_depth is not None and depth >= max_depth:
            break
        depth += 1
    return {child: found[child] for child in sorted(found, key=lambda child: child.split("/"))}


def _parse(own: Stored, path: str) -> NodeOrError:
    if own.error is not None:
        return own.error
    try:
        if own.zarr_format == 3:
            return parse_v3(own.document, path)
        return parse_v2(own.name, own.document, own.attributes, path=path)
    except (MetadataError, UnsupportedError) as error:
        return error


def _members(
    level: list[tuple[str, ZarrFormat]], *, root: str, warn: bool
) -> Flow[dict[str, Stored]]:
    """Return what makes each member of the groups of one level a node, by whole path.

    The group at `root` has to be listed; others that may not be are left out with a warning.
    """
    listings = yield tuple(Allowed(ListDir(prefix_of(path))) for path, _ in level)
    children = []
    for (path, form), listing in zip(level, listings, strict=True):
        if isinstance(listing, Exception):
            if path == root:
                raise listing
            warn_user(f"the members of group {path!r} are left out: {listing}")
            continue
        keys, prefixes = listing
        if warn:
            _warn_of_both_formats(path, keys)
        paths = (prefix[:-1] for prefix in prefixes)
        children += [(child, form) for child in paths if is_node_name(split(child)[1], form)]
    found: dict[str, Stored] = {}
    yield from _fetch([child for child, form in children if form == 3], 3, found, warn=warn)
    yield from _fetch([child for child, _ in children if child not in found], 2, found, warn=warn)
    # A group of format 2 may hold nodes of format 3, though no tool makes such.
    left = [child for child, form in children if form == 2 and child not in found]
    yield from _fetch(left, 3, found, warn=warn)
    return found


def _warn_of_both_formats(path: str, keys: list[str]) -> None:
    """Warn of documents of both formats at one path, which a listing shows for nothing."""
    names_ = {split(key)[1] for key in keys}
    old = names_ & {".zarray", ".zgroup"}
    if old and "zarr.json" in names_:
        warn_user(
            f"{path or '/'!r} has both zarr.json and {min(old)}: format 3 is what the node is; "
            "delete the documents of one format, or open with zarr_format=2",
        )


def _fetch(
    children: list[str], zarr_format: ZarrFormat, found: dict[str, Stored], *, warn: bool
) -> Flow[None]:
    if not children:
        return
    if zarr_format == 3:
        documents = yield tuple(Allowed(Get(f"{child}/zarr.json")) for child in children)
        for child, document in zip(children, documents, strict=True):
            if isinstance(document, AccessError | DataError | MetadataError):
                found[child] = Stored("zarr.json", b"", None, document)
            elif document is not None:
                found[child] = Stored("zarr.json", document, None)
        return
    marks = (".zarray", ".zgroup", ".zattrs")
    documents = yield tuple(Allowed(Get(f"{child}/{name}")) for child in children for name in marks)
    for i, child in enumerate(children):
        own = documents[3 * i : 3 * i + 3]
        zarray, zgroup, zattrs = own
        errors = [
            document
            for document in own
            if isinstance(document, AccessError | DataError | MetadataError)
        ]
        if errors:
            found[child] = Stored(".zarray", b"", None, errors[0])
        elif zarray is not None:
            found[child] = Stored(".zarray", zarray, zattrs)
            if zgroup is not None and warn:
                warn_user(
                    f"{child!r} has both .zarray and .zgroup: it is taken for an array",
                )
        elif zgroup is not None:
            found[child] = Stored(".zgroup", zgroup, zattrs)
