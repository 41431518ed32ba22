"""``tessarr consolidate PATH``: write, compare or remove consolidated metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessarr.api.hierarchy import (
    consolidate_metadata,
    consolidated_differences,
    open_consolidated,
    remove_consolidated,
)
from tessarr.cli.node_argument import add_node_verb, get_node_argument
from tessarr.cli.output import format_json
from tessarr.errors import ArgumentError, NotFoundError
from tessarr.group import Group

if TYPE_CHECKING:
    import argparse

    from tessarr.store.resolve import StoreLike

__all__ = ["add_to"]


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = add_node_verb(
        verbs,
        "consolidate",
        _run,
        help="copy all metadata of a hierarchy into one document",
        description="Copy the metadata of all nodes below a group into one document, so that "
        "readers need one request.",
    )
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument(
        "--check", action="store_true", help="compare with the nodes; exit code 1 if they differ"
    )
    actions.add_argument("--remove", action="store_true", help="remove the copies")
    parser.add_argument("-n", "--dry-run", action="store_true", help="only say what would be done")


def _run(arguments: argparse.Namespace) -> int:
    location = get_node_argument(arguments)
    group = location.open(use_consolidated=False)
    if not isinstance(group, Group):
        raise ArgumentError(f"{arguments.path!r} is an array, and a group is needed")
    reads = arguments.check or arguments.dry_run
    root, path = location.resolve("r" if reads else "r+", search_above=True)
    if arguments.check:
        return _print_differences(arguments, root, path)
    if arguments.remove:
        removed = _remove_copies(root, path, dry_run=arguments.dry_run)
        done = "would remove them" if arguments.dry_run else "removed"
        text = done if removed else "there are none" if arguments.dry_run else "there was none"
        outcome = {"removed": removed and not arguments.dry_run, "present": removed}
        print(format_json(outcome) if arguments.json else text)
        return 0
    if not arguments.dry_run:
        group = consolidate_metadata(root, path=path)
    count = len(group.members(None))
    done = "would make copies" if arguments.dry_run else "copies"
    summary = {"nodes": count, "done": not arguments.dry_run}
    print(format_json(summary) if arguments.json else f"{done} of {count} nodes")
    return 0


def _print_differences(arguments: argparse.Namespace, root: StoreLike, path: str) -> int:
    try:
        found_differences = consolidated_differences(root, path=path)
    except NotFoundError as error:
        if error.kind != "consolidated_not_found":
            raise
        message = f"{arguments.path!r} has no consolidated metadata: without --check it is made"
        raise NotFoundError(message, kind=error.kind, path=error.path) from error
    if arguments.json:
        print(format_json(found_differences))
    else:
        for node, difference in found_differences.items():
            print(f"{node}: {difference}")
        print(f"{len(found_differences)} difference{'s' * (len(found_differences) != 1)}")
    return 1 if found_differences else 0


def _remove_copies(root: StoreLike, path: str, *, dry_run: bool) -> bool:
    """Remove consolidated metadata; return whether it existed."""
    if not dry_run:
        return remove_consolidated(root, path=path)
    try:
        open_consolidated(root, "r", path=path)
    except NotFoundError as error:
        if error.kind != "consolidated_not_found":
            raise
        return False
    return True
