"""``tessarr diff A B``: the differences between two arrays or hierarchies."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from tessarr.cli.diff_nodes import ASPECTS, Criteria, find_differences
from tessarr.cli.node_argument import LOCATION_HELP, add_json_option, get_node_arguments
from tessarr.cli.option_types import ChoiceList
from tessarr.cli.output import format_json, print_line
from tessarr.cli.storage_options import add_storage_options
from tessarr.errors import ArgumentError

if TYPE_CHECKING:
    from tessarr.cli.diff_nodes import Difference

__all__ = ["add_to"]


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = verbs.add_parser(
        "diff",
        help="compare two arrays or hierarchies",
        description="Compare two arrays, or two groups with all nodes below them: values, "
        "attributes, metadata (shape, data type, fill value, dimension names) and storage "
        "(format, chunks, shards, codecs, keys). Print only differences.",
        epilog="Exit codes: 0 no differences; 1 differences; 2 the comparison failed.",
    )
    parser.add_argument("first", metavar="A", help=LOCATION_HELP)
    parser.add_argument("second", metavar="B", help="as for A")
    which = parser.add_mutually_exclusive_group()
    for name, verb in (("only", "compare only"), ("ignore", "do not compare")):
        which.add_argument(
            f"--{name}",
            type=ChoiceList(ASPECTS),
            action="extend",
            default=[],
            metavar="ASPECTS",
            help=f"{verb} these aspects, separated by commas: {', '.join(ASPECTS)}",
        )
    parser.add_argument("--rtol", type=float, default=0.0, metavar="X", help="relative tolerance")
    parser.add_argument("--atol", type=float, default=0.0, metavar="X", help="absolute tolerance")
    parser.add_argument(
        "--equal-nan",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="whether NaN equals NaN",
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="print nothing, stop at the first difference"
    )
    add_json_option(parser)
    add_storage_options(parser, first="A", second="B")
    parser.set_defaults(run=_run, failure=2)


def _run(arguments: argparse.Namespace) -> int:
    for name in ("rtol", "atol"):
        if not getattr(arguments, name) >= 0:
            raise ArgumentError(f"--{name} {getattr(arguments, name)} is not 0 or more")
    criteria = Criteria(
        frozenset(arguments.only or ASPECTS) - frozenset(arguments.ignore),
        arguments.equal_nan,
        arguments.rtol,
        arguments.atol,
    )
    first, second = (
        location.open(use_consolidated=False)
        for location in get_node_arguments(arguments, "first", "second")
    )
    found_differences: list[dict[str, Any]] = []
    for difference in find_differences(first, second, criteria):
        found_differences.append(difference.asdict())
        if arguments.quiet:
            return 1
        if not arguments.json:
            print_line(_format_difference(difference, arguments.first, arguments.second))
    if arguments.json and not arguments.quiet:
        print(format_json(found_differences))
    return 1 if found_differences else 0


def _format_difference(difference: Difference, first: str, second: str) -> str:
    node = f"/{difference.path}"
    if difference.what == "node":
        if difference.first is None or difference.second is None:
            kind = difference.first or difference.second
            return f"{node}: {kind} only in {first if difference.first else second}"
        return f"{node}: {difference.first} ≠ {difference.second}"
    if difference.what == "values":
        more = difference.more
        distance = "" if more["largest"] is None else f" by at most {more['largest']:.6g}"
        return (
            f"{node}: {more['count']:,} of {more['size']:,} values differ{distance}; first at "
            f"{more['at']}: {difference.first} ≠ {difference.second}"
        )
    name = f"attribute {difference.name}" if difference.what == "attribute" else difference.name
    return f"{node}: {name}: {_format_value(difference.first)} ≠ {_format_value(difference.second)}"


def _format_value(value: Any) -> str:
    return "none" if value is None else json.dumps(value, ensure_ascii=False)
