"""Failures and interrupts during commits and batches lose no staged value."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

import tessarr.tensorstore as ts
from tessarr.stores import MemoryStore

pytestmark = pytest.mark.slow

_RAW = [{"name": "bytes"}]
_PACKED = [{"name": "bytes"}, {"name": "gzip", "configuration": {"level": 1}}]


def _created(store: Any, size: int, codecs: list[Any]) -> Any:
    grid = {"name": "regular", "configuration": {"chunk_shape": [size]}}
    metadata = {"shape": [size], "data_type": "uint8", "chunk_grid": grid, "codecs": codecs}
    kvstore = {"driver": "tessarr", "store": store}
    spec = {"driver": "zarr3", "kvstore": kvstore, "metadata": metadata}
    return ts.open(spec, create=True).result()


def _shards(size: int) -> list[Any]:
    inner = {"chunk_shape": [size], "codecs": _RAW}
    return [{"name": "sharding_indexed", "configuration": inner}]


class Failing(dict[str, bytes]):
    """Store whose reads or writes of chunks can fail."""

    fails = ""

    def __getitem__(self, key: str) -> bytes:
        if self.fails == "read" and key.startswith("c/"):
            raise ConnectionError
        return super().__getitem__(key)

    def __setitem__(self, key: str, value: bytes) -> None:
        if self.fails == "store" and key.startswith("c/"):
            raise ConnectionError
        super().__setitem__(key, value)


@pytest.mark.parametrize("codecs", [_RAW, _PACKED, _shards(2)], ids=["raw", "packed", "shards"])
def test_failing_stage_keeps_staged_values(codecs: list[Any]) -> None:
    """A read of the chunk's key in the transaction reads the rest of the chunk, and fails."""
    store = Failing()
    array = _created(store, 4, codecs)
    array[:] = 1
    transaction = ts.Transaction()
    inside = array.with_transaction(transaction)
    inside[1:3] = 7
    store.fails = "read"
    with pytest.raises(ConnectionError):
        inside.kvstore.read("c/0").result()
    store.fails = ""
    assert inside.read().result().tolist() == [1, 7, 7, 1]
    inside[3] = 8
    transaction.commit_sync()
    assert array.read().result().tolist() == [1, 7, 7, 8]


@pytest.mark.parametrize("codecs", [_RAW, _PACKED, _shards(2)], ids=["raw", "packed", "shards"])
def test_interrupt_of_wait_for_chunk_keeps_commit(codecs: list[Any]) -> None:
    """The commit waits for another holder of the chunk; other threads finish it later."""
    store = MemoryStore()
    array = _created(store, 4, codecs)
    array[:] = 1
    transaction = ts.Transaction()
    array.with_transaction(transaction)[1:3] = 7
    held, may = threading.Event(), threading.Event()

    def change() -> None:
        held.set()
        may.wait(60)

    threading.Thread(target=store.hold, args=("c/0", change)).start()
    assert held.wait(60)
    timer = threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,))
    try:
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            transaction.commit_sync()
    finally:
        may.set()
    transaction.future.result(60)
    assert array.read().result().tolist() == [1, 7, 7, 1]


@pytest.mark.parametrize("block", [False, True])
def test_interrupt_of_wait_for_key_keeps_commit(block: bool) -> None:
    """The engine commits all changes of keys in memory in one step, and continues, too."""
    memory = MemoryStore()
    memory["a"] = b"1"
    store = ts.KvStore.open({"driver": "tessarr", "store": memory}).result()
    transaction = ts.Transaction(repeatable_read=True)
    staged = store.with_transaction(transaction)
    staged["a"] += b"2"
    held, may = threading.Event(), threading.Event()

    def change() -> None:
        held.set()
        may.wait(60)

    threading.Thread(target=memory.hold, args=("a", change)).start()
    assert held.wait(60)
    timer = threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,))
    try:
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            if block:
                transaction.__exit__(None, None, None)
            else:
                transaction.commit_sync()
    finally:
        may.set()
    transaction.future.result(60)
    assert store["a"] == b"12"


