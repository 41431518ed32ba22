"""Changes of existing nodes, each in one atomic step (see `tessarr.flow.run.Change`).

Other members of an edited document stay unchanged. Each change updates the consolidated metadata
of the groups above (see `tessarr.flow.consolidated_copies`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from tessarr.errors import NotJSONError
from tessarr.flow import consolidated_copies, deletion
from tessarr.flow.changes import change_with_copies
from tessarr.flow.open import Kind, cache_parsed, not_found_error, parse_documents, prefix_of
from tessarr.flow.run import Change, Flow, Get, KnownDocument
from tessarr.format import json
from tessarr.format.validation import Problems
from tessarr.metadata import v2
from tessarr.metadata.attributes import read_user_attributes
from tessarr.metadata.copies_text import insert_copies, split_copies
from tessarr.metadata.node import ArrayMeta
from tessarr.types import JSON, JSONObject, Shape, ZarrFormat

__all__ = ["delete_node", "edit_attributes", "edit_fill_value", "edit_shape", "read_stored_array"]


def edit_attributes(
    path: str, zarr_format: ZarrFormat, kind: Kind, change: Callable[[JSONObject], JSONObject]
) -> Flow[JSONObject]:
    """Replace the attributes of a node by a function of the current ones.

    Parameters
    ----------
    path, zarr_format, kind
        The path, the format and the kind of the node.
    change
        Receives a copy of the current attributes and returns the new ones. A conflict causes
        another call.

    Returns
    -------
    dict
        The new attributes, as plain JSON.

    Raises
    ------
    NotJSONError
        If the attributes cannot be stored as JSON; the store is unchanged.
    NotFoundError
        If the node no longer exists.
    """
    prefix = prefix_of(path)

    def apply_change(old: JSONObject) -> JSONObject:
        problems = Problems()
        new = read_user_attributes(change(dict(old)), problems, old)
        problems.check_arguments("store the attributes", NotJSONError)
        return new

    def edit_v3(document: JSONObject) -> JSONObject:
        return {**document, "attributes": apply_change(document.get("attributes") or {})}

    def edit() -> Flow[JSONObject]:
        if zarr_format == 3:
            written = yield from _edit_document(prefix + "zarr.json", path, kind, edit_v3, indent=2)
            attributes: JSONObject = written["attributes"]
            return attributes
        marker = ".zarray" if kind == "array" else ".zgroup"
        if (yield Get(prefix + marker)) is None:
            raise not_found_error(path, kind)
        return (yield from _edit_document(prefix + ".zattrs", path, None, apply_change, indent=4))

    groups = yield from consolidated_copies.find_consolidated_groups(
        path, zarr_format, include_self=kind == "group"
    )
    return (yield from change_with_copies(groups, path, edit))


def read_stored_array(path: str, zarr_format: int) -> Flow[ArrayMeta]:
    """Return the stored metadata of an array; in format 2 without attributes."""
    key = _array_key(path, zarr_format)
    return _parse_array(key, path, (yield Get(key)))


def _parse_array(key: str, path: str, document: bytes | None) -> ArrayMeta:
    if document is None:
        raise not_found_error(path, "array")
    meta = parse_documents({key.rpartition("/")[2]: document}, path)
    if not isinstance(meta, ArrayMeta):
        raise not_found_error(path, "array", other=True)
    return meta


def edit_shape(
    path: str,
    zarr_format: ZarrFormat,
    change: Callable[[ArrayMeta], ArrayMeta],
    groups: list[consolidated_copies.ConsolidatedGroup] | None = None,
    seen: KnownDocument | None = None,
) -> Flow[None]:
    """Store a new shape for an array, and a new chunk grid if needed.

    Parameters
    ----------
    path, zarr_format
        The path and the format of the array.
    change
        Receives the stored metadata and returns metadata with another shape and grid. A conflict
        causes another call.
    groups
        The groups above with consolidated metadata, if known.
    seen
        The last known content of the document, if any.
    """
    key = _array_key(path, zarr_format)

    def make(old: bytes | None) -> tuple[bytes, None]:
        meta = _parse_array(key, path, old)
        new = change(meta)
        assert old is not None
        same_grid = new.chunk_grid == meta.chunk_grid
        template = _templates.pop(old, None) if same_grid else None
        if template is None:
            document = json.load(old, what=f"metadata {key!r}")[0]
            if not same_grid:
                document["chunk_grid"] = new.chunk_grid.to_json()
            template = _ShapeTemplate.from_document(
                document, key, indent=2 if zarr_format == 3 else 4
            )
        new_document = template.document(new.shape)
        _cache_template(new_document, template)
        cache_parsed({key.rpartition("/")[2]: new_document}, new)
        return new_document, None

    if groups is None:
        groups = yield from consolidated_copies.find_consolidated_groups(path, zarr_format)

    def edit() -> Flow[None]:
        yield Change(key, make, seen)

    yield from change_with_copies(groups, path, edit)


class _ShapeTemplate(NamedTuple):
    """The document of an array, without the lengths of its shape."""

    before: str
    after: str
    margin: str

    @classmethod
    def from_document(cls, document: JSONObject, key: str, *, indent: int) -> _ShapeTemplate:
        text = _dump_document({**document, "shape": []}, key, indent=indent).decode("ascii")
        margin = "\n" + " " * indent
        name = f'{margin}"shape": ['  # lines inside of other members have a deeper indentation
        before, _, after = text.partition(name)
        return cls(before + name, after, margin)

    def document(self, shape: Shape) -> bytes:
        margin = self.margin
        inside = margin + margin[1:]
        lengths = ",".join([f"{inside}{length}" for length in shape])
        return f"{self.before}{lengths}{margin if shape else ''}{self.after}".encode("ascii")


_CACHE_SIZE: Final = 512
_CACHE_DOCUMENT_BYTES: Final = 1 << 16
_templates: dict[
    bytes, _ShapeTemplate
] = {}  # by documents that this process wrote, to avoid parsing them


def _cache_template(document: bytes, template: _ShapeTemplate) -> None:
    if len(_templates) >= _CACHE_SIZE:
        _templates.clear()
    if len(document) <= _CACHE_DOCUMENT_BYTES:
        _templates[document] = template


def edit_fill_value(path: str, zarr_format: ZarrFormat, value: JSON) -> Flow[None]:
    """Store a new fill value, as JSON, for an array."""
    key, indent = _array_key(path, zarr_format), 2 if zarr_format == 3 else 4

    def change(document: JSONObject) -> JSONObject:
        return {**document, "fill_value": value}

    groups = yield from consolidated_copies.find_consolidated_groups(path, zarr_format)
    yield from change_with_copies(
        groups, path, lambda: _edit_document(key, path, "array", change, indent=indent)
    )


def delete_node(path: str) -> Flow[None]:
    """Delete a node and everything below it.

    If the store cannot delete a prefix in one step, a mark exists until the deletion is complete
    (see `tessarr.flow.deletion`).
    """
    groups = yield from consolidated_copies.find_consolidated_groups(path, 3, 2)
    # Deletion must also work in a full store, which cannot store a mark.
    delete_all = partial(deletion.delete_all, path)
    yield from change_with_copies(groups, path, delete_all, below=True, mark=False)


def _array_key(path: str, zarr_format: int) -> str:
    return prefix_of(path) + ("zarr.json" if zarr_format == 3 else ".zarray")


def _edit_document(
    key: str,
    path: str,
    required: Kind | None,
    change: Callable[[JSONObject], JSONObject],
    *,
    indent: int,
) -> Flow[JSONObject]:
    """Read, change and replace one document, again after each conflict."""

    def make(old: bytes | None) -> tuple[bytes, JSONObject]:
        if old is None and required:
            raise not_found_error(path, required)
        # Unchanged members need not be strict JSON: attributes may hold NaN.
        name = key.rpartition("/")[2]
        text, copies = (old, None)
        if old is not None and name == "zarr.json":
            text, copies = split_copies(old)
        document = {} if text is None else v2.load(text, name, what=f"metadata {key!r}")[0]
        new = change(document)
        return insert_copies(_dump_document(new, key, indent=indent), copies), new

    document: JSONObject = yield Change(key, make)
    return document


def _dump_document(document: JSONObject, key: str, *, indent: int) -> bytes:
    # Documents of format 2 have sorted members; attributes keep the user's order.
    sort = indent == 4 and not key.endswith(".zattrs")
    return json.dump(document, indent=indent, sort_keys=sort)
