"""Batches of changes, whose updates of consolidated metadata wait for the end of a block.

A batch belongs to one process: a forked child does not defer its changes.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tessarr.flow.open import prefix_of
from tessarr.flow.run import Request

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tessarr.flow.consolidated_copies import ConsolidatedGroup
    from tessarr.store import Store

__all__ = ["Batch", "FindBatch", "GroupUpdate", "find_batch", "is_of_open_batch", "name_of_mark"]


@dataclass(slots=True)
class GroupUpdate:
    """An update of the copies of one group after changes of nodes."""

    changes: dict[str, bool] = field(default_factory=dict)
    """The paths of changed nodes, and whether a change created or deleted the node."""
    rebuild: bool = False
    """Whether all copies are rebuilt."""
    reread: bool = False
    """Whether nodes may exist again below created and deleted ones."""


class Batch:
    """Changes of nodes at and below a path, with one update of the copies at their end.

    Parameters
    ----------
    store, path
        The location of the group.
    """

    __slots__ = ("_lock", "_updates", "name", "path", "pid", "store", "thread")

    def __init__(self, store: Store, path: str) -> None:
        self.store = store
        self.path = path
        self.name = os.urandom(6).hex()
        self.pid = os.getpid()
        self.thread = threading.get_ident()
        self._lock = threading.Lock()
        self._updates: dict[ConsolidatedGroup, GroupUpdate] | None = {}

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
            update.changes[path] = is_new or update.changes.get(path, False)
            update.rebuild |= rebuild
        return True


_open_batches: Final[list[Batch]] = []


def find_batch(store: Store, paths: Iterable[str]) -> Batch | None:
    """Return the innermost batch of some nodes, preferably of this thread."""
    if not _open_batches:
        return None
    found = [batch for batch in tuple(_open_batches) if batch.covers(store, paths)]
    own = [batch for batch in found if batch.is_of_this_thread()]
    batches = own or found
    return batches[-1] if batches else None


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
