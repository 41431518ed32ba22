"""Times of indexing views and handles, beside TensorStore: ``python -m bench.indexing``.

The script times each call many times, and the best of several rounds counts. ``--instructions``
counts instructions with valgrind instead; other work on the machine does not change them.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ENGINES = ("tessarr.tensorstore", "tensorstore")


def make_calls(ts: Any) -> dict[str, Callable[[], object]]:
    """Return the measured calls by name."""
    draw = np.random.default_rng(0)
    view = ts.IndexTransform(ts.IndexDomain(shape=[100000, 1000, 50]))
    long, other = draw.integers(0, 10000, 10000), draw.integers(0, 1000, 10000)
    indexed = view[long]
    small = ts.IndexDomain(shape=[3, 4])
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    layout = ts.ChunkLayout(chunk_shape=[100, 100])
    settings = {"create": True, "dtype": ts.uint16, "shape": [1000, 1000], "chunk_layout": layout}
    handle = ts.open(spec, **settings).result()
    handle[...] = np.arange(1000000, dtype="u2").reshape(1000, 1000)
    points = draw.integers(0, 1000, 1000)
    part = handle[5:100:3, ::2]
    transposed, unit = handle.T, ts.Unit("4nm")
    handle_spec = handle.spec()
    pickled = pickle.dumps(handle)
    return {
        "IndexDomain(shape=)": lambda: ts.IndexDomain(shape=[3, 4]),
        "IndexDomain(json=)": lambda: ts.IndexDomain(json={"shape": [3, 4], "labels": ["x", "y"]}),
        "domain.hull": lambda: small.hull(small),
        "Dim(5, label)": lambda: ts.Dim(5, label="x"),
        "IndexTransform(input_shape=)": lambda: ts.IndexTransform(input_shape=[3, 4]),
        "view([1, 2, 3])": lambda: view([1, 2, 3]),
        "view.label": lambda: view.label["x", "y", "z"],
        "view.translate_to": lambda: view.translate_to[1, 2, 3],
        "view.mark_bounds_implicit": lambda: view.mark_bounds_implicit[True],
        "repr(view)": lambda: repr(view),
        "view.to_json()": view.to_json,
        "repr(handle)": lambda: repr(handle),
        "repr(spec)": lambda: repr(handle_spec),
        "spec.to_json()": handle_spec.to_json,
        "pickle.dumps(handle)": lambda: pickle.dumps(handle),
        "pickle.loads(handle)": lambda: pickle.loads(pickled),
        "part.schema": lambda: part.schema,
        "part.chunk_layout": lambda: part.chunk_layout,
        "part.chunk_layout.read_chunk.shape": lambda: part.chunk_layout.read_chunk.shape,
        "part.schema.chunk_layout.grid_origin": lambda: part.schema.chunk_layout.grid_origin,
        "handle.T.chunk_layout.inner_order": lambda: transposed.chunk_layout.inner_order,
        "handle.kvstore": lambda: handle.kvstore,
        "OutputIndexMap(dimension)": lambda: ts.OutputIndexMap(1, 2, 3),
        "repr(map)": lambda: repr(indexed.output[1]),
        "Unit(text)": lambda: ts.Unit("4nm"),
        "unit * 2": lambda: unit * 2,
        "view[5]": lambda: view[5],
        "view[5:100]": lambda: view[5:100],
        "view[5:100:3, ::2]": lambda: view[5:100:3, ::2],
        "view[10 000 indices]": lambda: view[long],
        "view.oindex[10 000, 1000]": lambda: view.oindex[long, other[:1000]],
        "view.vindex[10 000, 10 000]": lambda: view.vindex[long, other],
        "view[mask of 10 000]": lambda: view[long > 5000],
        "view of indices [10:500]": lambda: indexed[10:500],
        "view of indices [10 000 indices]": lambda: indexed[long],
        "view.T": lambda: view.T,
        "view[d[0, 1].label.translate_to]": lambda: view[
            ts.d[0, 1].label["x", "y"].translate_to[3]
        ],
        "handle[5, 6]": lambda: handle[5, 6],
        "handle[5, 6].read()": lambda: handle[5, 6].read().result(),
        "handle[5:10, 6:20].read()": lambda: handle[5:10, 6:20].read().result(),
        "handle[a chunk].read()": lambda: handle[100:200, 100:200].read().result(),
        "handle.oindex[100, 100].read()": lambda: (
            handle.oindex[points[:100], points[:100]].read().result()
        ),
        "handle.vindex[1000, 1000].read()": lambda: handle.vindex[points, points].read().result(),
        "handle[5, 6].write(3)": lambda: handle[5, 6].write(3).result(),
    }


def measure_seconds(call: Callable[[], object], count: int = 200, rounds: int = 7) -> float:
    """Return the seconds of one call."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, (time.perf_counter() - start) / count)
    return best


def count_instructions(engine: str, name: str) -> float:
    """Return the number of instructions of one call: the difference of two runs."""
    few, many = (_run_counted(engine, name, count) for count in (100, 5100))
    return (many - few) / 5000


def _run_counted(engine: str, name: str, count: int) -> int:
    code = f"from bench.indexing import repeat; repeat({engine!r}, {name!r}, {count})"
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    done = subprocess.run(
        [*tool, sys.executable, "-c", code],
        env=os.environ | {"PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    total = re.search(r"Collected\s*:\s*(\d+)", done.stderr)
    assert total, done.stderr
    return int(total[1])


def repeat(engine: str, name: str, count: int) -> None:
    """Run a call `count` times."""
    call = make_calls(importlib.import_module(engine))[name]
    for _ in range(count):
        call()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instructions", action="store_true")
    counted = parser.parse_args().instructions
    unit = "thousand instructions" if counted else "µs"
    print(f"| {unit} | Tessarr | TensorStore |\n|---|---|---|")
    tables = [make_calls(importlib.import_module(engine)) for engine in ENGINES]
    for name in tables[0]:
        if counted:
            row = [count_instructions(engine, name) / 1e3 for engine in ENGINES]
        else:
            row = [measure_seconds(table[name]) * 1e6 for table in tables]
        print(f"| `{name}` | {row[0]:.1f} | {row[1]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
