"""Rows of the bench in one process: ``python -m bench.turns --help``.

On a machine with other work a process of its own for each timing says little. Here all engines do
a row in turns, often, and the least time of each counts, as other work only adds to it. Memory and
what a process does for the first time are not seen: `bench.run` tells those.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.engines import Engine, load
from bench.operations import OPERATIONS, WRITES
from bench.run import seconds, store
from bench.stores import input_values
from bench.worker import digest, prepared
from bench.workloads import Row, rows

PAIRS = "tensorstore-tessarr,tensorstore"
MOST_CALLS = 200


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edge", type=int, default=256, help="a multiple of 256")
    parser.add_argument(
        "--rows", default="", help="only rows whose name contains one of these, with ; between"
    )
    parser.add_argument("--engines", default=PAIRS, help="comma-separated, ours first")
    parser.add_argument("--rounds", type=int, default=20, help="at least this often")
    parser.add_argument("--most", type=float, default=20, help="at most this many seconds a row")
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm"), help="a folder")
    return parser.parse_args()


def least(
    row: Row, engines: dict[str, Engine], stored: Path, scratch: Path, options: argparse.Namespace
) -> dict[str, list[float]]:
    """Give the least time of each engine, and of its processors."""
    operation = OPERATIONS[row.operation]
    found = {name: [np.inf, np.inf] for name in engines}
    begun, rounds = time.perf_counter(), 0
    digests = set()
    while rounds < 3 or (rounds < options.rounds and time.perf_counter() - begun < options.most):
        turn = rounds % len(engines)  # nobody is always first
        for name in [*engines][turn:] + [*engines][:turn]:
            path = prepared(row, stored, scratch)
            *spent, values = operation(engines[name], path, row)
            found[name] = [min(pair) for pair in zip(found[name], spent, strict=True)]
            if rounds == 0 and row.operation not in WRITES and values is not None:
                digests.add(digest(values))
        rounds += 1
    if len(digests) > 1:
        raise SystemExit(f"{row.name}: the engines' results differ")
    return found


def main() -> None:
    """Print the table."""
    options = arguments()
    names = options.engines.split(",")
    engines = {name: load(name) for name in names}
    print("| row | " + " | ".join(names) + " |\n|" + "---|" * (len(names) + 1), flush=True)
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        for row in rows(options.edge):
            if not any(part in row.name for part in options.rows.split(";")):
                continue
            stored = store(row, Path(folder))
            input_values(row, stored)
            written = Path(folder) / "written"
            times = least(row, engines, stored, written, options)
            ours, work = times[names[0]]
            cells = [seconds(ours)]
            cells += [
                f"{times[name][0] / ours:.2f}× ({times[name][1] / max(work, 1e-9):.1f}×)"
                for name in names[1:]
            ]
            print(f"| {row.name} | " + " | ".join(cells) + " |", flush=True)
            shutil.rmtree(written, ignore_errors=True)


if __name__ == "__main__":
    main()
