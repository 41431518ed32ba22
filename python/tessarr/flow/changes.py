"""Changes of nodes of which groups above keep copies.

A change is marked in the document with the copies before it is made, and the mark goes with the
write that shows the change. So if a program dies in between, the mark stays: readers use no copies
that are marked, and the next change rebuilds them all.

Meanwhile the key ``.copies`` of the group is held. Where that excludes every other program that
changes nodes, a mark of another one is of a program that died. Elsewhere it is if it is old.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from tessarr.flow import consolidate, copies
from tessarr.flow.open import prefix_of
from tessarr.flow.replace import replace
from tessarr.flow.run import Flow, Hold
from tessarr.format import json
from tessarr.metadata.consolidated import has_copies, read_marks, replace_marks

__all__ = ["Target", "tracked", "tracked_in"]

T = TypeVar("T")

_OLD_S: Final = 600.0
"""A mark of this age belongs to a program that died: changing one document takes less time."""


class Target(NamedTuple):
    """A group that keeps copies, and what of them a change makes stale."""

    keeper: copies.Keeper
    path: str
    """Of the node."""
    below: bool = False
    """Whether the node is made or deleted, so that groups above it may be new, and what was below
    it is gone."""
    rebuild: bool = False
    """Whether all copies are rebuilt, because the change adds nodes below the node, too."""


def tracked(
    keepers: list[copies.Keeper],
    path: str,
    change: Callable[[], Flow[T]],
    *,
    below: bool = False,
    rebuild: bool = False,
    mark: bool = True,
) -> Flow[T]:
    """Change the node at a path, and then the copies of its metadata.

    Parameters
    ----------
    keepers
        The groups above that keep copies: as `copies.keepers` returned them.
    path, below, rebuild
        As for `Target`.
    change, mark
        As for `tracked_in`.
    """
    targets = [Target(keeper, path, below, rebuild) for keeper in keepers]
    return (yield from tracked_in(targets, change, mark=mark))


def tracked_in(
    targets: list[Target], change: Callable[[], Flow[T]], *, mark: bool = True
) -> Flow[T]:
    """Change nodes, and then the copies of their metadata.

    Parameters
    ----------
    targets
        What has to show the change.
    change
        Returns the flow that changes the nodes.
    mark
        Whether it is an error if the change cannot be marked.

    Returns
    -------
    object
        What the flow returns.

    Warns
    -----
    TessarrWarning
        If the change is stored, but the copies cannot show it: then the mark stays.
    """
    if not targets:
        return (yield from change())
    # In one order, so that of two changes none waits for the other.
    keys = sorted({prefix_of(target.keeper[0]) + ".copies" for target in targets})
    found: T = yield Hold(tuple(keys), partial(_tracked, targets, change, mark))
    return found


def _tracked(
    targets: list[Target],
    change: Callable[[], Flow[T]],
    must_mark: bool,
    exclusive: bool,
    name: str,
) -> Flow[T]:
    name = f"{time.time():.0f}-{name}"
    stale: list[bool] = []

    def is_live(mark: str) -> bool:
        return mark != name and not exclusive and not _is_old(mark)

    def shows() -> Iterator[tuple[Target, Flow[Any]]]:
        for target, is_stale in zip(targets, stale, strict=False):  # those that have the mark
            group, zarr_format = target.keeper
            if target.rebuild or is_stale:
                yield target, consolidate.rebuild(group, zarr_format, is_live=is_live)
            else:
                below = target.below
                yield target, copies.update_entry(*target[:2], below=below, mark=name)

    def undo() -> Flow[None]:
        for _, show in shows():
            with suppress(Exception):
                yield from show

    for target in targets:
        try:
            stale.append((yield from _mark(target, name, exclusive=exclusive)))
        except Exception as error:
            if must_mark:
                yield from undo()
                error.add_note(
                    f"nothing has changed: {target.path or '/'!r} is not changed before the "
                    f"consolidated metadata of group {target.keeper[0] or '/'!r} has a mark; if it "
                    "cannot be written, call remove_consolidated"
                )
                raise
            stale.append(False)

    try:
        result = yield from change()
    except BaseException:
        yield from undo()
        raise
    for target, show in shows():
        yield from copies.attempt(show, target.keeper[0], target.path)
    return result


def _mark(target: Target, name: str, *, exclusive: bool) -> Flow[bool]:
    """Mark a change; return whether all copies have to be rebuilt, as a program died."""
    (group, zarr_format), path = target.keeper, target.path
    key = copies.copied_from(group, zarr_format)

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
        return copies.dump(marked, zarr_format), stale

    return (yield from replace(key, make))


def _is_old(mark: str) -> bool:
    made = mark.partition("-")[0]
    return not made.isdigit() or abs(time.time() - int(made)) > _OLD_S
