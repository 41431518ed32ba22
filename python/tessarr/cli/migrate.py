"""``tessarr migrate PATH``: convert an array from format 1 to format 2 in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessarr.api.hierarchy import migrate_1to2
from tessarr.cli.node_argument import (
    add_json_option,
    add_node_argument,
    open_array_argument,
    split_location,
)
from tessarr.cli.output import format_json
from tessarr.errors import NotFoundError

if TYPE_CHECKING:
    import argparse

__all__ = ["add_to"]


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = verbs.add_parser(
        "migrate",
        help="bring an array of format 1 to format 2",
        description="Bring an array of format 1 to format 2, in place: only metadata is written. "
        "Between the formats 2 and 3 it is 'tessarr convert' that does so.",
    )
    add_node_argument(parser)
    parser.add_argument(
        "--order",
        choices=("C", "F"),
        help="how elements of chunks are laid out, where the metadata says it wrongly",
    )
    parser.add_argument("-n", "--dry-run", action="store_true", help="only say what would be done")
    add_json_option(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    root, path = split_location(arguments.path, arguments.node, search_above=True)
    array = open_array_argument(arguments.path, arguments.node)
    before = array.zarr_format
    if before != 1:
        raise NotFoundError(
            f"{arguments.path!r} is of format {before}: only format 1 is migrated; "
            "'tessarr convert' goes from format 2 to 3 and back",
            kind="array_not_found",
            path=path,
        )
    if not arguments.dry_run:
        array = migrate_1to2(root, path=path, order=arguments.order)
    if arguments.json:
        print(format_json({"from": before, "to": 2, "done": not arguments.dry_run}))
    else:
        print(f"{array!r}: {'would be' if arguments.dry_run else 'is'} of format 2 now")
    return 0
