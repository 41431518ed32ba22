"""Cancelled and dropped futures of arrays."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import threading
import tracemalloc
import weakref
from queue import SimpleQueue
from typing import Any

import numpy as np
import pytest

import tessarr


class Gated(dict[str, bytes]):
    """A mapping that blocks reads and writes of chunks until a gate opens."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.begun = threading.Event()
        self.calls: list[str] = []

    def _pass(self, key: str) -> None:
        if key != "zarr.json":
            self.calls.append(key)
            self.begun.set()
            assert self.gate.wait(60)

    def __getitem__(self, key: str) -> bytes:
        self._pass(key)
        return super().__getitem__(key)

    def __setitem__(self, key: str, value: bytes) -> None:
        self._pass(key)
        super().__setitem__(key, value)


@pytest.fixture
def store() -> Gated:
    store = Gated()
    store.gate.set()
    tessarr.create_array(store, data=np.arange(8), chunks=1)
    store.gate.clear()
    store.begun.clear()
    store.calls.clear()
    return store


def busy(array: tessarr.Array) -> list[tessarr.Future[Any]]:
    """Return reads that keep every thread busy."""
    from tessarr import configure

    configure(threads=1)
    futures = [array.read(0)]
    assert array.store.begun.wait(60)
    return futures


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    yield
    tessarr.configure(threads=None)


def test_cancelled_read_and_write_do_no_work(store: Gated) -> None:
    """Pending operations leave the queue; running operations continue."""
    array = tessarr.open_array(store, mode="r+")
    running = busy(array)
    read, write = array.read(slice(2, 4)), array.write(5, 77)
    assert read.cancel()
    assert write.cancel()
    for future in (read, write):
        assert future.cancelled()
        assert future.done()
        assert future.cancel()
        with pytest.raises(concurrent.futures.CancelledError):
            future.result()
    assert not running[0].cancel()
    store.gate.set()
    assert running[0].result() == 0
    assert array[5] == 5
    assert not any(key in store.calls for key in ("c/2", "c/3"))


def test_awaited_cancelled_future_raises_error_of_asyncio(store: Gated) -> None:
    """Tasks and time limits of asyncio recognize only this class."""
    array = tessarr.open_array(store)
    running = busy(array)
    future = array.read(slice(2, 4))
    assert future.cancel()

    async def wait() -> None:
        await future

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(wait())
    store.gate.set()
    running[0].result()


def test_cancelled_future_frees_its_buffer(store: Gated) -> None:
    """The memory of the result is free while other work still runs."""
    array = tessarr.open_array(store)
    running = busy(array)
    out = np.empty(8, "i8")
    future = array.read(..., out=out)
    alive = weakref.ref(out)
    del out
    assert future.cancel()
    del future
    gc.collect()
    assert alive() is None
    store.gate.set()
    running[0].result()


def test_cancelled_future_wakes_waiting_threads(store: Gated) -> None:
    """Callbacks, `concurrent.futures.wait` and other threads see the cancellation."""
    array = tessarr.open_array(store)
    running = busy(array)
    future = array.read(1)
    calls: list[Any] = []
    future.add_done_callback(calls.append)
    waiting = threading.Thread(target=lambda: calls.append(concurrent.futures.wait([future]).done))
    waiting.start()
    assert future.cancel()
    waiting.join(60)
    assert calls == [future, {future}]
    store.gate.set()
    running[0].result()


