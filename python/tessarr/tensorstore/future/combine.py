"""Combinators: futures that follow from the results of other futures."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tessarr.tensorstore.future.future import (
    DONE,
    Future,
    RetriedCallback,
    failed,
    spawn,
    spawn_future,
)
from tessarr.tensorstore.future.write_futures import WriteFutures

__all__ = ["chain_future", "convert_result", "join_futures", "join_writes", "run_after"]

U = TypeVar("U")


def convert_result(source: Future[Any], convert: Callable[[Any], U]) -> Future[U]:
    """Return the future of the converted result of another future."""
    if source._state == DONE:
        return spawn(convert, source._value, here=True)
    future: Future[U] = Future._pending()
    future._begin, future._work = lambda _: source.force(), source._help

    def ended(done: Future[Any]) -> None:
        if done.cancelled():
            future.cancel()
        else:
            future._run_retried(lambda: convert(done.result()))

    source.add_done_callback(RetriedCallback(ended))
    return future


def join_futures(
    sources: Sequence[Future[Any]], make: Callable[[], U], *, begin: bool = True
) -> Future[U]:
    """Return the future of `make`, which runs when all `sources` are done, or of the first error.

    The future waits for all sources even after an error, because they may write to memory of the
    user. With `begin`, this function starts the sources.
    """

    def finish() -> U:
        for source in sources:
            source.result()
        return make()

    def force_all(_: object = None) -> None:
        for source in sources:
            source.force()

    if begin:
        force_all()
    waiting = [source for source in sources if not source.done()]
    if not waiting:
        return spawn(finish, here=True)
    future: Future[U] = Future._pending()
    lock = allocate_lock()
    left = {id(source) for source in waiting}

    def ended(source: Future[Any]) -> None:
        with lock:
            if left != {id(source)}:
                left.discard(id(source))
                return
        # Only the last source gets here, and again if a signal interrupts it.
        future._run_retried(finish)

    def help_all() -> None:
        for source in waiting:
            source._help()

    future._begin, future._work = force_all, help_all
    for source in waiting:
        source.add_done_callback(RetriedCallback(ended))
    return future


def chain_future(source: Future[Any], begin: Callable[[Any], Future[U]]) -> Future[U]:
    """Return the future that `begin` returns for the result of another future."""
    if source.done():
        try:
            return begin(source.result())
        except BaseException as error:  # noqa: BLE001 (the future reports it)
            return failed(error)
    future: Future[U] = Future._pending()

    def start_next(done: Future[Any]) -> None:
        following = chain_future(done, begin)
        following.add_done_callback(RetriedCallback(future._copy_outcome))
        following.force()

    source.add_done_callback(RetriedCallback(start_next))
    source.force()
    return future


def run_after(sources: Sequence[Future[Any] | None], begin: Callable[[], Future[U]]) -> Future[U]:
    """Return the future of `begin`, which runs when all `sources` have ended, also with errors.

    No thread waits for the sources, because the user may need that thread to end them. Without
    sources, `begin` runs in this thread.
    """
    waiting = [source for source in sources if source is not None]
    if not waiting:
        try:
            return begin()
        except BaseException as error:  # noqa: BLE001 (the future reports it)
            return failed(error)
    future: Future[U] = Future._pending()
    ended = join_futures(waiting, lambda: None)
    ended.add_done_callback(RetriedCallback(lambda _: future._forward(spawn_future(begin))))
    return future


def join_writes(parts: Sequence[WriteFutures]) -> WriteFutures:
    """Return the futures of a write with several parts."""
    if len(parts) == 1:
        return parts[0]
    copies = join_futures([part.copy for part in parts], lambda: None)
    return WriteFutures._of(copies, join_futures([part.commit for part in parts], lambda: None))
