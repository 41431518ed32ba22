"""Random transactions: at no time does Tessarr make more requests than TensorStore."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from interop.tensorstore_parity.request_counting import Side, codecs_of, requests
from stores import servers

SHAPE = (48, 40)
VALUES = np.arange(1, 1 + SHAPE[0] * SHAPE[1], dtype="i4").reshape(SHAPE)
STORED = ("chunks", "chunks, zstd", "shards", "shards, zstd")
INSIDE = ("a/c/0/0", "a/c/1/1", "a/c/2/1")
KEYS = (*INSIDE, "k", "none")

Part = tuple[slice, ...]


class Program:
    """Settings of two handles of an array, and their operations in transactions."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        self.is_remote = draw.random() < 0.25
        self.stored = draw.choice(STORED)
        self.inside = draw.choice([(4, 8), (8, 4), (16, 2)])
        self.limit = draw.choice([0, 10**6, 10**8])
        self.lost = draw.choice([None, None, "a/c/0/0", "a/c/1/1"])
        self.open_options = [
            {
                "recheck_cached_data": draw.choice([True, True, False, "open"]),
                "recheck_cached_metadata": draw.choice(["open", "open", True, False]),
            }
            for _ in range(2)
        ]
        kinds = ["read"] * 4 + ["key"] * 2 + ["batch"] + ["write"] * (0 if self.is_remote else 2)
        self.rounds = [
            [self._step(draw.choice(kinds)) for _ in range(draw.randint(1, 6))]
            for _ in range(draw.randint(1, 2))
        ]
        self.commits = [draw.random() < 0.6 for _ in self.rounds]

    def _part(self) -> Part:
        def along(length: int) -> slice:
            start = self.draw.choice([0, 0, 4, 8, 16, self.draw.randrange(length)])
            return slice(start, min(length, start + self.draw.choice([1, 1, 4, 9, 16, length])))

        return tuple(map(along, SHAPE))

    def _step(self, operation: str) -> tuple[Any, ...]:
        draw = self.draw
        if operation == "key":
            key, start = draw.choice(KEYS), draw.choice([0, 0, 3, 100, 9000, -7])
            spans = [None, slice(start, max(0, start) + 2), slice(start, None)]
            # The cache stores either parts of a shard or the whole shard.
            return (
                operation,
                key,
                draw.choice([None, slice(9000, 9002)] if key in INSIDE else spans),
            )
        handle = draw.choice([0, 0, 0, 1])
        return operation, handle, [self._part() for _ in range(3)], draw.randint(1, 9)


class Run:
    """One implementation, with the same arrays and keys as the other."""

    def __init__(self, program: Program, folder: Path, proxy: servers.Proxy, *, real: bool) -> None:
        self.side = side = Side(folder, real=real)
        self.ts, self.program, self.proxy = side.ts, program, proxy
        grid = {"name": "regular", "configuration": {"chunk_shape": [16, 16]}}
        codecs = codecs_of(program.stored, program.inside)
        source = {"driver": "file", "path": f"{folder}/"}
        spec = {"driver": "zarr3", "kvstore": {**source, "path": f"{folder}/a/"}}
        spec["metadata"] = {"chunk_grid": grid, "codecs": codecs}
        options = {"create": True, "dtype": side.ts.int32, "shape": SHAPE}
        side.ts.open(spec, **options).result().write(VALUES).result()
        keys = side.ts.KvStore.open(source).result()
        keys["k"] = bytes(range(256)) * 40
        if program.lost is not None:
            del keys[program.lost]
        kvstore = side.kvstore
        if program.is_remote:
            kvstore = {"driver": "http", "base_url": proxy.url, "path": f"/{folder.name}/"}
        context = side.ts.Context({"cache_pool": {"total_bytes_limit": program.limit}})
        inside = {**kvstore, "path": f"{kvstore.get('path', '')}a/"}
        time.sleep(0.03)  # until time stamps show changes of files reliably
        self.keys = side.ts.KvStore.open(kvstore, context=context).result()
        self.arrays = [
            side.ts.open({"driver": "zarr3", "kvstore": inside, **way}, context=context).result()
            for way in program.open_options
        ]

    def all(self) -> tuple[list[Any], Any]:
        """Return the result of each step, and the total of requests after each step."""
        results, request_counts = [], []
        for steps, commits in zip(self.program.rounds, self.program.commits, strict=True):
            time.sleep(0.03)
            transaction = self.ts.Transaction()
            arrays = [array.with_transaction(transaction) for array in self.arrays]
            keys = self.keys.with_transaction(transaction)
            for step in [*steps, ("end",)]:
                self.proxy.reset_counts()
                with self.side.counting():
                    if step[0] != "end":
                        results.append(self._do(step, arrays, keys))
                    elif commits:
                        transaction.commit_sync()
                    else:
                        transaction.abort()
                is_remote = self.program.is_remote
                request_counts.append(
                    (len(self.proxy.requests), 0) if is_remote else requests(self.side.counts)
                )
        time.sleep(0.03)
        results.append(self.arrays[0].read().result().tolist())
        return results, np.cumsum(request_counts, axis=0)

    def _do(self, step: tuple[Any, ...], arrays: list[Any], keys: Any) -> Any:
        operation, where, parts, *value = step
        match operation:
            case "read":
                return arrays[where][parts[0]].read().result(timeout=30).tolist()
            case "write":
                return arrays[where][parts[0]].write(value[0]).result(timeout=30)
            case "batch":
                with self.ts.Batch() as batch:
                    futures = [arrays[where][part].read(batch=batch) for part in parts]
                return [future.result(timeout=30).tolist() for future in futures]
        try:
            read = keys.read(where, byte_range=parts).result(timeout=30)
        except ValueError:
            return "outside"
        return read.state, read.value


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_transaction_requests_do_not_exceed_tensorstore(first: int, tmp_path: Path) -> None:
    with servers.file_server(tmp_path) as proxy:
        for seed in range(first, first + 10):
            program = Program(seed)
            (mine, counts), (other, real) = (
                Run(program, tmp_path / f"{word}{seed}", proxy, real=word == "other").all()
                for word in ("mine", "other")
            )
            assert mine == other, (seed, program.rounds)
            rows = [*zip(counts.tolist(), real.tolist(), strict=True)]
            assert (counts <= real).all(), (seed, vars(program), rows)
