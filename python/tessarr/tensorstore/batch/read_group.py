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
"""Reads by future, each with its array, the metadata and the store below caches."""


class ReadGroup:
    """Collects reads of arrays until they start.

    Parameters
    ----------
    waits
        Whether the reads wait until they are submitted. A read starts alone if a caller waits
        for its result earlier. Otherwise all reads start at the latest with the first such wait.
    """

    __slots__ = ("_lock", "_reads", "waits")

    def __init__(self, *, waits: bool = False) -> None:
        self.waits = waits
        self._lock = allocate_lock()
        self._reads: Reads | None = {}  # None after the batch is submitted

    def read(self, read: PreparedRead, array: Array, place: Store) -> Future[Any]:
        """Return the future of `read`; `place` is the store of `array` or a store below it."""
        future: Future[Any] = Future._pending()
        future._begin = self._begin_for
        with self._lock:
            if self._reads is None:
                raise submitted_error()
            self._reads[future] = read, array, array._meta, place
        return future

    def take(self, *, last: bool = False) -> Reads:
        """Return all collected reads; with `last`, accept no more reads."""
        with self._lock:
            reads = self._reads
            self._reads = None if last or reads is None else {}
        return reads or {}

    def begin(self) -> None:
        """Start all collected reads."""
        start_reads(self.take())

    def _begin_for(self, future: Future[Any]) -> None:
        """Start the read of `future`; without `waits`, start all reads."""
        if not self.waits:
            self.begin()
            return
        with self._lock:
            read = None if self._reads is None else self._reads.pop(future, None)
        if read is not None:
            start_reads({future: read})


def start_read(read: PreparedRead, *, soon: bool) -> Future[Any]:
    """Start one read and return its future.

    With `soon`, a small read may share an engine call with reads of the same array that follow
    before a worker is free.
    """
    future: Future[Any] = Future._pending()
    future._work = _engine.start_reads([read], [future], coalesce=soon).help
    return future


def start_reads(reads: Reads, sharing: SharedReads | None = None) -> None:
    """Start reads, which share requests through `sharing`."""
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
    """Return whether the engine runs `reads` as one: one array outside a transaction."""
    _, array, meta, _ = reads[0]
    same = all(one[1] is array and one[2] is meta for one in reads)
    return same and type(array._store) is not StagedStore


def submitted_error() -> ArgumentError:
    """Return the error for a read that is added to a submitted batch."""
    return ArgumentError("batch was already submitted")
