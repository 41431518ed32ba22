"""Batches of changes, whose updates of consolidated metadata wait for the end of a block.

A batch belongs to one process: a forked child does not defer its changes.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from tessarr.flow.open import prefix_of
from tessarr.flow.run import KnownDocument, Request

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from tessarr.store import Store
    from tessarr.types import ZarrFormat

__all__ = [
    "Batch",
    "ConsolidatedGroup",
    "FindBatch",
    "GroupUpdate",
    "MarkedDocument",
    "MoveInBatches",
    "find_batch",
    "is_of_open_batch",
    "name_of_mark",
]

ConsolidatedGroup: TypeAlias = "tuple[str, ZarrFormat]"
"""A group with consolidated metadata, and its format."""


@dataclass(slots=True)
class MarkedDocument:
    """The document with the copies of a group, after a batch has stored its mark."""

    mark: str
    document: KnownDocument


@dataclass(slots=True)
class GroupUpdate:
    """An update of the copies of one group after changes of nodes."""

    changes: dict[str, bool] = field(default_factory=dict)
    """The paths of changed nodes, and whether a change created or deleted the node."""
    rebuild: bool = False
    """Whether all copies are rebuilt."""
    reread: bool = False
    """Whether nodes may exist again below created and deleted ones."""

    def add(self, path: str, *, is_new: bool, rebuild: bool) -> None:
        """Add a change of a node."""
        self.changes[path] = is_new or self.changes.get(path, False)
        self.rebuild |= rebuild


class Batch:
    """Changes of nodes at and below a path, with one update of the copies at their end.

    Parameters
    ----------
    store, path
        The location of the group.
    """

    __slots__ = ("_lock", "_marked", "_updates", "name", "path", "pid", "store", "thread")

    def __init__(self, store: Store, path: str) -> None:
        self.store = store
        self.path = path
        self.name = os.urandom(6).hex()
        self.pid = os.getpid()
        self.thread = threading.get_ident()
        self._lock = threading.Lock()
        self._updates: dict[ConsolidatedGroup, GroupUpdate] | None = {}
        self._marked: dict[ConsolidatedGroup, MarkedDocument] = {}

    def open(self) -> None:
        """Defer updates of copies from now on."""
        _open_batches.append(self)

    def close(self) -> dict[ConsolidatedGroup, GroupUpdate]:
        """Defer no more updates, and return the deferred ones; none in a forked child."""
        _open_batches.remove(self)
        if self.pid != os.getpid():
            return {}
        with self._lock:
            updates, self._updates = self._updates, None
        return updates or {}

    def mark(self) -> str:
        """Return the mark of the batch with the current time."""
        return f"{time.time():.0f}-{self.name}"

    def is_of_this_thread(self) -> bool:
        """Tell whether this thread opened the batch."""
        return self.thread == threading.get_ident()

    def covers(self, store: Store, paths: Iterable[str]) -> bool:
        """Tell whether nodes belong to the batch."""
        prefix = prefix_of(self.path)
        return (
            self.pid == os.getpid()
            and all(path == self.path or path.startswith(prefix) for path in paths)
            and bool(self.store == store)
        )

    def defer(self, group: ConsolidatedGroup, path: str, *, is_new: bool, rebuild: bool) -> bool:
        """Defer an update of the copies of a group; return False if the batch is closed.

        The caller holds the key ``.copies`` of the group.
        """
        with self._lock:
            if self._updates is None:
                return False
            update = self._updates.setdefault(group, GroupUpdate(reread=True))
            update.add(path, is_new=is_new, rebuild=rebuild)
        return True

    def move(self, source: str, target: str) -> None:
        """Defer updates of the copies of groups that were at or below `source`, at `target`."""
        prefix = prefix_of(source)
        with self._lock:
            updates = self._updates or {}
            for (group, form), update in tuple(updates.items()):
                if group != source and not group.startswith(prefix):
                    continue
                moved = updates.setdefault(
                    (target + group[len(source) :], form), GroupUpdate(reread=True)
                )
                for path, is_new in update.changes.items():
                    moved.add(target + path[len(source) :], is_new=is_new, rebuild=update.rebuild)

    def get_marked(self, group: ConsolidatedGroup) -> MarkedDocument | None:
        """Return the document with the mark of the batch, as last known."""
        return self._marked.get(group)

    def set_marked(self, group: ConsolidatedGroup, marked: MarkedDocument | None) -> None:
        """Record the document with the mark of the batch; None if there are no copies."""
        if marked is None:
            self._marked.pop(group, None)
        else:
            self._marked[group] = marked

    def marked_groups(self) -> Collection[ConsolidatedGroup]:
        """Return the groups whose copies had the mark of the batch when it last read them."""
        return self._marked.keys()


_open_batches: Final[list[Batch]] = []


def find_batch(store: Store, paths: Iterable[str]) -> Batch | None:
    """Return the innermost batch of some nodes, preferably of this thread."""
    if not _open_batches:
        return None
    found = [batch for batch in tuple(_open_batches) if batch.covers(store, paths)]
    own = [batch for batch in found if batch.is_of_this_thread()]
    batches = own or found
    return batches[-1] if batches else None


@dataclass(frozen=True, slots=True)
class MoveInBatches(Request):
    """Record a moved node in all batches of this process; the response is None."""

    source: str
    target: str

    def perform(self, store: Store) -> None:
        for batch in tuple(_open_batches):
            if batch.pid == os.getpid() and batch.store == store:
                batch.move(self.source, self.target)


def name_of_mark(mark: str) -> str:
    """Return the name of the change or batch that stored a mark."""
    return mark.partition("-")[2]


def is_of_open_batch(mark: str) -> bool:
    """Tell whether a batch of this process stored a mark."""
    pid, name = os.getpid(), name_of_mark(mark)
    return any(batch.pid == pid and batch.name == name for batch in tuple(_open_batches))


@dataclass(frozen=True, slots=True)
class FindBatch(Request):
    """Return the batch of some nodes, or None."""

    paths: tuple[str, ...]

    def perform(self, store: Store) -> Any:
        return find_batch(store, self.paths)
