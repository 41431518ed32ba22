"""Synchronizers: the locks during each write, and the processes that share them."""

from __future__ import annotations

import multiprocessing
import pickle
import threading
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import ReadOnlyError
from tessarr.node import synchronizer as module
from tessarr.node.synchronizer import ProcessSynchronizer, ThreadSynchronizer
from tessarr.stores import MemoryStore


class Recording:
    """A synchronizer whose locks only record their use."""

    def __init__(self) -> None:
        self.log: list[str] = []

    @contextmanager
    def _lock(self, key: str) -> Any:
        self.log.append(key)
        yield
        self.log.append("-" + key)

    def __getitem__(self, key: str) -> Any:
        return self._lock(key)

    def taken(self) -> list[str]:
        log, self.log = self.log, []
        return [key for key in log if not key.startswith("-")]


def make(zarr_format: Any = 2, path: str = "a", **settings: Any) -> tuple[Any, Recording]:
    settings = {"shape": (6, 6), "chunks": (2, 3), "dtype": "i4", **settings}
    a = tessarr.create_array(MemoryStore(), path=path, zarr_format=zarr_format, **settings)
    recording = Recording()
    return tessarr.Array(a.store, path, synchronizer=recording), recording


@pytest.mark.parametrize(
    ("key", "cells"),
    [
        (..., [(i, j) for i in range(3) for j in range(2)]),
        ((slice(1, 3), 0), [(0, 0), (1, 0)]),
        ((slice(None, None, -4), slice(4, 5)), [(0, 1), (2, 1)]),
        (([0, 5], [4, 1]), [(0, 1), (2, 0)]),
        ((-1, -1), [(2, 1)]),
        (slice(0, 0), []),
    ],
)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_synchronizer_locks_chunks_in_order(zarr_format: Any, key: Any, cells: Any) -> None:
    a, recording = make(zarr_format)
    a[key] = 7
    form = "a/{}.{}" if zarr_format == 2 else "a/c/{}/{}"
    assert recording.taken() == [form.format(*cell) for cell in cells]
    expected = np.zeros((6, 6), "i4")
    expected[key] = 7
    np.testing.assert_array_equal(a[...], expected)
    assert recording.taken() == []  # reads need no lock
    a.write(key, expected[key]).result()
    assert recording.taken() == [form.format(*cell) for cell in cells]


def test_shards_are_held_whole() -> None:
    a, recording = make(3, shape=(8, 8), chunks=(2, 2), shards=(4, 4))
    a[1:3, 5] = 1
    assert recording.taken() == ["a/c/0/1"]


def test_locks_of_rectilinear_chunks() -> None:
    a, recording = make(3, shape=(10,), chunks=[[2, 5, 3]])
    a[[0, 7, 9]] = 1
    a[1:8:6] = 1
    assert recording.taken() == ["a/c/0", "a/c/2", "a/c/0", "a/c/2"]


@pytest.mark.parametrize(("zarr_format", "document"), [(2, "a/.zarray"), (3, "a/zarr.json")])
def test_append_and_resize_lock_document_and_chunks(zarr_format: Any, document: str) -> None:
    a, recording = make(zarr_format, shape=(3,), chunks=(2,))
    key = "a/{}" if zarr_format == 2 else "a/c/{}"
    a[:] = 1
    recording.taken()
    a.append([5, 6])
    assert recording.log == [
        document,
        *(key.format(1), key.format(2)),
        *("-" + key.format(2), "-" + key.format(1)),
        "-" + document,
    ]
    recording.taken()
    a.resize(1)
    assert recording.taken() == [document, key.format(0)]
    a.resize(9)
    assert recording.taken() == [document]
    a.append([])
    assert recording.taken() == [document]
    a.attrs["x"] = 1
    assert recording.taken() == ["a/.zattrs" if zarr_format == 2 else document]


def increment(array: Any, times: int) -> None:
    for _ in range(times):
        with array.synchronizer["counter"]:
            array[0] = array[0] + 1


