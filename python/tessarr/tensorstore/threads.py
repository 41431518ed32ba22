"""Threads for work that waits: for a disk, a network, or another program."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

__all__ = ["submit"]

_MOST: Final = 32
_pools: dict[int, ThreadPoolExecutor] = {}  # by process: a fork leaves its threads behind


def submit(work: Callable[[], object]) -> None:
    """Do `work` in a thread of this process; it has to report its errors itself."""
    process = os.getpid()
    pool = _pools.get(process)
    if pool is None:
        made = ThreadPoolExecutor(_MOST, thread_name_prefix="tessarr")
        pool = _pools.setdefault(process, made)
    try:
        pool.submit(work)
    except RuntimeError:  # Python ends: there are no more threads
        work()
