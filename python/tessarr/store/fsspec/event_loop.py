"""Event loops of fsspec that answer requests, and waiting for them."""

from __future__ import annotations

import sys
from contextlib import suppress
from queue import Empty
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from tessarr._engine import Event
from tessarr.errors import StoreError, UnsupportedError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Coroutine
    from queue import SimpleQueue

T = TypeVar("T")

__all__ = [
    "FailCallback",
    "build_closed_error",
    "find_reentry",
    "get_pending",
    "run_in_loop",
    "start_work",
    "wait_for_item",
]

FailCallback: TypeAlias = "Callable[[BaseException], object]"
"""Is told why what somebody waits for does not come."""

_POLL_S: Final = 0.05

_pending: Final[WeakKeyDictionary[AbstractEventLoop, dict[FailCallback, object]]] = (
    WeakKeyDictionary()
)


def get_pending(loop: AbstractEventLoop) -> dict[FailCallback, object]:
    """Return what ends those who wait for an event loop, if that is closed before it has.

    The values are only kept: loops keep no tasks. Nothing but the call of its method tells of a
    loop that it is closed, and what it has not done it never does.
    """
    callbacks = _pending.get(loop)
    if callbacks is None:
        callbacks = _pending.setdefault(loop, {})
        close = loop.close

        def closing() -> None:
            close()
            with suppress(KeyError):  # those who begin meanwhile may take their own out
                while True:
                    callbacks.popitem()[0](build_closed_error())

        with suppress(AttributeError):  # loops of others need not let it be replaced
            loop.close = closing  # type: ignore[method-assign]
    return callbacks


def start_work(loop: AbstractEventLoop, work: Callable[[], object], fail: FailCallback) -> None:
    """Have an event loop in another thread begin work; `fail` if it is closed before that."""
    waits = get_pending(loop)
    waits[fail] = None

    def begin() -> None:
        waits.pop(fail, None)
        work()

    try:
        loop.call_soon_threadsafe(begin)
    except RuntimeError as error:
        waits.pop(fail, None)
        raise build_closed_error() from error


def build_closed_error() -> StoreError:
    """Return what is told to who waits for an event loop that ends before it has answered."""
    return StoreError("the event loop of the file system was closed while it was asked")


def run_in_loop(
    loop: AbstractEventLoop, work: Callable[..., Coroutine[Any, Any, T]], *arguments: Any
) -> T:
    """Return what work gives that is done by an event loop in another thread.

    What fsspec has for it wakes who waits twice, as that waits for the lock of an event then: with
    many requests under way this takes as long as all else that the loop does.
    """
    from asyncio import CancelledError

    refusal = find_reentry(loop)
    if refusal is not None:
        raise refusal
    ended = Event()
    result: list[T] = []
    failed: list[BaseException] = []
    waits = get_pending(loop)

    def fail(error: BaseException) -> None:
        failed.append(error)
        ended.open()

    def begin() -> None:
        waits[fail] = loop.create_task(run())

    async def run() -> None:
        try:
            result.append(await work(*arguments))
        except CancelledError:
            failed.append(build_closed_error())
        except BaseException as error:  # noqa: BLE001 (told to who waits)
            failed.append(error)
        waits.pop(fail, None)
        ended.open()

    start_work(loop, begin, fail)
    ended.wait()
    if failed:
        raise failed.pop()
    return result.pop()


def find_reentry(loop: AbstractEventLoop) -> UnsupportedError | None:
    """Return why this thread must not wait for an event loop, if it is that one's."""
    return _build_reentry_error() if _get_running_loop() is loop else None


def wait_for_item(ends: SimpleQueue[Any], timeout: float | None) -> None:
    """Wait for an item, as `get` does.

    Raises
    ------
    UnsupportedError
        In the thread of an event loop that others wait for meanwhile: it may be their end that
        the item tells of.
    """
    loop = _get_running_loop()
    waits = None if loop is None else _pending.get(loop)
    if waits is None:
        ends.get(timeout=timeout)
        return
    until = None if timeout is None else monotonic() + timeout
    while True:
        timeout_s = _POLL_S if until is None else min(_POLL_S, until - monotonic())
        try:
            ends.get(timeout=max(0.0, timeout_s))
        except Empty:
            if until is not None and monotonic() >= until:
                raise  # so long a wait does no harm, whoever else waits
            if waits:
                raise _build_reentry_error() from None
        else:
            return


def _get_running_loop() -> AbstractEventLoop | None:
    asyncio = sys.modules.get("asyncio")  # where nobody has imported it, none runs
    return None if asyncio is None else asyncio._get_running_loop()


def _build_reentry_error() -> UnsupportedError:
    return UnsupportedError("the thread that is to do it cannot wait for it")
