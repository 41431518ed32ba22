"""SIGKILL during writes: each value is the old one or the new one."""

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

pytestmark = pytest.mark.slow

LAYOUTS: dict[str, dict[str, Any]] = {
    "chunks": {"chunks": (64, 64)},
    "uncompressed": {"chunks": (64, 64), "compressors": None},
    "shards": {"chunks": (16, 16), "shards": (64, 64)},
}

WRITER = """
import sys, itertools, numpy, tessarr
array = tessarr.open_array(sys.argv[1], mode="r+")
print("ready", flush=True)
for number in itertools.count(1):
    array[:] = numpy.full((128, 128), number, "int64")
    array[10:100, 10:100] = number
"""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_killed_writer_leaves_complete_chunks(tmp_path: Path, layout: str) -> None:
    """After SIGKILL at random times, every chunk decodes to the value of one write."""
    path = tmp_path / "array.zarr"
    tessarr.create_array(path, shape=(128, 128), dtype="int64", **LAYOUTS[layout])
    moments = random.Random(7)
    for _ in range(6):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(moments.uniform(0.01, 0.08))
        os.kill(writer.pid, signal.SIGKILL)
        writer.communicate()
        array = tessarr.open_array(path, mode="r+")
        for row in (0, 64):
            for column in (0, 64):
                chunk = array[row : row + 64, column : column + 64]
                assert np.unique(chunk).size <= 2, "a chunk mixes more than a write and its patch"
        # The lock file of a killed writer does not block other writers.
        array[:] = 0
        assert not array[:].any()


APPENDER = """
import sys, itertools, tessarr
array = tessarr.open_array(sys.argv[1], mode="r+")
for number in itertools.count(array.shape[0] // 10):
    array.append([number] * 10)
    print("ready", flush=True)
"""


def test_killed_append_is_complete_or_absent(tmp_path: Path) -> None:
    """After SIGKILL at random times, the array ends with a whole append, and accepts more."""
    path = tmp_path / "array.zarr"
    tessarr.create_array(path, shape=0, dtype="int64", chunks=7, fill_value=-1)
    moments = random.Random(11)
    lengths = []
    for _ in range(8):
        writer = subprocess.Popen(
            [sys.executable, "-c", APPENDER, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        time.sleep(moments.uniform(0.005, 0.05))
        os.kill(writer.pid, signal.SIGKILL)
        writer.communicate()
        values = tessarr.open_array(path, mode="r")[:]
        np.testing.assert_array_equal(values, np.repeat(np.arange(len(values) // 10), 10))
        lengths.append(len(values))
    assert lengths[-1] > 10
    assert lengths == sorted(lengths)
