"""What is under way in a transaction, and what follows when it has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tessarr.tensorstore.future.combine import converted
from tessarr.tensorstore.future.future import Again, Future, T
from tessarr.tensorstore.future.write_futures import WriteFutures

if TYPE_CHECKING:
    from _thread import RLock
    from collections.abc import Callable

__all__ = ["PendingOperations"]

F = TypeVar("F", bound=Future[Any] | WriteFutures)


class PendingOperations:
    """What has begun and not ended, until something follows the end of all of it.

    Parameters
    ----------
    lock
        That of the transaction. Who changes `starting_count` and calls `is_idle` has it.

    Notes
    -----
    What is under way may begin more, of which it consists: only when all has ended nothing more
    can begin.
    """

    __slots__ = ("_end", "_futures", "_lock", "starting_count")

    def __init__(self, lock: RLock) -> None:
        self.starting_count = 0
        """How many begin now."""
        self._lock = lock
        self._futures: set[Future[Any]] = set()
        self._end: tuple[Callable[[], object], Callable[[], object]] | None = None

    def start_counted(self, begin: Callable[[], F]) -> F:
        """Return the future that `begin` gives, or those of a write, counted as one that begins.

        It goes on though nobody waits for it any more: it is there as a whole, or not at all.
        """
        future = None
        try:
            made = begin()
            future = made.commit if isinstance(made, WriteFutures) else made
        finally:
            self._add(future)
        if made.done():
            return made
        apart: F = _detach(made)
        return apart

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
        future.add_done_callback(Again(self._remove))

    def _remove(self, future: Future[Any] | None) -> None:
        """Take note that something has ended; if nothing is under way any more, go on."""
        with self._lock:
            if future is not None:
                self._futures.discard(future)
            if self._end is None or self.starting_count or self._futures:
                return
            (stop, follow), self._end = self._end, None
            stop()
        follow()

    def is_idle(self, stop: Callable[[], object], follow: Callable[[], object]) -> bool:
        """Return whether all has ended.

        Parameters
        ----------
        stop
            Otherwise called when it has, before anything can begin: has it refused.
        follow
            Called after that.
        """
        if not self.starting_count and not self._futures:
            return True
        self._end = stop, follow
        return False

    def force(self) -> None:
        """Begin what waits for a batch."""
        with self._lock:
            waiting = [*self._futures]
        for future in waiting:
            future.force()


def _detach(made: Any) -> Any:
    """Return futures that end as others do, and which can be cancelled without these."""
    if not isinstance(made, WriteFutures):
        return converted(made, _return_value)
    commit = converted(made.commit, _return_value)
    copy = commit if made.copy is made.commit else converted(made.copy, _return_value)
    return WriteFutures._of(copy, commit)


def _return_value(value: T) -> T:
    return value
