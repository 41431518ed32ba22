"""Times of concurrent reads, beside TensorStore: ``python -m bench.concurrent_reads [ROUNDS]``.

The script reads 1000 crops of 32² of an array in a folder, and 100 of them by HTTP and from S3:
from a server that answers immediately, and from one with a latency of 20 ms. It starts the reads
one after another and then waits, collects them in a batch, awaits them, and reads in eight threads.
It also writes to S3. Rounds of the two libraries alternate in one process; the least time counts.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorstore

import tessarr.tensorstore

SIDE, CROP = 2048, 32
LATENCIES_S = {"near": 0.0, "far": 0.02}
PACKAGES = {"TensorStore": tensorstore, "Tessarr": tessarr.tensorstore}
VALUES = np.random.default_rng(0).integers(0, 500, (SIDE, SIDE)).astype("u2")
CORNERS = np.random.default_rng(1).integers(0, SIDE - CROP, (1000, 2)).tolist()
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
ZSTD = {"name": "zstd", "configuration": {"level": 1}}

LIMIT = {f"{kind}_request_concurrency": {"limit": 256} for kind in ("http", "s3")}
"""The default of both libraries is 32 concurrent requests, which would hide their own speed."""

Reading = Callable[[Any, Any, int], object]

SERVER = Path(__file__).with_name("slow_server.py")
"""The server does little work for a response, so that the client's work dominates."""


def make_metadata(layout: str) -> dict[str, Any]:
    """Return the metadata of an array with chunks of 64², optionally in shards of 512²."""
    codecs: list[Any] = [BYTES] if layout == "raw" else [BYTES, ZSTD]
    chunk = [64, 64]
    if layout == "shards":
        index = [BYTES, {"name": "crc32c"}]
        inside = {"chunk_shape": chunk, "codecs": codecs, "index_codecs": index}
        chunk, codecs = [512, 512], [{"name": "sharding_indexed", "configuration": inside}]
    grid = {"name": "regular", "configuration": {"chunk_shape": chunk}}
    return {
        "shape": [SIDE, SIDE],
        "data_type": "uint16",
        "chunk_grid": grid,
        "codecs": codecs,
    }


def start_reads(array: Any, count: int, **keywords: Any) -> list[Any]:
    """Start to read `count` crops."""
    return [array[i : i + CROP, j : j + CROP].read(**keywords) for i, j in CORNERS[:count]]


def futures(_: Any, array: Any, count: int) -> None:
    """Start one read after another, then wait for all."""
    for future in start_reads(array, count):
        future.result()


def batch(ts: Any, array: Any, count: int) -> None:
    """Collect the reads in a batch, then wait for all."""
    with ts.Batch() as batch_:
        started = start_reads(array, count, batch=batch_)
    for future in started:
        future.result()


def awaited(_: Any, array: Any, count: int) -> None:
    """Start one read after another, and await all."""

    async def wait(future: Any) -> Any:
        return await future

    async def wait_all() -> None:
        await asyncio.gather(*map(wait, start_reads(array, count)))

    asyncio.run(wait_all())


def threads(_: Any, array: Any, count: int) -> None:
    """Read in eight threads, each of which waits for one read at a time."""

    def read_some(first: int) -> None:
        for i, j in CORNERS[first:count:8]:
            array[i : i + CROP, j : j + CROP].read().result()

    workers = [threading.Thread(target=read_some, args=(first,)) for first in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def whole_read(_: Any, array: Any, __: int) -> None:
    """Read the whole array."""
    array.read().result()


def whole_write(_: Any, array: Any, __: int) -> None:
    """Write the whole array."""
    array.write(VALUES).result()


def compare(name: str, kvstore: Any, count: int, rounds: int, readings: list[Reading]) -> None:
    """Print the time of each read method; each round opens the array again."""
    for reading in readings:
        least = dict.fromkeys(PACKAGES, float("inf"))
        for _ in range(rounds):
            for package, ts in PACKAGES.items():
                spec = {"driver": "zarr3", "kvstore": kvstore}
                array = ts.open(spec, context=ts.Context(LIMIT)).result()
                start = time.perf_counter()
                reading(ts, array, count)
                least[package] = min(least[package], time.perf_counter() - start)
        theirs, ours = least.values()
        cells = [f"{name}: {reading.__name__}", f"{theirs * 1e3:.1f} ms", f"{ours * 1e3:.1f} ms"]
        print("| " + " | ".join([*cells, f"{theirs / ours:.2f}"]) + " |", flush=True)


def compare_remote(folder: str, distance: str, latency: float, rounds: int) -> None:
    """Print the rows of arrays on a server with a latency in seconds."""
    serve = [sys.executable, str(SERVER), folder, str(latency)]
    with subprocess.Popen(serve, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        try:
            for layout in ("zstd", "shards"):
                url = f"http://127.0.0.1:{port}"
                readings: list[Reading] = [futures, batch, awaited, whole_read]
                compare(f"HTTP, {distance}, {layout}", f"{url}/{layout}/", 100, rounds, readings)
                bucket = {"bucket": "bucket", "endpoint": url, "aws_region": "us-east-1"}
                kvstore = {"driver": "s3", **bucket, "path": f"{layout}/"}
                compare(f"S3, {distance}, {layout}", kvstore, 100, rounds, [*readings, whole_write])
        finally:
            server.kill()


def main() -> None:
    """Create the arrays, serve them, and print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    print("| | TensorStore | Tessarr | ratio |\n|---|---|---|---|")
    os.environ |= {"AWS_ACCESS_KEY_ID": "name", "AWS_SECRET_ACCESS_KEY": "secret"}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "bucket").symlink_to(folder)  # S3 has buckets
        for layout in ("raw", "zstd", "shards"):
            spec = {"driver": "zarr3", "kvstore": f"file://{folder}/{layout}/"}
            array = tensorstore.open(
                {**spec, "metadata": make_metadata(layout)}, create=True
            ).result()
            array.write(VALUES).result()
            local: list[Reading] = [futures, batch, awaited, threads]
            compare(f"folder, {layout}", f"file://{folder}/{layout}/", 1000, rounds, local)
        for distance, latency in LATENCIES_S.items():
            compare_remote(folder, distance, latency, rounds)


if __name__ == "__main__":
    main()
