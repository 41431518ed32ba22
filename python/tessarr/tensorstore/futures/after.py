"""Futures of what is made of other futures' results."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tessarr.tensorstore.futures.future import (
    Future,
    Promise,
    WriteFutures,
    failed,
    finished,
    start,
)

__all__ = ["all_done", "attempt", "chained", "written"]

U = TypeVar("U")


def all_done(sources: Sequence[Future[Any]], make: Callable[[], U]) -> Future[U]:
    """Return the future of what is made when all others are done, or of the first one's error.

    All are waited for in any case, because they may write to what belongs to the user.
    """

    def finish() -> U:
        for source in sources:
            source.result()
        return make()

    for source in sources:
        source.force()
    waiting = [source for source in sources if not source.done()]
    if not waiting:
        return start(finish, here=True)
    promise, made = Promise.new()
    lock = allocate_lock()
    left = len(waiting)

    def ended(_: Future[Any]) -> None:
        nonlocal left
        with lock:
            left -= 1
            if left:
                return
        try:
            promise.set_result(finish())
        except BaseException as raised:  # noqa: BLE001 (told to whom it may concern)
            promise.set_exception(raised)

    for source in waiting:
        source.add_done_callback(ended)
    return made


def attempt(make: Callable[[], U]) -> Future[U]:
    """Return the future of what is made at once."""
    try:
        return finished(make())
    except Exception as error:  # noqa: BLE001 (told to whom it may concern)
        return failed(error)


def chained(source: Future[Any], begin: Callable[[Any], Future[U]]) -> Future[U]:
    """Return the future of what is begun with the result of another one."""
    if source.done():
        try:
            return begin(source.result())
        except BaseException as error:  # noqa: BLE001 (told to whom it may concern)
            return failed(error)
    promise, made = Promise.new()

    def ended(done: Future[Any]) -> None:
        try:
            promise.set_result(done.result())
        except BaseException as error:  # noqa: BLE001 (told to whom it may concern)
            promise.set_exception(error)

    def begun(done: Future[Any]) -> None:
        following = chained(done, begin)
        following.add_done_callback(ended)
        following.force()

    source.add_done_callback(begun)
    source.force()
    return made


def written(parts: Sequence[WriteFutures]) -> WriteFutures:
    """Return the futures of a write that has several parts."""
    if len(parts) == 1:
        return parts[0]
    copies = all_done([part.copy for part in parts], lambda: None)
    return WriteFutures._of(copies, all_done([part.commit for part in parts], lambda: None))
