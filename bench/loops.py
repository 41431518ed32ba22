"""Loops over rows, points, documents and samples beside peers: ``python -m bench.loops --help``.

The libraries alternate on each row, and the least time of each counts, because other work on the
machine only adds to it.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import bench.loop_rows
from bench.loop_rows import LoopRow


def measure(row: LoopRow, rounds: int, seconds: float) -> dict[str, float]:
    """Return the least time of each library in seconds."""
    least = dict.fromkeys(row.calls, np.inf)
    results: dict[str, Any] = {}
    start, done = time.perf_counter(), 0
    while done < 3 or (done < rounds and time.perf_counter() - start < seconds):
        turn = done % len(row.calls)  # no library is always first
        for name in [*row.calls][turn:] + [*row.calls][:turn]:
            begin = time.perf_counter()
            result = row.calls[name]()
            least[name] = min(least[name], time.perf_counter() - begin)
            if result is not None:
                results.setdefault(name, result)
        done += 1
    first: Any = next(iter(results.values()), None)
    for name, result in results.items():
        if not np.array_equal(result, first):
            raise SystemExit(f"{row.name}: the result of {name} differs")
    return least


def format_row(row: LoopRow, least: dict[str, float]) -> str:
    """Return a line of the table; a ratio above its limit has a mark."""
    ours = next(iter(least.values()))
    cells = [f"{1e3 * ours:.2f} ms"]
    for name, spent in [*least.items()][1:]:
        mark = ""
        if (limit := row.limits.get(name)) is not None:
            mark = f" (≤ {limit:g})" if ours <= limit * spent else f" (≤ {limit:g}, MISSED)"
        cells.append(f"{ours / spent:.2f} × {name}{mark}")
    return f"| {row.name} | " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table."""
    topics = sorted(module.name for module in pkgutil.iter_modules(bench.loop_rows.__path__))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topics", nargs="*", default=topics, help=", ".join(topics))
    parser.add_argument("--rounds", type=int, default=15, help="at least this often")
    parser.add_argument("--most", type=float, default=20, help="at most this many seconds a row")
    parser.add_argument("--scratch", type=Path, default=Path("/dev/shm"), help="a folder")
    options = parser.parse_args()
    for topic in options.topics:
        module = importlib.import_module(f"bench.loop_rows.{topic}")
        with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
            for row in module.make_rows(Path(folder)):
                print(format_row(row, measure(row, options.rounds, options.most)), flush=True)


if __name__ == "__main__":
    main()
