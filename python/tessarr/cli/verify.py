"""``tessarr verify PATH``: check that all stored documents and chunks are readable."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict
from time import monotonic
from typing import TYPE_CHECKING, Final

from tessarr.cli.node_argument import add_node_verb, get_node_argument
from tessarr.cli.option_types import ChoiceList
from tessarr.cli.output import format_duration, format_json, print_line
from tessarr.cli.verify_checks import MEANINGS, Counts, find_problems
from tessarr.errors import NotFoundError
from tessarr.node.info import format_size

if TYPE_CHECKING:
    import argparse

__all__ = ["add_to"]

_MAX_SHOWN: Final = 20
"""The number of findings of one kind in one node that are printed."""


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    kinds = "; ".join(f"{kind}: {meaning}" for kind, meaning in MEANINGS.items())
    parser = add_node_verb(
        verbs,
        "verify",
        _run,
        help="check that all stored data is readable",
        description="Check a node and all nodes below it: metadata, keys, and whether each stored "
        "chunk can be decoded, including its checksums. A chunk that is not stored is valid and "
        f"reads as the fill value. Kinds of findings: {kinds}.",
        epilog="Exit codes: 0 no findings; 1 findings; 2 the check failed.",
    )
    parser.add_argument("--no-data", action="store_true", help="check only metadata and keys")
    parser.add_argument("--complete", action="store_true", help="report chunks that are not stored")
    parser.add_argument(
        "--ignore",
        type=ChoiceList(MEANINGS),
        action="extend",
        default=[],
        metavar="KINDS",
        help=f"kinds of findings to ignore, separated by commas: {', '.join(MEANINGS)}",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help=f"print more than {_MAX_SHOWN} findings of a kind in a node",
    )
    parser.set_defaults(failure=2)


def _run(arguments: argparse.Namespace) -> int:
    started = monotonic()
    store, path = get_node_argument(arguments).locate()
    counts = Counts()
    problems = find_problems(
        store, path, data=not arguments.no_data, complete=arguments.complete, counts=counts
    )
    listed = []
    kinds: Counter[tuple[str, str]] = Counter()
    try:
        for finding in problems:
            if finding.kind in arguments.ignore:
                continue
            kinds[finding.path, finding.kind] += 1
            if arguments.json:
                listed.append(asdict(finding))
            elif arguments.all or kinds[finding.path, finding.kind] <= _MAX_SHOWN:
                location = finding.key if finding.key is not None else finding.path or "/"
                print_line(f"{finding.kind}: {location}: {finding.message}")
    except NotFoundError:
        get_node_argument(arguments).open()  # its error suggests similar names
        raise
    count = kinds.total()
    if arguments.json:
        print(format_json({"findings": listed, **asdict(counts)}))
        return 1 if count else 0
    hidden = sum(max(number - _MAX_SHOWN, 0) for number in kinds.values())
    if hidden and not arguments.all:
        print(f"… and {hidden:,} more: --all prints them")
    _print_summary(counts, count, monotonic() - started)
    return 1 if count else 0


def _print_summary(counts: Counts, count: int, seconds: float) -> None:
    nodes = f"{counts.nodes:,} node{'s' * (counts.nodes != 1)}"
    decoded = f"{counts.objects:,} stored objects ({format_size(counts.decoded_bytes)} decoded)"
    absent = counts.chunks - counts.stored_chunks
    missing = f"; {absent:,} of {counts.chunks:,} chunks are not stored" if absent else ""
    verdict = f"{count:,} finding{'s' * (count != 1)}" if count else "nothing is wrong"
    sys.stderr.write(f"{nodes}, {decoded} in {format_duration(seconds)}{missing}: {verdict}\n")
