"""HTML of arrays and groups for notebooks.

The HTML of an array needs no request. That of a group needs one listing and the documents of a
limited number of members. Errors appear in the HTML.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final

from tessarr._safe_repr import safe_repr, truncate
from tessarr.errors import MetadataError, UnsupportedError
from tessarr.flow import walk
from tessarr.flow.run import run_flow
from tessarr.format.html import (
    format_count,
    render_attributes,
    render_block,
    render_fold,
    render_grid,
    render_table,
)
from tessarr.format.node_path import join
from tessarr.node.axis_names import format_shape
from tessarr.node.chunk_picture import render_chunks
from tessarr.node.info import codec_lines, format_lengths, format_size
from tessarr.node.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tessarr.metadata.consolidated import Consolidated
    from tessarr.metadata.node import ArrayMeta, GroupMeta, NodeOrError
    from tessarr.store import Store

__all__ = ["render_array", "render_attributes_of", "render_group", "render_lazy_array"]

_MAX_MEMBERS: Final = 100
"""The maximum number of members of a group whose documents are read."""


def render_array(name: str, meta: ArrayMeta, store: Store, *, read_only: bool) -> str:
    """Return HTML for an array: tables, attributes and a drawing of its chunks, without I/O.

    Parameters
    ----------
    name
        The name of the array.
    meta, store, read_only
        The metadata and the store, and whether the array rejects changes.
    """
    columns, rows = _describe_parts(meta)
    rows += [
        ("Data type", truncate([str(meta.data_type.numpy)])),
        ("Fill value", truncate([str(meta.fill_scalar)])),
        *_describe_codecs(meta),
        ("Format", _describe_format(meta, read_only=read_only)),
        ("Store", safe_repr(store)),
    ]
    details = f"<div>{render_grid(columns, rows)}{_render_folded_attributes(meta)}</div>"
    return render_block(
        "tessarr.Array",
        name,
        '<div style="display: flex; flex-wrap: wrap; gap: 24px; align-items: flex-start">'
        f"{details}<div>{render_chunks(meta)}</div></div>",
    )


def _describe_parts(meta: ArrayMeta) -> tuple[list[str], list[tuple[str, ...]]]:
    """Return the columns and rows that compare the array with its shards and chunks."""
    item_bytes = meta.data_type.item_bytes
    counts = [cut.count(n) for cut, n in zip(meta.chunk_cuts, meta.shape, strict=True)]
    columns = [
        (
            "Array",
            format_shape(meta),
            _format_bytes(prod(meta.shape) * item_bytes),
            format_count(prod(meta.shape), "element"),
        )
    ]
    parts = [("Chunk", meta.chunks, meta.chunk_shape, counts)]
    if meta.shards is not None:
        shard = next(meta.chunk_grid.shapes())
        parts.insert(0, ("Shard", meta.shards, shard, list(meta.grid_shape)))
    for label, lengths, longest, grid in parts:
        size = _format_bytes(prod(longest) * item_bytes)
        product = f" ({' × '.join(map(str, grid))})" if len(grid) > 1 else ""
        columns.append((label, format_lengths(lengths), size, f"{prod(grid):,}{product}"))
    labels, shapes, sizes, numbers = zip(*columns, strict=True)
    return [*labels], [("Shape", *shapes), ("Size", *sizes), ("Count", *numbers)]


def _describe_codecs(meta: ArrayMeta) -> Iterator[tuple[str, str]]:
    texts: dict[str, list[str]] = {}
    for role, text in codec_lines(meta):
        texts.setdefault(role, []).append(truncate([text]))
    for role, codecs in texts.items():
        yield role.capitalize() + ("s" if len(codecs) > 1 else ""), ", ".join(codecs)


def _describe_format(meta: ArrayMeta, *, read_only: bool) -> str:
    order = "" if meta.order == "C" else f", order {meta.order}"
    return f"Zarr {meta.document_format}{order}{', read-only' if read_only else ''}"


def _format_bytes(size_bytes: int) -> str:
    text = format_size(size_bytes)
    return f"{text} B" if text.isdecimal() else f"{text[:-1]} {text[-1]}iB"


def _render_folded_attributes(meta: ArrayMeta | GroupMeta) -> str:
    attributes = meta.attributes
    if not attributes:
        return ""
    return render_fold(f"Attributes ({len(attributes)})", render_attributes(attributes))


def render_attributes_of(kind: str, name: str, attributes: dict[str, Any]) -> str:
    """Return HTML for the attributes of a node."""
    content = render_attributes(attributes) if attributes else "<div>none</div>"
    return render_block(f"Attributes of {kind}", name, content)


def render_group(
    path: str,
    meta: GroupMeta,
    store: Store,
    copies: Consolidated | None,
    *,
    read_only: bool,
) -> str:
    """Return HTML for a group: its members, attributes, format and store.

    Parameters
    ----------
    path
        The path of the group.
    meta, store, read_only
        The metadata and the store, and whether the group rejects changes.
    copies
        The consolidated metadata of the group, if any; the function then needs no request.
    """
    name = f"/{path}"
    consolidated = ", consolidated" if copies is not None else ""
    read = ", read-only" if read_only else ""
    table = render_table(
        [("Format", f"Zarr {meta.zarr_format}{consolidated}{read}"), ("Store", safe_repr(store))]
    )
    try:
        members, count = _list_members(path, meta, store, copies)
    except Exception as error:  # noqa: BLE001 (a notebook shows the group without members)
        shown = render_table([("Members", truncate([f"cannot be listed: {error}"]))])
    else:
        shown = Tree(name, members)._repr_html_()
        if count > len(members):
            shown += f"<div>… and {count - len(members)} more: see tree()</div>"
    return render_block("tessarr.Group", name, table, _render_folded_attributes(meta), shown)


def _list_members(
    path: str, meta: GroupMeta, store: Store, copies: Consolidated | None
) -> tuple[dict[str, NodeOrError], int]:
    """Return the first members of a group by name, and the number of all members."""
    if copies is None:
        flow = walk.list_first_members(path, meta.zarr_format, _MAX_MEMBERS)
        return run_flow(flow, store)
    names = copies.names(path)
    return {name: _find_copy(copies, join(path, name)) for name in names[:_MAX_MEMBERS]}, len(names)


def _find_copy(copies: Consolidated, path: str) -> NodeOrError:
    try:
        meta = copies.find(path)
    except (MetadataError, UnsupportedError) as error:
        return error
    assert meta is not None
    return meta


def render_lazy_array(view: Any, base: Any) -> str:
    """Return HTML for a view of an array: its own shape and size, and the array."""
    rows = [
        ("Shape", str(view.shape)),
        ("Data type", str(view.dtype)),
        ("Size", f"{_format_bytes(view.nbytes)}, {format_count(view.size, 'element')}"),
        ("View of", safe_repr(base)),
    ]
    return render_block("tessarr.LazyArray", "", render_table(rows))
