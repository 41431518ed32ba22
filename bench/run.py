"""Run all engines in turn on the same stores and print the ratios.

``python -m bench.run --help`` says what can be chosen. Each timing is a fresh
process; engines take turns, so that a noisy machine is unfair to all alike.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.engines import DURABILITY
from bench.operations import STARTS_EMPTY, WRITES
from bench.stores import data
from bench.workloads import Row, rows

ROOT = Path(__file__).parent.parent


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--edge", type=int, default=512, help="edge of the volume, a multiple of 256"
    )
    parser.add_argument("--rows", default="", help="only rows whose name contains this")
    parser.add_argument("--engines", default=",".join(DURABILITY), help="comma-separated")
    parser.add_argument("--beside", default="tessarr", help="the engine that others are divided by")
    parser.add_argument("--rounds", type=int, default=2, help="processes per engine and row")
    parser.add_argument("--repeats", type=int, default=2, help="timings per process")
    parser.add_argument(
        "--scratch", type=Path, default=None, help="a folder on the disk to measure"
    )
    parser.add_argument("--tmpfs", type=Path, default=Path("/dev/shm"), help="a folder in memory")
    parser.add_argument("--json", type=Path, default=None, help="write all figures here")
    return parser.parse_args()


def store(row: Row, scratch: Path) -> Path:
    """Give the row's array with its data, written once per run."""
    import tessarr

    empty = row.operation in STARTS_EMPTY
    path = scratch / f"{abs(hash((row.layout, row.data, empty))):x}"
    if not path.exists():
        row.layout.create(path)
        if not empty:
            array = tessarr.open_array(path, mode="r+")
            array[...] = data(row.data, row.layout.shape, row.layout.dtype)
    return path


def run(
    engine: str, number: int, stored: Path, scratch: Path, options: argparse.Namespace
) -> dict[str, Any]:
    """Run one worker."""
    command = [sys.executable, "-m", "bench.worker", engine, str(number), str(options.edge)]
    command += [str(stored), str(scratch / "written"), str(options.repeats)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def forget(written: Path) -> None:
    """Delete what the engines wrote, and wait until the file system has forgotten it too.

    ext4 passes over inodes that were deleted in the last seconds (or minutes, while the deletion
    is not on the disk), one by one, whenever it creates a file: whoever writes next would pay.
    """
    if written.exists():
        shutil.rmtree(written)
        os.sync()
        time.sleep(6)


def measure(number: int, row: Row, place: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run every engine on a row; best of the rounds, results compared."""
    stored = store(row, place)
    best: dict[str, dict[str, Any]] = {}
    engines = options.engines.split(",")
    for turn in range(options.rounds):
        # Nobody is always first, where the disk still writes what came before.
        first = (number + turn) % len(engines)
        for engine in engines[first:] + engines[:first]:
            if best.get(engine, {"seconds": 0}).keys().isdisjoint({"seconds"}):
                continue
            result = run(engine, number, stored, place, options)
            if place.is_relative_to(options.tmpfs):
                shutil.rmtree(place / "written", ignore_errors=True)
            known = best.setdefault(engine, result)
            if result.get("seconds", known.get("seconds", 0)) < known.get("seconds", 0):
                best[engine] = result | {
                    "cpu_seconds": min(result["cpu_seconds"], known["cpu_seconds"]),
                    "memory": max(result["memory"], known["memory"]),
                }
    forget(place / "written")
    digests = {result["digest"] for result in best.values() if "digest" in result}
    if len(digests) > 1:
        wrong = {engine: result.get("digest") for engine, result in best.items()}
        raise SystemExit(f"{row.name}: the engines' results differ: {wrong}")
    return best


def cell(result: dict[str, Any], ours: dict[str, Any]) -> str:
    """Give one cell: time relative to ours, and peak memory."""
    if "seconds" not in result:
        return "failed" if "failed" in result else "—"
    ratio = result["seconds"] / ours["seconds"]
    work = result["cpu_seconds"] / max(ours["cpu_seconds"], 1e-9)
    return f"{ratio:.2f}× ({work:.1f}×) {result['memory'] / 1e6:.0f}MB"


def summary(
    figures: dict[str, dict[str, dict[str, Any]]], engines: list[str], ours: str
) -> list[str]:
    """Say for each peer where `ours` is behind, and by how much it is ahead on the whole."""
    lines = []
    for engine in engines:
        ratios = {
            row: best[engine]["seconds"] / best[ours]["seconds"]
            for row, best in figures.items()
            if "seconds" in best[engine]
        }
        if engine == ours or not ratios:
            continue
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        ahead = sum(ratio > 1 for ratio in ratios.values())
        lines.append(f"{engine}: ahead in {ahead} of {len(ratios)} rows, on average {mean:.2f}×")
        lines += [
            f"  behind: {row}: {ratio:.2f}×"
            for row, ratio in sorted(ratios.items(), key=lambda item: item[1])
            if ratio <= 1
        ]
    return lines


def seconds(value: float) -> str:
    """Give a time in the unit that reads best."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def main() -> None:
    """Run the bench."""
    options = arguments()
    engines = options.engines.split(",")
    for engine in engines:
        print(f"{engine}: {DURABILITY[engine]}")
    print(
        f"\nTime of each engine divided by that of {options.beside} (above 1: it is ahead), in\n"
        "brackets the same of processor time, and peak memory.\n"
    )
    print("| row | " + " | ".join(engines) + " |\n|" + "---|" * (len(engines) + 1), flush=True)
    figures: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory(dir=options.scratch) as disk,
        tempfile.TemporaryDirectory(dir=options.tmpfs) as memory,
    ):
        for number, row in enumerate(rows(options.edge)):
            if options.rows not in row.name:
                continue
            places = [("", disk)] + ([(" (tmpfs)", memory)] if row.operation in WRITES else [])
            for suffix, place in places:
                best = measure(number, row, Path(place), options)
                figures[row.name + suffix] = best
                ours = best[options.beside]
                shown = [
                    f"{seconds(ours['seconds'])} {ours['memory'] / 1e6:.0f}MB"
                    if engine == options.beside
                    else cell(best[engine], ours)
                    for engine in engines
                ]
                print(f"| {row.name}{suffix} | " + " | ".join(shown) + " |", flush=True)
    print("", *summary(figures, engines, options.beside), sep="\n")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
