"""Read groups: reads that start together in one call of the engine."""

from __future__ import annotations

from _thread import allocate_lock
from typing import TYPE_CHECKING, Any, TypeAlias

from tessarr import _engine
from tessarr.errors import ArgumentError
from tessarr.store.wrappers.staged import StagedStore
from tessarr.tensorstore.future.future import PENDING, Future

if TYPE_CHECKING:
    from tessarr._engine import PreparedRead
    from tessarr.array import Array
    from tessarr.metadata.node import ArrayMeta
    from tessarr.store import Store
    from tessarr.tensorstore.batch.shared_reads import SharedReads

__all__ = ["ReadGroup", "Reads", "start_read", "start_reads", "submitted_error"]

_Read: TypeAlias = "tuple[PreparedRead, Array, ArrayMeta, Store]"

Reads: TypeAlias = "dict[Future[Any], _Read]"
"""Reads by their futures: of which array, with which metadata, and where that is, below caches."""


class ReadGroup:
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

    def read(self, read: PreparedRead, array: Array, place: Store) -> Future[Any]:
        """Return the future of a read of an array, whose store stands before a place, or is it."""
        future: Future[Any] = Future._pending()
        future._begin = self._begin_for
        with self._lock:
            if self._reads is None:
                raise submitted_error()
            self._reads[future] = read, array, array._meta, place
        return future

    def take(self, *, last: bool = False) -> Reads:
        """Return all that was collected; nothing is added any more if it is the last time."""
        with self._lock:
            reads = self._reads
            self._reads = None if last or reads is None else {}
        return reads or {}

    def begin(self) -> None:
        """Begin all that was collected."""
        start_reads(self.take())

    def _begin_for(self, future: Future[Any]) -> None:
        """Begin what a future waits for."""
        if not self.waits:
            self.begin()
            return
        with self._lock:
            read = None if self._reads is None else self._reads.pop(future, None)
        if read is not None:
            start_reads({future: read})


def start_read(read: PreparedRead, *, soon: bool) -> Future[Any]:
    """Return the future of a read that begins now, by itself.

    A small one may begin `soon`: together with those of the same array that are begun before a
    thread comes to it.
    """
    future: Future[Any] = Future._pending()
    future._work = _engine.start_reads([read], [future], coalesce=soon).help
    return future


def start_reads(reads: Reads, sharing: SharedReads | None = None) -> None:
    """Begin reads, which may share what others read."""
    wanted = [future for future in reads if future._state == PENDING]
    if not wanted:
        return
    result, places = [reads[future] for future in wanted], None
    if sharing is not None and (sharing.expects or not _is_one_read(result)):
        places = [sharing.of(array._store, place) for _, array, _, place in result]
    reading = _engine.start_reads([one[0] for one in result], wanted, locations=places)
    for future in wanted:
        future._begin, future._work = None, reading.help


def _is_one_read(reads: list[_Read]) -> bool:
    """Whether the engine reads them as one: they are of one array, and of no transaction."""
    _, array, meta, _ = reads[0]
    same = all(one[1] is array and one[2] is meta for one in reads)
    return same and type(array._store) is not StagedStore


def submitted_error() -> ArgumentError:
    """Return the error for what is added to a batch that was submitted."""
    return ArgumentError("batch was already submitted")
