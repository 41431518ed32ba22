"""Changes of nodes that keep consolidated metadata of the groups above current.

A change first stores a mark in the document with the copies. The write that updates the copies
removes the mark. If the program dies in between, the mark stays: readers then ignore these
copies, and the next change rebuilds all of them.

A change holds the key ``.copies`` of the group. If this lock excludes all other programs, every
foreign mark belongs to a program that died. Otherwise, only old marks do.

The changes of a `Batch` share one mark and one update. The lock is free between them. A change of
another program then rebuilds the copies and removes the mark, and the next change of the batch
stores it again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from tessarr.flow import consolidate, consolidated_copies
from tessarr.flow.batch import (
    Batch,
    FindBatch,
    GroupUpdate,
    MarkedDocument,
    is_of_open_batch,
    name_of_mark,
)
from tessarr.flow.open import prefix_of
from tessarr.flow.run import Change, Flow, Hold, IsCurrent, KnownDocument
from tessarr.metadata.copies_text import CopiesText

__all__ = ["CopyUpdate", "change_with_copies", "finish_batch", "run_with_copy_updates"]

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
    keys = sorted({_lock_key(target.group) for target in targets})
    batch = yield FindBatch(tuple(target.path for target in targets))
    result: T = yield Hold(tuple(keys), partial(_run_marked, targets, change, mark, batch))
    return result


def finish_batch(batch: Batch) -> Flow[None]:
    """Close a batch, and update the copies of all groups that its changes concern."""
    yield from consolidated_copies.attempt_updates(
        (
            _hold_copies(group, partial(_update_copies, group, update, batch.name)),
            group[0],
            next(iter(update.changes)),
        )
        for group, update in batch.close().items()
    )


def _lock_key(group: consolidated_copies.ConsolidatedGroup) -> str:
    return prefix_of(group[0]) + ".copies"


def _run_marked(  # noqa: PLR0917 (the last two come from `Hold`)
    targets: list[CopyUpdate],
    change: Callable[[], Flow[T]],
    must_mark: bool,
    batch: Batch | None,
    exclusive: bool,
    name: str,
) -> Flow[T]:
    if batch is not None and _defer(targets, batch):
        return (yield from _run_in_batch(targets, change, must_mark, batch, exclusive))
    mark = f"{time.time():.0f}-{name}"
    stale: list[bool] = []

    def copy_updates() -> Iterator[tuple[CopyUpdate, Flow[Any]]]:
        for target, is_stale in zip(targets, stale, strict=False):  # only targets with a mark
            update = GroupUpdate({target.path: target.below}, target.rebuild or is_stale)
            yield target, _update_copies(target.group, update, name, exclusive)

    def undo() -> Flow[None]:
        for _, flow in copy_updates():
            with suppress(Exception):
                yield from flow

    for target in targets:
        try:
            is_stale, _ = yield from _put_mark(target, mark, exclusive=exclusive)
            stale.append(is_stale)
        except Exception as error:
            if must_mark:
                yield from undo()
                _explain_refused_mark(error, target)
                raise
            stale.append(False)

    try:
        result = yield from change()
    except BaseException:
        yield from undo()
        raise
    yield from consolidated_copies.attempt_updates(
        (flow, target.group[0], target.path) for target, flow in copy_updates()
    )
    return result


def _defer(targets: list[CopyUpdate], batch: Batch) -> bool:
    return all(
        batch.defer(target.group, target.path, is_new=target.below, rebuild=target.rebuild)
        for target in targets
    )


def _run_in_batch(
    targets: list[CopyUpdate],
    change: Callable[[], Flow[T]],
    must_mark: bool,
    batch: Batch,
    exclusive: bool,
) -> Flow[T]:
    """Change nodes after the mark of their batch is stored; the end of the batch updates copies."""
    for target in targets:
        try:
            if (yield from _put_mark_of_batch(target, batch, exclusive=exclusive)):
                batch.defer(target.group, target.path, is_new=target.below, rebuild=True)
        except Exception as error:
            if must_mark:
                _explain_refused_mark(error, target)
                raise
    return (yield from change())


def _hold_copies(
    group: consolidated_copies.ConsolidatedGroup, work: Callable[[bool, str], Flow[Any]]
) -> Flow[None]:
    yield Hold((_lock_key(group),), work)


def _update_copies(
    group: consolidated_copies.ConsolidatedGroup,
    update: GroupUpdate,
    name: str,
    exclusive: bool,
    _: str = "",
) -> Flow[Any]:
    """Update or rebuild the copies of a group, and remove the marks of the change `name`."""

    def is_own(mark: str) -> bool:
        return name_of_mark(mark) == name

    def is_active(mark: str) -> bool:
        return not is_own(mark) and not _is_dead(mark, exclusive=exclusive)

    if update.rebuild:
        return consolidate.rebuild_copies(*group, is_active=is_active)
    return consolidated_copies.update_entries(
        group, update.changes, is_own=is_own, reread=update.reread
    )


def _put_mark_of_batch(target: CopyUpdate, batch: Batch, *, exclusive: bool) -> Flow[bool]:
    """Mark a change in a batch as `_put_mark` does, unless the mark is stored already.

    Only a changed document is read again. So the cost of a change does not depend on the number of
    copies.
    """
    known = batch.get_marked(target.group)
    key = consolidated_copies.copies_key(*target.group)
    if known is not None and _is_recent(known.mark) and (yield IsCurrent(key, known.document)):
        return False
    is_stale, marked = yield from _put_mark(target, batch.mark(), exclusive=exclusive)
    batch.set_marked(target.group, marked)
    return is_stale


def _put_mark(
    target: CopyUpdate, mark: str, *, exclusive: bool
) -> Flow[tuple[bool, MarkedDocument | None]]:
    """Mark a change.

    Returns
    -------
    tuple
        Whether all copies must be rebuilt because a program died, and the document with the mark;
        None if it has no copies.
    """
    (group, zarr_format), path = target.group, target.path
    key = consolidated_copies.copies_key(group, zarr_format)
    name = name_of_mark(mark)

    def make(old: bytes | None) -> tuple[bytes | None, tuple[bool, MarkedDocument | None]]:
        what = f"metadata {key!r}"
        copies = None if old is None else CopiesText.find(old, zarr_format, what=what)
        if old is None or copies is None:
            return old, (False, None)
        marks = copies.marks()
        others = {other: node for other, node in marks.items() if name_of_mark(other) != name}
        is_stale = bool(others) and all(_is_dead(other, exclusive=exclusive) for other in others)
        own, new = next(filter(_is_recent, marks.keys() - others.keys()), None), old
        if own is None:
            own = mark
            new = copies.replace({}, (), {**others, mark: path[len(prefix_of(group)) :]})
        document = KnownDocument()
        document.became(new)
        return new, (is_stale, MarkedDocument(own, document))

    result: tuple[bool, MarkedDocument | None] = yield Change(key, make)
    return result


def _explain_refused_mark(error: Exception, target: CopyUpdate) -> None:
    error.add_note(
        f"nothing has changed: {target.path or '/'!r} is not changed before the "
        f"consolidated metadata of group {target.group[0] or '/'!r} has a mark; if it "
        "cannot be written, call remove_consolidated"
    )


def _is_dead(mark: str, *, exclusive: bool) -> bool:
    """Tell whether the program that stored a mark does not change the node anymore."""
    return not is_of_open_batch(mark) and (exclusive or _age_s(mark) > _OLD_S)


def _is_recent(mark: str) -> bool:
    """Tell whether a mark needs no renewal."""
    return _age_s(mark) < _OLD_S / 2


def _age_s(mark: str) -> float:
    timestamp = mark.partition("-")[0]
    return abs(time.time() - int(timestamp)) if timestamp.isdigit() else math.inf
