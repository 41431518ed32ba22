"""Reads that begin together: by one call of the engine, side by side."""

from __future__ import annotations

from _thread import allocate_lock
from typing import TYPE_CHECKING, Any, TypeAlias

from tessarr._engine import read_together
from tessarr.errors import ArgumentError
from tessarr.tensorstore.futures.future import PENDING, Future

if TYPE_CHECKING:
    from tessarr._engine import Reading
    from tessarr.store import Store
    from tessarr.tensorstore.sharing import Sharing

__all__ = ["Reads", "Together", "begin_together", "begun", "submitted"]

Reads: TypeAlias = "dict[Future[Any], tuple[Reading, Store, Store]]"
"""Reads of a store each, which stands before a place, or is it; and their futures."""


class Together:
    """Collects reads of arrays until they begin.

    Parameters
    ----------
    waits
        Whether they wait until they are submitted, all but one whose result is wanted before, which
        begins alone. Else they may begin at once, and do so at the latest when one is wanted.
    """

    __slots__ = ("_lock", "_reads", "waits")

    def __init__(self, *, waits: bool = False) -> None:
        self.waits = waits
        self._lock = allocate_lock()
        self._reads: Reads | None = {}  # None: they were submitted

    def read(self, read: Reading, store: Store, place: Store) -> Future[Any]:
        """Return the future of a read of a store, which stands before a place, or is it."""
        future: Future[Any] = Future._pending()
        future._begin = self._begin_for
        with self._lock:
            if self._reads is None:
                raise submitted()
            self._reads[future] = read, store, place
        return future

    def take(self, *, last: bool = False) -> Reads:
        """Return all that was collected; nothing is added any more if it is the last time."""
        with self._lock:
            reads = self._reads
            self._reads = None if last or reads is None else {}
        return reads or {}

    def begin(self) -> None:
        """Begin all that was collected."""
        begin_together(self.take())

    def _begin_for(self, future: Future[Any]) -> None:
        """Begin what a future waits for."""
        if not self.waits:
            self.begin()
            return
        with self._lock:
            read = None if self._reads is None else self._reads.pop(future, None)
        if read is not None:
            begin_together({future: read})


def begun(read: Reading, *, soon: bool) -> Future[Any]:
    """Return the future of a read that begins now, by itself.

    A small one may begin `soon`: together with those of the same array that are begun before a
    thread comes to it.
    """
    future: Future[Any] = Future._pending()
    future._work = read_together([read], [future], soon=soon).help
    return future


def begin_together(reads: Reads, sharing: Sharing | None = None) -> None:
    """Begin reads, which may share what others read."""
    wanted = [future for future in reads if future._state == PENDING]
    if not wanted:
        return
    places = None if sharing is None else [sharing.of(*reads[future][1:]) for future in wanted]
    begun = read_together([reads[future][0] for future in wanted], wanted, places=places)
    for future in wanted:
        future._begin, future._work = None, begun.help


def submitted() -> ArgumentError:
    """Return the error for what is added to a batch that was submitted."""
    return ArgumentError("batch was already submitted")
