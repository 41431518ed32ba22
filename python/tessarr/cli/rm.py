"""``tessarr rm PATH``: delete an array, or a group with all nodes below it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tessarr.cli.node_argument import add_node_verb, get_node_argument
from tessarr.cli.output import format_json
from tessarr.errors import ArgumentError
from tessarr.flow import edit, stored_sizes
from tessarr.flow import open as open_flow
from tessarr.flow.run import run_flow
from tessarr.group import Group
from tessarr.node.info import format_size
from tessarr.store import LocalStore
from tessarr.store.resolve import is_url
from tessarr.store.sqlite import is_sqlite

if TYPE_CHECKING:
    import argparse

__all__ = ["add_to"]

_SQLITE_SUFFIXES: Final = ("-wal", "-shm", "-journal")


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = add_node_verb(
        verbs,
        "rm",
        _run,
        help="delete an array or a group",
        description="Delete an array, or with -r a group and all nodes below it, and their copies "
        "in consolidated metadata.",
    )
    parser.add_argument(
        "-r", "--recursive", action="store_true", help="delete a group and all nodes below it"
    )
    parser.add_argument(
        "-f",
        "--force",
        action="store_true",
        help="delete unreadable nodes, too; a missing node is no error",
    )
    parser.add_argument("-n", "--dry-run", action="store_true", help="only say what would be done")


def _run(arguments: argparse.Namespace) -> int:
    location = get_node_argument(arguments)
    root, path = location.split()
    is_file = not path and not is_url(root) and Path(root).is_file()
    reads = arguments.dry_run or is_file
    store, path = location.locate("r" if reads else "r+")
    link = Path(store.path) / path if isinstance(store, LocalStore) else None
    if link is not None and not link.is_symlink():
        link = None
    if arguments.force:
        is_dangling = link is not None and not link.exists()
        if not is_dangling and not run_flow(open_flow.node_exists(path, v1=True), store):
            return _report(arguments, 0, 0)
    else:
        node = location.open()
        if isinstance(node, Group) and not arguments.recursive:
            count = len(node)
            raise ArgumentError(
                f"{arguments.path!r} is a group of {count} member{'s' * (count != 1)}: "
                "give -r to delete it with everything below it"
            )
    if isinstance(store, LocalStore) and link is not None:
        return _remove_link(arguments, link, path, store)
    keys = run_flow(stored_sizes.list_keys(path), store)
    size_bytes = run_flow(stored_sizes.measure_stored_bytes(path), store)
    if not arguments.dry_run and is_file:
        _remove_file(Path(root))  # the store is a file
    elif not arguments.dry_run:
        run_flow(edit.delete_node(path), store)
        if not path and isinstance(store, LocalStore):
            _remove_folders(Path(store.path))
    return _report(arguments, len(keys), size_bytes)


def _remove_link(arguments: argparse.Namespace, link: Path, path: str, store: LocalStore) -> int:
    """Remove a symbolic link and keep its target."""
    if not arguments.dry_run and path:
        run_flow(edit.delete_node(path), store)
    elif not arguments.dry_run:
        link.unlink()
    if arguments.json:
        return _report(arguments, 1, 0)
    print(f"{'would delete' if arguments.dry_run else 'deleted'} the symbolic link")
    return 0


def _remove_file(path: Path) -> None:
    """Remove a single-file store, with SQLite's companion files."""
    companions = (
        [path.with_name(path.name + suffix) for suffix in _SQLITE_SUFFIXES]
        if is_sqlite(str(path))
        else []
    )
    for file in (path, *companions):
        file.unlink(missing_ok=True)


def _remove_folders(root: Path) -> None:
    """Remove the empty folders of a deleted node; a folder with files stays."""
    for folder, _, _ in os.walk(root, topdown=False):
        with suppress(OSError):
            Path(folder).rmdir()


def _report(arguments: argparse.Namespace, count: int, size_bytes: int) -> int:
    if arguments.json:
        summary = {"objects": count, "bytes": size_bytes, "deleted": not arguments.dry_run}
        print(format_json(summary))
    elif not count:
        print("there is nothing to delete")
    else:
        verb = "would delete" if arguments.dry_run else "deleted"
        print(f"{verb} {count:,} object{'s' * (count != 1)} of {format_size(size_bytes)} in sum")
    return 0
