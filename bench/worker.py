"""Process that measures one row with one engine and prints a line of JSON."""

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

from bench.engines import load_engine
from bench.layouts import load_inputs
from bench.operations import ONCE_PER_PROCESS, OPERATIONS, STARTS_EMPTY, WRITES
from bench.workloads import Row, make_rows


def digest_values(values: Any) -> str:
    """Return a digest of the values."""
    state = hashlib.blake2b(digest_size=8)
    for array in values if isinstance(values, list) else [values]:
        state.update(np.ascontiguousarray(array).data)
    return state.hexdigest()


def peak_memory() -> int:
    """Return the peak memory of the process so far, in bytes.

    `getrusage` does not help: a process inherits its figure from its parent.
    """
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def prepare_array(row: Row, stored: Path, scratch: Path) -> Path:
    """Return the path of the stored array, of a copy of it, or of an empty array.

    Copies and empty arrays are new folders below `scratch`, which the caller deletes.
    """
    if row.operation not in WRITES:
        return stored
    scratch.mkdir(exist_ok=True)
    path = Path(tempfile.mkdtemp(dir=scratch)) / "array"
    if row.operation in STARTS_EMPTY:
        row.layout.create(path)
    else:
        shutil.copytree(stored, path)
    os.sync()  # so that no timing includes earlier data
    return path


def main() -> None:
    """Run the row of the command line."""
    engine_name, number, edge, stored, scratch, repeats = sys.argv[1:]
    row = make_rows(int(edge))[int(number)]
    engine = load_engine(engine_name)
    operation = OPERATIONS[row.operation]
    times, values, path = [], None, Path(stored)
    work: list[float] = []
    load_inputs(row, Path(stored))
    before = peak_memory()
    for _ in range(1 if row.operation in ONCE_PER_PROCESS else int(repeats)):
        path = prepare_array(row, Path(stored), Path(scratch))
        values = None
        seconds, cpu_seconds, values = operation(engine, path, row)
        times.append(seconds)
        work.append(cpu_seconds)
    result: dict[str, Any] = {
        "seconds": min(times),
        "cpu_seconds": min(work),
        "memory": peak_memory() - before,
    }
    if row.operation in WRITES:
        # Tessarr reads the output of every engine.
        import tessarr

        result["digest"] = digest_values(tessarr.open_array(path, mode="r")[...])
    elif values is not None:
        result["digest"] = digest_values(values)
    print(json.dumps(result))


if __name__ == "__main__":
    try:
        main()
    except NotImplementedError as error:
        print(json.dumps({"unsupported": str(error)}))