def _output(program: str) -> str:
    options = ["-W", "ignore::DeprecationWarning"]  # of fork in a process with threads
    done = subprocess.run(
        [sys.executable, *options, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


LOOKING = """
import signal
import numpy as np
import tessarr.tensorstore as ts

size = 1 << 18
inner = {"chunk_shape": [1], "codecs": [{"name": "bytes"}]}
metadata = {
    "shape": [size],
    "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [size]}},
    "codecs": [{"name": "sharding_indexed", "configuration": inner}],
}
spec = {"driver": "zarr3", "kvstore": "memory://", "metadata": metadata}
inside = ts.open(spec, create=True).result().with_transaction(ts.Transaction())
inside[:] = inside.read().result()  # all modules are there before a signal comes
seen = []

def look(*_):
    seen.append(int(inside[0].read().result()))
    signal.setitimer(signal.ITIMER_REAL, 0.005)  # not before: it takes longer where all is busy

signal.signal(signal.SIGALRM, look)
signal.setitimer(signal.ITIMER_REAL, 0.005)
while len(seen) < 10:
    inside[:] = np.ones(size, "u1")
signal.signal(signal.SIGALRM, signal.SIG_IGN)
print(set(seen) <= {0, 1})
"""


def test_signal_handler_reads_array_during_write() -> None:
    """The engine holds no chunk lock while Python handles signals."""
    assert _output(LOOKING) == "True\n"


FORKING = """
import os, select, signal, threading

# CPython 3.11 may hang in a child before any hook runs: another thread held its list of threads.
# Such a child, one of many, says nothing about Tessarr. The hook of this program is the first.
started, starting = os.pipe()
os.register_at_fork(after_in_child=lambda: os.write(starting, b"."))

import numpy as np
import tessarr.tensorstore as ts

size = 1 << 22
metadata = {
    "shape": [size],
    "data_type": "uint8",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [size]}},
    "codecs": [{"name": "bytes"}],
}
spec = {"driver": "zarr3", "kvstore": "memory://", "metadata": metadata}
inside = ts.open(spec, create=True).result().with_transaction(ts.Transaction())
ends, values = threading.Event(), np.ones(size, "u1")
inside[:] = values

def write():
    while not ends.is_set():
        inside[:] = values

thread = threading.Thread(target=write)
thread.start()
found, hung = set(), 0
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        os._exit(int(inside[7].read().result()))
    if select.select([started], [], [], 5)[0]:
        os.read(started, 1)
        found.add(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    else:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        hung += 1
ends.set()
thread.join()
print(found if hung < 4 else f"{hung} of 20 children did not start")
"""


def test_fork_child_reads_array_during_write() -> None:
    """No thread of the parent holds a chunk lock in the child."""
    assert _output(FORKING) == "{1}\n"


INTERRUPT_IN_BATCH = """
import signal, threading
import numpy as np
import tessarr.tensorstore as ts
from tessarr import create_array, open_array, options
from tessarr.stores import LatencyStore, MemoryStore

memory = MemoryStore()
for name in "abcd":
    create_array(memory, name=name, data=np.ones(50, "u1"), chunks=(1,))

def far(seconds):
    store = LatencyStore(memory, read_s=seconds, concurrency=2)
    place = {"driver": "tessarr", "store": store}
    return [ts.open({"driver": "zarr3", "kvstore": place, "path": name}) for name in "abcd"]

with options(threads=1):
    # All threads that wait for stores are busy: who waits for a read does it.
    busy = [open_array(LatencyStore(memory, read_s=1, concurrency=2), path=n) for n in "ab"]
    arrays = [array.result() for array in far(0.01)]
    busy = [array.read(slice(0, 1)) for array in busy]
    with ts.Batch() as batch:
        reads = [array.read(batch=batch) for array in arrays]
    threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,)).start()
    try:
        reads[0].result()
    except KeyboardInterrupt:
        print("interrupted", [read.done() for read in reads])
    print([int(read.result(60).sum()) for read in reads])
"""


def test_interrupt_of_remote_read_keeps_other_reads() -> None:
    """The interrupted thread has read a part of each read, and other threads finish them."""
    assert (
        _output(INTERRUPT_IN_BATCH)
        == "interrupted [False, False, False, False]\n[50, 50, 50, 50]\n"
    )
