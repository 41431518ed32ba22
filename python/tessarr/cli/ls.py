"""``tessarr tree PATH`` draws a hierarchy; ``tessarr ls PATH`` lists members or stored objects."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tessarr.array import Array
from tessarr.cli.node_argument import add_node_verb, get_node_argument
from tessarr.cli.output import format_json
from tessarr.cli.tables import format_columns
from tessarr.flow import stored_sizes
from tessarr.flow.run import run_flow
from tessarr.group import Group
from tessarr.node.info import format_axis, format_size

if TYPE_CHECKING:
    import argparse

    from tessarr.node.node import Unreadable

__all__ = ["add_to"]


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs to the command."""
    parser = add_node_verb(
        verbs,
        "ls",
        _run,
        help="list the members of a group",
        description="List the members of a group, one name in each line. For an array, list the "
        "array itself. The list includes unreadable members, and a message counts them.",
    )
    parser.add_argument("-R", "--recursive", action="store_true", help="list all nodes below")
    parser.add_argument(
        "-l", "--long", action="store_true", help="show kind, data type, shape and chunks"
    )
    parser.add_argument("-s", "--size", action="store_true", help="show stored bytes")
    parser.add_argument("--keys", action="store_true", help="list keys of the store; -s adds sizes")
    tree = add_node_verb(
        verbs,
        "tree",
        _run_tree,
        reads_files=True,
        help="draw a hierarchy",
        description="Draw the groups and arrays below a group. An unreadable node appears with the "
        "reason.",
    )
    tree.add_argument("--level", metavar="N", type=int, help="draw only N levels")


def _run_tree(arguments: argparse.Namespace) -> int:
    node = get_node_argument(arguments).open()
    if isinstance(node, Array):
        print(format_json({"": node.info.asdict()}) if arguments.json else repr(node))
        return 0
    drawing = node.tree(level=arguments.level, max_nodes=None)
    print(format_json(drawing.asdict()) if arguments.json else drawing)
    if drawing.unreadable:
        count = f"{len(drawing.unreadable)} of {len(drawing)} nodes"
        sys.stderr.write(f"tessarr: {count} cannot be read\n")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    if arguments.keys:
        return _list_keys(arguments)
    node = get_node_argument(arguments).open()
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
                "stored_bytes": run_flow(stored_sizes.measure_stored_bytes(node.path), node._store)
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
    store, path = get_node_argument(arguments).locate()
    sizes = run_flow(stored_sizes.list_sizes(path), store) if arguments.size else {}
    keys = list(sizes) or run_flow(stored_sizes.list_keys(path), store)
    if not keys:
        get_node_argument(arguments).open()  # raises an error if the node is absent
    if arguments.json:
        print(format_json(sizes if arguments.size else keys))
    elif arguments.size:
        for key, size in sizes.items():
            print(f"{'?' if size is None else size:>12}  {key}")
    else:
        for key in keys:
            print(key)
    return 0
