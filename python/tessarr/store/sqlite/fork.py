"""A gate that delays `fork` while a thread is inside SQLite."""

from __future__ import annotations

import os
import threading
from typing import Final, Protocol
from weakref import WeakSet

from tessarr.store import at_exit

__all__ = ["Gate", "gate"]


class Closable(Protocol):
    """The methods of `tessarr.store.sqlite.database.Database` that the gate calls."""

    def close(self) -> None: ...
    def forget(self) -> object: ...


class Gate:
    """Delays `fork` while threads are inside, and new threads while `fork` waits."""

    def __init__(self) -> None:
        self._condition = threading.Condition(threading.Lock())
        self._inside = 0
        self._forking = False
        self._leaked: list[object] = []
        self._databases: WeakSet[Closable] = WeakSet()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._before,
                after_in_parent=self._after,
                after_in_child=self._after_in_child,
            )

    def watch(self, database: Closable) -> None:
        """Close a database at the end of the process; drop its connections in a child."""
        at_exit.add(self._close_all)
        self._databases.add(database)

    def _close_all(self) -> None:
        for database in list(self._databases):
            database.close()

    def __enter__(self) -> None:
        with self._condition:
            while self._forking:
                self._condition.wait()
            self._inside += 1

    def __exit__(self, *exception: object) -> None:
        with self._condition:
            self._inside -= 1
            if not self._inside:
                self._condition.notify_all()

    def _before(self) -> None:
        self._condition.acquire()
        self._forking = True
        while self._inside:
            self._condition.wait()

    def _after(self) -> None:
        self._forking = False
        self._condition.notify_all()
        self._condition.release()

    def _after_in_child(self) -> None:
        for database in self._databases:
            # Closing them would release the locks of the parent.
            self._leaked.append(database.forget())
        self._after()


gate: Final = Gate()
"""The gate of this process."""