def run(target: Any, *arguments: Any, threads: int = 4) -> None:
    workers = [threading.Thread(target=target, args=arguments) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


@pytest.mark.parametrize("ranged", [True, False])
def test_locks_exclude_threads(tmp_path: Any, ranged: bool, monkeypatch: Any) -> None:
    if not ranged:  # like systems without locks of open file descriptions
        monkeypatch.delattr("fcntl.F_OFD_SETLKW")
    for synchronizer in (ThreadSynchronizer(), ProcessSynchronizer(tmp_path / "locks")):
        store = tessarr.zeros(1, dtype="i4").store
        run(increment, tessarr.Array(store, synchronizer=synchronizer), 25)
        assert tessarr.Array(store)[0] == 100


def write_in_process(folder: str, locks: str, number: int) -> None:
    """Write to every other element, and count, in a mapping without conditional puts."""
    array = tessarr.Array(Files(folder), synchronizer=ProcessSynchronizer(locks))
    for i in range(10):
        array[1 + 3 * i + number] = number + 1
    increment(array, 10)
    array.append(np.full(4, 10 + number, "i4"))


class Files:
    """A mapping in a folder, slow and without atomic writes, like a user's."""

    def __init__(self, folder: str) -> None:
        from pathlib import Path

        self.folder = Path(folder)

    def get(self, key: str) -> Any:
        file = self.folder / key.replace("/", "~")
        return file.read_bytes() if file.exists() else None

    def put(self, key: str, data: bytes) -> None:
        import os

        file = self.folder / key.replace("/", "~")
        aside = file.with_name(f"{file.name}.{os.getpid()}")
        aside.write_bytes(data)
        aside.replace(file)

    def delete(self, key: str) -> None:
        (self.folder / key.replace("/", "~")).unlink(missing_ok=True)

    def list(self, prefix: str) -> list[str]:
        keys = [file.name.replace("~", "/") for file in self.folder.iterdir()]
        return [key for key in keys if key.startswith(prefix)]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "fork"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_synchronizer_keeps_writes_of_processes(tmp_path: Any, method: str) -> None:
    """Three processes write chunk parts, counters and appended data in a plain mapping."""
    folder, locks = tmp_path / "data", tmp_path / "locks"
    folder.mkdir()
    tessarr.create_array(Files(str(folder)), shape=(31,), chunks=(15,), dtype="i4")
    context = multiprocessing.get_context(method)
    arguments = [(str(folder), str(locks), number) for number in range(3)]
    children = [context.Process(target=write_in_process, args=argument) for argument in arguments]
    for child in children:
        child.start()
    for child in children:
        child.join(240)
        assert child.exitcode == 0
    array = tessarr.Array(Files(str(folder)))
    assert array[0] == 30
    np.testing.assert_array_equal(array[1:31], np.tile([1, 2, 3], 10))
    assert sorted(array[31:].tolist()) == sorted([10] * 4 + [11] * 4 + [12] * 4)


def test_synchronizer_with_many_chunks_locks_array(tmp_path: Any, monkeypatch: Any) -> None:
    """The synchronizer has a limit of locks; above it, one lock excludes writers of all chunks."""
    monkeypatch.setattr(module, "_MAX_LOCKS", 3)
    synchronizer = ProcessSynchronizer(tmp_path)
    entered = threading.Event()

    def other() -> None:
        with synchronizer["a/0"]:
            entered.set()

    with synchronizer.hold([f"a/{number}" for number in range(1, 9)]):
        thread = threading.Thread(target=other)
        thread.start()
        assert not entered.wait(0.05)
        with synchronizer["a/.zarray"], synchronizer["a/0"]:  # its own thread holds all of them
            pass
        assert not entered.wait(0.02)
    thread.join(10)
    assert entered.is_set()


def test_synchronizer_locks_are_reentrant(tmp_path: Any) -> None:
    for synchronizer in (ThreadSynchronizer(), ProcessSynchronizer(tmp_path)):
        a = tessarr.Array(tessarr.zeros(4, chunks=2).store, synchronizer=synchronizer)
        with synchronizer["c/0"]:
            a[:] = 1
        assert a[:].tolist() == [1, 1, 1, 1]


def test_synchronizer_lock_is_released_on_error(tmp_path: Any) -> None:
    for synchronizer in (ThreadSynchronizer(), ProcessSynchronizer(tmp_path)):
        with pytest.raises(ZeroDivisionError), synchronizer["x"]:
            raise ZeroDivisionError
        done = threading.Event()

        def other(synchronizer: Any = synchronizer, done: Any = done) -> None:
            with synchronizer["x"]:
                done.set()

        run(other, threads=1)
        assert done.is_set()


def test_pickle(tmp_path: Any) -> None:
    """In one process, the copy is the same synchronizer, so that its locks still exclude."""
    threads = ThreadSynchronizer()
    assert pickle.loads(pickle.dumps(threads)) is threads
    data = pickle.dumps(threads)
    del threads
    assert isinstance(pickle.loads(data), ThreadSynchronizer)  # like in another process
    processes = pickle.loads(pickle.dumps(ProcessSynchronizer(tmp_path)))
    assert processes.path == str(tmp_path)
    a = tessarr.Array(tessarr.zeros(3).store, synchronizer=processes, cache_metadata=False)
    b = pickle.loads(pickle.dumps(a))
    assert (b.synchronizer.path, b.cache_metadata) == (str(tmp_path), False)
    b[:] = 1
    assert b[:].tolist() == [1, 1, 1]


def test_read_only_array_with_synchronizer_stays_read_only() -> None:
    a, recording = make()
    b = tessarr.Array(a.store, "a", read_only=True, synchronizer=recording)
    for change in (lambda: b.__setitem__(0, 1), lambda: b.resize(1, 1)):
        with pytest.raises(ReadOnlyError):
            change()
    assert recording.taken() == []


def test_copy_region_by_region_holds_locks() -> None:
    a, recording = make(2, shape=(600, 600), chunks=(300, 300))
    source = tessarr.ones((600, 600), chunks=(100, 100), dtype="i4")
    a[...] = source
    assert set(recording.taken()) == {f"a/{i}.{j}" for i in range(2) for j in range(2)}
    assert (a[...] == 1).all()


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_write_keeps_data_appended_to_last_chunk(zarr_format: Any) -> None:
    """A writer with an outdated shape, which writes whole chunks, also keeps it."""
    a, _ = make(zarr_format, shape=(5,), chunks=(4,))
    a.append([7, 7])
    late = tessarr.Array(a.store, "a", synchronizer=ThreadSynchronizer())
    a.append([8])
    late[4:7] = [1, 2, 3]
    late[:] = np.arange(7)
    a.refresh()
    assert a[:].tolist() == [0, 1, 2, 3, 4, 5, 6, 8]
    late.append([9])
    late[4] = 0
    assert late[:].tolist() == [0, 1, 2, 3, 0, 5, 6, 8, 9]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_forked_child_does_not_wait_for_parent_locks(tmp_path: Any) -> None:
    """Locks of threads stay in the parent; locks of processes also hold in the child."""
    threads, processes = ThreadSynchronizer(), ProcessSynchronizer(tmp_path)
    context = multiprocessing.get_context("fork")
    done = context.Event()

    def child() -> None:
        with threads["a"], processes["b"]:
            done.set()

    with processes["b"]:
        held, over = threading.Event(), threading.Event()

        def hold() -> None:
            with threads["a"]:
                held.set()
                over.wait(60)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(60)
        process = context.Process(target=child)
        process.start()
        assert not done.wait(0.1)
    assert done.wait(60)
    over.set()
    thread.join()
    process.join(60)
    assert process.exitcode == 0


@pytest.mark.parametrize("wrong", [5, "folder", object()])
def test_invalid_synchronizer_raises(tmp_path: Any, wrong: Any) -> None:
    """The error occurs before any write."""
    with pytest.raises(TypeError, match="is not a synchronizer"):
        tessarr.zeros(3, store=tmp_path / "a", synchronizer=wrong)
    assert not (tmp_path / "a").exists()
    with pytest.raises(TypeError, match="is not a synchronizer"):
        tessarr.Array(tessarr.zeros(3).store, synchronizer=wrong)
