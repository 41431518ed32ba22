"""``tessarr ls PATH``: list the members of a group, or the stored objects of a node."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tessarr.array import Array
from tessarr.cli.node_argument import (
    add_json_option,
    add_node_argument,
    locate_argument,
    open_node_argument,
)
from tessarr.cli.output import format_columns, format_json
from tessarr.flow import measure
from tessarr.flow.run import run_flow
from tessarr.group import Group
from tessarr.node.info import format_axis, format_size

if TYPE_CHECKING:
    import argparse

    from tessarr.node.node import Unreadable

__all__ = ["add_to"]


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = verbs.add_parser(
        "ls",
        help="list the members of a group",
        description="List the members of a group, one name a line. An array is listed as itself. "
        "A member that cannot be read is listed, and counted in a message.",
    )
    add_node_argument(parser)
    parser.add_argument("-R", "--recursive", action="store_true", help="all that is below")
    parser.add_argument("-l", "--long", action="store_true", help="kind, data type, shape, chunks")
    parser.add_argument("-s", "--size", action="store_true", help="also what is stored, in bytes")
    parser.add_argument("--keys", action="store_true", help="the keys in the store, with -s sizes")
    add_json_option(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.keys:
        return _list_keys(arguments)
    node = open_node_argument(arguments.path, arguments.node)
    if isinstance(node, Group):
        nodes = list(node.members(None if arguments.recursive else 0))
    else:
        nodes = [(node.basename or arguments.path, node)]
    members = [_describe_member(name, member, size=arguments.size) for name, member in nodes]
    if arguments.json:
        print(format_json(members))
    elif arguments.long or arguments.size:
        print(format_columns([_format_row(member, long=arguments.long) for member in members]))
    else:
        for member in members:
            print(member["name"])
    unreadable = sum(member["kind"] == "unreadable" for member in members)
    if unreadable:
        sys.stderr.write(f"tessarr: {unreadable} of {len(members)} nodes cannot be read\n")
    return 0


def _describe_member(name: str, node: Array | Group | Unreadable, *, size: bool) -> dict[str, Any]:
    if not isinstance(node, Array | Group):
        return {"name": name, "kind": "unreadable", "message": str(node.error)}
    member: dict[str, Any] = {"name": name, "zarr_format": node.zarr_format}
    if isinstance(node, Array):
        member |= {
            "kind": "array",
            "shape": list(node.shape),
            "data_type": str(node.dtype),
            "chunks": list(node.chunks),
            "shards": list(node.shards) if node.shards else None,
        }
        if size:
            member |= {"size_bytes": node.nbytes, "stored_bytes": node.nbytes_stored}
    else:
        member |= {"kind": "group"}
        if size:
            member |= {
                "stored_bytes": run_flow(measure.measure_stored_bytes(node.path), node._store)
            }
    return member


def _format_row(member: dict[str, Any], *, long: bool) -> list[str]:
    sizes = []
    if "stored_bytes" in member:
        sizes = [f">{format_size(member['stored_bytes'])}"]
    elif member["kind"] == "unreadable":
        sizes = [">?"] if not long else []
    if not long:
        return [*sizes, member["name"]]
    words = [member["kind"], "", "", ""]
    if member["kind"] == "array":
        lengths = [
            " × ".join(map(format_axis, member[name] or ())) for name in ("chunks", "shards")
        ]
        shards = f" in {lengths[1]}" if lengths[1] else ""
        shape = " × ".join(map(str, member["shape"])) or "()"
        words = ["array", member["data_type"], shape, f"[{lengths[0]}{shards}]"]
    return [*words, *(sizes or [""]), member["name"]]


def _list_keys(arguments: argparse.Namespace) -> int:
    store, path = locate_argument(arguments.path, arguments.node)
    keys = run_flow(measure.list_keys(path), store)
    if not keys:
        open_node_argument(arguments.path, arguments.node)  # raises an error if the node is absent
    prefix = f"{path}/" if path else ""
    sizes = [store.size(prefix + key) for key in keys] if arguments.size else []
    if arguments.json:
        print(format_json(dict(zip(keys, sizes, strict=True)) if arguments.size else keys))
    elif arguments.size:
        for size, key in zip(sizes, keys, strict=True):
            print(f"{'?' if size is None else size:>12}  {key}")
    else:
        for key in keys:
            print(key)
    return 0
