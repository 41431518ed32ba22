"""Start work in fsspec's event loops, and wait for its results."""

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
"""A callback for the error that ends a pending operation."""

_POLL_S: Final = 0.05

_pending: Final[WeakKeyDictionary[AbstractEventLoop, dict[FailCallback, object]]] = (
    WeakKeyDictionary()
)


def get_pending(loop: AbstractEventLoop) -> dict[FailCallback, object]:
    """Return the callbacks of the pending operations of an event loop, which its `close` calls.

    The values are the tasks, which the loop itself references weakly. A closed loop never
    finishes its tasks, and only its method `close` reports that it closes.
    """
    callbacks = _pending.get(loop)
    if callbacks is None:
        callbacks = _pending.setdefault(loop, {})
        close = loop.close

        def closing() -> None:
            close()
            with suppress(KeyError):  # until empty; operations remove their callbacks, too
                while True:
                    callbacks.popitem()[0](build_closed_error())

        with suppress(AttributeError):  # other event loops may not allow it
            loop.close = closing  # type: ignore[method-assign]
    return callbacks


def start_work(loop: AbstractEventLoop, work: Callable[[], object], fail: FailCallback) -> None:
    """Start work in an event loop of another thread; call `fail` if the loop closes first."""
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
    """Return the error for operations of an event loop that was closed."""
    return StoreError("the event loop of the file system was closed during the request")


def run_in_loop(
    loop: AbstractEventLoop, work: Callable[..., Coroutine[Any, Any, T]], *arguments: Any
) -> T:
    """Run work in an event loop of another thread and return its result.

    fsspec's own function wakes the waiting thread twice, which doubles the cost of many concurrent
    requests.
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
        except BaseException as error:  # noqa: BLE001 (raised in the waiting thread)
            failed.append(error)
        waits.pop(fail, None)
        ended.open()

    start_work(loop, begin, fail)
    ended.wait()
    if failed:
        raise failed.pop()
    return result.pop()


def find_reentry(loop: AbstractEventLoop) -> UnsupportedError | None:
    """Return the error for waiting for an event loop in its own thread, or None."""
    return _build_reentry_error() if _get_running_loop() is loop else None


def wait_for_item(ends: SimpleQueue[Any], timeout: float | None) -> None:
    """Wait for an item of a queue, like `get`.

    Raises
    ------
    UnsupportedError
        In the thread of an event loop that has pending operations: the item may depend on one
        of them.
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
                raise  # the timeout ends the wait
            if waits:
                raise _build_reentry_error() from None
        else:
            return


def _get_running_loop() -> AbstractEventLoop | None:
    asyncio = sys.modules.get("asyncio")  # no loop runs if asyncio is not imported
    return None if asyncio is None else asyncio._get_running_loop()


def _build_reentry_error() -> UnsupportedError:
    return UnsupportedError("the thread of an event loop cannot wait for that loop's own work")
