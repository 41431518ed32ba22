"""Times of transactions over 64 MB, beside TensorStore.

    python -m bench.transactions [ROUNDS] [PART_OF_NAME ...]

Each line has the store, layout, codec and regions; the times of the writes and the commit (Tessarr,
TensorStore) and their ratio; and the ratio of the processor times of all threads. Rounds of the two
libraries alternate in one process, and the least time counts. Files are in memory (`/dev/shm`) and
need not reach a disk.
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
    """Yield the whole array."""
    yield ...


def rows() -> Iterator[Any]:
    """Yield blocks of 256 rows: four or two writes to each chunk."""
    for row in range(0, SIDE, 256):
        yield slice(row, row + 256)


def odd() -> Iterator[Any]:
    """Yield boxes that start and end within chunks."""
    for row in range(0, SIDE - 96, 1000):
        yield slice(row + 7, row + 990), slice(5, 4000)


def strided() -> Iterator[Any]:
    """Yield every other row."""
    yield slice(None, None, 2)


def create_array(ts: Any, kvstore: dict[str, str], layout: str, codec: str) -> Any:
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
    spec = {"driver": "zarr3", "kvstore": kvstore, "metadata": metadata}
    return ts.open(spec, create=True, context=ts.Context({"file_io_sync": False})).result()


def measure(ts: Any, array: Any, parts: Callable[[], Iterator[Any]]) -> tuple[float, float]:
    """Return the seconds of one transaction: by the clock, and of the processor."""
    start = time.perf_counter(), time.process_time()
    with ts.Transaction() as transaction:
        inside = array.with_transaction(transaction)
        for part in parts():
            inside[part].write(VALUES[part]).result()
    return time.perf_counter() - start[0], time.process_time() - start[1]


def main() -> None:
    """Print a line for each store, layout, codec and set of regions."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    folder = tempfile.mkdtemp(dir="/dev/shm")
    for driver, layout, codec, parts in product(
        ("file", "memory"), ("chunks", "shards"), CODECS, (whole, rows, odd, strided)
    ):
        name = f"{driver} {layout} {codec} {parts.__name__}"
        if sys.argv[2:] and not any(word in name for word in sys.argv[2:]):
            continue
        arrays = {}
        for word, ts in ENGINES.items():
            path = f"{folder}/{word}/" if driver == "file" else "a/"
            shutil.rmtree(f"{folder}/{word}", ignore_errors=True)
            arrays[word] = create_array(ts, {"driver": driver, "path": path}, layout, codec)
        least = dict.fromkeys(ENGINES, (float("inf"), float("inf")))
        for _ in range(rounds):
            for word, ts in ENGINES.items():
                both = zip(least[word], measure(ts, arrays[word], parts), strict=True)
                clock, processor = map(min, both)
                least[word] = clock, processor
        results = [np.asarray(array.read().result()) for array in arrays.values()]
        assert np.array_equal(results[0], results[1])
        (mine, ours), (real, theirs) = (least[word] for word in ENGINES)
        times = f"{1e3 * mine:8.1f} ms {1e3 * real:8.1f} ms"
        print(f"{name:28} {times} {mine / real:6.2f} {ours / theirs:6.2f}", flush=True)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
