"""Functions that run work in the thread pool and return its future."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tessarr.tensorstore.future.executor import submit, submit_uninterrupted
from tessarr.tensorstore.future.future import PENDING, Future, T, failed, finished

__all__ = ["spawn", "spawn_future"]


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
