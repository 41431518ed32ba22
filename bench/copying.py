"""Time and memory of copies to other chunk shapes: ``python -m bench.copying [folder]``.

Each step runs in a new process: a plain read of the array, a plain write of it in its new chunks,
and `tessarr.copy_to`. The table shows the time of the copy divided by that of the other two.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import tessarr

SHAPE = (800, 800, 800)  # 2 GB of float32
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "cubes of 100³ → 64³": ((100, 100, 100), (64, 64, 64)),
    "slices → cubes of 100³": ((800, 800, 1), (100, 100, 100)),
    "slices of axis 0 → of axis 2": ((1, 800, 800), (800, 800, 1)),
    "the same": ((100, 100, 100), (100, 100, 100)),
}
CODECS: dict[str, Any] = {"blosc lz4": "auto", "uncompressed": None}


def create_array(path: Path, chunks: tuple[int, ...], codec: Any) -> tessarr.Array:
    return tessarr.create_array(path, shape=SHAPE, dtype="f4", chunks=chunks, compressors=codec)


def fill_array(array: tessarr.Array) -> None:
    """Write waves with noise in their last bits."""
    noise = np.random.default_rng(0)
    y, x = np.sin(np.arange(800) / 9), np.cos(np.arange(800) / 7)
    wave = np.add.outer(y, x).astype("f4")
    for start in range(0, SHAPE[0], 100):
        part = wave + np.arange(start, start + 100, dtype="f4")[:, None, None]
        part += noise.integers(0, 16, part.shape).astype("f4") / 256
        array[start : start + 100] = part


def peak_mb() -> float:
    with open("/proc/self/status") as status:
        return int(status.read().split("VmHWM:")[1].split()[0]) / 1024


def run_step(name: str, folder: Path, case: str, codec: str) -> None:
    """Run one step and print its seconds and the peak of memory."""
    before, after = CASES[case]
    source = tessarr.open_array(folder / "source", mode="r")
    source[0, 0, 0]
    values = source[...] if name == "write" else None
    start = time.perf_counter()
    if name == "read":
        source[...]
    elif name == "write":
        create_array(folder / "written", after, CODECS[codec])[...] = values
    elif before == after:
        tessarr.copy_to(source, folder / "copied")
    else:
        tessarr.copy_to(source, folder / "copied", chunks=after)
    print(json.dumps([time.perf_counter() - start, peak_mb()]))


def measure_step(step: str, folder: Path, case: str, codec: str) -> tuple[float, float]:
    command = [sys.executable, "-m", "bench.copying", "--step", step, str(folder), case, codec]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, peak = json.loads(done.stdout)
    for copy in ("written", "copied"):
        shutil.rmtree(folder / copy, ignore_errors=True)
    return seconds, peak


def main(parent: str | None) -> None:
    print("| 2 GB of float32 | codec | read | write | copy | copy / (read + write) | memory |")
    print("|---|---|---|---|---|---|---|")
    for case, (before, _) in CASES.items():
        for codec, compressors in CODECS.items():
            with tempfile.TemporaryDirectory(dir=parent) as name:
                folder = Path(name)
                fill_array(create_array(folder / "source", before, compressors))
                read, _ = measure_step("read", folder, case, codec)
                write, _ = measure_step("write", folder, case, codec)
                copy, peak = measure_step("copy", folder, case, codec)
            times = f"{read:.1f} s | {write:.1f} s | {copy:.1f} s | {copy / (read + write):.2f}"
            print(f"| {case} | {codec} | {times} | {peak:.0f} MB |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--step"]:
        run_step(sys.argv[2], Path(sys.argv[3]), sys.argv[4], sys.argv[5])
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else None)
