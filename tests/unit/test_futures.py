"""Futures of arrays that are cancelled, or dropped."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import tessarr


class Gated(dict[str, bytes]):
    """A mapping whose chunks can only be read or stored once a gate is open."""

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
    """What no thread has begun leaves the queue; what is under way does not."""
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


def test_cancelled_future_frees_its_buffer_at_once(store: Gated) -> None:
    """The memory of the result goes while other work is still under way."""
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


def test_cancelled_future_tells_who_waits(store: Gated) -> None:
    """Callbacks, `concurrent.futures.wait` and other threads see the end."""
    array = tessarr.open_array(store)
    running = busy(array)
    future = array.read(1)
    told: list[Any] = []
    future.add_done_callback(told.append)
    waiting = threading.Thread(target=lambda: told.append(concurrent.futures.wait([future]).done))
    waiting.start()
    assert future.cancel()
    waiting.join(60)
    assert told == [future, {future}]
    store.gate.set()
    running[0].result()


def test_cancelled_task_takes_its_read_out_of_the_queue(store: Gated) -> None:
    """A coroutine that is cancelled while it waits leaves no work."""
    array = tessarr.open_array(store)
    running = busy(array)

    async def ask() -> None:
        await asyncio.wait_for(asyncio.wrap_future(array.read(3)), 0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(ask())
    store.gate.set()
    running[0].result()
    assert "c/3" not in store.calls


def test_dropped_write_is_written(store: Gated) -> None:
    """A future without references does its work all the same."""
    array = tessarr.open_array(store, mode="r+")
    running = busy(array)
    array.write(6, 66)
    gc.collect()
    last = array.write(7, 77)
    store.gate.set()
    running[0].result()
    last.result()
    assert array[6:].tolist() == [66, 77]
