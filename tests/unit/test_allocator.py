"""Memory use of the engine."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

_THREADS = """
import threading
from pathlib import Path
import numpy as np
import tessarr

def resident():
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0])

array = tessarr.create_array({}, data=np.arange(1000), chunks=10)
array[:]
have_read, may_end = threading.Barrier(65), threading.Barrier(65)

def read():
    array[5:500]
    have_read.wait()
    may_end.wait()

before = resident()
threads = [threading.Thread(target=read) for _ in range(64)]
for thread in threads:
    thread.start()
have_read.wait()
print(resident() - before)
may_end.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what is resident is told by /proc")
def test_threads_take_little_memory_for_small_blocks() -> None:
    """With huge pages, each thread could occupy 2 MiB for some sizes of blocks."""
    done = subprocess.run([sys.executable, "-c", _THREADS], check=True, capture_output=True)
    assert int(done.stdout) < 64 * 200  # kB
