"""Futures: results that are computed concurrently."""

from __future__ import annotations

import time
from _queue import Empty, SimpleQueue
from _thread import LockType, allocate_lock
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from inspect import iscoroutine
from math import isnan
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeAlias, TypeVar

from tessarr._safe_repr import safe_repr
from tessarr.errors import TooLargeError
from tessarr.flow.event_loop import is_turn_due
from tessarr.format.registry import set_public_module
from tessarr.tensorstore.future.executor import (
    is_interruptible,
    submit,
    submit_uninterrupted,
    while_waiting,
)
from tessarr.tensorstore.future.status import add_status_code

if TYPE_CHECKING:
    import asyncio
    import concurrent.futures

__all__ = [
    "NOTHING",
    "Future",
    "FutureLike",
    "RetriedCallback",
    "failed",
    "finished",
    "spawn",
    "spawn_future",
]

T = TypeVar("T")

_new: Final = object.__new__

PENDING: Final = 0
DONE: Final = 1
FAILED: Final = 2
CANCELLED: Final = 3


class RetriedCallback(partial[object]):
    """A callback without errors; if a signal interrupts it, another thread calls it again."""


class Future(Generic[T]):
    """The reading end of a result that may still be pending.

    Call `result` in a thread, use ``await`` in a coroutine, or pass a function to
    `add_done_callback`.

    Parameters
    ----------
    future
        A future, which is returned unchanged; a coroutine, which `loop` runs; or a result.
    loop : asyncio.AbstractEventLoop, optional
        The event loop that runs a coroutine; by default the running loop.

    Notes
    -----
    Pass ``asyncio.ensure_future(future)`` to asyncio functions that need an asyncio future.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> future = ts.Future(3)
    >>> future.done(), future.result(), ts.Future(future) is future
    (True, 3, True)
    """

    __slots__ = ("__weakref__", "_begin", "_callbacks", "_lock", "_state", "_value", "_work")

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)

    _lock: LockType
    _state: int
    _value: Any
    _callbacks: list[Callable[[Future[T]], object]] | None
    _begin: Callable[[Future[T]], object] | None
    _work: Callable[[], object] | None

    def __new__(
        cls, future: FutureLike[Any], *, loop: asyncio.AbstractEventLoop | None = None
    ) -> Future[Any]:
        if isinstance(future, Future):
            return future
        if not iscoroutine(future):
            return finished(future)
        result: Future[Any] = cls._pending()
        _run(future, loop, result)
        return result

    @classmethod
    def _pending(cls) -> Future[T]:
        """Return a future without a result.

        `force` calls `_begin` with the future. A thread that waits for the result calls `_work`,
        which may compute the result in that thread.
        """
        future: Future[T] = object.__new__(cls)
        future._lock = allocate_lock()
        future._state = PENDING
        future._value = future._begin = future._work = future._callbacks = None
        return future

    # Methods of the writing end

    def _finish(self, state: int, value: Any) -> bool:
        """Set the state and call the callbacks; return False if the future has ended before.

        Python checks for signals after calls. The error of a signal leaves this method either
        before the state changes or after the last callback.
        """
        if self._state != PENDING:
            return False
        left = None
        try:
            with self._lock:
                if self._state != PENDING:
                    return False
                if self._callbacks:
                    left = iter(self._callbacks)
                self._value = value
                self._state = state
                self._callbacks = self._begin = self._work = None
            if left is not None:
                self._call(left)
        except BaseException:
            if left is not None and self._state != PENDING:
                self._call(left)
            raise
        return True

    def _call(self, callbacks: Iterator[Callable[[Future[T]], object]]) -> None:
        """Call callbacks and log their errors; then raise an error that ends the program."""
        raised = None
        for callback in callbacks:
            try:
                callback(self)
            except BaseException as error:  # CancelledError is no Exception
                if type(callback) is RetriedCallback and is_interruptible():
                    submit(partial(callback, self))
                elif not isinstance(error, (KeyboardInterrupt, SystemExit)):
                    import logging

                    logging.getLogger("tessarr").exception("a callback of %r failed", self)
                    continue
                raised = raised or error
        if raised is not None:
            raise raised

    def _set_outcome(self, result: Any, error: BaseException | None) -> None:
        """End with a result or an error; the engine calls again after a signal."""
        if error is None:
            self._finish(DONE, result)
        else:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """End with an error."""
        self._finish(FAILED, add_status_code(error))

    def _run_work(self, work: Callable[..., T], *arguments: Any) -> None:
        """End with the return value of `work` or with its error."""
        try:
            value = work(*arguments)
        except BaseException as error:  # noqa: BLE001 (the future reports it)
            self._fail(error)
        else:
            self._finish(DONE, value)

    def _run_retried(self, work: Callable[..., T], *arguments: Any) -> None:
        """End with the outcome of `work`; raise an interrupt, so that `RetriedCallback` retries."""
        if self._state != PENDING:
            return
        try:
            value = work(*arguments)
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)) and is_interruptible():
                raise
            self._fail(error)
        else:
            self._finish(DONE, value)

    def _forward(self, source: Future[T]) -> None:
        """Force `source`, and end with its outcome."""
        if source._state == PENDING:
            self._work = source._help
            source.add_done_callback(
                RetriedCallback(lambda done: self._finish(done._state, done._value))
            )
            source.force()
            if self._state != PENDING:  # a caller cancelled the future
                self._work = None
        else:
            self._finish(source._state, source._value)

    def _copy_outcome(self, other: Future[T] | concurrent.futures.Future[T]) -> None:
        """End with the outcome of `other`, which has ended."""
        if other.cancelled():
            self.cancel()
        else:
            self._run_retried(other.result)

    # Methods of the reading end

    def done(self) -> bool:
        """Return whether the future has a result or an error, or was cancelled.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> promise, future = ts.Promise.new()
        >>> future.done(), ts.Future(3).done()
        (False, True)
        """
        return self._state != PENDING

    def cancelled(self) -> bool:
        """Return whether the future was cancelled.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> promise, future = ts.Promise.new()
        >>> future.cancelled(), future.cancel(), future.cancelled()
        (False, True, True)
        """
        return self._state == CANCELLED

    def cancel(self) -> bool:
        """Cancel the future in all threads; return whether it was pending.

        Running work continues, and its result is discarded. Other work never starts.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> promise, future = ts.Promise.new()
        >>> future.cancel(), future.cancelled(), future.cancel()
        (True, True, False)
        """
        return self._finish(CANCELLED, None)

    def force(self) -> None:
        """Start work that otherwise starts when a caller waits for the result.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> future = ts.array([1, 2]).read()
        >>> future.force()
        >>> future.result()
        array([1, 2])
        """
        if self._state == PENDING:
            begin, self._begin = self._begin, None
            if begin is not None:
                begin(self)

    def _help(self) -> None:
        """Run work in this thread that no other thread has started."""
        while self._work is not None:  # work may add more work
            work, self._work = self._work, None
            if work is not None:
                work()

    def result(self, timeout: float | None = None, deadline: float | None = None) -> T:
        """Wait for the result and return it, or raise the error.

        Parameters
        ----------
        timeout
            The maximum time to wait, in seconds.
        deadline
            The time at which the wait ends, in seconds since 1970.

        Raises
        ------
        TimeoutError
            If the future is still pending after that time.
        asyncio.CancelledError
            If the future was cancelled.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> promise, future = ts.Promise.new()
        >>> promise.set_result("found")
        >>> future.result(timeout=5)
        'found'
        """
        if timeout is not None or deadline is not None:
            _check_seconds(timeout, deadline)
        if self._state != DONE:
            self._wait(timeout, deadline)
            if self._state == FAILED:
                try:
                    raise self._value
                finally:
                    del self  # the traceback then holds no reference to the future
            self._check()
        value: T = self._value
        return value

    def exception(
        self, timeout: float | None = None, deadline: float | None = None
    ) -> BaseException | None:
        """Wait for the end and return the error, or None for a result.

        Parameters
        ----------
        timeout, deadline
            As for `result`.

        Raises
        ------
        TimeoutError
            If the future is still pending after that time.
        asyncio.CancelledError
            If the future was cancelled.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> future = ts.open("memory://nowhere/|zarr3:")
        >>> future.exception().kind, ts.Future(3).exception()
        ('array_not_found', None)
        """
        _check_seconds(timeout, deadline)
        self._wait(timeout, deadline)
        self._check()
        return self._value if self._state == FAILED else None

    def _check(self) -> None:
        if self._state == CANCELLED:
            from asyncio import CancelledError

            raise CancelledError

    def _wait(self, timeout: float | None, deadline: float | None) -> None:
        if self._state != PENDING:
            return
        self.force()
        if timeout is None and deadline is None:
            self._help()
            if self._state != PENDING:
                return
        elif deadline is not None:
            left = deadline - time.time()
            timeout = left if timeout is None else min(timeout, left)
        ends: SimpleQueue[Future[T]] = SimpleQueue()
        if not self._add(ends.put):
            return
        try:
            # The error of a signal handler ends the wait.
            with while_waiting():
                ends.get(timeout=None if timeout is None else max(0.0, min(timeout, _LONGEST)))
        except Empty:
            self.remove_done_callback(ends.put)
            if self._state == PENDING:
                raise TimeoutError from None

    def _add(self, callback: Callable[[Future[T]], object]) -> bool:
        """Register `callback`; return False if the future has ended."""
        if self._state != PENDING:
            return False
        with self._lock:
            if self._state != PENDING:
                return False
            if self._callbacks is None:
                self._callbacks = [callback]
            else:
                self._callbacks.append(callback)
        return True

    def add_done_callback(self, callback: Callable[[Future[T]], object]) -> None:
        """Call `callback` with this future when it is done, or at once if it is done.

        Parameters
        ----------
        callback
            A function that any thread may call. Its errors are logged and stop no other callback.
            A `KeyboardInterrupt` or `SystemExit` is raised after the last callback.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> promise, future = ts.Promise.new()
        >>> future.add_done_callback(lambda done: print(done.result()))
        >>> promise.set_result(5)
        5
        """
        if not self._add(callback):
            self._call(iter((callback,)))

    def remove_done_callback(self, callback: Callable[[Future[T]], object]) -> int:
        """Remove `callback`; return the number of its registrations.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> promise, future = ts.Promise.new()
        >>> future.add_done_callback(print)
        >>> future.remove_done_callback(print), future.remove_done_callback(print)
        (1, 0)
        """
        if self._state != PENDING:
            return 0
        with self._lock:
            if self._callbacks is None:
                return 0
            others = [other for other in self._callbacks if other != callback]
            removed = len(self._callbacks) - len(others)
            self._callbacks = others
            return removed

    def __await__(self) -> Generator[Any, None, T]:
        if self._state == PENDING:
            import asyncio

            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None] = loop.create_future()

            def wake() -> None:
                if not waiter.done():
                    waiter.set_result(None)

            def tell(_: Future[T]) -> None:
                with suppress(RuntimeError):  # a closed loop runs no coroutine
                    loop.call_soon_threadsafe(wake)

            self.add_done_callback(RetriedCallback(tell))
            self.force()
            try:
                yield from waiter
            except asyncio.CancelledError:
                self.cancel()
                raise
        elif is_turn_due():
            yield
        return self.result()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a future belongs to its process: it cannot be pickled or copied")

    def __repr__(self) -> str:
        state = ("pending", "finished", "failed", "cancelled")[self._state]
        return f"<{type(self).__name__} {state}>"


