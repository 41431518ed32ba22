"""Futures: results that are still to come, and their producers."""

from __future__ import annotations

import time
from _thread import LockType, allocate_lock
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from functools import partial
from inspect import iscoroutine
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeAlias, TypeVar, cast

from tessarr.errors import ArgumentError
from tessarr.tensorstore.futures.threads import submit

if TYPE_CHECKING:
    import asyncio
    import concurrent.futures

__all__ = [
    "Future",
    "FutureLike",
    "Promise",
    "WriteFutures",
    "adopt",
    "converted",
    "failed",
    "finished",
    "start",
]

T = TypeVar("T")
U = TypeVar("U")

_new: Final = object.__new__

_PENDING: Final = 0
_DONE: Final = 1
_FAILED: Final = 2
_CANCELLED: Final = 3


class Future(Generic[T]):
    """The consumer's side of a result that may be still to come.

    Wait for it with `result` in a thread or with ``await`` in a coroutine, or have a function
    called by `add_done_callback`.

    Parameters
    ----------
    future
        A future, which is given back as it is; a coroutine, which is run; anything else
        is the result.
    loop : asyncio.AbstractEventLoop, optional
        Where a coroutine is run; by default the loop that runs here.

    Notes
    -----
    The functions of asyncio that need its own futures take ``asyncio.ensure_future(future)``.

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
    _begin: Callable[[], object] | None
    _work: Callable[[], object] | None

    def __new__(
        cls, future: FutureLike[Any], *, loop: asyncio.AbstractEventLoop | None = None
    ) -> Future[Any]:
        if isinstance(future, Future):
            return future
        if not iscoroutine(future):
            return finished(future)
        made: Future[Any] = cls._pending()
        _run(future, loop, made)
        return made

    @classmethod
    def _pending(cls) -> Future[T]:
        """Return a future without a result.

        When somebody wants it, `_begin` is called; when a thread waits for it, `_work`, which
        may do the work in that thread.
        """
        made: Future[T] = object.__new__(cls)
        made._lock = allocate_lock()
        made._state = _PENDING
        made._value = made._callbacks = made._begin = made._work = None
        return made

    # The producer's side

    def _finish(self, state: int, value: Any) -> bool:
        if self._state != _PENDING:
            return False
        with self._lock:
            if self._state != _PENDING:
                return False
            self._value = value
            self._state = state
            callbacks, self._callbacks = self._callbacks, None
            self._begin = self._work = None
        for callback in callbacks or ():
            self._tell(callback)
        return True

    def _tell(self, callback: Callable[[Future[T]], object]) -> None:
        try:
            callback(self)
        except Exception:
            import logging

            logging.getLogger("tessarr").exception("a callback of %r failed", self)

    # The consumer's side

    def done(self) -> bool:
        """Return whether there is a result, an error, or it was cancelled."""
        return self._state != _PENDING

    def cancelled(self) -> bool:
        """Return whether it was cancelled."""
        return self._state == _CANCELLED

    def cancel(self) -> bool:
        """Give up waiting, everywhere; return whether that was still possible.

        Work that has begun goes on, but its result is forgotten. What has not begun never does.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> promise, future = ts.Promise.new()
        >>> future.cancel(), future.cancelled(), future.cancel()
        (True, True, False)
        """
        return self._finish(_CANCELLED, None)

    def force(self) -> None:
        """Begin the work, if it waits for somebody to want its result."""
        if self._state == _PENDING:
            begin, self._begin = self._begin, None
            if begin is not None:
                begin()

    def _help(self) -> None:
        """Do in this thread what no other has begun."""
        work, self._work = self._work, None
        if work is not None:
            work()

    def result(self, timeout: float | None = None, deadline: float | None = None) -> T:
        """Wait for the result and return it, or raise the error.

        Parameters
        ----------
        timeout
            The most seconds to wait.
        deadline
            Until when to wait, in seconds since 1970.

        Raises
        ------
        TimeoutError
            If it takes longer.
        asyncio.CancelledError
            If it was cancelled.
        """
        if self._state != _DONE:
            self._wait(timeout, deadline)
            if self._state == _FAILED:
                try:
                    raise self._value
                finally:
                    del self  # so that the traceback does not hold it
            self._check()
        return cast("T", self._value)

    def exception(
        self, timeout: float | None = None, deadline: float | None = None
    ) -> BaseException | None:
        """Wait for the end and return the error; None if there is a result.

        Parameters
        ----------
        timeout, deadline
            As for `result`.

        Raises
        ------
        TimeoutError
            If it takes longer.
        asyncio.CancelledError
            If it was cancelled.
        """
        self._wait(timeout, deadline)
        self._check()
        return self._value if self._state == _FAILED else None

    def _check(self) -> None:
        if self._state == _CANCELLED:
            from asyncio import CancelledError

            raise CancelledError

    def _wait(self, timeout: float | None, deadline: float | None) -> None:
        if self._state != _PENDING:
            return
        self.force()
        if timeout is None and deadline is None:
            self._help()
            if self._state != _PENDING:
                return
        elif deadline is not None:
            left = deadline - time.time()
            timeout = left if timeout is None else min(timeout, left)
        waiter = allocate_lock()
        waiter.acquire()

        def wake(_: Future[T]) -> None:
            waiter.release()

        if not self._add(wake):
            return
        if timeout is None:
            waiter.acquire()  # ends early where a signal handler raises
        elif not waiter.acquire(timeout=max(0.0, min(timeout, _LONGEST))):
            self.remove_done_callback(wake)
            if self._state == _PENDING:
                raise TimeoutError

    def _add(self, callback: Callable[[Future[T]], object]) -> bool:
        """Have `callback` called at the end; False if that is past."""
        if self._state != _PENDING:
            return False
        with self._lock:
            if self._state != _PENDING:
                return False
            if self._callbacks is None:
                self._callbacks = [callback]
            else:
                self._callbacks.append(callback)
        return True

    def add_done_callback(self, callback: Callable[[Future[T]], object]) -> None:
        """Have a function called with this future when it is done; at once if it is.

        Parameters
        ----------
        callback
            It may be called in any thread. What it raises is reported, and stops nothing.
        """
        if not self._add(callback):
            self._tell(callback)

    def remove_done_callback(self, callback: Callable[[Future[T]], object]) -> int:
        """Forget what `add_done_callback` was told; return how often it was told so."""
        if self._state != _PENDING:
            return 0
        with self._lock:
            if not self._callbacks:
                return 0
            kept = [other for other in self._callbacks if other != callback]
            removed = len(self._callbacks) - len(kept)
            self._callbacks = kept
            return removed

    def __await__(self) -> Generator[Any, None, T]:
        if self._state == _PENDING:
            import asyncio

            loop = asyncio.get_running_loop()
            waiter: asyncio.Future[None] = loop.create_future()

            def wake() -> None:
                if not waiter.done():
                    waiter.set_result(None)

            def tell(_: Future[T]) -> None:
                with suppress(RuntimeError):  # the loop was closed: nobody waits
                    loop.call_soon_threadsafe(wake)

            self.add_done_callback(tell)
            self.force()
            try:
                yield from waiter
            except asyncio.CancelledError:
                self.cancel()
                raise
        return self.result()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a future belongs to its process: it cannot be pickled or copied")

    def __repr__(self) -> str:
        state = ("pending", "finished", "failed", "cancelled")[self._state]
        return f"<{type(self).__name__} {state}>"


_LONGEST: Final = 1e8  # seconds: what every system's locks take


def _run(work: Awaitable[Any], loop: asyncio.AbstractEventLoop | None, into: Future[Any]) -> None:
    """Run a coroutine on an event loop; its end is that of `into`."""
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
    _follow(running, into, None)
    into.add_done_callback(lambda done: running.cancel() if done.cancelled() else None)


FutureLike: TypeAlias = Future[T] | Awaitable[T] | T
"""A future, a coroutine, or the result itself."""


class Promise(Generic[T]):
    """The producer's side of a future: says once what the result is.

    A promise that is forgotten before it said so ends its future with an error.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> promise, future = ts.Promise.new()
    >>> future.done()
    False
    >>> promise.set_result(5)
    >>> future.result()
    5
    """

    __slots__ = ("_future",)

    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)

    _future: Future[T]

    def __init__(self) -> None:
        raise TypeError("a promise is made together with its future, by Promise.new()")

    @staticmethod
    def new() -> tuple[Promise[Any], Future[Any]]:
        """Return a promise and its future."""
        future: Future[Any] = Future._pending()
        return _promise(future), future

    def set_result(self, result: T) -> None:
        """Say what the result is; without effect where the future is done."""
        self._future._finish(_DONE, result)

    def set_exception(self, exception: Any) -> None:
        """Say that there is no result but an error; without effect where the future is done.

        Raises
        ------
        TypeError
            If it is no exception.
        """
        if not isinstance(exception, BaseException):
            raise TypeError(f"an error has to be an exception, not {exception!r}")
        self._future._finish(_FAILED, exception)

    def __del__(self) -> None:
        future = getattr(self, "_future", None)
        if future is not None and future._state == _PENDING:
            future._finish(_FAILED, ArgumentError("nobody can say what the result is any more"))


def _promise(future: Future[T]) -> Promise[T]:
    made: Promise[T] = object.__new__(Promise)
    made._future = future
    return made


class WriteFutures:
    """What becomes of a write: two futures, and the second one's methods.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> spec = {"driver": "zarr3", "kvstore": "memory://"}
    >>> store = ts.open(spec, create=True, dtype=ts.int32, shape=[4]).result()
    >>> writing = store.write(7)
    >>> writing.copy.result(), writing.result(), store[1].read().result()
    (None, None, array(7, dtype=int32))
    """

    __slots__ = ("_commit", "_copy")

    _copy: Future[None]
    _commit: Future[None]

    def __init__(self) -> None:
        raise TypeError("write futures are made by writing")

    @staticmethod
    def _of(copy: Future[None], commit: Future[None]) -> WriteFutures:
        made: WriteFutures = object.__new__(WriteFutures)
        made._copy = copy
        made._commit = commit
        return made

    @property
    def copy(self) -> Future[None]:
        """Done when the source is no longer needed."""
        return self._copy

    @property
    def commit(self) -> Future[None]:
        """Done when what was written is stored, or is part of the transaction."""
        return self._commit

    def result(self, timeout: float | None = None, deadline: float | None = None) -> None:
        """Wait until the write is done; see `Future.result`."""
        return self._commit.result(timeout, deadline)

    def exception(
        self, timeout: float | None = None, deadline: float | None = None
    ) -> BaseException | None:
        """Wait until the write is done and return its error; see `Future.exception`."""
        return self._commit.exception(timeout, deadline)

    def done(self) -> bool:
        """Return whether the write is done; see `Future.done`."""
        return self._commit.done()

    def cancel(self) -> bool:
        """Give up waiting for the write; see `Future.cancel`."""
        return self._commit.cancel()

    def cancelled(self) -> bool:
        """Return whether waiting was given up; see `Future.cancelled`."""
        return self._commit.cancelled()

    def add_done_callback(self, callback: Callable[[Future[None]], object]) -> None:
        """Have a function called when the write is done; see `Future.add_done_callback`."""
        self._commit.add_done_callback(callback)

    def remove_done_callback(self, callback: Callable[[Future[None]], object]) -> int:
        """Forget a function; see `Future.remove_done_callback`."""
        return self._commit.remove_done_callback(callback)

    def __await__(self) -> Generator[Any, None, None]:
        return self._commit.__await__()


def finished(value: T) -> Future[T]:
    """Return a future that has a result."""
    made: Future[T] = _new(Future)  # with only these members, as it never changes
    made._state = _DONE
    made._value = value
    return made


def failed(error: BaseException) -> Future[Any]:
    """Return a future whose end is an error."""
    made: Future[Any] = finished(error)
    made._state = _FAILED
    return made


def converted(future: Future[Any], convert: Callable[[Any], U]) -> Future[U]:
    """Return a future of what `convert` makes of the result of another one."""
    if future._state == _DONE:
        return start(convert, future._value, here=True)
    made: Future[U] = Future._pending()
    made._begin, made._work = future.force, future._help

    def ended(done: Future[Any]) -> None:
        if done.cancelled():
            made.cancel()
            return
        try:
            value = convert(done.result())
        except BaseException as error:  # noqa: BLE001 (told to whom it may concern)
            made._finish(_FAILED, error)
        else:
            made._finish(_DONE, value)

    future.add_done_callback(ended)
    return made


def adopt(
    future: concurrent.futures.Future[Any], convert: Callable[[Any], T] | None = None
) -> Future[T]:
    """Return a future that ends as one of the engine does.

    Parameters
    ----------
    future
        A `tessarr.Future`, or another one of the standard library's.
    convert
        Makes the result of its result.
    """
    made: Future[T] = Future._pending()
    _follow(future, made, convert)
    return made


def _follow(
    source: concurrent.futures.Future[Any],
    into: Future[Any],
    convert: Callable[[Any], Any] | None,
) -> None:
    def ended(done: concurrent.futures.Future[Any]) -> None:
        if done.cancelled():
            into.cancel()
            return
        error = done.exception()
        if error is not None:
            into._finish(_FAILED, error)
            return
        try:
            result = done.result()
            value = result if convert is None else convert(result)
        except BaseException as raised:  # noqa: BLE001 (told to whom it may concern)
            into._finish(_FAILED, raised)
        else:
            into._finish(_DONE, value)

    source.add_done_callback(ended)


def start(work: Callable[..., T], *arguments: Any, here: bool = False) -> Future[T]:
    """Return the future of what `work` returns, done in a thread that may wait.

    Parameters
    ----------
    work
        The options that hold here hold in it, too.
    *arguments
        What it is given.
    here
        Do it at once, because it takes no time.

    Notes
    -----
    A thread that waits for the result does it itself, where no other has begun.
    """
    if here:
        try:
            value = work(*arguments)
        except BaseException as error:  # noqa: BLE001 (told to whom it may concern)
            return failed(error)
        return finished(value)
    made: Future[T] = Future._pending()
    made._work = submit(partial(_do, made, work, *arguments))
    return made


def _do(into: Future[T], work: Callable[..., T], *arguments: Any) -> None:
    if into._state != _PENDING:  # cancelled before it began
        return
    try:
        value = work(*arguments)
    except BaseException as error:  # noqa: BLE001 (told to whom it may concern)
        into._finish(_FAILED, error)
    else:
        into._finish(_DONE, value)
