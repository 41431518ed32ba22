"""Comparison of all engines on the same stores: ``python -m bench.run --help``.

Each timing is a new process. The engines alternate, so that other work on the machine affects all
of them.
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
from bench.layouts import make_values
from bench.operations import STARTS_EMPTY, WRITES
from bench.workloads import Row, make_rows

ROOT = Path(__file__).parent.parent


def parse_arguments() -> argparse.Namespace:
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


def prepare_store(row: Row, scratch: Path) -> Path:
    """Return the path of the row's array with its data; each run writes the array once."""
    import tessarr

    empty = row.operation in STARTS_EMPTY
    path = scratch / f"{abs(hash((row.layout, row.data, empty))):x}"
    if not path.exists():
        row.layout.create(path)
        if not empty:
            array = tessarr.open_array(path, mode="r+")
            array[...] = make_values(row.data, row.layout.shape, row.layout.dtype)
    return path


def run_worker(
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


def delete_outputs(written: Path) -> None:
    """Delete the outputs of the engines, and wait until the file system reuses its inodes.

    When ext4 creates a file, it skips recently deleted inodes one by one. Recent means seconds, or
    minutes while the deletion is not on the disk. That would slow down the next writer.
    """
    if written.exists():
        shutil.rmtree(written)
        os.sync()
        time.sleep(6)


def measure(number: int, row: Row, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return the best round of every engine on a row; raise an error if their results differ."""
    stored = prepare_store(row, folder)
    best: dict[str, dict[str, Any]] = {}
    engines = options.engines.split(",")
    for turn in range(options.rounds):
        # No engine is always first, when the disk still writes earlier data.
        first = (number + turn) % len(engines)
        for engine in engines[first:] + engines[:first]:
            if best.get(engine, {"seconds": 0}).keys().isdisjoint({"seconds"}):
                continue
            result = run_worker(engine, number, stored, folder, options)
            if folder.is_relative_to(options.tmpfs):
                shutil.rmtree(folder / "written", ignore_errors=True)
            known = best.setdefault(engine, result)
            if result.get("seconds", known.get("seconds", 0)) < known.get("seconds", 0):
                best[engine] = result | {
                    "cpu_seconds": min(result["cpu_seconds"], known["cpu_seconds"]),
                    "memory": max(result["memory"], known["memory"]),
                }
    delete_outputs(folder / "written")
    digests = {result["digest"] for result in best.values() if "digest" in result}
    if len(digests) > 1:
        wrong = {engine: result.get("digest") for engine, result in best.items()}
        raise SystemExit(f"{row.name}: the engines' results differ: {wrong}")
    return best


def format_cell(result: dict[str, Any], ours: dict[str, Any]) -> str:
    """Return one cell: time relative to Tessarr's, and peak memory."""
    if "seconds" not in result:
        return "failed" if "failed" in result else "—"
    ratio = result["seconds"] / ours["seconds"]
    work = result["cpu_seconds"] / max(ours["cpu_seconds"], 1e-9)
    return f"{ratio:.2f}× ({work:.1f}×) {result['memory'] / 1e6:.0f}MB"


def summarize(
    figures: dict[str, dict[str, dict[str, Any]]], engines: list[str], ours: str
) -> list[str]:
    """Return for each engine its mean ratio to `ours` and the rows where `ours` is slower."""
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
            f"  slower: {row}: {ratio:.2f}×"
            for row, ratio in sorted(ratios.items(), key=lambda item: item[1])
            if ratio <= 1
        ]
    return lines


def format_seconds(value: float) -> str:
    """Return a time in a unit that fits."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def main() -> None:
    """Run the rows and print the table and the summary."""
    options = parse_arguments()
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
        for number, row in enumerate(make_rows(options.edge)):
            if options.rows not in row.name:
                continue
            folders = [("", disk)] + ([(" (tmpfs)", memory)] if row.operation in WRITES else [])
            for suffix, folder in folders:
                best = measure(number, row, Path(folder), options)
                figures[row.name + suffix] = best
                ours = best[options.beside]
                shown = [
                    f"{format_seconds(ours['seconds'])} {ours['memory'] / 1e6:.0f}MB"
                    if engine == options.beside
                    else format_cell(best[engine], ours)
                    for engine in engines
                ]
                print(f"| {row.name}{suffix} | " + " | ".join(shown) + " |", flush=True)
    print("", *summarize(figures, engines, options.beside), sep="\n")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
