"""Exit of the interpreter while operations of a Python store are pending."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

PROGRAM = """
import os, random, sys, threading, time
import numpy as np, tessarr

ending, pending, rounds, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])

class SlowStore:
    concurrency = 32

    def __init__(self):
        self.values = {}

    def get(self, key):
        if "c/" in key:
            time.sleep(0.05 if pending == "callback" else seconds * random.random())
        return self.values.get(key)

    def put(self, key, value):
        self.values[key] = bytes(value)

    def delete(self, key):
        self.values.pop(key, None)

    def list(self, prefix=""):
        return [key for key in self.values if key.startswith(prefix)]

children = []
for _ in range(rounds):
    child = os.fork()
    if child == 0:
        break
    children.append(child)
else:
    for child in children:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    sys.stdout.flush()
    os._exit(0)

random.seed()
array = tessarr.create_array(SlowStore(), data=np.arange(200), chunks=1)
if pending == "thread":
    for _ in range(8):
        threading.Thread(target=lambda: array[:], daemon=True).start()
else:
    futures = [array.read(slice(k, k + 1)) for k in range(200)]
    if pending == "callback":
        main = threading.get_ident()
        def sleep_in_worker(_):
            if threading.get_ident() != main:
                time.sleep(seconds * random.random())
        for future in futures:
            future.add_done_callback(sleep_in_worker)
    if pending == "dropped":
        del futures
time.sleep(0.1)
if ending == "exit":
    sys.exit(7)
if ending == "exception":
    raise ValueError("the program ends")
"""

CODES = {"end of script": 0, "exit": 7, "exception": 1}


def exit_codes(ending: str, pending: str, rounds: int, seconds: float) -> Counter[str]:
    """Return the number of forked programs for each exit code."""
    command = [sys.executable, "-c", PROGRAM, ending, pending, str(rounds), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=100)
    return Counter(done.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize("pending", ["held", "dropped", "callback", "thread"])
@pytest.mark.parametrize("ending", CODES)
def test_exit_with_pending_reads_of_python_store_keeps_exit_code(ending: str, pending: str) -> None:
    """Threads that sleep in Python when the interpreter finalizes do not abort the process."""
    assert exit_codes(ending, pending, 20, 0.6) == {str(CODES[ending]): 20}


@pytest.mark.slow
@pytest.mark.parametrize("pending", ["held", "dropped", "thread"])
def test_exit_does_not_wait_for_pending_reads_of_python_store(pending: str) -> None:
    """A store that sleeps for minutes does not delay the exit."""
    assert exit_codes("end of script", pending, 2, 100_000) == {"0": 2}
