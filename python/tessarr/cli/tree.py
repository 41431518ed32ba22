"""``tessarr tree PATH``: a hierarchy as a drawing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tessarr.api import open as open_node
from tessarr.array import Array
from tessarr.cli.render import as_json

if TYPE_CHECKING:
    import argparse

__all__ = ["add_to"]


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = verbs.add_parser(
        "tree",
        help="draw a hierarchy",
        description="Draw the groups and arrays below a group.",
    )
    parser.add_argument("path", metavar="PATH", help="a folder, file://… or memory://…")
    parser.add_argument("--node", metavar="NAME", help="the path of a group inside of it")
    parser.add_argument("--level", metavar="N", type=int, help="draw N levels only")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    node = open_node(arguments.path, "r", path=arguments.node)
    if isinstance(node, Array):
        print(as_json({"": node.info.asdict()}) if arguments.json else repr(node))
        return 0
    drawing = node.tree(arguments.level)
    print(as_json(drawing.asdict()) if arguments.json else drawing)
    if drawing.unreadable:
        count = f"{len(drawing.unreadable)} of {len(drawing)} nodes"
        sys.stderr.write(f"tessarr: {count} cannot be read\n")
        return 1
    return 0
