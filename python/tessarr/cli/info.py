"""``tessarr info PATH``: print the properties of a node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessarr.array import Array
from tessarr.cli.node_argument import add_node_verb, get_node_argument
from tessarr.cli.output import format_json, format_table
from tessarr.node.info import format_axis, format_size

if TYPE_CHECKING:
    import argparse

    from tessarr.node.info import ArrayInfo, GroupInfo
    from tessarr.types import ChunkLengths

__all__ = ["add_to"]


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    add_node_verb(
        verbs,
        "info",
        _run,
        help="print properties of an array or a group",
        description="Print properties of an array or a group, such as shape, chunks and codecs.",
    )


def _run(arguments: argparse.Namespace) -> int:
    node = get_node_argument(arguments).open()
    if arguments.json:
        print(format_json(node.info.asdict()))
    elif isinstance(node, Array):
        print(format_table(_list_array_rows(node.info)))
    else:
        print(format_table(_list_group_rows(node.info)))
    return 0


def _list_array_rows(info: ArrayInfo) -> list[tuple[str, str]]:
    meta = info.meta
    rows = [
        ("type", f"array, format {meta.document_format}"),
        ("path", info.name),
        ("shape", _format_lengths(meta.shape)),
        ("data type", str(meta.data_type.numpy)),
        ("chunks", _format_lengths(meta.chunks)),
    ]
    if meta.shards is not None:
        rows.append(("shards", _format_lengths(meta.shards)))
    if meta.axis_names:
        rows.append(("dimensions", ", ".join(name or "–" for name in meta.axis_names)))
    rows += [
        ("order", meta.order),
        ("fill value", "none" if meta.fill_value is None else str(meta.fill_scalar)),
        *info.codec_lines(),
    ]
    if meta.attributes:
        rows.append(("attributes", ", ".join(meta.attributes)))
    rows += [("store", info.store), ("size", _format_bytes(info.size_bytes))]
    return [*rows, *_list_stored_rows(info)]


def _list_stored_rows(info: ArrayInfo) -> list[tuple[str, str]]:
    if info.stored_bytes is None or info.stored_chunk_count is None:
        return [("stored", f"unknown of {info.chunk_count} chunks: the store refuses listings")]
    share = 100 * info.stored_chunk_count / info.chunk_count if info.chunk_count else 0
    return [
        ("stored", _format_bytes(info.stored_bytes)),
        ("ratio", f"{info.ratio:.1f}"),
        ("initialised", f"{info.stored_chunk_count} of {info.chunk_count} chunks ({share:.0f} %)"),
    ]


def _list_group_rows(info: GroupInfo) -> list[tuple[str, str]]:
    rows = [
        ("type", f"group, format {info.meta.zarr_format}"),
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
    rows.append(("store", info.store))
    return rows


def _format_names(names: tuple[str, ...]) -> str:
    return f"{len(names)}: {', '.join(names)}" if names else "0"


def _format_lengths(lengths: ChunkLengths) -> str:
    return " × ".join(map(format_axis, lengths)) or "() – a single element"


def _format_bytes(size_bytes: int) -> str:
    if size_bytes < 1024:
        return f"{size_bytes} bytes"
    return f"{format_size(size_bytes)} ({size_bytes:,} bytes)"
