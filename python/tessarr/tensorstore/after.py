"""Futures of what is made of other futures' results."""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tessarr.tensorstore.future import Future, Promise, WriteFutures, converted, failed

__all__ = ["all_done", "attempt", "written"]

U = TypeVar("U")


def all_done(sources: Sequence[Future[Any]], make: Callable[[], U]) -> Future[U]:
    """Return the future of what is made when all others are done; the first error ends it, then.

    All others are waited for in any case, because they may write to what belongs to the user.
    """
    if not sources:
        return attempt(make)
    if len(sources) == 1:
        return converted(sources[0], lambda _: make())
    promise, made = Promise.new()
    lock = allocate_lock()
    left = len(sources)
    first: list[BaseException] = []

    def ended(done: Future[Any]) -> None:
        nonlocal left
        try:
            error = done.exception()
        except BaseException as cancelled:  # noqa: BLE001 (it was cancelled)
            error = cancelled
        with lock:
            if error is not None and not first:
                first.append(error)
            left -= 1
            if left:
                return
        if first:
            promise.set_exception(first[0])
            return
        try:
            promise.set_result(make())
        except BaseException as raised:  # noqa: BLE001 (told to whom it may concern)
            promise.set_exception(raised)

    for source in sources:
        source.add_done_callback(ended)
        source.force()
    return made


def attempt(make: Callable[[], U]) -> Future[U]:
    """Return the future of what is made at once."""
    try:
        return Future(make())
    except Exception as error:  # noqa: BLE001 (told to whom it may concern)
        return failed(error)


def written(parts: Sequence[WriteFutures]) -> WriteFutures:
    """Return the futures of a write that has several parts."""
    if len(parts) == 1:
        return parts[0]
    copies = all_done([part.copy for part in parts], lambda: None)
    return WriteFutures._of(copies, all_done([part.commit for part in parts], lambda: None))
