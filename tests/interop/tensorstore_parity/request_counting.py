"""Counts of file requests by Tessarr and by TensorStore."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
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
        array = self.open(
            path,
            create=True,
            dtype=self.ts.int32,
            shape=[64, 64],
            chunk_layout=self.ts.ChunkLayout(layout),
            codec=self.ts.CodecSpec({"driver": "zarr3", "codecs": [_zstd(sharded=sharded)]}),
        )
        array.write(VALUES).result()
        time.sleep(0.03)  # until time stamps distinguish changes
        return array

    def create_format_2(self, path: str) -> Any:
        """Create an array of format 2."""
        array = self.open(
            path,
            driver="zarr",
            create=True,
            dtype=self.ts.int32,
            shape=[64, 64],
            chunk_layout=self.ts.ChunkLayout(chunk_shape=[32, 32]),
            fill_value=0,
        )
        array.write(VALUES).result()
        time.sleep(0.03)
        return array

    def create_records(self, path: str) -> Any:
        """Create an array of records in shards; return the handle of a field."""
        array = self.open(path, members=RECORDS, create=True)
        array.write(VALUES).result()
        time.sleep(0.03)
        return array

    def create_array(self, kind: str) -> Any:
        """Create an array of a kind: "shards", "chunks", "format 2" or "records"."""
        path = f"x/y/{kind}/"
        if kind == "format 2":
            return self.create_format_2(path)
        if kind == "records":
            return self.create_records(path)
        return self.create(path, sharded=kind == "shards")

    def open_array(self, kind: str, **options: Any) -> Any:
        """Open the array that `create_array` has created."""
        driver = "zarr" if kind == "format 2" else "zarr3"
        return self.open(f"x/y/{kind}/", driver=driver, **options)

    def count_requests(self) -> dict[str, int]:
        """Return the number of opens, reads and writes so far.

        A change opens the value first if necessary. Partial reads in place do not count:
        TensorStore reads the whole value.
        """
        if not self.real:
            counts = self.store.counts()
            return {
                "opens": counts["opens"] + counts["looks"],
                "reads": counts["reads"],
                "writes": counts["updates"],
            }
        metrics = theirs.experimental_collect_matching_metrics("/tensorstore/kvstore/file/")
        values = {
            metric["name"].rpartition("/")[2]: metric["values"][0].get("value", 0)
            for metric in metrics
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


Counts = tuple[int, int, int]
"""Numbers of opens, reads and writes."""


def compare_requests(scenario: Callable[[Side], None], expected: Counts, folder: Path) -> None:
    """Assert Tessarr's counts, and that they do not exceed TensorStore's."""
    sides = [Side(folder / name, real=name == "theirs") for name in ("ours", "theirs")]
    for side in sides:
        scenario(side)
    counts, real_counts = (side.counts for side in sides)
    assert tuple(counts.values()) == expected
    compared = counts, real_counts
    assert all(map(operator.le, requests(counts), requests(real_counts))), compared


@dataclass(frozen=True)
class Step:
    """The read of a selection, or the write of a value to it."""

    selection: Any
    value: int | None = None

    def run(self, array: Any, values: np.ndarray) -> None:
        """Perform the step on an array and on the values that the array has to hold."""
        if self.value is None:
            read = array[self.selection].read().result()
            np.testing.assert_array_equal(read, values[self.selection])
        else:
            array[self.selection].write(self.value).result()
            values[self.selection] = self.value


def reads(*selections: Any) -> list[Step]:
    """Return the steps that read some selections."""
    return [Step(selection) for selection in selections]


@dataclass(frozen=True)
class Program:
    """Reads and writes of an array, and the requests that Tessarr sends for them."""

    expected: Counts
    array: str
    steps: Iterable[Step]
    opened: dict[str, Any] | None = None
    """The options of a second handle; without them, the handle that has created the array."""
    before: Iterable[Step] = ()
    """Steps whose requests do not count."""
    scope: str = ""
    """"batch", "transaction", "repeatable" (a transaction) or nothing."""
    cache: dict[str, int] = field(default_factory=lambda: {"total_bytes_limit": 10**8})

    def run(self, side: Side) -> None:
        array = side.create_array(self.array)
        if self.opened is not None:
            side.context = side.ts.Context({"cache_pool#big": self.cache})
            array = side.open_array(self.array, **self.opened)
        values = VALUES.copy()
        for step in self.before:
            step.run(array, values)
        with side.counting():
            self._run_in_scope(side, array, values)

    def _run_in_scope(self, side: Side, array: Any, values: np.ndarray) -> None:
        if self.scope == "batch":
            with side.ts.Batch() as batch:
                futures = [array[step.selection].read(batch=batch) for step in self.steps]
            for step, future in zip(self.steps, futures, strict=True):
                np.testing.assert_array_equal(future.result(), values[step.selection])
        elif self.scope:
            repeatable = self.scope == "repeatable"
            with side.ts.Transaction(repeatable_read=repeatable) as transaction:
                for step in self.steps:
                    step.run(array.with_transaction(transaction), values)
        else:
            for step in self.steps:
                step.run(array, values)


class Scenarios:
    """Scenarios for both sides, and Tessarr's expected opens, reads and writes."""

    def __init__(self, programs: Mapping[str, Program] = MappingProxyType({})) -> None:
        self.all: dict[str, tuple[Callable[[Side], None], Counts]] = {
            name: (program.run, program.expected) for name, program in programs.items()
        }

    def expects(self, opens: int, reads: int, writes: int) -> Callable[[Any], Any]:
        def add(scenario: Callable[[Side], None]) -> Callable[[Side], None]:
            self.all[scenario.__name__] = scenario, (opens, reads, writes)
            return scenario

        return add

    def check(self, name: str, folder: Path) -> None:
        compare_requests(*self.all[name], folder)


def codecs_of(stored: str, inside: tuple[int, ...]) -> list[Any]:
    """Return the codecs of chunks or shards, compressed or not."""
    codecs: list[Any] = [_BYTES]
    if "zstd" in stored:
        codecs.append({"name": "zstd", "configuration": {"level": 1}})
    if "shards" not in stored:
        return codecs
    settings = {"chunk_shape": list(inside), "codecs": codecs}
    return [{"name": "sharding_indexed", "configuration": settings}]
