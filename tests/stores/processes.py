"""Processes that use one store concurrently: each prints "ready" and waits for a signal."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def start_program(code: str, *arguments: object) -> subprocess.Popen[bytes]:
    """Start a program and wait until it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def run_programs(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Signal all programs to continue, and wait until all succeed."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
