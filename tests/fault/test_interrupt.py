"""Interrupts of reads, writes and commits, and forks of a process with engine threads."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tessarr
import tessarr.tensorstore as ts
from tessarr.stores import LocalStore
from tessarr.tensorstore.batch import ReadGroup
from tessarr.tensorstore.future.executor import submit

pytestmark = pytest.mark.slow

READER = """
import sys, tessarr
array = tessarr.open_array(sys.argv[1], mode="r")
print("ready", flush=True)
try:
    while True:
        array[:]
except KeyboardInterrupt:
    print("stopped", flush=True)
    print(int(array[0, 0]), flush=True)
"""


def test_ctrl_c_stops_read(tmp_path: Path) -> None:
    """SIGINT during a read raises KeyboardInterrupt, and the array stays usable."""
    path = tmp_path / "a.zarr"
    array = tessarr.create_array(path, shape=(4000, 4000), dtype="int32", chunks=(100, 100))
    array[:] = np.arange(16_000_000, dtype="int32").reshape(4000, 4000)
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(path)], stdout=subprocess.PIPE, text=True
    ) as reader:
        try:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "ready\n"
            time.sleep(0.2)
            reader.send_signal(signal.SIGINT)
            out, _ = reader.communicate(timeout=30)
        finally:
            reader.kill()  # a read that ignores the interrupt never ends
    assert out == "stopped\n0\n"
    assert reader.returncode == 0


class Slow(dict[str, bytes]):
    """Store that takes hundredths of a second for a write, once an event permits it."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.may = threading.Event(), threading.Event()
        self.may.set()

    def __setitem__(self, key: str, value: bytes) -> None:
        self.entered.set()
        self.may.wait(60)
        time.sleep(0.01)
        super().__setitem__(key, value)

    def __delitem__(self, key: str) -> None:
        self.entered.set()
        self.may.wait(60)
        super().__delitem__(key)


class Interrupting(dict[str, bytes]):
    """Store that interrupts the main thread at its first read of a chunk."""

    def __init__(self) -> None:
        super().__init__()
        self.requested_keys: list[str] = []

    def __getitem__(self, key: str) -> bytes:
        if "c/" in key:
            self.requested_keys.append(key)
            if len(self.requested_keys) == 1:
                signal.raise_signal(signal.SIGINT)
        return super().__getitem__(key)


@contextmanager
def only_thread_busy() -> Generator[None]:
    """Keep the only engine thread busy, so that the waiting thread executes the tasks."""
    held = Slow()
    array = tessarr.create_array(held, shape=(4,), dtype="u1", chunks=(1,))
    with tessarr.options(threads=1):
        held.may.clear()
        held.entered.clear()
        busy = array.write(..., 1)
        try:
            assert held.entered.wait(60)
            yield
        finally:
            held.may.set()
            busy.result(60)


def test_ctrl_c_ends_wait_and_not_write() -> None:
    """The waiting thread executes tasks; after an interrupt, other threads finish them."""
    array = tessarr.create_array(Slow(), shape=(40,), dtype="u1", chunks=(1,))
    view = _view_origin(array)
    with only_thread_busy():
        write = view.write(1)
        threading.Timer(0.1, signal.raise_signal, (signal.SIGINT,)).start()
        with pytest.raises(KeyboardInterrupt):
            write.result()
        assert not write.done()
    write.result(60)
    np.testing.assert_array_equal(array[:], np.ones(40, "u1"))


def test_interrupt_of_batch_ends_all_reads() -> None:
    """An interrupt of the thread that executes a batch leaves all reads to other threads."""
    store, out = Interrupting(), np.zeros((4, 3), "u1")
    arrays = [
        tessarr.create_array(store, name=str(number), data=np.ones(3, "u1")) for number in range(4)
    ]
    together = ReadGroup()
    reads = [
        together.read(array._prepare_read([(0, 1, 3)], [0], row), array, array._store)
        for array, row in zip(arrays, out, strict=True)
    ]
    with only_thread_busy():
        with pytest.raises(KeyboardInterrupt):
            reads[0].result()
        assert len(store.requested_keys) == 1
        assert not any(read.done() for read in reads)
    for read in reads:
        read.result(60)
    assert out.all()
    assert len(store.requested_keys) == 5


def _interrupt_when(entered: threading.Event, noticed: threading.Event, seconds: float) -> None:
    """Interrupt the main thread until it notices; a signal just before its wait has no effect."""
    entered.wait(seconds)
    os.kill(os.getpid(), signal.SIGINT)
    while not noticed.wait(5):
        os.kill(os.getpid(), signal.SIGINT)


def _wait_for_commit(transaction: ts.Transaction) -> None:
    transaction.commit_async().result()


