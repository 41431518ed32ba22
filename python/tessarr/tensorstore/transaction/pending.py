"""`PendingOperations`: counts the running operations of a transaction until its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tessarr.tensorstore.future.combine import convert_result
from tessarr.tensorstore.future.future import Future, RetriedCallback, T
from tessarr.tensorstore.future.write_futures import WriteFutures

if TYPE_CHECKING:
    from _thread import RLock
    from collections.abc import Callable

__all__ = ["PendingOperations"]

F = TypeVar("F", bound=Future[Any] | WriteFutures)


class PendingOperations:
    """The operations of a transaction that have started and not ended.

    Parameters
    ----------
    lock
        The transaction's lock. Callers that change `starting_count` or call `is_idle` hold it.

    Notes
    -----
    An operation can start other operations. The transaction closes after all of them have ended.
    """

    __slots__ = ("_end", "_futures", "_lock", "starting_count")

    def __init__(self, lock: RLock) -> None:
        self.starting_count = 0
        """The number of operations that are about to start."""
        self._lock = lock
        self._futures: set[Future[Any]] = set()
        self._end: tuple[Callable[[], object], Callable[[], object]] | None = None

    def start_counted(self, start_operation: Callable[[], F]) -> F:
        """Call `start_operation`, track its future, and return a future to cancel independently.

        The operation continues without a waiting caller and stages its changes completely.
        """
        future = None
        try:
            result = start_operation()
            future = result.commit if isinstance(result, WriteFutures) else result
        finally:
            self._add(future)
        if result.done():
            return result
        detached: F = _detach(result)
        return detached

    def _add(self, future: Future[Any] | None) -> None:
        with self._lock:
            self.starting_count -= 1
            if future is not None and not future.done():
                self._futures.add(future)
        if future is None or future.done():
            self._remove(future)
            return
        if self._end is not None:
            future.force()
        future.add_done_callback(RetriedCallback(self._remove))

    def _remove(self, future: Future[Any] | None) -> None:
        """Record the end of an operation; after the last one, close the transaction."""
        with self._lock:
            if future is not None:
                self._futures.discard(future)
            if self._end is None or self.starting_count or self._futures:
                return
            (stop, follow), self._end = self._end, None
            stop()
        follow()

    def is_idle(self, stop: Callable[[], object], follow: Callable[[], object]) -> bool:
        """Return whether no operation is pending.

        Parameters
        ----------
        stop
            Refuses new operations; called after the last operation ends.
        follow
            Called after `stop`.
        """
        if not self.starting_count and not self._futures:
            return True
        self._end = stop, follow
        return False

    def force(self) -> None:
        """Start operations that wait for a batch."""
        with self._lock:
            waiting = [*self._futures]
        for future in waiting:
            future.force()


def _detach(result: Any) -> Any:
    """Return futures with the same results that can be cancelled independently."""
    if not isinstance(result, WriteFutures):
        return convert_result(result, _return_value)
    commit = convert_result(result.commit, _return_value)
    copy = commit if result.copy is result.commit else convert_result(result.copy, _return_value)
    return WriteFutures._of(copy, commit)


def _return_value(value: T) -> T:
    return value
