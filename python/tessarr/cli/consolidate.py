"""``tessarr consolidate PATH``: make, compare or remove consolidated metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessarr.cli.address import add_json, add_node, place
from tessarr.cli.render import as_json
from tessarr.hierarchy import (
    consolidate_metadata,
    consolidated_differences,
    remove_consolidated,
)

if TYPE_CHECKING:
    import argparse

__all__ = ["add_to"]


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = verbs.add_parser(
        "consolidate",
        help="copy all metadata of a hierarchy into one place",
        description="Copy the metadata of all nodes below a group into one place, so that the "
        "group is opened with one request.",
    )
    add_node(parser)
    other = parser.add_mutually_exclusive_group()
    other.add_argument(
        "--check", action="store_true", help="compare with the nodes; exit code 1 if they differ"
    )
    other.add_argument("--remove", action="store_true", help="remove the copies")
    add_json(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    root, path = place(arguments.path, arguments.node, far=True)
    if arguments.check:
        found = consolidated_differences(root, path=path)
        if arguments.json:
            print(as_json(found))
        else:
            for path, difference in found.items():
                print(f"{path}: {difference}")
            print(f"{len(found)} differences")
        return 1 if found else 0
    if arguments.remove:
        removed = remove_consolidated(root, path=path)
        text = "removed" if removed else "there was none"
        print(as_json({"removed": removed}) if arguments.json else text)
        return 0
    group = consolidate_metadata(root, path=path)
    count = len(group.members(None))
    print(as_json({"nodes": count}) if arguments.json else f"copies of {count} nodes")
    return 0
