"""Counts of file requests by Tessarr and by TensorStore."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.stores import LocalStore

theirs = pytest.importorskip("tensorstore", reason="compared with TensorStore's own requests")

VALUES = np.arange(64 * 64, dtype="i4").reshape(64, 64)


class Side:
    """One implementation, with its own folder and its request counts."""

    def __init__(self, folder: Path, *, real: bool) -> None:
        self.ts: Any = theirs if real else ours
        self.real = real
        self.store = CountingStore(LocalStore(folder))
        self.kvstore: Any = {"driver": "tessarr", "store": self.store}
        if real:
            self.kvstore = {"driver": "file", "path": f"{folder}/"}
        self.context = self.ts.Context({"cache_pool#big": {"total_bytes_limit": 10**8}})
        self.counts: dict[str, int] = {}

    def open(self, path: str = "", **options: Any) -> Any:
        spec = {
            "driver": options.pop("driver", "zarr3"),
            "kvstore": {**self.kvstore, "path": self._path(path)},
            **options.pop("members", {}),
        }
        pool = options.pop("pool", None)
        if pool:
            spec["cache_pool"] = pool
        return self.ts.open(spec, context=self.context, **options).result()

    def _path(self, path: str) -> str:
        return f"{self.kvstore.get('path', '')}{path}"

    def create(self, path: str, *, sharded: bool = True) -> Any:
        layout = {"write_chunk": {"shape": [32, 32]}, "read_chunk": {"shape": [8, 8]}}
        if not sharded:
            layout = {"chunk": {"shape": [32, 32]}}
        made = self.open(
            path,
            create=True,
            dtype=self.ts.int32,
            shape=[64, 64],
            chunk_layout=self.ts.ChunkLayout(layout),
            codec=self.ts.CodecSpec({"driver": "zarr3", "codecs": [_zstd(sharded=sharded)]}),
        )
        made.write(VALUES).result()
        time.sleep(0.03)  # until time stamps distinguish changes
        return made

    def create_old(self, path: str) -> Any:
        """Create an array of format 2."""
        made = self.open(
            path,
            driver="zarr",
            create=True,
            dtype=self.ts.int32,
            shape=[64, 64],
            chunk_layout=self.ts.ChunkLayout(chunk_shape=[32, 32]),
            fill_value=0,
        )
        made.write(VALUES).result()
        time.sleep(0.03)
        return made

    def create_records(self, path: str) -> Any:
        """Create an array of records in shards; return the handle of a field."""
        made = self.open(path, members=RECORDS, create=True)
        made.write(VALUES).result()
        time.sleep(0.03)
        return made

    def count_requests(self) -> dict[str, int]:
        """Return the number of opens, reads and writes so far.

        A change opens the value first if necessary. Partial reads in place do not count:
        TensorStore reads the whole value.
        """
        if not self.real:
            found = self.store.counts()
            return {
                "opens": found["opens"] + found["looks"],
                "reads": found["reads"],
                "writes": found["updates"],
            }
        metrics = theirs.experimental_collect_matching_metrics("/tensorstore/kvstore/file/")
        values = {
            one["name"].rpartition("/")[2]: one["values"][0].get("value", 0) for one in metrics
        }
        return {
            "opens": values.get("open_read", 0),
            "reads": values.get("batch_read", 0),
            "writes": values.get("write", 0),
        }

    @contextmanager
    def counting(self) -> Generator[None]:
        before = self.count_requests()
        yield
        after = self.count_requests()
        self.counts = {name: after[name] - before[name] for name in after}


_BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
_FIELDS = [{"name": "a", "data_type": "int32"}, {"name": "b", "data_type": "uint8"}]
RECORDS: dict[str, Any] = {
    "metadata": {
        "shape": [64, 64],
        "data_type": {"name": "struct", "configuration": {"fields": _FIELDS}},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [32, 32]}},
        "codecs": [
            {
                "name": "sharding_indexed",
                "configuration": {"chunk_shape": [8, 8], "codecs": [_BYTES]},
            }
        ],
    },
    "field": "a",
}


def _zstd(*, sharded: bool) -> Any:
    zstd = {"name": "zstd", "configuration": {"level": 1}}
    if not sharded:
        return zstd
    return {"name": "sharding_indexed", "configuration": {"codecs": [{"name": "bytes"}, zstd]}}


def requests(counts: dict[str, int]) -> tuple[int, int]:
    """Return the numbers of lookups and reads of keys."""
    return counts["opens"] + counts["writes"], counts["reads"]


class Scenarios:
    """Scenarios for both sides, and Tessarr's expected opens, reads and writes."""

    def __init__(self) -> None:
        self.all: dict[str, tuple[Callable[[Side], None], tuple[int, int, int]]] = {}

    def expects(self, opens: int, reads: int, writes: int) -> Callable[[Any], Any]:
        def add(scenario: Callable[[Side], None]) -> Callable[[Side], None]:
            self.all[scenario.__name__] = scenario, (opens, reads, writes)
            return scenario

        return add

    def check(self, name: str, folder: Path) -> None:
        """Assert the expected counts, and that they do not exceed TensorStore's."""
        scenario, expected = self.all[name]
        sides = [Side(folder / word, real=word == "theirs") for word in ("ours", "theirs")]
        for side in sides:
            scenario(side)
        mine, real = (side.counts for side in sides)
        assert tuple(mine.values()) == expected
        assert all(map(operator.le, requests(mine), requests(real))), (mine, real)


def codecs_of(stored: str, inside: tuple[int, ...]) -> list[Any]:
    """Return the codecs of chunks or shards, compressed or not."""
    codecs: list[Any] = [_BYTES]
    if "zstd" in stored:
        codecs.append({"name": "zstd", "configuration": {"level": 1}})
    if "shards" not in stored:
        return codecs
    settings = {"chunk_shape": list(inside), "codecs": codecs}
    return [{"name": "sharding_indexed", "configuration": settings}]