def test_cancelled_task_cancels_its_read(store: Gated) -> None:
    """A coroutine that is cancelled during a wait leaves no work."""
    array = tessarr.open_array(store)
    running = busy(array)

    async def await_read() -> None:
        await asyncio.wait_for(asyncio.wrap_future(array.read(3)), 0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(await_read())
    store.gate.set()
    running[0].result()
    assert "c/3" not in store.calls


def test_dropped_reads_do_no_work(store: Gated) -> None:
    """Reads whose futures are dropped leave the queue, with the memory of their results."""
    array = tessarr.open_array(store)
    running = busy(array)
    for _ in range(100):
        array.read(slice(1, 7))
    future = array.read(7)
    store.gate.set()
    running[0].result()
    assert future.result() == 7
    assert store.calls == ["c/0", "c/7"]


def test_dropped_reads_free_memory_of_their_results() -> None:
    """Neither results nor the queue grow."""
    store = Gated()
    store.gate.set()
    array = tessarr.create_array(store, shape=(1 << 20,), dtype="u1", chunks=1 << 20)
    array[:] = 1
    store.gate.clear()
    store.begun.clear()
    running = busy(array)
    tracemalloc.start()
    try:
        array.read()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(200):
            array.read()
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    store.gate.set()
    running[0].result()
    assert after - before < 1 << 16
    assert peak - before < 4 << 20


def test_dropped_reads_in_cycle_do_no_work(store: Gated) -> None:
    """Python's garbage collector drops futures, too."""
    array = tessarr.open_array(store)
    running = busy(array)
    cycle: list[Any] = [array.read(slice(1, 7))]
    cycle.append(cycle)
    del cycle
    gc.collect()
    store.gate.set()
    running[0].result()
    assert store.calls == ["c/0"]


def test_dropped_running_read_completes(store: Gated) -> None:
    """A running read continues without its future, and the next read runs."""
    array = tessarr.open_array(store)
    busy(array).clear()
    gc.collect()
    future = array.read(7)
    store.gate.set()
    assert future.result() == 7
    assert store.calls == ["c/0", "c/7"]


def test_dropped_read_with_callback_completes(store: Gated) -> None:
    """Callbacks keep the future alive until their call, and no longer."""
    array = tessarr.open_array(store)
    running = busy(array)
    results: SimpleQueue[Any] = SimpleQueue()
    alive = []
    for number in (3, 4):
        future = array.read(number)
        future.add_done_callback(lambda future: results.put(future.result()))
        future.add_done_callback(lambda future: results.put(future.result()))
        alive.append(weakref.ref(future))
        del future
    gc.collect()
    store.gate.set()
    running[0].result()
    assert sorted(int(results.get(timeout=60)) for _ in range(4)) == [3, 3, 4, 4]
    array.read(5).result()  # the thread has dropped the others
    assert [ref() for ref in alive] == [None, None]


def test_dropped_read_into_out_completes(store: Gated) -> None:
    """The read has an effect beyond its result."""
    array = tessarr.open_array(store)
    running = busy(array)
    out = np.zeros(2, "i8")
    array.read(slice(2, 4), out=out)
    last = array.read(7)
    store.gate.set()
    running[0].result()
    last.result()
    assert out.tolist() == [2, 3]


def test_awaited_read_without_reference_completes(store: Gated) -> None:
    """`await`, `asyncio.gather` and `asyncio.wrap_future` keep references to pending reads."""
    array = tessarr.open_array(store)
    running = busy(array)

    async def wait() -> list[Any]:
        wrapped = asyncio.wrap_future(array.read(4))
        waiting = asyncio.gather(awaited(1), awaited(2), wrapped)
        await asyncio.sleep(0)
        gc.collect()
        store.gate.set()
        return list(await waiting)

    async def awaited(number: int) -> Any:
        return await array.read(number)

    assert [int(value) for value in asyncio.run(wait())] == [1, 2, 4]
    running[0].result()


def test_dropped_future_after_timeout_does_no_work(store: Gated) -> None:
    """After a timeout, the dropped read leaves the queue."""
    array = tessarr.open_array(store)
    running = busy(array)
    with pytest.raises(TimeoutError):
        array.read(slice(1, 7)).result(timeout=0.01)
    gc.collect()
    store.gate.set()
    running[0].result()
    array.read(7).result()
    assert store.calls == ["c/0", "c/7"]


def test_dropped_write_completes(store: Gated) -> None:
    """A future without references completes its work."""
    array = tessarr.open_array(store, mode="r+")
    running = busy(array)
    array.write(6, 66)
    gc.collect()
    last = array.write(7, 77)
    store.gate.set()
    running[0].result()
    last.result()
    assert array[6:].tolist() == [66, 77]
