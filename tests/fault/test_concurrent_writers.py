"""Concurrent writers of shared chunks and shards lose no update, in threads and processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

import tessarr
from tessarr.stores import FSStore

pytestmark = pytest.mark.slow

LAYOUTS: dict[str, dict[str, Any]] = {
    "v2 chunks": {"chunks": (50, 8), "zarr_format": 2},
    "v3 chunks": {"chunks": (50, 8)},
    "v3 uncompressed": {"chunks": (50, 8), "compressors": None},
    "shards": {"chunks": (5, 4), "shards": (50, 8)},
}

WRITER = """
import sys, tessarr
path, first = sys.argv[1], int(sys.argv[2])
array = tessarr.open_array(path, mode="r+")
print("ready", flush=True)
sys.stdin.readline()
for number in range(500):
    row, column = divmod(number, 4)
    array[row % 100, 2 * column + first] = 1 + number
"""


APPENDER = """
import sys, tessarr
path, first = sys.argv[1], int(sys.argv[2])
array = tessarr.open_array(path, mode="r+")
print("ready", flush=True)
sys.stdin.readline()
for number in range(200):
    array.append([1000 * first + number] * (1 + number % 3))
"""

RESIZER = """
import sys, tessarr
path, first = sys.argv[1], int(sys.argv[2])
array = tessarr.open_array(path, mode="r+")
print("ready", flush=True)
sys.stdin.readline()
for number in range(100):
    length = array.append([7] * 5)[0] if first else array.shape[0]
    array.resize(max(length - 9, 0))
"""


def run_two(program: str, path: Path) -> None:
    """Run a program twice concurrently, with 0 and with 1 as its second argument."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(path), str(first)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for first in (0, 1)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_partial_writes_of_two_processes_all_arrive(tmp_path: Path, layout: str) -> None:
    """Two processes each make 500 partial writes to the same chunks and shards."""
    path = tmp_path / "array.zarr"
    array = tessarr.create_array(path, shape=(100, 8), dtype="int32", **LAYOUTS[layout])
    run_two(WRITER, path)
    expected = np.zeros((100, 8), "int32")
    for first in (0, 1):
        for number in range(500):
            row, column = divmod(number, 4)
            expected[row % 100, 2 * column + first] = 1 + number
    np.testing.assert_array_equal(array[:], expected)


def check_appended(values: list[int], writers: int, count: int) -> None:
    """Check that each writer's appends are all present, whole and in order."""
    for first in range(writers):
        mine = [value - 1000 * first for value in values if value // 1000 == first]
        assert mine == [number for number in range(count) for _ in range(1 + number % 3)]
    ends = [i for i in range(1, len(values)) if values[i] != values[i - 1]]
    assert len(ends) + 1 == writers * count


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_appends_of_two_processes_all_arrive(tmp_path: Path, zarr_format: Any) -> None:
    """Two processes each append 200 pieces to one array."""
    path = tmp_path / "array.zarr"
    tessarr.create_array(path, shape=0, dtype="int32", chunks=7, zarr_format=zarr_format)
    run_two(APPENDER, path)
    check_appended(tessarr.open_array(path)[:].tolist(), 2, 200)
    assert not [file for file in path.rglob("*") if "__lock" in file.name]


def test_resize_and_append_of_two_processes_are_consistent(tmp_path: Path) -> None:
    """Each element comes from an append after the last shrinking resize, or is fill."""
    path = tmp_path / "array.zarr"
    array = tessarr.create_array(path, data=np.ones(40, "int32"), chunks=6, fill_value=-1)
    run_two(RESIZER, path)
    array = tessarr.open_array(path)
    length = array.shape[0]
    array.resize(length + 50)
    # Removed elements do not reappear: no writer stored a chunk outside of the array.
    assert (array[length:] == -1).all()
    assert set(array[:length].tolist()) <= {-1, 1, 7}


def test_readers_see_all_of_append_or_nothing(tmp_path: Path) -> None:
    """An array that opens during appends holds whole appends and no fill."""
    path = tmp_path / "array.zarr"
    array = tessarr.create_array(path, shape=0, dtype="int32", chunks=7, fill_value=-1)
    stop = threading.Event()
    faults: list[Any] = []

    def read() -> None:
        while not stop.is_set():
            values = tessarr.open_array(path, mode="r")[:]
            expected = np.repeat(np.arange(len(values) // 5, dtype="int32"), 5)
            if not np.array_equal(values, expected):
                faults.append(values)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(200):
        array.append([number] * 5)
    stop.set()
    for reader in readers:
        reader.join()
    assert not faults


@pytest.mark.parametrize("kind", ["folder", "memory", "mapping"])
def test_threads_lose_no_append(tmp_path: Path, kind: str) -> None:
    """Each thread opens the array and appends to it."""
    created: dict[str, Any] = {
        "folder": tmp_path / "array.zarr",
        "memory": tessarr.stores.MemoryStore(),
        "mapping": {},
    }
    store = created[kind]
    tessarr.create_array(store, shape=0, dtype="int32", chunks=7)
    start = threading.Barrier(4)

    def append(first: int) -> None:
        array = tessarr.open_array(store, mode="r+")
        start.wait()
        for number in range(50):
            array.append([1000 * first + number] * (1 + number % 3))

    threads = [threading.Thread(target=append, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check_appended(tessarr.open_array(store)[:].tolist(), 4, 50)


@pytest.mark.parametrize("kind", ["mapping", "url", "FSMap"])
def test_locks_of_two_handles_at_one_path_are_shared(tmp_path: Path, kind: str) -> None:
    """Arrays over one mapping, or over one fsspec folder, lose no partial write of one chunk."""
    items: dict[str, bytes] = {}
    url = f"memory:/{tmp_path}"

    def opened() -> Any:
        if kind == "mapping":
            return items
        return FSStore(url) if kind == "url" else fsspec.get_mapper(url)

    tessarr.create_array(opened(), shape=400, dtype="int32", chunks=400)
    start = threading.Barrier(4)

    def write(first: int) -> None:
        array = tessarr.open_array(opened(), mode="r+")
        start.wait()
        for number in range(first, 400, 4):
            array[number] = number

    threads = [threading.Thread(target=write, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tessarr.open_array(opened())[:].tolist() == list(range(400))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["folder", "memory"])
def test_threads_lose_no_partial_write(tmp_path: Path, layout: str, kind: str) -> None:
    """Eight threads write interleaved elements of the same chunks."""
    store = tmp_path / "array.zarr" if kind == "folder" else tessarr.stores.MemoryStore()
    array = tessarr.create_array(store, shape=(100, 8), dtype="int32", **LAYOUTS[layout])
    start = threading.Barrier(8)

    def write(column: int) -> None:
        start.wait()
        for row in range(100):
            array[row, column] = row * 8 + column + 1

    threads = [threading.Thread(target=write, args=(column,)) for column in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(array[:], np.arange(1, 801, dtype="int32").reshape(100, 8))


def test_futures_lose_no_partial_write(tmp_path: Path) -> None:
    """Many write futures for one shard are all applied."""
    array = tessarr.create_array(
        tmp_path / "array.zarr", shape=(64, 64), dtype="uint16", chunks=(8, 8), shards=(64, 64)
    )
    futures = [array.write((slice(row, row + 1),), np.full((1, 64), row + 1)) for row in range(64)]
    for future in futures:
        future.result(timeout=60)
    expected = np.repeat(np.arange(1, 65, dtype="uint16")[:, None], 64, axis=1)
    np.testing.assert_array_equal(array[:], expected)
