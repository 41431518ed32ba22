"""Random reads from a server: no more requests than TensorStore's maximum.

Concurrent reads finish in any order, so that a small cache holds other chunks in each run, and the
number of requests varies. Tessarr's average must not exceed TensorStore's maximum.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours
from interop.tensorstore_parity.request_counting import codecs_of, theirs
from stores import servers

SHAPE = (2048, 1024)
CHUNKS = ((1024, 1024), (256, 512), (32, 1024), (64, 64), (512, 128))
STORED = ("chunks", "chunks", "chunks", "chunks, zstd", "shards", "shards, zstd")
RUNS = 40

Part = tuple[slice, slice]


class Session:
    """An array, the settings of its handles, and its reads."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self.chunk = chunk = draw.choice(CHUNKS)
        quarter = (chunk[0] // 4, chunk[1] // 4)
        self.inside = draw.choice([quarter, (8, chunk[1]), (chunk[0] // 2, 16)])
        self.stored = draw.choice(STORED)
        self.limit = draw.choice([0, 0, 10**8, 10**6])
        self.dtype = draw.choice(["u1", "u2", "i4"])
        self.recheck = draw.choice([False, "open", True])
        self.location = draw.choice(["start", "end"])
        self.steps = [self._step(draw) for _ in range(6)]
        drawn = np.random.default_rng(seed).integers(1, 100, SHAPE)
        self.values = drawn.astype(self.dtype)

    def _step(self, draw: random.Random) -> tuple[str, list[Part]]:
        def along(axis: int) -> slice:
            length, chunk = SHAPE[axis], self.chunk[axis]
            start = min(draw.choice([0, chunk, chunk // 2, draw.randrange(length)]), length - 1)
            count = draw.choice([1, 2, chunk // 4 + 1, chunk, 3 * chunk])
            return slice(start, min(length, start + count), draw.choice([1, 1, 1, 3]))

        operation = draw.choice(["read", "read", "points", "batch"])
        return operation, [(along(0), along(1)) for _ in range(3)]

    def store(self, folder: Path) -> None:
        codecs = codecs_of(self.stored, self.inside)
        if "shards" in self.stored:
            codecs[0]["configuration"]["index_location"] = self.location
        grid = {"name": "regular", "configuration": {"chunk_shape": list(self.chunk)}}
        metadata = {"chunk_grid": grid, "codecs": codecs}
        spec = {"driver": "zarr3", "kvstore": folder.as_uri(), "metadata": metadata}
        options: dict[str, Any] = {
            "create": True,
            "dtype": ours.dtype(self.values.dtype.name),
            "shape": SHAPE,
        }
        ours.open(spec, **options).result().write(self.values).result()

    def run(self, ts: Any, proxy: servers.Proxy) -> Any:
        """Return the total of requests after each step."""
        context = ts.Context({"cache_pool": {"total_bytes_limit": self.limit}})
        spec = {"driver": "zarr3", "kvstore": f"{proxy.url}/", "recheck_cached_data": self.recheck}
        array = ts.open(spec, context=context).result()
        counts = []
        for operation, parts in self.steps:
            proxy.reset_counts()
            self._do(ts, array, operation, parts)
            counts.append(len(proxy.requests))
        return np.cumsum(counts)

    def _do(self, ts: Any, array: Any, operation: str, parts: list[Part]) -> None:
        if operation == "points":
            rows, columns = ([index.start, index.stop - 1] for index in parts[0])
            places = [*rows, parts[1][0].start], [*columns, parts[1][1].start]
            result = array.vindex[places].read().result()
            assert np.array_equal(result, self.values[places])
            return
        selections = parts[:1] if operation == "read" else parts
        with ts.Batch() as batch:
            futures = [array[part].read(batch=batch) for part in selections]
        for part, future in zip(selections, futures, strict=True):
            assert np.array_equal(future.result(), self.values[part])


@pytest.mark.parametrize("seed", [*range(8), 121, 141, 158, 1001, 1026, 1037, 1130, 3041])
def test_http_requests_do_not_exceed_tensorstore(seed: int, tmp_path: Path) -> None:
    session = Session(seed)
    session.store(tmp_path)
    with servers.file_server(tmp_path) as proxy:
        runs = [session.run(ours, proxy)]
        mine, most = runs[0], session.run(theirs, proxy)
        for _ in range(RUNS):
            if (mine <= most).all():
                break
            runs.append(session.run(ours, proxy))
            mine, most = np.mean(runs, axis=0), np.maximum(most, session.run(theirs, proxy))
    assert (mine <= most).all(), (session.steps, mine, most)
