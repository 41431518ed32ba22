"""Many reads at a time, here and with TensorStore: ``python -m bench.together [ROUNDS]``.

Crops of 32² at 1000 places of an array in a folder, and at 100 of them by HTTP and as S3: from a
server that answers at once, and from one that takes 20 ms for each answer, as a distant one does.
They are begun one after another and then waited for, collected in a batch, awaited, and read by
eight threads; buckets of S3 are written, too. Rounds of the two alternate in one process; the least
time of a round counts.
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
DELAYS_S = {"near": 0.0, "far": 0.02}
PACKAGES = {"TensorStore": tensorstore, "here": tessarr.tensorstore}
VALUES = np.random.default_rng(0).integers(0, 500, (SIDE, SIDE)).astype("u2")
PLACES = np.random.default_rng(1).integers(0, SIDE - CROP, (1000, 2)).tolist()
BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
ZSTD = {"name": "zstd", "configuration": {"level": 1}}

LIMIT = {f"{kind}_request_concurrency": {"limit": 256} for kind in ("http", "s3")}
"""By default both ask for 32 values at a time: many of them take as long as the server says."""

Act = Callable[[Any, Any, int], object]

SERVER = Path(__file__).with_name("slow_server.py")
"""It answers late, but works little for an answer: what is measured are its clients."""


def metadata(layout: str) -> dict[str, Any]:
    """Return those of an array in chunks of 64², or in shards of 512² of these."""
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


def begun(_: Any, array: Any, count: int, **how: Any) -> list[Any]:
    """Begin to read."""
    return [array[i : i + CROP, j : j + CROP].read(**how) for i, j in PLACES[:count]]


def futures(ts: Any, array: Any, count: int) -> None:
    """Begin one after another, and wait for all."""
    for future in begun(ts, array, count):
        future.result()


def batch(ts: Any, array: Any, count: int) -> None:
    """Collect them, and wait for all."""
    with ts.Batch() as collected:
        made = begun(ts, array, count, batch=collected)
    for future in made:
        future.result()


def awaited(ts: Any, array: Any, count: int) -> None:
    """Begin one after another, and await all."""

    async def one(future: Any) -> Any:
        return await future

    async def gathered() -> None:
        await asyncio.gather(*map(one, begun(ts, array, count)))

    asyncio.run(gathered())


def threads(_: Any, array: Any, count: int) -> None:
    """Read in eight threads, each of which waits for one at a time."""

    def some(first: int) -> None:
        for i, j in PLACES[first:count:8]:
            array[i : i + CROP, j : j + CROP].read().result()

    workers = [threading.Thread(target=some, args=(first,)) for first in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def everything(_: Any, array: Any, __: int) -> None:
    """Read all of the array at once."""
    array.read().result()


def written(_: Any, array: Any, __: int) -> None:
    """Write all of the array at once."""
    array.write(VALUES).result()


def compare(name: str, kvstore: Any, count: int, rounds: int, acts: list[Act]) -> None:
    """Print how long each act takes for an array that is opened anew for it."""
    for act in acts:
        least = dict.fromkeys(PACKAGES, float("inf"))
        for _ in range(rounds):
            for package, ts in PACKAGES.items():
                spec = {"driver": "zarr3", "kvstore": kvstore}
                array = ts.open(spec, context=ts.Context(LIMIT)).result()
                since = time.perf_counter()
                act(ts, array, count)
                least[package] = min(least[package], time.perf_counter() - since)
        theirs, here = least.values()
        cells = [f"{name}: {act.__name__}", f"{theirs * 1e3:.1f} ms", f"{here * 1e3:.1f} ms"]
        print("| " + " | ".join([*cells, f"{theirs / here:.2f}"]) + " |", flush=True)


def compare_served(folder: str, where: str, delay: float, rounds: int) -> None:
    """Print how long acts take for arrays that are served so many seconds later."""
    serve = [sys.executable, str(SERVER), folder, str(delay)]
    with subprocess.Popen(serve, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        try:
            for layout in ("zstd", "shards"):
                url = f"http://127.0.0.1:{port}"
                acts: list[Act] = [futures, batch, awaited, everything]
                compare(f"HTTP, {where}, {layout}", f"{url}/{layout}/", 100, rounds, acts)
                bucket = {"bucket": "bucket", "endpoint": url, "aws_region": "us-east-1"}
                place = {"driver": "s3", **bucket, "path": f"{layout}/"}
                compare(f"S3, {where}, {layout}", place, 100, rounds, [*acts, written])
        finally:
            server.kill()


def main() -> None:
    """Make the arrays, serve them, and print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    print("| | TensorStore | here | ratio |\n|---|---|---|---|")
    os.environ |= {"AWS_ACCESS_KEY_ID": "name", "AWS_SECRET_ACCESS_KEY": "secret"}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "bucket").symlink_to(folder)  # S3 has buckets
        for layout in ("raw", "zstd", "shards"):
            spec = {"driver": "zarr3", "kvstore": f"file://{folder}/{layout}/"}
            array = tensorstore.open({**spec, "metadata": metadata(layout)}, create=True).result()
            array.write(VALUES).result()
            near: list[Act] = [futures, batch, awaited, threads]
            compare(f"folder, {layout}", f"file://{folder}/{layout}/", 1000, rounds, near)
        for where, delay in DELAYS_S.items():
            compare_served(folder, where, delay, rounds)


if __name__ == "__main__":
    main()
