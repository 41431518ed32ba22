"""What is under way, and what follows when it has ended."""

from __future__ import annotations

from _thread import RLock
from typing import TYPE_CHECKING, Any, TypeVar

from tessarr.tensorstore.futures.future import Future
from tessarr.tensorstore.futures.writes import WriteFutures

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["UnderWay"]

F = TypeVar("F", bound=Future[Any] | WriteFutures)


class UnderWay:
    """What has begun and not ended, until something follows the end of all of it.

    Notes
    -----
    What is under way may begin more, of which it consists: only when all has ended nothing more
    can begin.
    """

    __slots__ = ("_beginning", "_end", "_futures", "_lock", "closed")

    def __init__(self) -> None:
        self.closed = False
        """Whether all has ended, and what begins is to be refused."""
        self._lock = RLock()
        self._beginning = 0
        self._futures: set[Future[Any]] = set()
        self._end: tuple[Callable[[], object], Callable[[], object]] | None = None

    def during(self, begin: Callable[[], F]) -> F:
        """Return the future that `begin` gives, or those of a write, which are under way then."""
        with self._lock:
            closed = self.closed
            self._beginning += not closed
        if closed:
            return begin()
        future = None
        try:
            begun = begin()
            future = begun.commit if isinstance(begun, WriteFutures) else begun
        finally:
            self._begun(future)
        return begun

    def _begun(self, future: Future[Any] | None) -> None:
        with self._lock:
            self._beginning -= 1
            if future is not None and not future.done():
                self._futures.add(future)
        if future is None or future.done():
            self._ended(future)
            return
        if self._end is not None:
            future.force()
        future.add_done_callback(self._ended)

    def _ended(self, future: Future[Any] | None) -> None:
        """Take note that something has ended; if nothing is under way any more, go on."""
        with self._lock:
            if future is not None:
                self._futures.discard(future)
            if self._end is None or self._beginning or self._futures:
                return
            (stop, follow), self._end = self._end, None
            self.closed = True
            stop()
        follow()

    def close(self, stop: Callable[[], object], follow: Callable[[], object]) -> bool:
        """Have nothing more begin as soon as all has ended; what waits for a batch begins.

        Parameters
        ----------
        stop
            Called then, before anything can begin: has it refused.
        follow
            Called after that, if it is later.

        Returns
        -------
        bool
            Whether all has ended.
        """
        with self._lock:
            if not self._beginning and not self._futures:
                self.closed = True
                stop()
                return True
            self._end = stop, follow
            waiting = [*self._futures]
        for future in waiting:
            future.force()
        return False
