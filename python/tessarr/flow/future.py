"""Futures: results of work that the engine does concurrently.

Tessarr imports the module lazily, because importing the standard library's futures takes as long
as importing Tessarr.
"""

from __future__ import annotations

import concurrent.futures
from _queue import Empty, SimpleQueue
from collections.abc import Callable, Generator
from concurrent.futures._base import PENDING
from contextlib import suppress
from operator import attrgetter
from threading import Condition, get_ident, main_thread
from typing import TYPE_CHECKING, Any, TypeVar

from tessarr._safe_repr import safe_repr, truncate
from tessarr.flow.event_loop import is_turn_due
from tessarr.format.registry import set_public_module

__all__ = ["Future"]

T = TypeVar("T")

# Futures with callbacks stay alive until the callbacks run.
_with_callbacks: set[concurrent.futures.Future[Any]] = set()


class _Condition(Condition):
    """A condition that a signal cannot leave locked: no Python code runs on entry and exit."""

    if not TYPE_CHECKING:
        __enter__ = property(attrgetter("_lock.__enter__"))
        __exit__ = property(attrgetter("_lock.__exit__"))


class Future(concurrent.futures.Future[T]):
    """The result of concurrent work of the engine.

    Wait with `.result(timeout)` in a thread, or with `await` in a coroutine. `cancel()` removes the
    work from the queue if no thread has started it. A dropped future removes its read from the
    queue, unless it has a callback or the read fills `out`. The engine always completes writes.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.create_array(None, shape=(4,), dtype="u1", fill_value=7)
    >>> a.read(slice(1, 3)).result()
    array([7, 7], dtype=uint8)
    """

    def __init__(self, finish: Callable[[Any], T] | None = None) -> None:
        super().__init__()
        self._condition.__class__ = _Condition
        self._finish = finish
        self._work: Callable[[], object] | None = (
            None  # runs the work in this thread if no other thread has started it
        )
        self._leave: Callable[[object], bool] | None = None  # removes the work from the queue
        self.set_running_or_notify_cancel()

    def _set_outcome(self, result: Any, error: BaseException | None) -> None:
        """Set the result or the error; the engine calls this in a thread without signals."""
        if error is None:
            self.set_result(result)
        else:
            self.set_exception(error)

    def set_result(self, result: Any) -> None:
        """Set the result."""
        try:
            value = result if self._finish is None else self._finish(result)
        except Exception as error:  # noqa: BLE001 (raised by result())
            self.set_exception(error)
        else:
            super().set_result(value)

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[T]], object]) -> None:
        """Call a function with this future when the work is done, or immediately if it is done.

        The engine completes the work even if the program drops the future.

        Parameters
        ----------
        fn
            The function.
        """
        if self not in _with_callbacks:
            _with_callbacks.add(self)
            super().add_done_callback(_with_callbacks.discard)
        super().add_done_callback(fn)

    def cancel(self) -> bool:
        """Remove the work from the queue, unless a thread has started it.

        Returns
        -------
        bool
            Whether the work is cancelled. If so, it read and wrote nothing, and `result` raises
            `concurrent.futures.CancelledError`.
        """
        if self._leave is None or not self._leave(self):
            return self.cancelled()
        self._work = self._leave = None
        self._state = PENDING  # no thread will start the work
        done = super().cancel()
        self.set_running_or_notify_cancel()
        return done

    def result(self, timeout: float | None = None) -> T:
        """Wait for the result and return it, or raise the error.

        Parameters
        ----------
        timeout
            The maximum time to wait, in seconds.

        Raises
        ------
        TimeoutError
            If the work takes longer.
        """
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait as `result` does, and return the error; None if the work succeeded."""
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        """Wait until the work is done, or until the timeout ends."""
        # In the main thread, a signal could interrupt the code that reports the result.
        may_help = timeout is None and get_ident() != main_thread().ident
        if may_help and self._work is not None and not self.done():
            self._work()
        if not self.done():
            ends: SimpleQueue[Any] = SimpleQueue()
            super().add_done_callback(ends.put)  # the waiting thread keeps the future alive
            with suppress(Empty):
                ends.get(timeout=None if timeout is None else max(0.0, timeout))

    def _repr_html_(self) -> str:
        from tessarr.format.html import render_block, render_table

        return render_block("tessarr.Future", "", render_table(self._describe()))

    def _describe(self) -> list[tuple[str, str]]:
        """Return the state and the outcome as labels and values, without waiting."""
        if self.cancelled():
            return [("State", "cancelled")]
        if not self.done():
            return [("State", "running")]
        error = super().exception(0)
        if error is not None:
            return [("State", "failed"), ("Error", truncate([f"{type(error).__name__}: {error}"]))]
        value = super().result(0)
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
        if shape is None or dtype is None:
            return [("State", "finished"), ("Result", safe_repr(value))]
        return [("State", "finished"), ("Result", f"{type(value).__name__} {shape} {dtype}")]

    def __await__(self) -> Generator[Any, None, T]:
        if self.done() and not self.cancelled():
            if is_turn_due():
                yield
            return self.result()
        import asyncio

        return (yield from asyncio.wrap_future(self))


set_public_module("tessarr", Future)
# `tessarr` imports the class lazily: this lets doctest find the examples.
__test__ = {"Future": Future}
