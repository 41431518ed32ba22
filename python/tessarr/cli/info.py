"""``tessarr info PATH``: print the properties of a node, or of a hierarchy."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tessarr.array import Array
from tessarr.cli.node_argument import add_node_verb, get_node_argument
from tessarr.cli.output import format_json
from tessarr.cli.tables import format_table, wrap_text
from tessarr.copying.file_store import FileStore
from tessarr.group import Group
from tessarr.node.axis_names import find_axis_names, format_name, format_shape
from tessarr.node.info import array_to_json, codec_lines, format_axis, format_size
from tessarr.store.adapt import get_user_store

if TYPE_CHECKING:
    import argparse

    from tessarr.metadata.node import ArrayMeta, GroupMeta
    from tessarr.node.info import ArrayInfo, GroupInfo
    from tessarr.types import ChunkLengths, JSONObject

__all__ = ["add_to"]


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = add_node_verb(
        verbs,
        "info",
        _run,
        reads_files=True,
        help="print properties of an array or a group",
        description="Print properties of an array or a group, such as shape, chunks and codecs; "
        "with -r those of all nodes below it, with all attributes. An unreadable node appears with "
        "the reason.",
    )
    parser.add_argument(
        "-r",
        "--recursive",
        action="store_true",
        help="print the whole hierarchy with all attributes, as 'ncdump -h' does",
    )


def _run(arguments: argparse.Namespace) -> int:
    node = get_node_argument(arguments).open()
    if arguments.recursive:
        return _print_hierarchy(node, as_json=arguments.json)
    if arguments.json:
        print(format_json(node.info.asdict()))
    elif isinstance(node, Array):
        print(format_table(_list_array_rows(node.info, _find_file(node))))
    else:
        print(format_table(_list_group_rows(node.info, _find_file(node))))
    return 0


def _find_file(node: Array | Group) -> FileStore | None:
    """Return the file of another format that holds a node, if any."""
    store = get_user_store(node._store)
    return store if isinstance(store, FileStore) else None


def _describe_format(meta: ArrayMeta | GroupMeta, file: FileStore | None) -> str:
    return f"format {meta.document_format}" if file is None else f"in {file.format}"


def _print_hierarchy(node: Array | Group, *, as_json: bool) -> int:
    nodes: list[tuple[str, Any]] = [(node.name, node)]
    if isinstance(node, Group):
        base = node.name.rstrip("/")
        nodes += [(f"{base}/{path}", member) for path, member in node.members(None)]
    unreadable = sum(not isinstance(member, Array | Group) for _, member in nodes)
    if as_json:
        print(format_json({path: _to_json(member) for path, member in nodes}))
    else:
        print("\n\n".join("\n".join(_list_lines(path, member)) for path, member in nodes))
    if unreadable:
        sys.stderr.write(f"tessarr: {unreadable} of {len(nodes)} nodes cannot be read\n")
    return 0


def _to_json(node: Any) -> JSONObject:
    if isinstance(node, Array):
        attributes = dict(node.metadata.attributes)
        return {"kind": "array", **array_to_json(node.metadata), "attributes": attributes}
    if isinstance(node, Group):
        attributes = dict(node.metadata.attributes)
        return {"kind": "group", "zarr_format": node.zarr_format, "attributes": attributes}
    return {"kind": "unreadable", "error": node.error.kind, "message": str(node.error)}


def _list_lines(path: str, node: Any) -> list[str]:
    """Return the lines for a node: the properties, and all attributes."""
    if not isinstance(node, Array | Group):
        return [wrap_text(f"{path}  unreadable: {' '.join(str(node.error).split())}", _INDENT)]
    meta = node.metadata
    if isinstance(node, Group):
        lines = [f"{path}  group, {_describe_format(meta, _find_file(node))}"]
    else:
        lines = [f"{path}  {node.dtype} {format_shape(node.metadata)}", *_list_properties(node)]
    for name, value in meta.attributes.items():
        text = json.dumps(value, ensure_ascii=False)
        lines.append(wrap_text(f"{_INDENT}:{format_name(name, 100)} = {text}", _INDENT * 2))
    return lines


_INDENT: Final = "    "


def _list_properties(array: Array) -> list[str]:
    meta = array.metadata
    words = [f"chunks {_format_lengths(meta.chunks)}"] if meta.rank else []
    if meta.shards is not None:
        words.append(f"shards {_format_lengths(meta.shards)}")
    words += [codec for _, codec in codec_lines(meta)]
    if meta.fill_value is not None:
        fill = meta.fill_scalar
        words.append(f"fill value {fill!r}" if isinstance(fill, str) else f"fill value {fill}")
    return [wrap_text(_INDENT + ", ".join(words), _INDENT * 2)] if words else []


def _list_array_rows(info: ArrayInfo, file: FileStore | None) -> list[tuple[str, str]]:
    meta = info.meta
    rows = [
        ("type", f"array, {_describe_format(meta, file)}"),
        ("path", info.name),
        ("shape", _format_lengths(meta.shape)),
        ("data type", str(meta.data_type.numpy)),
        ("chunks", _format_lengths(meta.chunks)),
    ]
    if meta.shards is not None:
        rows.append(("shards", _format_lengths(meta.shards)))
    names = find_axis_names(meta)
    if names:
        rows.append(("dimensions", ", ".join(format_name(name) if name else "–" for name in names)))
    rows += [
        ("order", meta.order),
        ("fill value", "none" if meta.fill_value is None else str(meta.fill_scalar)),
        *info.codec_lines(),
    ]
    if meta.attributes:
        rows.append(("attributes", ", ".join(meta.attributes)))
    if file is not None:
        return [*rows, ("size", _format_bytes(info.size_bytes)), *_list_file_rows(file)]
    rows += [("store", info.store), ("size", _format_bytes(info.size_bytes))]
    return [*rows, *_list_stored_rows(info)]


def _list_file_rows(file: FileStore) -> list[tuple[str, str]]:
    return [("file", file.path), ("file size", _format_bytes(Path(file.path).stat().st_size))]


def _list_stored_rows(info: ArrayInfo) -> list[tuple[str, str]]:
    if info.stored_bytes is None or info.stored_chunk_count is None:
        return [("stored", f"unknown of {info.chunk_count} chunks: the store refuses listings")]
    share = 100 * info.stored_chunk_count / info.chunk_count if info.chunk_count else 0
    return [
        ("stored", _format_bytes(info.stored_bytes)),
        ("ratio", f"{info.ratio:.1f}"),
        ("initialised", f"{info.stored_chunk_count} of {info.chunk_count} chunks ({share:.0f} %)"),
    ]


def _list_group_rows(info: GroupInfo, file: FileStore | None) -> list[tuple[str, str]]:
    rows = [
        ("type", f"group, {_describe_format(info.meta, file)}"),
        ("path", info.name),
        ("arrays", _format_names(info.arrays)),
        ("groups", _format_names(info.groups)),
    ]
    if info.unreadable:
        rows.append(("unreadable", _format_names(info.unreadable)))
    if info.consolidated:
        rows.append(("consolidated", "yes"))
    if info.meta.attributes:
        rows.append(("attributes", ", ".join(info.meta.attributes)))
    return [*rows, *([("store", info.store)] if file is None else _list_file_rows(file))]


def _format_names(names: tuple[str, ...]) -> str:
    return f"{len(names)}: {', '.join(names)}" if names else "0"


def _format_lengths(lengths: ChunkLengths) -> str:
    return " × ".join(map(format_axis, lengths)) or "() – a single element"


def _format_bytes(size_bytes: int) -> str:
    if size_bytes < 1024:
        return f"{size_bytes} bytes"
    return f"{format_size(size_bytes)} ({size_bytes:,} bytes)"
