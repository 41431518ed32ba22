"""Processes with blocks of buffered writes: killed ones, and several that share chunks."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr

LAYOUTS: dict[str, dict[str, Any]] = {
    "v2": {"chunks": (16, 8), "zarr_format": 2},
    "v3": {"chunks": (16, 8)},
    "shards": {"chunks": (2, 8), "shards": (16, 16)},
}

ROWS_OF_ONE = """
import sys, tessarr
path, first, step = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
array = tessarr.open_array(path, mode="r+")
print("ready", flush=True)
sys.stdin.readline()
for repeat in range(5):
    with array.buffered(max_bytes=4000):
        for i in range(first, len(array), step):
            array[i] = i + 1
"""

WHOLE_NUMBERS = """
import itertools, sys, tessarr
array = tessarr.open_array(sys.argv[1], mode="r+")
print("ready", flush=True)
for number in itertools.count(int(array[0, 0]) + 1):
    with array.buffered():
        for i in range(len(array)):
            array[i] = number
"""


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a program and wait until it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("kind", LAYOUTS)
def test_buffered_writers_of_the_same_chunks_lose_nothing(tmp_path: Path, kind: str) -> None:
    """Three processes write every third row of the same chunks, each in blocks."""
    path = tmp_path / "a"
    array = tessarr.create_array(path, shape=(96, 16), dtype="i4", **LAYOUTS[kind])
    processes = [start(ROWS_OF_ONE, path, number, 3) for number in range(3)]
    for process in processes:
        process.communicate("\n")
        assert process.returncode == 0
    expected = np.arange(1, 97, dtype="i4")[:, None].repeat(16, 1)
    assert np.array_equal(array[...], expected)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LAYOUTS)
def test_killed_buffered_writer_leaves_whole_chunks(tmp_path: Path, kind: str) -> None:
    """SIGKILL in a block, or while it ends: each chunk or shard has one number in all elements."""
    path = tmp_path / "a"
    array = tessarr.create_array(path, shape=(64, 64), dtype="i4", **LAYOUTS[kind])
    moments = random.Random(3)
    last = 0
    for _ in range(8):
        process = start(WHOLE_NUMBERS, path)
        time.sleep(moments.uniform(0.01, 0.1))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        columns = 16 if kind == "shards" else 8
        chunks = array[...].reshape(4, 16, 64 // columns, columns).swapaxes(1, 2)
        assert (chunks == chunks[..., :1, :1]).all()
        numbers = np.unique(chunks)
        assert numbers[0] >= last
        assert numbers[-1] - numbers[0] <= 1
        last = int(numbers[-1])
        array[...] = last
    assert last > 0
