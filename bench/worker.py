"""One engine, one row, one process: prints a line of JSON."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from bench.engines import load
from bench.operations import ONCE_PER_PROCESS, OPERATIONS, STARTS_EMPTY, WRITES
from bench.stores import input_values
from bench.workloads import Row, rows


def digest(values: Any) -> str:
    """Give a digest of what was read."""
    state = hashlib.blake2b(digest_size=8)
    for array in values if isinstance(values, list) else [values]:
        state.update(np.ascontiguousarray(array).data)
    return state.hexdigest()


def peak() -> int:
    """Give the most memory that the process has had so far, in bytes.

    Not from `getrusage`, whose figure a process inherits from the one that started it.
    """
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def prepared(row: Row, stored: Path, scratch: Path) -> Path:
    """Give the array to work on: the stored one, a copy of it, or an empty one.

    Copies and empty ones are new folders below `scratch`, which the caller deletes.
    """
    if row.operation not in WRITES:
        return stored
    scratch.mkdir(exist_ok=True)
    path = Path(tempfile.mkdtemp(dir=scratch)) / "array"
    if row.operation in STARTS_EMPTY:
        row.layout.create(path)
    else:
        shutil.copytree(stored, path)
    os.sync()  # what came before is on the disk, and nobody pays for it
    return path


def main() -> None:
    """Run the row named on the command line."""
    engine_name, number, edge, stored, scratch, repeats = sys.argv[1:]
    row = rows(int(edge))[int(number)]
    engine = load(engine_name)
    operation = OPERATIONS[row.operation]
    times, values, path = [], None, Path(stored)
    work: list[float] = []
    input_values(row, Path(stored))
    before = peak()
    for _ in range(1 if row.operation in ONCE_PER_PROCESS else int(repeats)):
        path = prepared(row, Path(stored), Path(scratch))
        values = None
        seconds, cpu_seconds, values = operation(engine, path, row)
        times.append(seconds)
        work.append(cpu_seconds)
    result: dict[str, Any] = {
        "seconds": min(times),
        "cpu_seconds": min(work),
        "memory": peak() - before,
    }
    if row.operation in WRITES:
        # What one engine wrote, Tessarr reads.
        import tessarr

        result["digest"] = digest(tessarr.open_array(path, mode="r")[...])
    elif values is not None:
        result["digest"] = digest(values)
    print(json.dumps(result))


if __name__ == "__main__":
    try:
        main()
    except NotImplementedError as error:
        print(json.dumps({"unsupported": str(error)}))
