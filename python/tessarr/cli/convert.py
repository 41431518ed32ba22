"""``tessarr convert`` and ``tessarr migrate``: change the format and keep the chunks unchanged."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tessarr.api.hierarchy import migrate_1to2
from tessarr.cli.node_argument import (
    LOCATION_HELP,
    add_json_option,
    add_node_verb,
    get_node_argument,
    get_node_arguments,
)
from tessarr.cli.output import Progress, format_json
from tessarr.cli.storage_options import add_storage_options
from tessarr.copying.convert import convert
from tessarr.errors import ArgumentError, NotFoundError

if TYPE_CHECKING:
    import argparse

__all__ = ["add_to"]


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verbs to the command."""
    parser = verbs.add_parser(
        "convert",
        help="convert to another format",
        description="Convert an array, or a group and all nodes below it, to another format. A "
        "conversion in place writes only metadata. If any content has no equivalent in the other "
        "format, the command lists it, changes nothing, and exits with 1.",
    )
    parser.add_argument("source", metavar="SRC", help=LOCATION_HELP)
    parser.add_argument(
        "target",
        metavar="DST",
        nargs="?",
        help="the target of a copy; by default, convert in place",
    )
    parser.add_argument("--to", type=int, choices=(2, 3), required=True, help="the new format")
    parser.add_argument("--node", metavar="NAME", help="the path of a node in SRC")
    parser.add_argument("-n", "--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument("--keep", action="store_true", help="in place: keep the old metadata")
    parser.add_argument(
        "--move-chunks",
        action="store_true",
        help="in place: rename chunks if the formats need other keys",
    )
    parser.add_argument(
        "--recode", action="store_true", help="to DST: re-encode arrays without an equivalent"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace an existing node at DST")
    add_json_option(parser)
    add_storage_options(parser, source="SRC", target="DST")
    parser.set_defaults(run=_run)
    migrate = add_node_verb(
        verbs,
        "migrate",
        _run_migrate,
        help="convert an array of format 1 to format 2",
        description="Convert an array of format 1 to format 2 in place, by new metadata. For the "
        "formats 2 and 3 use 'tessarr convert'.",
    )
    migrate.add_argument(
        "--order",
        choices=("C", "F"),
        help="the actual order of elements, if the metadata is wrong",
    )
    migrate.add_argument("-n", "--dry-run", action="store_true", help="only say what would be done")


def _run(arguments: argparse.Namespace) -> int:
    if arguments.target is None and arguments.target_storage_options:
        raise ArgumentError("the options --target-… need DST: a conversion in place has only SRC")
    names = ("source",) if arguments.target is None else ("source", "target")
    source, *targets = get_node_arguments(arguments, *names)
    in_place = not (targets or arguments.dry_run)
    root, path = source.resolve("r+" if in_place else "r", search_above=True)
    target = targets[0].open_whole("a") if targets else None

    def convert_node(*, dry_run: bool) -> int:
        with Progress("converting", unit="bytes") as bar:
            result = convert(
                root,
                target,
                to=arguments.to,
                path=path,
                dry_run=dry_run,
                keep=arguments.keep,
                move_chunks=arguments.move_chunks,
                recode=arguments.recode,
                overwrite=arguments.overwrite,
                progress=bar,
            )
        if not dry_run or arguments.dry_run or not result.possible:
            report = arguments.own.format_options(str(result))
            print(format_json(result.asdict()) if arguments.json else report)
        if result.possible:
            return 0
        sys.stderr.write(f"tessarr: there is no equivalent in format {arguments.to}\n")
        return 1

    # Print obstacles even without --dry-run.
    return convert_node(dry_run=True) or (0 if arguments.dry_run else convert_node(dry_run=False))


def _run_migrate(arguments: argparse.Namespace) -> int:
    location = get_node_argument(arguments)
    root, path = location.resolve("r+", search_above=True)
    array = location.open_array()
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
