"""Lookup and parsing of the metadata of a node, in as few requests as its format allows.

A node of format 3 takes one request; format 2 takes two more, because it stores attributes in a
separate document. Format 1 comes last. The first existing document determines the format; if it
is invalid, the flow raises an error. If documents of several formats exist, the newest format
wins.

A memo maps the bytes of documents to parsed metadata. It saves parsing unchanged documents and is
never stale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from tessarr.errors import MetadataError, NotFoundError
from tessarr.flow.run import Flow, Get, KnownDocument, Size
from tessarr.format import json
from tessarr.metadata import v2, v3
from tessarr.metadata.node import ArrayMeta, GroupMeta

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tessarr.types import ZarrFormat

__all__ = [
    "MARKERS",
    "Kind",
    "Node",
    "cache_parsed",
    "check_node_with",
    "find_node",
    "node_exists",
    "not_found_error",
    "open_array",
    "open_group",
    "open_node",
    "parse_copies_v2",
    "parse_documents",
    "parse_v2",
    "parse_v3",
    "prefix_of",
    "read_documents",
]

Node: TypeAlias = ArrayMeta | GroupMeta
Kind: TypeAlias = Literal["array", "group"]

MARKERS: Final = {3: ("zarr.json",), 2: (".zarray", ".zgroup")}
"""The documents that mark a node, by format."""

_MAX_DOCUMENTS: Final = 2048
_MAX_BYTES: Final = 1 << 23
"""Limits of one generation; a larger document is not kept."""


class _ParsedNodes(dict[Any, "Node | None"]):
    """The metadata of documents by content, or None, in two generations.

    A full generation replaces the one before it, which drops what was not used since.
    """

    def __init__(self) -> None:
        self._old: dict[Any, Node | None] = {}
        self._size_bytes = 0

    def __missing__(self, documents: object) -> Node | None:
        meta = self._old.get(documents)
        if meta is not None:
            self.add(documents, meta)
        return meta

    def clear(self) -> None:
        """Forget all documents."""
        super().clear()
        self._old, self._size_bytes = {}, 0

    def add(self, documents: object, meta: Node) -> None:
        """Add the metadata of a document, or of a tuple of documents."""
        parts: tuple[Any, ...] = documents if isinstance(documents, tuple) else (documents,)
        size_bytes = sum(len(part) for part in parts if part is not None)
        if size_bytes > _MAX_BYTES:
            return
        if len(self) >= _MAX_DOCUMENTS or self._size_bytes + size_bytes > _MAX_BYTES:
            generation = dict(self)
            self.clear()
            self._old = generation
        self[documents] = meta
        self._size_bytes += size_bytes


_parsed_nodes: Final = _ParsedNodes()


_NOT_FOUND: Final = {None: "node_not_found", "array": "array_not_found", "group": "group_not_found"}


def prefix_of(path: str) -> str:
    """Return the prefix of the keys of the node at `path`.

    Examples
    --------
    >>> prefix_of("a/b"), prefix_of("")
    ('a/b/', '')
    """
    return f"{path}/" if path else ""


def read_documents(path: str, names: Iterable[str]) -> Flow[dict[str, bytes]]:
    """Read the documents of a node; the result lacks absent documents."""
    prefix, names = prefix_of(path), tuple(names)
    values = yield tuple(Get(prefix + name) for name in names)
    return {name: value for name, value in zip(names, values, strict=True) if value is not None}


def find_node(
    path: str,
    *,
    zarr_format: ZarrFormat | None = None,
    kind: Kind | None = None,
    copies: str | None = None,
    within: ZarrFormat | None = None,
    attributes: bool = True,
    seen: KnownDocument | None = None,
) -> Flow[Node | None]:
    """Return the metadata of the node at `path`, or None if the node does not exist.

    Parameters
    ----------
    path
        The normalised path.
    zarr_format
        The only format to look for.
    kind
        The expected kind, which saves a request in format 2. The result may have the other kind.
    copies
        The name of the document with consolidated metadata of a group of format 2. By default the
        flow does not read it.
    within
        The format of the group above, which the flow tries first. It then skips format 1, which has
        no groups.
    attributes
        Whether to read attributes of format 2, which have a separate document.
    seen
        Receives the document of format 3, if it exists and `within` is not 2.
    """
    prefix = prefix_of(path)
    if zarr_format != 2 and within != 2:
        document = yield Get(prefix + "zarr.json", seen)
        if document is not None:
            return parse_v3(document, path)
        if zarr_format == 3:
            return None
    documents = (".zgroup", ".zarray") if kind == "group" else (".zarray", ".zgroup")
    for name in documents:
        document = yield Get(prefix + name)
        if document is not None:
            names = (".zattrs", copies) if copies and name == ".zgroup" else (".zattrs",)
            others = (yield tuple(Get(prefix + other) for other in names)) if attributes else [None]
            return parse_v2(name, document, *others, path=path)
    if within == 2:
        document = yield Get(prefix + "zarr.json")
        return None if document is None else parse_v3(document, path)
    return (yield from _find_v1(path)) if zarr_format is None and within is None else None


def _find_v1(path: str) -> Flow[ArrayMeta | None]:
    """Return the metadata of the array of format 1 at `path`, or None."""
    from tessarr.metadata import v1

    prefix = prefix_of(path)
    document = yield Get(prefix + v1.ARRAY)
    if not v1.is_v1(document):
        return None
    attributes = yield Get(prefix + v1.ATTRIBUTES)
    return v1.parse(document, attributes, where=path)


def node_exists(path: str, *, v1: bool = False) -> Flow[bool]:
    """Return whether a node exists at `path`, with valid or invalid documents.

    Parameters
    ----------
    path, v1
        As for `check_node_with`.
    """
    return (yield from check_node_with(path, (), v1=v1))[0]


def check_node_with(
    path: str, more_requests: tuple[Size, ...], *, v1: bool = False
) -> Flow[tuple[bool, list[int | None]]]:
    """Return whether a node exists at `path`, and the responses to other requests.

    Parameters
    ----------
    path
        The path of the node.
    v1
        Whether an array of format 1 counts: a new node at the path would contain its chunks.
    more_requests
        Requests to send in the same batch.
    """
    prefix = prefix_of(path)
    markers = [Size(prefix + name) for names in MARKERS.values() for name in names]
    old = [Size(prefix + "meta")] if v1 else []
    sizes = list((yield (*markers, *old, *more_requests)))
    marker_sizes, other_sizes = sizes[: len(markers)], sizes[len(markers) + len(old) :]
    if marker_sizes.count(None) < len(markers):
        return True, other_sizes
    if old and sizes[len(markers)] is not None:
        from tessarr.metadata.v1 import is_v1

        return is_v1((yield Get(old[0].key))), other_sizes
    return False, other_sizes


def open_node(path: str, *, zarr_format: ZarrFormat | None = None) -> Flow[Node]:
    """Return the metadata of the node at `path`; raise an error if it is absent."""
    meta = yield from find_node(path, zarr_format=zarr_format)
    if meta is None:
        raise not_found_error(path, None, zarr_format)
    return meta


def open_array(
    path: str, *, zarr_format: ZarrFormat | None = None, attributes: bool = True
) -> Flow[ArrayMeta]:
    """Return the metadata of the array at `path`; raise an error if it is absent."""
    meta = yield from find_node(path, zarr_format=zarr_format, kind="array", attributes=attributes)
    if not isinstance(meta, ArrayMeta):
        raise not_found_error(path, "array", zarr_format, other=meta is not None)
    return meta


def open_group(
    path: str, *, zarr_format: ZarrFormat | None = None, seen: KnownDocument | None = None
) -> Flow[GroupMeta]:
    """Return the metadata of the group at `path`; raise an error if it is absent."""
    meta = yield from find_node(path, zarr_format=zarr_format, kind="group", seen=seen)
    if not isinstance(meta, GroupMeta):
        raise not_found_error(path, "group", zarr_format, other=meta is not None)
    return meta


def not_found_error(
    path: str,
    kind: Kind | None,
    zarr_format: ZarrFormat | None = None,
    *,
    other: bool = False,
    store: object = "the store",
    hint: str = "",
) -> NotFoundError:
    """Return the error for a node that is absent or has the other kind."""
    expected = kind or "array or group"
    location = f"at path {path!r} of {store}" if path else f"at the root of {store}"
    form = f" of format {zarr_format}" if zarr_format else ""
    if not other:
        message = f"there is no {expected}{form} {location}{hint}"
        return NotFoundError(message, kind=_NOT_FOUND[kind], path=path)
    node_kind: Kind = "group" if kind == "array" else "array"
    actual = "a group" if kind == "array" else "an array"
    message = (
        f"there is no {expected} {location}, but {actual}: use open_{node_kind}, or open for either"
    )
    return NotFoundError(message, kind=_NOT_FOUND[kind], path=path, node_kind=node_kind)


def parse_documents(documents: Mapping[str, bytes], path: str) -> Node:
    """Parse the documents of a node by name."""
    if "zarr.json" in documents:
        return parse_v3(documents["zarr.json"], path)
    name = ".zarray" if ".zarray" in documents else ".zgroup"
    return parse_v2(name, documents[name], documents.get(".zattrs"), path=path)


def cache_parsed(documents: Mapping[str, bytes], meta: Node) -> None:
    """Add the metadata of documents to the memo, without parsing the documents."""
    if "zarr.json" in documents:
        document = documents["zarr.json"]
        _parsed_nodes.add(document, meta)
        return
    ((name, document),) = documents.items()
    _parsed_nodes.add((name, document, None, None), meta)


def parse_v3(document: bytes, path: str) -> Node:
    """Return the metadata of a document of format 3, from the memo if possible."""
    meta = _parsed_nodes[document]
    if meta is None:
        meta = v3.parse(document, where=path)
        _parsed_nodes.add(document, meta)
    return meta


def parse_v2(
    name: str,
    document: bytes,
    attributes: bytes | None,
    copies: bytes | None = None,
    *,
    path: str,
) -> Node:
    """Return the metadata of a node of format 2, from the memo if possible."""
    key = (name, document, attributes, copies)
    meta = _parsed_nodes[key]
    if meta is None:
        if name == ".zarray":
            meta = v2.parse_array(document, attributes, where=path)
        else:
            meta = _parse_group_v2(document, attributes, copies, path)
        _parsed_nodes.add(key, meta)
    return meta


def _parse_group_v2(
    document: bytes, attributes: bytes | None, copies: bytes | None, path: str
) -> GroupMeta:
    """Return the metadata of a group of format 2; defects of the copies cause a warning."""
    defects: list[str] = []
    shared: GroupMeta | None = None
    if copies is not None:
        try:
            shared = parse_copies_v2(copies, prefix_of(path) + ".zmetadata")
        except MetadataError as error:
            defects.append(f"{error}, which is not used")
    consolidated = None if shared is None else shared.consolidated
    meta = v2.parse_group(document, attributes, consolidated, where=path, defects=defects)
    return meta if shared is None else meta.share_derived(shared)


def parse_copies_v2(document: bytes, key: str) -> GroupMeta:
    """Return a group with the content of ``.zmetadata``, from the memo if possible."""
    meta = _parsed_nodes[(document,)]
    if not isinstance(meta, GroupMeta):
        value, _ = json.load(document, what=f"metadata {key!r}", tokens=True)
        meta = GroupMeta(2, consolidated=value)
        _parsed_nodes.add((document,), meta)
    return meta
