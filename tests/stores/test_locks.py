"""Concurrent writers of one key: no lost updates and no torn values."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stores.processes import run_programs, start_program
from tessarr.errors import StoreError
from tessarr.store import ForeignStore, LocalStore

INCREMENT = """
import sys
from tessarr.store import LocalStore
store = LocalStore(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    while True:
        old = store.get("n")
        if store.replace("n", b"%d" % (int(old or b"0") + 1), old):
            break
"""

TENSORSTORE_INCREMENT = """
import sys
import tensorstore as ts
store = ts.KvStore.open({"driver": "file", "path": sys.argv[1] + "/"}).result()
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    while True:
        old = store.read("n").result()
        number = int(old.value) if old.state == "value" else 0
        written = store.write("n", b"%d" % (number + 1), if_equal=old.stamp.generation).result()
        if written.generation:
            break
"""

PUT_FOREVER = """
import itertools, sys
from tessarr.store import LocalStore
store = LocalStore(sys.argv[1])
print("ready", flush=True)
for number in itertools.count():
    store.put("k", bytes([number % 251]) * (50_000 + number % 3 * 40_000))
    if number % 5 == 4:
        store.delete("k")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "count"), [(2, 500), (5, 100)])
def test_processes_lose_no_update(tmp_path: Path, processes: int, count: int) -> None:
    """Processes that increment one number lose no increment."""
    run_programs([start_program(INCREMENT, tmp_path, count) for _ in range(processes)])
    assert LocalStore(tmp_path).get("n") == b"%d" % (processes * count)
    assert os.listdir(tmp_path) == ["n"]


@pytest.mark.slow
def test_update_with_tensorstore_loses_nothing(tmp_path: Path) -> None:
    """TensorStore and Tessarr increment one number with the same locks."""
    pytest.importorskip("tensorstore", reason="needs TensorStore, whose lock protocol is tested")
    run_programs(
        [start_program(code, tmp_path, 150) for code in (INCREMENT, TENSORSTORE_INCREMENT)]
    )
    assert LocalStore(tmp_path).get("n") == b"300"
    assert os.listdir(tmp_path) == ["n"]


@pytest.mark.slow
def test_killed_writer_leaves_whole_values_and_no_lock(tmp_path: Path) -> None:
    """After SIGKILL at random moments, the value is absent or one of the written values."""
    moments = random.Random(11)
    store = LocalStore(tmp_path)
    for _ in range(8):
        writer = start_program(PUT_FOREVER, tmp_path)
        time.sleep(moments.uniform(0.001, 0.03))
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
        value = store.get("k")
        if value not in {None, b"next"}:  # the value before, if the kill came first
            assert len(value) in {50_000, 90_000, 130_000}
            assert value == value[:1] * len(value)
        assert store.list() in ([], ["k"])
        store.put("k", b"next")
        assert store.get("k") == b"next"
    assert os.listdir(tmp_path) == ["k"]


HOLD = """
import fcntl, sys
with open(sys.argv[1], "wb") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_by_another_process(lock_file: Path) -> Iterator[None]:
    """Hold a POSIX lock on the file, which excludes the locks of TensorStore and Tessarr."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock_file)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.communicate()


@pytest.mark.slow
def test_writer_waits_for_lock_and_reader_does_not(tmp_path: Path) -> None:
    """A writer waits for the lock; a reader gets the old value at once."""
    store = LocalStore(tmp_path)
    store.put("k", b"old")
    writer = threading.Thread(target=store.put, args=("k", b"new"))
    with held_by_another_process(tmp_path / "k.__lock"):
        writer.start()
        time.sleep(0.1)
        assert writer.is_alive()
        assert store.get("k") == b"old"
    writer.join(10)
    assert store.get("k") == b"new"


def interrupt_soon() -> threading.Timer:
    timer = threading.Timer(0.1, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    return timer


@pytest.mark.slow
def test_waiting_for_lock_can_be_interrupted(tmp_path: Path) -> None:
    """Ctrl-C ends the wait, and the value stays unchanged."""
    store = LocalStore(tmp_path)
    store.put("k", b"old")
    with held_by_another_process(tmp_path / "k.__lock"):
        timer = interrupt_soon()
        begin = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            store.put("k", b"new")
        assert time.monotonic() - begin < 5
        timer.join()
    assert store.get("k") == b"old"


def test_waiting_for_key_can_be_interrupted() -> None:
    """Ctrl-C also ends the wait for another thread that holds the key."""
    entered, leave = threading.Event(), threading.Event()

    class Slow(dict[str, bytes]):
        def __setitem__(self, key: str, value: bytes) -> None:
            entered.set()
            leave.wait()
            super().__setitem__(key, value)

    store = ForeignStore(Slow())
    writer = threading.Thread(target=store.put, args=("k", b"first"))
    writer.start()
    entered.wait()
    timer = interrupt_soon()
    with pytest.raises(KeyboardInterrupt):
        store.put("k", b"second")
    timer.join()
    leave.set()
    writer.join()
    assert store.get("k") == b"first"


def test_write_to_read_only_folder_raises_store_error(tmp_path: Path) -> None:
    """The error names the path and has the errno of the system."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match="file") as caught:
        LocalStore(tmp_path / "file").put("k", b"v")
    assert isinstance(caught.value, OSError)
    assert caught.value.errno is not None
    assert not caught.value.retryable
    assert caught.value.key == "k"


def test_stale_lock_files_are_not_listed(tmp_path: Path) -> None:
    """Listings omit the lock files of killed writers, and delete_prefix removes them."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "k.__lock").write_bytes(b"half")
    store = LocalStore(tmp_path)
    assert store.list() == []
    assert store.list_dir("a/") == ([], [])
    store.delete_prefix("a/")
    assert os.listdir(tmp_path) == []
