"""Futures, promises and their use in coroutines."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import tessarr.tensorstore as ts
from tessarr.tensorstore.future import combine, executor
from tessarr.tensorstore.future.combine import convert_result, join_futures
from tessarr.tensorstore.future.future import spawn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_result_is_waited_for() -> None:
    promise, future = ts.Promise.new()
    assert not future.done()
    threading.Timer(0.02, promise.set_result, [5]).start()
    assert future.result(timeout=10) == 5
    assert future.exception() is None


def test_waiting_ends() -> None:
    _, future = ts.Promise.new()
    for options in ({"timeout": 0.01}, {"deadline": time.time() + 0.01}, {"timeout": -1}):
        with pytest.raises(TimeoutError):
            future.result(**options)
    with pytest.raises(TimeoutError):
        future.exception(timeout=0)


def test_future_raises_original_error() -> None:
    promise, future = ts.Promise.new()
    error = KeyError("x")
    promise.set_exception(error)
    promise.set_result(1)  # too late
    assert future.exception() is error
    with pytest.raises(KeyError) as caught:
        future.result()
    assert caught.value is error
    with pytest.raises(TypeError):
        promise.set_exception(5)


def test_cancelled_future_is_final() -> None:
    promise, future = ts.Promise.new()
    assert future.cancel()
    assert not future.cancel()
    promise.set_result(1)
    assert future.cancelled()
    assert future.done()
    for ask in (future.result, future.exception):
        with pytest.raises(asyncio.CancelledError):
            ask()


@pytest.mark.parametrize("error", [KeyError, asyncio.CancelledError])
def test_callback_error_is_reported(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    promise, future = ts.Promise.new()
    seen: list[ts.Future[int]] = []

    def fail(_: ts.Future[int]) -> None:
        raise error

    for callback in (fail, seen.append, fail, seen.append):
        future.add_done_callback(callback)
    promise.set_result(1)
    assert seen == [future, future]
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [error, error]


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_system_exit_in_callback_is_raised_after_all_callbacks(end: type[BaseException]) -> None:
    promise, future = ts.Promise.new()
    seen: list[ts.Future[int]] = []

    def leave(_: ts.Future[int]) -> None:
        raise end

    for callback in (seen.append, leave, seen.append, leave, seen.append):
        future.add_done_callback(callback)
    with pytest.raises(end):
        promise.set_result(1)
    assert seen == [future] * 3
    assert future.result() == 1


def test_system_exit_in_callback_keeps_worker_thread(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gone = [_run_and_end_thread(sys.exit) for _ in range(40)]  # more tasks than threads
    assert [future.result(60) for future in gone] == [5] * 40
    assert spawn(lambda: 6).result(60) == 6
    assert all(record.exc_info for record in caplog.records)


def _run_and_end_thread(leave: Callable[[], object]) -> ts.Future[int]:
    may = threading.Event()
    future = spawn(lambda: may.wait(60) and 5)
    future.add_done_callback(lambda _: leave())
    may.set()
    return future


def test_callbacks_are_called_once() -> None:
    promise, future = ts.Promise.new()
    seen: list[ts.Future[int]] = []
    for _ in range(2):
        future.add_done_callback(seen.append)
    assert future.remove_done_callback(seen.append) == 2
    assert future.remove_done_callback(seen.append) == 0
    future.add_done_callback(seen.append)
    promise.set_result(1)
    promise.set_result(2)
    assert seen == [future]
    future.add_done_callback(seen.append)
    assert seen == [future, future]


def test_failing_callback_does_not_stop_others(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[object] = []
    promise, future = ts.Promise.new()
    future.add_done_callback(lambda _: 1 // 0)
    future.add_done_callback(lambda _: seen.append("next"))
    promise.set_result(1)
    assert seen == ["next"]
    assert "ZeroDivisionError" in caplog.text


def test_futures_are_not_pickled() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(ts.Future(3))


def test_futures_of_values_and_coroutines() -> None:
    assert ts.Future(3).result() == 3

    async def value() -> int:
        await asyncio.sleep(0)
        return 42

    async def main() -> int:
        future = ts.Future(value())
        assert not future.done()
        assert await future == 42
        assert ts.Future(future) is future
        return future.result()

    assert asyncio.run(main()) == 42
    work = value()
    with pytest.raises(ValueError, match="event loop"):
        ts.Future(work)


def test_coroutine_waits_for_another_thread() -> None:
    async def main() -> list[int]:
        pairs = [ts.Promise.new() for _ in range(5)]
        for index, (promise, _) in enumerate(pairs):
            threading.Timer(0.005, promise.set_result, [index]).start()
        return list(await asyncio.gather(*(asyncio.ensure_future(future) for _, future in pairs)))

    assert asyncio.run(main()) == [0, 1, 2, 3, 4]


def test_cancelled_coroutine_cancels_awaited_future() -> None:
    async def main() -> None:
        _, future = ts.Promise.new()
        task = asyncio.ensure_future(future)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert future.cancelled()

        ended = asyncio.Event()

        async def slow() -> None:
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()

        work = ts.Future(slow())
        await asyncio.sleep(0.01)
        work.cancel()
        await asyncio.wait_for(ended.wait(), 10)

    asyncio.run(main())


def test_many_threads_wait_for_one_future() -> None:
    promise, future = ts.Promise.new()
    results: list[int] = []
    threads = [threading.Thread(target=lambda: results.append(future.result())) for _ in range(8)]
    for thread in threads:
        thread.start()
    promise.set_result(7)
    for thread in threads:
        thread.join(10)
    assert results == [7] * 8


def test_makers_are_not_public() -> None:
    for make in (ts.Promise, ts.WriteFutures):
        with pytest.raises(TypeError):
            make()


def test_waiting_thread_runs_queued_task(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks: list[Any] = []
    monkeypatch.setattr(executor._Pool, "_begin_thread", lambda pool: pool._threads.append(None))
    monkeypatch.setattr(executor, "_pools", {})
    monkeypatch.setattr("atexit.register", lambda _: None)
    done = spawn(lambda: tasks.append(threading.get_ident()) or 5)
    twice = convert_result(done, lambda value: 2 * value)
    with pytest.raises(TimeoutError):
        twice.result(timeout=0)
    assert tasks == []
    assert twice.result() == 10
    assert tasks == [threading.get_ident()]


def test_combined_result_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last two futures can end at the same time: only one computes the result."""
    (first, first_future), (second, other) = ts.Promise.new(), ts.Promise.new()
    making, go_on = threading.Event(), threading.Event()
    others = threading.Thread(target=second.set_result, args=(2,))
    created: list[int] = []

    def make() -> int:
        created.append(first_future.result() + other.result())
        making.set()
        if len(created) == 1:
            go_on.wait(20)
        return created[-1]

    class Lock:
        lock = threading.Lock()

        def __enter__(self) -> None:
            self.lock.acquire()

        def __exit__(self, *_: object) -> None:
            self.lock.release()
            if threading.current_thread() is not others:
                others.start()
                making.wait(20)

    monkeypatch.setattr(combine, "allocate_lock", Lock)
    future = join_futures([first_future, other], make)
    first.set_result(1)
    go_on.set()
    others.join()
    assert (future.result(), created) == (3, [3])


