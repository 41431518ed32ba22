"""Consolidated metadata: copies of the documents of all nodes below a group.

Format 2 stores them in a separate document, ``.zmetadata``, under keys such as ``foo/.zarray``.
Format 3 stores them in the member ``consolidated_metadata`` of the group's ``zarr.json``, under
paths such as ``foo``. Both are conventions and not part of the specifications; readers may ignore
them.

Tessarr reads the copies lazily: it parses the document when it opens the group, and each node on
first access.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tessarr.errors import ArgumentError, MetadataError, UnsupportedError
from tessarr.format import json as _json
from tessarr.format import node_path as node_paths
from tessarr.format.validation import ABSENT, Members, Problems, describe, is_integer
from tessarr.metadata import v2, v3
from tessarr.metadata.node import ArrayMeta, GroupMeta, NodeOrError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tessarr.types import JSONObject, ZarrFormat

__all__ = [
    "MARKS",
    "MEMBER",
    "ZMETADATA",
    "Consolidated",
    "Documents",
    "has_marks",
    "is_equivalent",
    "read_documents",
    "read_marks",
    "remove_copies",
    "replace_copies",
    "replace_marks",
]

ZMETADATA: Final = ".zmetadata"
"""The document of format 2."""

MEMBER: Final = "consolidated_metadata"
"""The member of format 3."""

MARKS: Final = "tessarr_changes"
"""The member with marks for nodes that a writer is changing: their copies may be stale."""

Documents: TypeAlias = "Mapping[str, Any]"
"""The documents of one node as JSON, by their names."""

_NAMES: Final = {2: (v2.ARRAY, v2.GROUP, v2.ATTRIBUTES), 3: (v3.DOCUMENT,)}


class Consolidated:
    """The nodes below a group, from its consolidated metadata.

    Parameters
    ----------
    root
        The path of the group.
    documents
        The documents of its nodes, by full path.
    name
        The name of the document with the copies, if it is not the usual one.

    Examples
    --------
    >>> group = {"zarr_format": 3, "node_type": "group"}
    >>> copies = Consolidated("a", {"a/b": {"zarr.json": group}, "a/b/c": {"zarr.json": group}})
    >>> copies.names("a"), copies.find("a/b/c").zarr_format, copies.find("a/x")
    (['b'], 3, None)
    """

    __slots__ = ("_children", "_documents", "_nodes", "_parsed", "name", "root")

    def __init__(
        self, root: str, documents: Mapping[str, Documents], name: str | None = None
    ) -> None:
        self.root = root
        self.name = name
        self._documents = dict(documents)
        self._nodes: dict[str, ArrayMeta | GroupMeta] = {}
        self._parsed: dict[str, ArrayMeta | GroupMeta] = {}
        self._children: dict[str, list[str]] | None = None

    @classmethod
    def of(cls, meta: GroupMeta, root: str, *, marked: bool = False) -> Consolidated | None:
        """Return the consolidated metadata of the group at `root`, or None if it has none.

        Copies with a mark may be stale: the method returns them only if `marked` is true.

        Raises
        ------
        MetadataError
            If the copies are invalid. Faults of a single node show on access to that node.
        """
        if meta.consolidated is None or (has_marks(meta.consolidated) and not marked):
            return None
        first: Consolidated | None = meta.derived.get(root)
        if first is None:
            read = cls._read_v3 if meta.zarr_format == 3 else cls._read_v2
            first = meta.derived[root] = read(meta.consolidated, root)
        return first._copy()

    def _copy(self) -> Consolidated:
        """Return a copy that shares parsed nodes."""
        copy = Consolidated(self.root, self._documents, self.name)
        copy._parsed = self._parsed
        copy._children = self._children
        return copy

    @classmethod
    def _read_v3(cls, value: Any, root: str) -> Consolidated:
        problems = Problems()
        what = f"{MEMBER} of {node_paths.join(root, v3.DOCUMENT)!r}"
        documents: dict[str, Documents] = {}
        ignored: list[str] = []
        for path, document in _read_entries_v3(value, "", problems).items():
            if _is_path(path, 3):
                documents[node_paths.join(root, path)] = {v3.DOCUMENT: document}
            else:
                ignored.append(path)
        _report_ignored(ignored, "path", problems)
        problems.check(what, path=root)
        return cls(root, documents)

    @classmethod
    def _read_v2(cls, value: Any, root: str) -> Consolidated:
        problems = Problems()
        what = f"metadata {node_paths.join(root, ZMETADATA)!r}"
        documents: dict[str, dict[str, Any]] = {}
        ignored: list[str] = []
        for key, document in _read_entries_v2(value, problems).items():
            path, name = node_paths.split(key)
            if name in _NAMES[2] and (not path or _is_path(path, 2)):
                whole = node_paths.join(root, path)
                documents.setdefault(whole, {})[name] = document
            else:
                ignored.append(key)
        _report_ignored(ignored, "document", problems)
        problems.check(what, path=root)
        nodes = {path: own for path, own in documents.items() if own.keys() != {v2.ATTRIBUTES}}
        return cls(root, nodes)

    def __len__(self) -> int:
        return len(self._documents)

    def __reduce__(self) -> tuple[Any, ...]:
        return Consolidated, (self.root, self.documents(), self.name)

    def covers(self, path: str) -> bool:
        """Tell whether `path` is below the group."""
        return path.startswith(f"{self.root}/") if self.root else path != ""

    def documents(self) -> dict[str, Documents]:
        """Return the documents by full path."""
        return {
            path: documents or _to_documents(self._nodes[path])
            for path, documents in tuple(self._documents.items())
        }

    def find(self, path: str) -> ArrayMeta | GroupMeta | None:
        """Return the metadata of the node at `path`, or None if there is no node."""
        meta = self._nodes.get(path)
        if meta is None and path in self._documents:
            meta = self._parsed.get(path)
            if meta is None:
                meta = self._parsed[path] = self._read(path)
        return meta

    def exists(self, path: str) -> bool:
        """Tell whether a node exists at `path`, with valid or invalid documents."""
        return path in self._documents

    def names(self, path: str) -> list[str]:
        """Return the names of the members of the group at `path`, sorted."""
        children = self._children
        if children is None:
            children = {}
            for child in tuple(self._documents):
                if child != self.root:
                    parent, name = node_paths.split(child)
                    children.setdefault(parent, []).append(name)
            for names in children.values():
                names.sort()
            self._children = children
        return list(children.get(path, ()))

    def members(self, path: str, *, max_depth: int | None = 0) -> dict[str, NodeOrError]:
        """Return what is below the group at `path`, as `tessarr.flow.walk.list_members` does."""
        nodes: dict[str, NodeOrError] = {}
        stack = [(path, 0)]
        while stack:
            group, depth = stack.pop()
            for name in self.names(group):
                child = node_paths.join(group, name)
                try:
                    meta = self.find(child)
                    assert meta is not None
                    nodes[child] = meta
                except (MetadataError, UnsupportedError) as error:
                    nodes[child] = error
                    continue
                if isinstance(meta, GroupMeta) and (max_depth is None or depth < max_depth):
                    stack.append((child, depth + 1))
        return {child: nodes[child] for child in sorted(nodes, key=lambda child: child.split("/"))}

    def put(self, path: str, meta: ArrayMeta | GroupMeta) -> None:
        """Add or replace a node, and add groups above it."""
        for above in node_paths.ancestors(path):
            if self.covers(above) and above not in self._documents:
                self._nodes[above] = GroupMeta(meta.zarr_format)
                self._documents[above] = {}
        self._nodes[path] = meta
        self._documents[path] = {}
        self._children = None

    def remove(self, path: str) -> None:
        """Remove the node at `path` and all nodes below it."""
        for other in tuple(self._documents):
            if other == path or other.startswith(f"{path}/"):
                self._documents.pop(other, None)
                self._nodes.pop(other, None)
        self._children = None

    def replace_content(self, other: Consolidated) -> None:
        """Replace the nodes by those of `other`, for all users of this object."""
        self._documents, self._nodes = other._documents, other._nodes
        self._parsed, self._children = other._parsed, None

    def _read(self, path: str) -> ArrayMeta | GroupMeta:
        try:
            return read_documents(self._documents[path], path)
        except (MetadataError, UnsupportedError) as error:
            error.add_note(f"as stated in the consolidated metadata of group {self.root or '/'!r}")
            raise


def read_documents(documents: Documents, path: str) -> ArrayMeta | GroupMeta:
    """Return the metadata of a node from the JSON of its documents."""
    if v3.DOCUMENT in documents:
        return v3.read(documents[v3.DOCUMENT], where=path)
    attributes: JSONObject = {}
    if v2.ATTRIBUTES in documents:
        attributes = v2.read_attributes(documents[v2.ATTRIBUTES], where=path)
    if v2.ARRAY in documents:
        return v2.read_array(documents[v2.ARRAY], attributes, where=path)
    return v2.read_group(documents[v2.GROUP], attributes, where=path)


def is_equivalent(documents: Documents, others: Documents) -> bool:
    """Tell whether the documents of two nodes have the same meaning.

    Examples
    --------
    >>> group = {"zarr_format": 3, "node_type": "group"}
    >>> is_equivalent({"zarr.json": group}, {"zarr.json": {**group, "attributes": {}}})
    True
    """
    own, foreign = _remove_all_copies(documents), _remove_all_copies(others)
    if _to_text(own) == _to_text(foreign):
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            first, second = read_documents(own, ""), read_documents(foreign, "")
    except (MetadataError, UnsupportedError):
        return False
    if _to_text(first.attributes) != _to_text(second.attributes):
        return False
    return replace(first, attributes={}) == replace(second, attributes={})


def _remove_all_copies(documents: Documents) -> Documents:
    return {
        name: remove_copies(value) if isinstance(value, dict) and name != v2.ATTRIBUTES else value
        for name, value in documents.items()
    }


def _to_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _to_documents(meta: ArrayMeta | GroupMeta) -> Documents:
    if meta.zarr_format == 3:
        return {v3.DOCUMENT: v3.to_json(meta)}
    documents = v2.dump(meta)
    return {name: _json.load(document, what=name)[0] for name, document in documents.items()}


def _report_ignored(entries: list[str], kind: str, problems: Problems) -> None:
    if entries:
        others = f", nor are {len(entries) - 1} more" if len(entries) > 1 else ""
        message = f"{describe(entries[0])} is no {kind}{others}: left out"
        problems.tolerate("/metadata", message)


def _is_path(path: str, zarr_format: ZarrFormat) -> bool:
    try:
        return bool(path) and node_paths.normalize_path(path, zarr_format) == path
    except ArgumentError:
        return False


def _read_entries_v3(value: Any, loc: str, problems: Problems) -> dict[str, Any]:
    """Return the documents by path, with those in the consolidated metadata of inner groups."""
    members = _read_object(value, loc, problems)
    if members is None:
        return {}
    kind = members.require("kind")
    if kind is not ABSENT and kind != "inline":
        problems.add(members.at("kind"), f"{describe(kind)} is not 'inline'")
    entries = members.require("metadata")
    if entries is ABSENT or len(problems):
        return {}
    if not isinstance(entries, dict):
        message = f"{describe(entries)} is not an object"
        problems.add(members.at("metadata"), message, "wrong_type")
        return {}
    all_entries = dict(entries)
    for path, document in entries.items():
        own = document.get(MEMBER) if isinstance(document, dict) else None
        if isinstance(own, dict) and isinstance(own.get("metadata"), dict):
            for below, inner in own["metadata"].items():
                all_entries.setdefault(node_paths.join(path, below), inner)
    return all_entries


def _read_entries_v2(value: Any, problems: Problems) -> dict[str, Any]:
    members = _read_object(value, "", problems)
    if members is None:
        return {}
    version = members.require("zarr_consolidated_format")
    if version is not ABSENT and not (is_integer(version) and version == 1):
        problems.add("/zarr_consolidated_format", f"{describe(version)} is not 1")
    entries = members.require("metadata")
    if entries is not ABSENT and not isinstance(entries, dict):
        problems.add("/metadata", f"{describe(entries)} is not an object", "wrong_type")
    return entries if isinstance(entries, dict) and not len(problems) else {}


def _read_object(value: Any, loc: str, problems: Problems) -> Members | None:
    if isinstance(value, dict):
        return Members(value, loc, problems)
    problems.add(loc, f"{describe(value)} is not an object", "wrong_type")
    return None


# Writing


def remove_copies(document: JSONObject) -> JSONObject:
    """Return the document of a node without consolidated metadata."""
    return {name: value for name, value in document.items() if name != MEMBER}


def replace_copies(
    document: JSONObject | None, zarr_format: ZarrFormat, nodes: Mapping[str, Documents]
) -> JSONObject:
    """Replace all copies in a document.

    Parameters
    ----------
    document
        The ``zarr.json`` of a group; None in format 2, whose ``.zmetadata`` contains only copies.
    zarr_format
        The format.
    nodes
        The documents of the nodes by path relative to the group.

    Examples
    --------
    >>> replace_copies(None, 2, {"": {".zgroup": {"zarr_format": 2}}})
    {'metadata': {'.zgroup': {'zarr_format': 2}}, 'zarr_consolidated_format': 1}
    """
    copies: JSONObject = {}
    if zarr_format == 2:
        for path, documents in nodes.items():
            copies.update((node_paths.join(path, name), value) for name, value in documents.items())
        return {"metadata": copies, "zarr_consolidated_format": 1}
    for path in sorted(nodes, key=lambda path: path.split("/")):
        copies[path] = remove_copies(nodes[path][v3.DOCUMENT])
    inline = {"kind": "inline", "must_understand": False, "metadata": copies}
    return {**(document or {}), MEMBER: inline}


def has_marks(copies: Any) -> bool:
    """Tell whether copies have marks of unfinished changes.

    Parameters
    ----------
    copies
        ``.zmetadata``, or the member ``consolidated_metadata`` of format 3.
    """
    return isinstance(copies, dict) and bool(copies.get(MARKS))


def read_marks(document: JSONObject, zarr_format: ZarrFormat) -> dict[str, str]:
    """Return the paths of nodes with unfinished changes, by the names of the marks."""
    copies = document.get(MEMBER) if zarr_format == 3 else document
    marks = copies.get(MARKS) if isinstance(copies, dict) else None
    return dict(marks) if isinstance(marks, dict) else {}


def replace_marks(
    document: JSONObject, zarr_format: ZarrFormat, marks: Mapping[str, str]
) -> JSONObject:
    """Replace the marks of the copies in a document.

    Examples
    --------
    >>> document = replace_marks({"metadata": {}}, 2, {"1": "a"})
    >>> document, replace_marks(document, 2, {})
    ({'metadata': {}, 'tessarr_changes': {'1': 'a'}}, {'metadata': {}})
    """
    copies = document[MEMBER] if zarr_format == 3 else document
    new = {name: value for name, value in copies.items() if name != MARKS}
    if marks:
        new[MARKS] = dict(marks)
    return {**document, MEMBER: new} if zarr_format == 3 else new
