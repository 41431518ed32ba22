"""Processes that use one bucket: concurrent changes, forks and interrupts."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

import tessarr
from stores.clouds import Cloud
from stores.processes import run_programs, start_program
from stores.proxy import Fault

COUNT = 20
"""The changes of each of two processes."""

_PROGRAM = """
import json, sys
import numpy as np
import tessarr
url, options, work, number, count = sys.argv[1], *map(json.loads, sys.argv[2:])
array = tessarr.open_array(url, storage_options=options)
print("ready", flush=True)
input()
for turn in range(count):
    if work == "append":
        array.append(np.array([number * 1000 + turn]))
    elif work == "clear":
        array[2 * turn + number] = 0
    else:
        array[2 * turn + number] = 1 + number
"""


def run_two(cloud: Cloud, work: str) -> None:
    """Run the program in two concurrent processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
        arguments = [cloud.url("x"), json.dumps(cloud.storage_options), json.dumps(work)]
        programs = [start_program(_PROGRAM, *arguments, number, COUNT) for number in (0, 1)]
    run_programs(programs)


@pytest.mark.parametrize(
    "settings",
    [
        {"chunks": 2 * COUNT},
        {"chunks": 2 * COUNT, "compressors": None},
        {"chunks": 4, "shards": 2 * COUNT},
    ],
    ids=["chunk", "uncompressed chunk", "shard"],
)
@pytest.mark.parametrize("work", ["set", "clear"])
def test_concurrent_changes_of_one_chunk_lose_nothing(
    cloud: Cloud, settings: dict[str, Any], work: str
) -> None:
    """Partial writes of two processes are kept, also those that make the chunk all fill."""
    options: dict[str, Any] = {"storage_options": cloud.storage_options}
    array = tessarr.create_array(cloud.url("x"), shape=2 * COUNT, dtype="u1", **settings, **options)
    if work == "clear":
        array[:] = 9
    run_two(cloud, work)
    expected = np.tile([1, 2], COUNT) if work == "set" else np.zeros(2 * COUNT)
    result = tessarr.open_array(cloud.url("x"), mode="r", **options)[:]
    assert result.tolist() == expected.tolist()


def test_change_during_clear_is_not_lost(cloud: Cloud) -> None:
    """A write between the read and the deletion of a chunk that becomes fill is not lost."""
    options: dict[str, Any] = {"storage_options": cloud.storage_options}
    array = tessarr.create_array(cloud.url("x"), shape=4, chunks=4, dtype="u1", **options)
    array[0] = 1
    past_proxy = {**options["storage_options"]}
    text = json.dumps(past_proxy).replace(cloud.proxy.url, f"http://127.0.0.1:{cloud.proxy.port}")
    rival = tessarr.open_array(cloud.url("x"), storage_options=json.loads(text))

    for position in range(4):  # after any of the requests of the change
        array[0] = 1
        rival[1] = 0
        cloud.proxy.callbacks = [lambda: None] * position
        cloud.proxy.callbacks.append(lambda: rival.__setitem__(1, 5))
        array[0] = 0
        if cloud.proxy.callbacks:  # the change needed fewer requests
            cloud.proxy.callbacks = []
            break
        assert rival[:].tolist() == [0, 5, 0, 0]
    else:
        pytest.fail("the change needed more requests")


def test_concurrent_appends_lose_nothing(cloud: Cloud) -> None:
    options: dict[str, Any] = {"storage_options": cloud.storage_options}
    tessarr.create_array(cloud.url("x"), shape=0, chunks=8, dtype="i8", **options)
    run_two(cloud, "append")
    rows = tessarr.open_array(cloud.url("x"), mode="r", **options)[:]
    assert sorted(rows) == [1000 * number + turn for number in (0, 1) for turn in range(COUNT)]


def use_array(array: Any) -> None:
    """Read and write in a child process; its exit code tells whether the values are right."""
    signal.alarm(60)
    good = array[0] == 1
    array[1] = 2
    os._exit(0 if good and array[:3].tolist() == [1, 2, 0] else 1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("way", ["fork", "multiprocessing"])
def test_forked_child_reads_and_writes(cloud: Cloud, way: str) -> None:
    """The child has its own connections and threads; the parent's array works on."""
    options: dict[str, Any] = {"storage_options": cloud.storage_options}
    array = tessarr.create_array(cloud.url("x"), shape=4, chunks=2, dtype="u1", **options)
    array[0] = 1
    if way == "fork":
        child = os.fork()
        if child == 0:
            try:
                use_array(array)
            finally:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
    else:
        process = multiprocessing.get_context("fork").Process(target=use_array, args=(array,))
        process.start()
        process.join(60)
        assert process.exitcode == 0
    array[3] = 4
    assert array[:].tolist() == [1, 2, 0, 4]


_INTERRUPTED = """
import json, sys
import tessarr
url, options, work = sys.argv[1], *map(json.loads, sys.argv[2:])
if work != "open":
    array = tessarr.open_array(url, storage_options=options)
print("ready", flush=True)
input()
print("started", flush=True)
try:
    if work == "open":
        tessarr.open_array(url, storage_options=options)
    elif work == "read":
        array[:]
    else:
        array[0] = 1
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.parametrize("work", ["open", "read", "change"])
def test_interrupt_ends_hanging_request(cloud: Cloud, work: str) -> None:
    """Ctrl-C raises KeyboardInterrupt at once, and the process ends."""
    options: dict[str, Any] = {"storage_options": cloud.storage_options}
    tessarr.create_array(cloud.url("x"), shape=4, chunks=2, dtype="u1", **options)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    arguments = [cloud.url("x"), json.dumps(cloud.storage_options), json.dumps(work)]
    process = subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED, *arguments],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        cloud.proxy.reset_counts()
        cloud.proxy.choose_refusal = lambda _: Fault.HANG
        process.stdin.write(b"go\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"started\n"
        while not cloud.proxy.requests:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        assert process.stdout.readline() == b"interrupted\n"
        assert process.wait(60) == 0
        assert time.monotonic() - start < 10  # the request itself would take a minute
