"""Rows of the bench in one process, engines in turns: ``python -m bench.interleaved --help``.

Use it on a machine with other work, where a new process for each timing says little. The engines
alternate on each row, and the least time of each counts, because other work only adds to it.
`bench.run` also measures memory and first calls.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

import tessarr
from bench.engines import Engine, load_engine
from bench.layouts import load_inputs
from bench.operations import OPERATIONS, WRITES
from bench.run import format_seconds, prepare_store
from bench.worker import digest_values, prepare_array
from bench.workloads import Row, make_rows

PAIRS = "tensorstore-tessarr,tensorstore"


def parse_arguments(engines: str = PAIRS) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edge", type=int, default=256, help="a multiple of 256")
    parser.add_argument(
        "--rows", default="", help="only rows whose name contains one of these, with ; between"
    )
    parser.add_argument("--engines", default=engines, help="comma-separated, ours first")
    parser.add_argument("--rounds", type=int, default=20, help="at least this often")
    parser.add_argument("--most", type=float, default=20, help="at most this many seconds a row")
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm"), help="a folder")
    return parser.parse_args()


def measure_least(
    row: Row, engines: dict[str, Engine], stored: Path, scratch: Path, options: argparse.Namespace
) -> dict[str, list[float]]:
    """Return the least time of each engine, and its least processor time."""
    operation = OPERATIONS[row.operation]
    times = {name: [np.inf, np.inf] for name in engines}
    start, rounds = time.perf_counter(), 0
    digests = set()
    while rounds < 3 or (rounds < options.rounds and time.perf_counter() - start < options.most):
        turn = rounds % len(engines)  # no engine is always first
        for name in [*engines][turn:] + [*engines][:turn]:
            path = prepare_array(row, stored, scratch)
            *spent, values = operation(engines[name], path, row)
            times[name] = [min(pair) for pair in zip(times[name], spent, strict=True)]
            if rounds == 0 and row.operation in WRITES:
                values = tessarr.open_array(path, mode="r")[...]
            if rounds == 0 and values is not None:
                digests.add(digest_values(values))
        rounds += 1
    if len(digests) > 1:
        raise SystemExit(f"{row.name}: the engines' results differ")
    return times


def print_table(rows: list[Row], options: argparse.Namespace) -> None:
    """Measure rows and print the table."""
    names = options.engines.split(",")
    engines = {name: load_engine(name) for name in names}
    print("| row | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1), flush=True)
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        for row in rows:
            if not any(part in row.name for part in options.rows.split(";")):
                continue
            stored = prepare_store(row, Path(folder))
            load_inputs(row, stored)
            written = Path(folder) / "written"
            times = measure_least(row, engines, stored, written, options)
            ours, work = times[names[0]]
            cells = [format_seconds(ours)]
            cells += [
                f"{times[name][0] / ours:.2f}× ({times[name][1] / max(work, 1e-9):.1f}×)"
                for name in names[1:]
            ]
            print(f"| {row.name} | " + " | ".join(cells) + " |", flush=True)
            shutil.rmtree(written, ignore_errors=True)


def main() -> None:
    """Print the table."""
    options = parse_arguments()
    print_table(make_rows(options.edge), options)


if __name__ == "__main__":
    main()