_LONGEST: Final = 1e8  # seconds; the locks of every system accept this timeout


def _check_seconds(timeout: float | None, deadline: float | None) -> None:
    """Raise an error if `timeout` or `deadline` is no valid number, also without a wait."""
    for name, given in (("timeout", timeout), ("deadline", deadline)):
        if given is not None:
            try:
                isnan(given)
            except OverflowError:
                raise TooLargeError(f"{name}: {safe_repr(given)} is beyond all floats") from None


def _run(work: Awaitable[Any], loop: asyncio.AbstractEventLoop | None, into: Future[Any]) -> None:
    """Run the coroutine `work` on `loop` and copy its outcome to `into`."""
    import asyncio

    async def wrapped() -> Any:
        return await work

    if loop is None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            close = getattr(work, "close", None)
            if close is not None:
                close()
            raise ValueError(
                "a coroutine needs an event loop: give one as `loop`, or be in a coroutine"
            ) from None
    running = asyncio.run_coroutine_threadsafe(wrapped(), loop)
    running.add_done_callback(into._copy_outcome)
    into.add_done_callback(
        RetriedCallback(lambda done: running.cancel() if done.cancelled() else None)
    )


FutureLike: TypeAlias = Future[T] | Awaitable[T] | T
"""A future, a coroutine, or the result itself."""