@pytest.mark.parametrize("wait", [ts.Transaction.commit_sync, _wait_for_commit])
def test_ctrl_c_ends_wait_and_not_commit(wait: Callable[[ts.Transaction], None]) -> None:
    """The commit continues, because a partial commit would lose changes."""
    slow = Slow()
    slow.may.clear()
    store = ts.KvStore.open({"driver": "tessarr", "store": slow}).result()
    transaction = ts.Transaction()
    for key in "abc":
        store.with_transaction(transaction)[key] = b"1"

    noticed = threading.Event()
    threading.Thread(target=_interrupt_when, args=(slow.entered, noticed, 60)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            wait(transaction)
    finally:
        noticed.set()
        slow.may.set()
    transaction.future.result(60)
    assert sorted(slow) == ["a", "b", "c"]


def test_ctrl_c_ends_wait_for_lock_and_not_commit(tmp_path: Path) -> None:
    """The commit waits for another holder of the file; other threads finish it later."""
    held, may = threading.Event(), threading.Event()

    def change() -> None:
        held.set()
        may.wait(60)

    threading.Thread(target=LocalStore(tmp_path).hold, args=("a", change)).start()
    store = ts.KvStore.open(f"file://{tmp_path}/").result()
    transaction, noticed = ts.Transaction(), threading.Event()
    store.with_transaction(transaction)["a"] = b"1"
    assert held.wait(60)
    try:
        threading.Thread(target=_interrupt_when, args=(threading.Event(), noticed, 0.2)).start()
        with pytest.raises(KeyboardInterrupt):
            transaction.commit_sync()
        assert not transaction.future.done()
    finally:
        noticed.set()
        may.set()
    transaction.future.result(60)
    assert store["a"] == b"1"


@pytest.mark.parametrize("change", ["write", "delete_range", "copy", "resize"])
def test_ctrl_c_ends_wait_and_not_change(change: str) -> None:
    """Pending changes of keys also continue."""
    slow = Slow()
    array = tessarr.create_array(slow, shape=(4,), dtype="u1", chunks=(1,), fill_value=0)
    array[:] = 1
    spec = {"driver": "tessarr", "store": slow}
    store, view = ts.KvStore.open(spec).result(), ts.open(spec).result()
    source = ts.KvStore.open("memory://").result()
    source["x"], source["y"] = b"1", b"2"
    begin: dict[str, Callable[[], Any]] = {
        "write": lambda: store.write("x", b"1"),
        "delete_range": lambda: store.delete_range(ts.KvStore.KeyRange("c", "d")),
        "copy": lambda: source.experimental_copy_range_to(store),
        "resize": lambda: view.resize(exclusive_max=[1]),
    }
    slow.may.clear()
    slow.entered.clear()
    free = threading.Event()
    for _ in range(32):  # no thread starts the operation before the main thread waits
        submit(partial(free.wait, 60))
    future = begin[change]()

    noticed = threading.Event()
    try:
        with pytest.raises(KeyboardInterrupt):
            threading.Thread(target=_interrupt_when, args=(slow.entered, noticed, 1)).start()
            future.result()
    finally:
        noticed.set()
        slow.may.set()
        free.set()
    future.result(60)
    expected_counts = {"write": 6, "delete_range": 1, "copy": 7, "resize": 2}
    assert len(slow) == expected_counts[change], sorted(slow)


def test_interrupt_ends_listing() -> None:
    """The array has over a thousand million chunks, and none is stored."""
    array = ts.open(
        {"driver": "zarr3", "kvstore": "memory://"},
        create=True,
        dtype="uint8",
        shape=[1 << 50],
        chunk_layout=ts.ChunkLayout(chunk_shape=[1]),
    ).result()
    noticed = threading.Event()
    threading.Thread(target=_interrupt_when, args=(threading.Event(), noticed, 0.2)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            array[: 1 << 30].storage_statistics(query_not_stored=True).result()
    finally:
        noticed.set()


def test_interrupt_never_splits_commit() -> None:
    """After an interrupt at any call, other threads finish the commit."""
    array = ts.open(
        {"driver": "zarr3", "kvstore": "memory://"},
        create=True,
        dtype="uint8",
        shape=[4],
        fill_value=0,
    ).result()
    times = 0
    for moment in range(1000):
        number = moment % 200 + 1
        transaction = ts.Transaction()
        inside, keys = array.with_transaction(transaction), array.kvstore
        inside[1:3] = number
        keys.with_transaction(transaction)["key"] = bytes([number])
        if not _interrupted_after(moment, transaction.commit_sync):
            break
        times += 1
        if transaction.open:  # the commit has not started
            transaction.abort()
            continue
        transaction.future.result(60)
        assert keys["key"] == bytes([number])
        assert array.read().result().tolist() == [0, number, number, 0]
    assert times > 20


def _view_origin(array: tessarr.Array) -> ts.TensorStore:
    return ts.open({"driver": "tessarr", "store": array.store}).result()


def _collected(array: tessarr.Array) -> ts.Future[Any]:
    with ts.Batch() as batch:
        return ts.cast(_view_origin(array), ts.float64).read(batch=batch)


READS: dict[str, Callable[[tessarr.Array], Any]] = {
    "tessarr": lambda array: array.read(...),
    "view": lambda array: _view_origin(array).read(),
    "cast": lambda array: ts.cast(_view_origin(array), ts.float64).read(),
    "stack": lambda array: ts.stack([_view_origin(array)] * 2).read(),
    "batch": _collected,
}


@pytest.mark.parametrize("read", READS)
def test_interrupt_at_any_time_completes_reads_for_other_threads(read: str) -> None:
    """The interrupt hits the reading thread while it sets the result; other threads get it."""
    array = tessarr.create_array({}, data=np.arange(4), chunks=(2,))
    # The main thread executes reads itself if no other thread is free, except for Tessarr's
    # futures.
    busy = nullcontext if read == "tessarr" else only_thread_busy
    interrupted = 0
    for moment in range(1000):
        with busy():
            future, notified = READS[read](array), SimpleQueue[Any]()
            future.add_done_callback(notified.put)
            waiting = [_start_wait(wait, future, notified) for wait in (_waits, _awaits)]
            ended = not _interrupted_after(moment, future.result)
        for thread in waiting:
            thread.join(60)
        results = [notified.get(timeout=60) for _ in range(3)]
        for result in [*(value for value in results if value is not future), future.result(60)]:
            assert np.asarray(result).ravel()[:4].tolist() == [0, 1, 2, 3]
        assert sum(value is future for value in results) == 1
        assert notified.empty()
        interrupted += not ended
        if ended:
            break
    assert interrupted > 3


@pytest.mark.parametrize("end", ["set_result", "cancel"])
def test_interrupt_at_any_time_leaves_promises_consistent(end: str) -> None:
    """The promise has a result for all waiters, or has none and accepts one."""
    interrupted = 0
    for moment in range(1000):
        promise, future = ts.Promise.new()
        notified = SimpleQueue[Any]()
        future.add_done_callback(notified.put)
        keep = partial(promise.set_result, 5) if end == "set_result" else future.cancel
        ended = not _interrupted_after(moment, keep)
        if not future.done():
            assert notified.empty()
            keep()
        assert notified.get(timeout=60) is future
        assert notified.empty()
        assert future.cancelled() == (end == "cancel")
        interrupted += not ended
        if ended:
            break
    assert interrupted > 3


def _start_wait(
    wait: Callable[..., None], future: Any, notified: SimpleQueue[Any]
) -> threading.Thread:
    """Start a thread that waits for a future and does not execute its read."""
    ready = threading.Event()
    thread = threading.Thread(target=wait, args=(future, notified, ready), daemon=True)
    thread.start()
    assert ready.wait(60)
    return thread


def _waits(future: Any, notified: SimpleQueue[Any], ready: threading.Event) -> None:
    ready.set()
    notified.put(future.result(60))


def _awaits(future: Any, notified: SimpleQueue[Any], ready: threading.Event) -> None:
    async def wait() -> Any:
        return await future

    async def both() -> None:
        waiting = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        ready.set()
        notified.put(await asyncio.wait_for(waiting, 60))

    asyncio.run(both())


def _interrupted_after(calls: int, work: Callable[[], object]) -> bool:
    """Interrupt `work` after a number of calls; return False if it ends before."""
    left = iter(range(calls))

    def look(frame: FrameType, event: str, _: object) -> None:
        if event in {"call", "c_return"} and not _finalizes(frame) and next(left, None) is None:
            raise KeyboardInterrupt

    before = sys.getprofile()
    gc.disable()
    sys.setprofile(look)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(before)
        gc.enable()
    return False


def _finalizes(frame: FrameType | None) -> bool:
    """Return whether a `__del__` calls the frame: Python ignores exceptions in `__del__`."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


FORKER = """
import os, sys, numpy, tessarr
array = tessarr.open_array(sys.argv[1], mode="r+")
expected = array[:]
children = []
for number in range(4):
    pid = os.fork()
    if pid == 0:
        later = array.read(...).result(timeout=30)
        # The other children write column 0 meanwhile.
        same = (array[:, 1:] == expected[:, 1:]).all() and (later == expected)[:, 1:].all()
        array[number, 0] = 1000 + number
        os._exit(0 if same else 1)
    children.append(pid)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
print(codes, array[:4, 0].tolist())
"""


def test_children_of_fork_read_and_write(tmp_path: Path) -> None:
    """Forked children of a process with engine threads read and write."""
    path = tmp_path / "a.zarr"
    array = tessarr.create_array(path, shape=(512, 512), dtype="int64", chunks=(64, 64))
    array[:] = np.arange(512 * 512).reshape(512, 512)
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKER, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == "[0, 0, 0, 0] [1000, 1001, 1002, 1003]\n", done.stderr
    assert os.path.exists(path)