def test_work_beyond_threads_is_queued() -> None:
    begun, going = threading.Semaphore(0), threading.Event()

    def work() -> int:
        begun.release()
        going.wait(10)
        return threading.get_ident()

    futures = [spawn(work) for _ in range(executor._MAX_THREADS + 3)]
    for _ in range(executor._MAX_THREADS):
        assert begun.acquire(timeout=10)
    assert not begun.acquire(blocking=False)
    going.set()
    assert (
        len({future.result() for future in futures} - {threading.get_ident()})
        == executor._MAX_THREADS
    )


@pytest.mark.slow
def test_running_work_completes_before_exit(tmp_path: Path) -> None:
    program = (
        "import time; from tessarr.tensorstore.future.future import spawn\n"
        "import pathlib, sys\n"
        "for k in range(40):\n"
        "    file = pathlib.Path(sys.argv[1]) / str(k)\n"
        "    spawn(lambda file=file: (time.sleep(0.01), file.touch()))\n"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True, timeout=60)
    assert len(list(tmp_path.iterdir())) == 40


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_forked_child_has_own_threads() -> None:
    context = multiprocessing.get_context("fork")
    assert spawn(lambda: 1).result() == 1
    process = context.Process(target=_in_the_fork)
    process.start()
    process.join(20)
    assert process.exitcode == 0


def _in_the_fork() -> None:
    ended = threading.Event()
    future = spawn(lambda: 2)
    future.add_done_callback(lambda _: ended.set())
    sys.exit(0 if ended.wait(10) else 1)


def test_dropped_promise_fails_future() -> None:
    promise, future = ts.Promise.new()
    events: list[BaseException | None] = []
    future.add_done_callback(lambda done: events.append(done.exception()))
    del promise
    gc.collect()
    assert future.done()
    assert isinstance(events[0], ValueError)
    with pytest.raises(TypeError):
        ts.Promise()