def finished(value: T) -> Future[T]:
    """Return a future that has a result."""
    future: Future[T] = _new(Future)  # a finished future needs no other attributes
    future._state = DONE
    future._value = value
    return future


def failed(error: BaseException) -> Future[Any]:
    """Return a future that has an error."""
    future: Future[Any] = finished(add_status_code(error))
    future._state = FAILED
    return future


NOTHING: Final = finished(None)
"""The future of finished work without a result; all callers share it."""


def spawn(
    work: Callable[..., T], *arguments: Any, here: bool = False, whole: bool = False
) -> Future[T]:
    """Run `work` in a thread of the pool and return its future.

    Parameters
    ----------
    work
        Runs with the options of the caller.
    *arguments
        Its arguments.
    here
        Run it at once in this thread, because it is quick.
    whole
        Complete work that has started, also if an interrupt ends the wait.

    Notes
    -----
    A thread that waits for the result runs the work itself, if no other thread has started it.
    """
    if here:
        try:
            value = work(*arguments)
        except BaseException as error:  # noqa: BLE001 (the future reports it)
            return failed(error)
        return finished(value)
    future: Future[T] = Future._pending()
    begin = submit_uninterrupted if whole else submit
    future._work = begin(partial(_do, future, work, *arguments))
    return future


def _do(into: Future[T], work: Callable[..., T], *arguments: Any) -> None:
    if into._state == PENDING:  # not cancelled before the start
        into._run_work(work, *arguments)


def spawn_future(work: Callable[[], Future[T]]) -> Future[T]:
    """Run `work` in a thread of the pool and return the future that it returns."""
    future: Future[T] = Future._pending()

    def begin() -> None:
        if future._state != PENDING:  # cancelled before the start
            return
        try:
            source = work()
        except BaseException as error:  # noqa: BLE001 (the future reports it)
            future._fail(error)
        else:
            future._forward(source)

    future._work = submit(begin)
    return future


set_public_module("tessarr.tensorstore", Future, T)
