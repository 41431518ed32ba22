"""Ctrl-C stops a long read; fork and threads do not hang the engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import tessarr

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


def test_ctrl_c_stops_a_read(tmp_path: Path) -> None:
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
            reader.kill()  # one that does not stop would read for ever
    assert out == "stopped\n0\n"
    assert reader.returncode == 0


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
    """After the engine's threads have started, forked children still read and write."""
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
