"""Work whose result is a future."""

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
    """Return the future of what `work` returns, done in a thread that may wait.

    Parameters
    ----------
    work
        The options that hold here hold in it, too.
    *arguments
        What it is given.
    here
        Do it at once, because it takes no time.
    whole
        It is to come to its end, whatever becomes of who waits for it.

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
    begin = submit_uninterrupted if whole else submit
    made._work = begin(partial(_do, made, work, *arguments))
    return made


def _do(into: Future[T], work: Callable[..., T], *arguments: Any) -> None:
    if into._state == PENDING:  # not cancelled before it began
        into._run_work(work, *arguments)


def spawn_future(work: Callable[[], Future[T]]) -> Future[T]:
    """Return the future that `work` returns, which is done in a thread that may wait."""
    made: Future[T] = Future._pending()

    def begin() -> None:
        if made._state != PENDING:  # cancelled before it began
            return
        try:
            source = work()
        except BaseException as error:  # noqa: BLE001 (told to whom it may concern)
            made._fail(error)
        else:
            made._forward(source)

    made._work = submit(begin)
    return made
