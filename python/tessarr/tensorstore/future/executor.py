"""The thread pool for work that waits for a disk, a network or another program.

A thread that waits for work runs it, if no other thread has started it. To wake another thread
takes longer than most work.
"""

from __future__ import annotations

import atexit
import os
from _thread import get_ident
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import RLock, Thread, current_thread, local, main_thread
from typing import Final

__all__ = ["is_interruptible", "submit", "submit_uninterrupted", "while_waiting"]

_MAX_THREADS: Final = 32
"""The maximum number of threads that work at a time; others may wait for them."""

_MAX_THREADS_WITH_WAITING: Final = 512
"""The maximum number of threads, including those that wait."""

_thread_local: Final = local()
"""The pool of the current thread."""


class _Task:
    """Work that the first calling thread runs once; a pool thread repeats it after a signal."""

    __slots__ = ("_context", "_once", "_pool")

    def __init__(self, pool: _Pool, work: Callable[[], object]) -> None:
        self._context = copy_context()
        self._once = iter((work,))
        self._pool = pool

    def __call__(self) -> None:
        for work in self._once:
            try:
                self._context.run(work)
            except BaseException:
                if is_interruptible():
                    self._pool.submit(work)
                raise
            finally:
                self._pool.ended()


class _Pool:
    """The threads of one process; the pool starts a thread when it has more work than threads.

    They are daemons: Python waits for other threads before it calls exit functions. Work that is
    queued at exit still runs.
    """

    __slots__ = ("_due", "_ends", "_lock", "_process", "_tasks", "_threads", "_waiting")

    def __init__(self, process: int) -> None:
        self._process = process
        # Reentrant: to start a thread may run the garbage collector. The collector may delete a
        # batch, which then submits its reads in this thread.
        self._lock = RLock()
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._due = 0
        self._waiting = 0
        self._ends = False
        atexit.register(self._end)

    def submit(self, work: Callable[[], object]) -> Callable[[], None]:
        task = _Task(self, work)
        with self._lock:
            self._due += 1
            self._begin_thread()
            waits = bool(self._threads) and not self._ends
        if waits:
            self._tasks.put(task)
        else:
            task()
        return task

    def ended(self) -> None:
        with self._lock:
            self._due -= 1

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Let another thread run, because the work that this thread waits for may need one."""
        with self._lock:
            self._waiting += 1
            self._begin_thread()
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1

    def _begin_thread(self) -> None:
        """Start another thread if the pool has more work than threads, up to the limit."""
        most = min(_MAX_THREADS + self._waiting, _MAX_THREADS_WITH_WAITING)
        if self._due <= len(self._threads) or len(self._threads) >= most:
            return
        new = Thread(target=self._run, name="tessarr", daemon=True)
        try:
            new.start()
        except RuntimeError:  # the system has no more threads, or Python exits
            return
        self._threads.append(new)
        if self._ends:
            self._tasks.put(None)  # the new thread ends too

    def _is_too_many(self) -> bool:
        """Return whether this thread must end, because waiting threads work again."""
        with self._lock:
            if len(self._threads) <= _MAX_THREADS + self._waiting or self._ends:
                return False
            self._threads.remove(current_thread())
            return True

    def _run(self) -> None:
        _thread_local.pool = self
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except BaseException:  # only the main thread can end the program
                import logging

                logging.getLogger("tessarr").exception("what a thread was to do failed")
            del task  # release its objects before the next wait
            if self._is_too_many():
                return

    def _end(self) -> None:
        if os.getpid() != self._process:
            return
        with self._lock:
            self._ends = True
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()


_pools: dict[int, _Pool] = {}  # by process ID, because a fork copies no threads


def submit(work: Callable[[], object]) -> Callable[[], None]:
    """Run `work` in a pool thread of this process; `work` must report its errors itself.

    If Ctrl-C interrupts `work` in the main thread, a pool thread runs `work` again.

    Returns
    -------
    callable
        Runs `work` at once in the calling thread, if no thread has started it.
    """
    process = os.getpid()
    pool = _pools.get(process)
    if pool is None:
        pool = _pools.setdefault(process, _Pool(process))
    return pool.submit(work)


def submit_uninterrupted(work: Callable[[], object]) -> Callable[[], None]:
    """Run `work` in a thread that Ctrl-C does not interrupt.

    Ctrl-C raises an error in the main thread. The error may end a wait there, but not a write
    that has started; therefore other threads run `work`.
    """
    return partial(_run_unless_interruptible, submit(work))


def _run_unless_interruptible(task: Callable[[], None]) -> None:
    if not is_interruptible():
        task()


@contextmanager
def while_waiting() -> Generator[None]:
    """Mark a wait for other work; during a wait in a pool thread, another thread may start."""
    pool: _Pool | None = getattr(_thread_local, "pool", None)
    if pool is None or pool._process != os.getpid():
        yield
    else:
        with pool.waiting():
            yield


def is_interruptible() -> bool:
    """Return whether signals raise errors in this thread."""
    return get_ident() == main_thread().ident
