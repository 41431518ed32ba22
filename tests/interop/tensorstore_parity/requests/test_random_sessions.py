"""Random sessions: at no time has Tessarr made more file requests than TensorStore."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from interop.tensorstore_parity.request_counting import Side, requests

LENGTHS = (64, 60, 48)
STEPS = (
    *("read", "read", "points", "batch", "write", "write", "fill", "whole"),
    *("transaction", "transaction", "read_within", "open_within", "abort", "open", "resolve"),
    *("grow", "grow_within"),
)


def slices(draw: random.Random, length: int) -> tuple[slice, slice]:
    """Return a part of the array: often whole chunks, sometimes one element."""

    def along() -> slice:
        start = min(draw.choice([0, 8, 16, 24, 32, draw.randrange(length)]), length - 1)
        return slice(start, min(length, start + draw.choice([1, 8, 32, length])))

    return along(), along()


class Session:
    """A random program on an array, which both implementations run."""

    def __init__(self, side: Side, draw: random.Random) -> None:
        self.side, self.ts = side, side.ts
        self.length = self.rows = draw.choice(LENGTHS)
        old = draw.random() < 0.3
        spec: dict[str, Any] = {
            "driver": "zarr" if old else "zarr3",
            "kvstore": {**side.kvstore, "path": side._path(draw.choice(["a/", "x/y/a/"]))},
        }
        packed = draw.random() < 0.5
        if old:
            metadata = {"chunks": [32, 32], "compressor": {"id": "zstd"} if packed else None}
        else:
            metadata = self._codecs(sharded=draw.random() < 0.6, packed=packed, draw=draw)
        array = self.ts.open(
            {**spec, "metadata": metadata},
            create=True,
            dtype=self.ts.int32,
            shape=[self.length] * 2,
            context=side.context,
        ).result()
        values = np.arange(32 * self.length, dtype="i4").reshape(32, -1) + 1
        array[:32].write(values).result()
        time.sleep(0.03)
        if draw.random() < 0.6:
            spec["cache_pool"] = "cache_pool#big"
        spec["recheck_cached_data"] = draw.choice([True, False, "open", "open"])
        spec["recheck_cached_metadata"] = draw.choice(["open", "open", True, False])
        self.spec = spec
        side.context = self.ts.Context({"cache_pool#big": {"total_bytes_limit": 10**8}})
        self.array = self.ts.open(spec, context=side.context).result()

    @staticmethod
    def _codecs(*, sharded: bool, packed: bool, draw: random.Random) -> dict[str, Any]:
        codecs: list[Any] = [{"name": "bytes", "configuration": {"endian": "little"}}]
        if packed:
            codecs.append({"name": "zstd", "configuration": {"level": 1}})
        if sharded:
            inside = {
                "chunk_shape": [8, 8],
                "codecs": codecs,
                "index_location": draw.choice(["start", "end"]),
            }
            codecs = [{"name": "sharding_indexed", "configuration": inside}]
        grid = {"name": "regular", "configuration": {"chunk_shape": [32, 32]}}
        return {"chunk_grid": grid, "codecs": codecs}

    def step(self, draw: random.Random) -> tuple[str, list[Any]]:
        """Perform one step; return its description and the values that it reads."""
        operation = draw.choice(STEPS)
        parts = [slices(draw, self.length) for _ in range(3)]
        value = draw.randrange(1, 100)
        time.sleep(0.03)
        with self.side.counting():
            result = self._do(operation, parts, value)
        return operation, [np.asarray(values).tolist() for values in result]

    def _do(self, operation: str, parts: list[tuple[slice, slice]], value: int) -> list[Any]:
        array, (first, second, _) = self.array, parts
        match operation:
            case "read":
                return [array[first].read().result()]
            case "points":
                rows, columns = ([index.start, index.stop - 1] for index in first)
                return [array.vindex[rows, columns].read().result()]
            case "batch":
                with self.ts.Batch() as batch:
                    futures = [array[part].read(batch=batch) for part in parts]
                return [future.result() for future in futures]
            case "write" | "fill" | "whole":
                part = ... if operation == "whole" else first
                array[part].write(0 if operation == "fill" else value).result()
            case "resolve":
                array.resolve().result()
            case "grow":
                self.rows += value
                self.array = array.resize(exclusive_max=[self.rows, self.length]).result()
            case "open":
                self.ts.open(self.spec, context=self.side.context).result()
            case "abort":
                transaction = self.ts.Transaction()
                array.with_transaction(transaction)[first].write(value).result()
                transaction.abort()
            case _:
                return self._within(operation, parts, second, value)
        return []

    def _within(
        self, operation: str, parts: list[tuple[slice, slice]], second: Any, value: int
    ) -> list[Any]:
        with self.ts.Transaction() as transaction:
            if operation == "open_within":
                opened = self.ts.open(self.spec, context=self.side.context, transaction=transaction)
                opened.result()[parts[0]].write(value).result()
                return []
            inside = self.array.with_transaction(transaction)
            if operation == "grow_within":
                self.rows += value
                inside.resize(exclusive_max=[self.rows, self.length]).result()
                return []
            for part in parts[:1] if operation == "read_within" else parts:
                inside[part].write(value).result()
            return [inside[second].read().result()] if operation == "read_within" else []


@pytest.mark.parametrize("seed", [*range(24), 5087])
def test_random_session_requests_do_not_exceed_tensorstore(seed: int, tmp_path: Path) -> None:
    sums, log = [], []
    for word in ("ours", "theirs"):
        draw = random.Random(seed)
        session = Session(Side(tmp_path / word, real=word == "theirs"), draw)
        counts, steps = [], []
        for _ in range(draw.randint(2, 7)):
            steps.append(session.step(draw))
            counts.append(requests(session.side.counts))
        sums.append(np.cumsum(counts, axis=0))
        log.append(steps)
    assert log[0] == log[1]
    mine, real = sums
    assert (mine <= real).all(), ([step for step, _ in log[0]], mine.tolist(), real.tolist())
