"""``tessarr tree PATH``: draw a hierarchy as a tree."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tessarr.array import Array
from tessarr.cli.node_argument import add_json_option, add_node_argument, open_node_argument
from tessarr.cli.output import format_json

if TYPE_CHECKING:
    import argparse

__all__ = ["add_to"]


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = verbs.add_parser(
        "tree",
        help="draw a hierarchy",
        description="Draw the groups and arrays below a group. A node that cannot be read is drawn "
        "with the reason.",
    )
    add_node_argument(parser)
    parser.add_argument("--level", metavar="N", type=int, help="draw N levels only")
    add_json_option(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    node = open_node_argument(arguments.path, arguments.node)
    if isinstance(node, Array):
        print(format_json({"": node.info.asdict()}) if arguments.json else repr(node))
        return 0
    drawing = node.tree(level=arguments.level, max_nodes=None)
    print(format_json(drawing.asdict()) if arguments.json else drawing)
    if drawing.unreadable:
        count = f"{len(drawing.unreadable)} of {len(drawing)} nodes"
        sys.stderr.write(f"tessarr: {count} cannot be read\n")
    return 0
