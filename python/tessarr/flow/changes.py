"""Changes of nodes that keep consolidated metadata of the groups above current.

A change first stores a mark in the document with the copies. The write that updates the copies
removes the mark. If the program dies in between, the mark stays: readers then ignore these
copies, and the next change rebuilds all of them.

A change holds the key ``.copies`` of the group. If this lock excludes all other programs, every
foreign mark belongs to a program that died. Otherwise, only old marks do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from tessarr.flow import consolidate, consolidated_copies
from tessarr.flow.open import prefix_of
from tessarr.flow.run import Change, Flow, Hold
from tessarr.format import json
from tessarr.metadata.consolidated import has_copies, read_marks, replace_marks

__all__ = ["CopyUpdate", "change_with_copies", "run_with_copy_updates"]

T = TypeVar("T")

_OLD_S: Final = 600.0
"""A mark of this age belongs to a program that died: changing one document takes less time."""


class CopyUpdate(NamedTuple):
    """An update of the consolidated metadata of a group after a change of a node."""

    group: consolidated_copies.ConsolidatedGroup
    path: str
    """The path of the node."""
    below: bool = False
    """Whether the change creates or deletes the node: groups above it may be new, and nodes below
    it no longer exist."""
    rebuild: bool = False
    """Whether all copies are rebuilt, because the change adds nodes below the node, too."""


def change_with_copies(
    groups: list[consolidated_copies.ConsolidatedGroup],
    path: str,
    change: Callable[[], Flow[T]],
    *,
    below: bool = False,
    rebuild: bool = False,
    mark: bool = True,
) -> Flow[T]:
    """Change the node at a path, and then update the copies of its metadata.

    Parameters
    ----------
    groups
        The groups above with consolidated metadata, from
        `consolidated_copies.find_consolidated_groups`.
    path, below, rebuild
        As for `CopyUpdate`.
    change, mark
        As for `run_with_copy_updates`.
    """
    targets = [CopyUpdate(keeper, path, below, rebuild) for keeper in groups]
    return (yield from run_with_copy_updates(targets, change, mark=mark))


def run_with_copy_updates(
    targets: list[CopyUpdate], change: Callable[[], Flow[T]], *, mark: bool = True
) -> Flow[T]:
    """Change nodes, and then update the copies of their metadata.

    Parameters
    ----------
    targets
        The copies to update.
    change
        Returns the flow that changes the nodes.
    mark
        Whether a change that cannot be marked is an error.

    Returns
    -------
    object
        The result of the flow.

    Warns
    -----
    TessarrWarning
        If the change is stored, but the update of the copies fails; the mark then stays.
    """
    if not targets:
        return (yield from change())
    # Sorted keys prevent deadlocks between concurrent changes.
    keys = sorted({prefix_of(target.group[0]) + ".copies" for target in targets})
    result: T = yield Hold(tuple(keys), partial(_run_marked, targets, change, mark))
    return result


def _run_marked(
    targets: list[CopyUpdate],
    change: Callable[[], Flow[T]],
    must_mark: bool,
    exclusive: bool,
    name: str,
) -> Flow[T]:
    name = f"{time.time():.0f}-{name}"
    stale: list[bool] = []

    def is_active(mark: str) -> bool:
        return mark != name and not exclusive and not _is_old(mark)

    def copy_updates() -> Iterator[tuple[CopyUpdate, Flow[Any]]]:
        for target, is_stale in zip(targets, stale, strict=False):  # only targets with a mark
            group, zarr_format = target.group
            if target.rebuild or is_stale:
                yield target, consolidate.rebuild_copies(group, zarr_format, is_active=is_active)
            else:
                below = target.below
                yield target, consolidated_copies.update_entry(*target[:2], below=below, mark=name)

    def undo() -> Flow[None]:
        for _, flow in copy_updates():
            with suppress(Exception):
                yield from flow

    for target in targets:
        try:
            stale.append((yield from _put_mark(target, name, exclusive=exclusive)))
        except Exception as error:
            if must_mark:
                yield from undo()
                error.add_note(
                    f"nothing has changed: {target.path or '/'!r} is not changed before the "
                    f"consolidated metadata of group {target.group[0] or '/'!r} has a mark; if it "
                    "cannot be written, call remove_consolidated"
                )
                raise
            stale.append(False)

    try:
        result = yield from change()
    except BaseException:
        yield from undo()
        raise
    for target, flow in copy_updates():
        yield from consolidated_copies.attempt_update(flow, target.group[0], target.path)
    return result


def _put_mark(target: CopyUpdate, name: str, *, exclusive: bool) -> Flow[bool]:
    """Mark a change; return whether all copies must be rebuilt because a program died."""
    (group, zarr_format), path = target.group, target.path
    key = consolidated_copies.copies_key(group, zarr_format)

    def make(old: bytes | None) -> tuple[bytes | None, bool]:
        if old is None:
            return None, False
        document, _ = json.load(old, what=f"metadata {key!r}", tokens=zarr_format == 2)
        if not has_copies(document, zarr_format):
            return old, False
        others = read_marks(document, zarr_format)
        marked = replace_marks(
            document, zarr_format, {**others, name: path[len(prefix_of(group)) :]}
        )
        stale = bool(others) and all(exclusive or _is_old(other) for other in others)
        return consolidated_copies.dump_copies(marked, zarr_format), stale

    is_stale: bool = yield Change(key, make)
    return is_stale


def _is_old(mark: str) -> bool:
    timestamp = mark.partition("-")[0]
    return not timestamp.isdigit() or abs(time.time() - int(timestamp)) > _OLD_S
