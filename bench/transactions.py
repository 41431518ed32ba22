"""What a transaction over 64 MB costs, beside TensorStore's.

    python -m bench.transactions [ROUNDS] [PART OF A NAME ...]

Each line: what was written and how, the time of writes and commit together, ours and theirs, and
their ratio, and that of the processor time of all threads, which other work on the machine
disturbs less; the least of all rounds, the two in turns in one process. Files are in memory
(`/dev/shm`) and need not reach a disk.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import tensorstore

import tessarr.tensorstore

SIDE = 4096
VALUES = np.random.default_rng(0).integers(0, 1000, (SIDE, SIDE)).astype("f4")
ENGINES = {"ours": tessarr.tensorstore, "theirs": tensorstore}
CODECS: dict[str, list[Any]] = {
    "plain": [],
    "zstd": [{"name": "zstd", "configuration": {"level": 1}}],
}


def whole() -> Iterator[Any]:
    """All at once."""
    yield ...


def rows() -> Iterator[Any]:
    """256 rows after 256 rows: four or two writes to each chunk."""
    for row in range(0, SIDE, 256):
        yield slice(row, row + 256)


def odd() -> Iterator[Any]:
    """Boxes that begin and end within chunks."""
    for row in range(0, SIDE - 96, 1000):
        yield slice(row + 7, row + 990), slice(5, 4000)


def strided() -> Iterator[Any]:
    """Every other row."""
    yield slice(None, None, 2)


def created(ts: Any, place: dict[str, str], layout: str, codec: str) -> Any:
    """Create an array in chunks of 1 MiB, or in shards of 4 MiB of chunks of 64 KiB."""
    codecs: list[Any] = [{"name": "bytes", "configuration": {"endian": "little"}}, *CODECS[codec]]
    chunk = [512, 512]
    if layout == "shards":
        inner = {"chunk_shape": [128, 128], "codecs": codecs}
        codecs, chunk = [{"name": "sharding_indexed", "configuration": inner}], [1024, 1024]
    metadata = {
        "shape": [SIDE, SIDE],
        "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "codecs": codecs,
    }
    spec = {"driver": "zarr3", "kvstore": place, "metadata": metadata}
    return ts.open(spec, create=True, context=ts.Context({"file_io_sync": False})).result()


def measured(ts: Any, array: Any, parts: Callable[[], Iterator[Any]]) -> tuple[float, float]:
    """Return the seconds of one transaction: by the clock, and of the processor."""
    begin = time.perf_counter(), time.process_time()
    with ts.Transaction() as transaction:
        inside = array.with_transaction(transaction)
        for part in parts():
            inside[part].write(VALUES[part]).result()
    return time.perf_counter() - begin[0], time.process_time() - begin[1]


def main() -> None:
    """Print a line for each place, layout, codec and way to write."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    folder = tempfile.mkdtemp(dir="/dev/shm")
    for place, layout, codec, parts in product(
        ("file", "memory"), ("chunks", "shards"), CODECS, (whole, rows, odd, strided)
    ):
        name = f"{place} {layout} {codec} {parts.__name__}"
        if sys.argv[2:] and not any(word in name for word in sys.argv[2:]):
            continue
        arrays = {}
        for word, ts in ENGINES.items():
            path = f"{folder}/{word}/" if place == "file" else "a/"
            shutil.rmtree(f"{folder}/{word}", ignore_errors=True)
            arrays[word] = created(ts, {"driver": place, "path": path}, layout, codec)
        least = dict.fromkeys(ENGINES, (float("inf"), float("inf")))
        for _ in range(rounds):
            for word, ts in ENGINES.items():
                both = zip(least[word], measured(ts, arrays[word], parts), strict=True)
                clock, processor = map(min, both)
                least[word] = clock, processor
        found = [np.asarray(array.read().result()) for array in arrays.values()]
        assert np.array_equal(found[0], found[1])
        (mine, ours), (real, theirs) = (least[word] for word in ENGINES)
        times = f"{1e3 * mine:8.1f} ms {1e3 * real:8.1f} ms"
        print(f"{name:28} {times} {mine / real:6.2f} {ours / theirs:6.2f}", flush=True)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
