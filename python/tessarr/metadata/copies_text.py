"""Documents with consolidated metadata as text.

An update of consolidated metadata changes the text of some copies and of the marks. All other
copies are neither parsed nor encoded, so that an update costs little more than its write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from tessarr.format import json
from tessarr.format.node_path import ancestors, join, split
from tessarr.metadata import v2, v3
from tessarr.metadata.consolidated import MARKS, MEMBER, remove_copies

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from tessarr.metadata.consolidated import Documents
    from tessarr.types import ZarrFormat

__all__ = ["DOCUMENTS", "CopiesText", "insert_copies", "split_copies"]

DOCUMENTS: Final[dict[ZarrFormat, tuple[str, ...]]] = {
    2: (v2.ARRAY, v2.GROUP, v2.ATTRIBUTES),
    3: (v3.DOCUMENT,),
}
"""The documents of a node by format."""

_PATHS: Final = {2: ("metadata",), 3: (MEMBER, "metadata")}
"""The JSON path of the copies."""

_INDENTS: Final = {2: v2.INDENT, 3: v3.INDENT}
_ORDERS: Final[dict[ZarrFormat, Literal["name", "path"]]] = {2: "name", 3: "path"}


class CopiesText:
    r"""The text of a document with copies: ``.zmetadata``, or the ``zarr.json`` of a group.

    Examples
    --------
    >>> document = b'{"metadata": {".zgroup": {"zarr_format": 2}}}'
    >>> copies = CopiesText.find(document, 2, what="metadata '.zmetadata'")
    >>> copies.marks(), copies.paths_below(["a"])
    ({}, [])
    >>> copies.replace({}, [], {"1": "a"})
    b'{"metadata": {".zgroup": {"zarr_format": 2}},"tessarr_changes": {\n        "1": "a"\n    }}'
    """

    __slots__ = ("_text", "_zarr_format")

    def __init__(self, text: json.JsonText, zarr_format: ZarrFormat) -> None:
        self._text = text
        self._zarr_format: ZarrFormat = zarr_format

    @classmethod
    def find(cls, document: bytes, zarr_format: ZarrFormat, *, what: str) -> CopiesText | None:
        """Return the text of a document, or None if it contains no copies.

        Parameters
        ----------
        document
            The document.
        zarr_format
            The format, 2 for ``.zmetadata``.
        what
            The name of the document in messages.

        Raises
        ------
        MetadataError
            If the document has no end. Faults of other kinds do not matter to an update.
        """
        path = _PATHS[zarr_format]
        try:
            text = json.JsonText(document, path)
        except ValueError:
            json.load(document, what=what, tokens=zarr_format == 2)
            raise
        return cls(text, zarr_format) if text.levels > len(path) else None

    @property
    def _level(self) -> int:
        """The level of the copies; the object above also contains the marks."""
        return len(_PATHS[self._zarr_format])

    def marks(self) -> dict[str, str]:
        """Return the paths of nodes with unfinished changes, by the names of the marks."""
        text = self._text.get(self._level - 1, MARKS)
        marks: Any = {} if text is None else json.load(text, what="the marks of copies")[0]
        return marks if isinstance(marks, dict) else {}

    def paths_below(self, paths: Collection[str]) -> list[str]:
        """Return the paths of all copies below some paths; paths are relative to the group."""
        if not paths:
            return []
        only = next(iter(paths)) if len(paths) == 1 else ""
        names = self._text.names(self._level, f"{only}/" if only else "")
        if self._zarr_format == 2:
            names = [*dict.fromkeys(split(name)[0] for name in names)]
        tops = frozenset(paths)
        return [name for name in names if not tops.isdisjoint(ancestors(name))]

    def replace(
        self, nodes: Mapping[str, Documents], removed: Iterable[str], marks: Mapping[str, str]
    ) -> bytes:
        """Return the document with other copies and marks.

        Parameters
        ----------
        nodes
            The documents of changed nodes by path relative to the group. A node without documents
            is removed.
        removed
            The paths of other nodes to remove.
        marks
            The paths of nodes with unfinished changes, by the names of the marks.
        """
        form, level = self._zarr_format, self._level
        edits: dict[str, bytes | None] = {}
        for path in removed:
            edits.update(self._entries(path, {}))
        for path, documents in nodes.items():
            edits.update(self._entries(path, documents))
        new_marks = {MARKS: self._dump(dict(marks), level) if marks else None}
        order = _ORDERS[form]
        return self._text.edit(
            ((level - 1, order, new_marks), (level, order, edits)), _INDENTS[form]
        )

    def _entries(self, path: str, documents: Documents) -> dict[str, bytes | None]:
        """Return the texts of the copies of a node by name; None means no copy."""
        level = self._level + 1
        if self._zarr_format == 2:
            return {
                join(path, name): self._dump(documents[name], level) if name in documents else None
                for name in DOCUMENTS[2]
            }
        if not documents:
            return {path: None}
        return {path: self._dump(remove_copies(documents[v3.DOCUMENT]), level)}

    def _dump(self, value: Any, level: int) -> bytes:
        """Return the text of a value in a member that is indented by `level` steps."""
        indent = _INDENTS[self._zarr_format]
        text = json.dump(value, indent=indent, sort_keys=self._zarr_format == 2)
        return text.replace(b"\n", b"\n" + b" " * (indent * level))


def split_copies(document: bytes) -> tuple[bytes, bytes | None]:
    """Return the document of a node of format 3 without copies, and the text of the copies.

    Examples
    --------
    >>> split_copies(b'{"a": 1, "consolidated_metadata": {"metadata": {}}}')
    (b'{"a": 1}', b'{"metadata": {}}')
    """
    if f'"{MEMBER}"'.encode() not in document:
        return document, None
    try:
        text = json.JsonText(document, ())
    except ValueError:
        return document, None  # the parser reports the fault
    copies = text.get(0, MEMBER)
    return text.edit([(0, None, {MEMBER: None})], v3.INDENT), copies


def insert_copies(document: bytes, copies: bytes | None) -> bytes:
    """Return a document with the copies that `split_copies` removed from another one."""
    if copies is None:
        return document
    return json.JsonText(document, ()).edit([(0, None, {MEMBER: copies})], v3.INDENT)
