"""Programs, forked from a warm process, that a signal kills at random times."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROUNDS = 200
"""Number of kills of each operation."""

marks = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning"),
]
"""Pytest marks of a module with such tests."""


def forked(action: Callable[[], object], delay_s: float | None) -> float:
    """Run `action` in a child and kill it after `delay_s`; return the duration in seconds."""
    started, begins = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(begins, b"1")
            action()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(begins)
    try:
        assert os.read(started, 1) == b"1"
    finally:
        os.close(started)
    start = time.perf_counter()
    if delay_s is not None:
        while time.perf_counter() - start < delay_s:  # a sleep of 50 us would take longer
            pass
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    took = time.perf_counter() - start
    if delay_s is None:
        assert status == 0, "the action fails by itself"
    return took


def rounds(
    folder: Path,
    prepare: Callable[[Path], Callable[[], object]],
    *,
    seed: int = 1,
    count: int = ROUNDS,
) -> Iterator[Path]:
    """Yield a folder repeatedly, each time after the kill of a program that worked there.

    Parameters
    ----------
    folder
        Parent of the folders of the rounds, or the source of its name in ``/dev/shm``.
    prepare
        Function that writes the initial data to a folder and returns the operation.
    seed
        Seed of the random times of the kills.
    count
        Number of rounds.
    """
    moments = random.Random(seed)
    durations = []
    # A file system in memory: on a disk, creating and removing the files dominates the time.
    memory = Path("/dev/shm")
    base = memory / f"{folder.name}-{os.getpid()}" if memory.is_dir() else folder
    for number in range(-5, count):
        round_folder = base / str(number)
        round_folder.mkdir(parents=True)
        action = prepare(round_folder)
        if number < 0:
            durations.append(forked(action, None))
        else:
            forked(action, moments.uniform(0, 1.1 * sorted(durations)[len(durations) // 2]))
            yield round_folder
        shutil.rmtree(base)
