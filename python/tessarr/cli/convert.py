"""``tessarr convert SRC [DST] --to 2|3``: change the format and keep the chunks unchanged."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tessarr.cli.node_argument import LOCATION_HELP, add_json_option, split_location
from tessarr.cli.output import Progress, format_json
from tessarr.copying.convert import convert

if TYPE_CHECKING:
    import argparse

__all__ = ["add_to"]


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = verbs.add_parser(
        "convert",
        help="convert to another format",
        description="Convert an array, or a group with all that is below, to another format. In "
        "place only metadata is written, and nothing at all if anything has no equivalent in the "
        "other format; that is listed then, and the exit code is 1.",
    )
    parser.add_argument("source", metavar="SRC", help=LOCATION_HELP)
    parser.add_argument("target", metavar="DST", nargs="?", help="copy to here; else in place")
    parser.add_argument("--to", type=int, choices=(2, 3), required=True, help="the format")
    parser.add_argument("--node", metavar="NAME", help="the path of a node inside of SRC")
    parser.add_argument("-n", "--dry-run", action="store_true", help="only say what would be done")
    parser.add_argument("--keep", action="store_true", help="in place: leave the old metadata")
    parser.add_argument(
        "--move-chunks",
        action="store_true",
        help="in place: store chunks under other keys if need be",
    )
    parser.add_argument(
        "--recode", action="store_true", help="to DST: write anew what has no equivalent"
    )
    parser.add_argument("--overwrite", action="store_true", help="delete what is at DST")
    add_json_option(parser)
    parser.set_defaults(run=_run)


def _run(arguments: argparse.Namespace) -> int:
    root, path = split_location(arguments.source, arguments.node, search_above=True)

    def convert_node(*, dry_run: bool) -> int:
        with Progress("converting", unit="bytes") as bar:
            result = convert(
                root,
                arguments.target,
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
