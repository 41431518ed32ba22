"""Writers that share chunks and shards lose nothing, in threads and in processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr

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


@pytest.mark.parametrize("layout", LAYOUTS)
def test_two_processes_lose_no_partial_write(tmp_path: Path, layout: str) -> None:
    """500 partial writes of each of two processes into the same objects all arrive."""
    path = tmp_path / "array.zarr"
    array = tessarr.create_array(path, shape=(100, 8), dtype="int32", **LAYOUTS[layout])
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), str(first)],
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
    expected = np.zeros((100, 8), "int32")
    for first in (0, 1):
        for number in range(500):
            row, column = divmod(number, 4)
            expected[row % 100, 2 * column + first] = 1 + number
    np.testing.assert_array_equal(array[:], expected)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("place", ["folder", "memory"])
def test_threads_lose_no_partial_write(tmp_path: Path, layout: str, place: str) -> None:
    """Eight threads write interleaved elements of the same chunks; all arrive."""
    store = tmp_path / "array.zarr" if place == "folder" else tessarr.stores.MemoryStore()
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
    """Many write futures on one shard at once are all applied."""
    array = tessarr.create_array(
        tmp_path / "array.zarr", shape=(64, 64), dtype="uint16", chunks=(8, 8), shards=(64, 64)
    )
    futures = [array.write((slice(row, row + 1),), np.full((1, 64), row + 1)) for row in range(64)]
    for future in futures:
        future.result(timeout=60)
    expected = np.repeat(np.arange(1, 65, dtype="uint16")[:, None], 64, axis=1)
    np.testing.assert_array_equal(array[:], expected)
