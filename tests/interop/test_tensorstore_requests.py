"""How often files are asked for: never more than TensorStore does for the same."""

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
from tessarr.store import CountingStore
from tessarr.stores import LatencyStore, LocalStore

theirs = pytest.importorskip("tensorstore", reason="compared with TensorStore's own requests")

VALUES = np.arange(64 * 64, dtype="i4").reshape(64, 64)


class Side:
    """One implementation, on a folder of its own, and what it asked for so far."""

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
        time.sleep(0.03)  # until time stamps tell whether files are changed again
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

    def asked(self) -> dict[str, int]:
        """Return opens, reads and writes so far.

        A value that is changed is opened first, if need be. Parts of it that are then read in
        place are not counted: TensorStore reads all of it.
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
        before = self.asked()
        yield
        after = self.asked()
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


def opening(side: Side) -> None:
    side.create("a/")
    side.context = side.ts.Context()
    with side.counting():
        side.open("a/")


def opening_again(side: Side) -> None:
    side.create("a/")
    side.open("a/", pool="cache_pool#big")
    with side.counting():
        side.open("a/", pool="cache_pool#big")


def one_part(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    with side.counting():
        found[3, 3].read().result()


def one_part_again(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    found[3, 3].read().result()
    with side.counting():
        found[3, 3].read().result()


def one_part_kept(side: Side) -> None:
    side.create("a/")
    found = side.open("a/", pool="cache_pool#big", recheck_cached_data="open")
    found[3, 3].read().result()
    with side.counting():
        found[3, 3].read().result()
        found[5, 5].read().result()


def another_part_kept(side: Side) -> None:
    side.create("a/")
    found = side.open("a/", pool="cache_pool#big", recheck_cached_data="open")
    found[3, 3].read().result()
    with side.counting():
        found[13, 13].read().result()


def one_part_checked(side: Side) -> None:
    side.create("a/")
    found = side.open("a/", pool="cache_pool#big")
    found[3, 3].read().result()
    with side.counting():
        found[3, 3].read().result()


def whole_shard(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    with side.counting():
        found[:32, :32].read().result()


def parts_of_a_whole_shard(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    with side.counting():
        found[1:31, 2:30].read().result()


def everything(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    with side.counting():
        found.read().result()


def a_chunk(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/")
    with side.counting():
        found[3, 3].read().result()


def a_chunk_kept(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/", pool="cache_pool#big", recheck_cached_data=False)
    found[3, 3].read().result()
    with side.counting():
        found[4, 4].read().result()


def what_is_missing(side: Side) -> None:
    made = side.create("b/", sharded=False)
    made[:32, :32].write(0).result()
    with side.counting():
        made[3, 3].read().result()


def part_of_a_chunk_written(side: Side) -> None:
    made = side.create("b/", sharded=False)
    with side.counting():
        made[3, 3].write(1).result()


def chunk_written(side: Side) -> None:
    made = side.create("b/", sharded=False)
    with side.counting():
        made[:32, :32].write(1).result()


def part_of_a_shard_written(side: Side) -> None:
    made = side.create("a/")
    with side.counting():
        made[:8, :8].write(1).result()


def shard_written(side: Side) -> None:
    made = side.create("a/")
    with side.counting():
        made[:32, :32].write(1).result()


def transaction_over_a_shard(side: Side) -> None:
    made = side.create("a/")
    with side.counting(), side.ts.Transaction() as transaction:
        inside = made.with_transaction(transaction)
        for at in range(0, 32, 4):
            inside[at : at + 4, :32].write(at + 1).result()


def transaction_over_parts(side: Side) -> None:
    made = side.create("a/")
    with side.counting(), side.ts.Transaction() as transaction:
        inside = made.with_transaction(transaction)
        for at in range(0, 32, 8):
            inside[at, at].write(1).result()


def metadata_checked(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/", recheck_cached_metadata=True, recheck_cached_data=True)
    found[3, 3].read().result()
    with side.counting():
        found[3, 3].read().result()


def batch_of_one_shard(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    with side.counting():
        with side.ts.Batch() as batch:
            futures = [found[at, at].read(batch=batch) for at in (0, 9, 17, 25)]
        for future in futures:
            future.result()


def batch_over_shards(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    with side.counting():
        with side.ts.Batch() as batch:
            futures = [found[at, at].read(batch=batch) for at in (0, 9, 40, 50)]
        for future in futures:
            future.result()


def batch_over_chunks(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/")
    with side.counting():
        with side.ts.Batch() as batch:
            futures = [found[at, at].read(batch=batch) for at in (0, 9, 40, 50)]
        for future in futures:
            future.result()


def batch_of_neighbours(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    with side.counting():
        with side.ts.Batch() as batch:
            futures = [found[at, at + 8].read(batch=batch) for at in (0, 1)]
            futures += [found[0:1, at : at + 1].read(batch=batch) for at in (0, 16, 31)]
        for future in futures:
            future.result()


def batch_over_a_whole_shard(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    with side.counting():
        with side.ts.Batch() as batch:
            futures = [found[at : at + 16, :32].read(batch=batch) for at in (0, 16)]
        for future in futures:
            future.result()


def batch_that_checks_metadata(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/", recheck_cached_metadata=True)
    with side.counting():
        with side.ts.Batch() as batch:
            futures = [found[at, at].read(batch=batch) for at in (0, 9, 40, 50)]
        for future in futures:
            future.result()


def read_in_a_transaction(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/", pool="cache_pool#big", recheck_cached_data=False)
    found.read().result()
    with side.counting(), side.ts.Transaction() as transaction:
        found.with_transaction(transaction)[3:5, 3:5].read().result()


def old_opened(side: Side) -> None:
    side.create_old("c/")
    side.context = side.ts.Context()
    with side.counting():
        side.open("c/", driver="zarr")


def old_chunk(side: Side) -> None:
    found = side.create_old("c/")
    with side.counting():
        found[3, 3].read().result()


def old_chunk_kept(side: Side) -> None:
    side.create_old("c/")
    found = side.open("c/", driver="zarr", pool="cache_pool#big", recheck_cached_data=False)
    found[3, 3].read().result()
    with side.counting():
        found[4, 4].read().result()


def old_part_written(side: Side) -> None:
    found = side.create_old("c/")
    with side.counting():
        found[3, 3].write(1).result()


def old_transaction(side: Side) -> None:
    found = side.create_old("c/")
    with side.counting(), side.ts.Transaction() as transaction:
        inside = found.with_transaction(transaction)
        for at in range(0, 64, 8):
            inside[at : at + 8].write(at).result()


def created_in_a_transaction(side: Side) -> None:
    with side.counting(), side.ts.Transaction() as transaction:
        made = side.open(
            "d/",
            create=True,
            dtype=side.ts.int32,
            shape=[64],
            chunk_layout=side.ts.ChunkLayout(chunk_shape=[32]),
            transaction=transaction,
        )
        made.write(5).result()


def read_back_in_a_transaction(side: Side) -> None:
    made = side.create("a/")
    with side.counting():
        transaction = side.ts.Transaction()
        inside = made.with_transaction(transaction)
        inside[:32, :32].write(3).result()
        assert (inside[5:20, 5:20].read().result() == 3).all()
        transaction.abort()


def read_and_partly_written_in_a_transaction(side: Side) -> None:
    made = side.create("b/", sharded=False)
    with side.counting(), side.ts.Transaction() as transaction:
        inside = made.with_transaction(transaction)
        inside[3, 3].write(3).result()
        assert inside[3:5, 4].read().result().tolist() == VALUES[3:5, 4].tolist()
        inside[5, 5].write(3).result()


def record_field_in_a_transaction(side: Side) -> None:
    made = side.create_records("r/")
    with side.counting(), side.ts.Transaction() as transaction:
        inside = made.with_transaction(transaction)
        for at in range(0, 32, 4):
            inside[at : at + 4, :32].write(at + 1).result()


def record_field_written(side: Side) -> None:
    made = side.create_records("r/")
    with side.counting():
        made[:32, :32].write(4).result()


def opening_beside(side: Side) -> None:
    side.create("a/")
    side.context = side.ts.Context({})
    kept = side.open("a/")
    with side.counting():
        side.open("a/")
    assert kept.shape == (64, 64)


def transaction_checks_metadata(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/", pool="cache_pool#big", recheck_cached_metadata=True)
    with side.counting(), side.ts.Transaction() as transaction:
        found.with_transaction(transaction)[:32, :32].write(5).result()


def kept_after_a_transaction(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/", pool="cache_pool#big", recheck_cached_data=False)
    found.read().result()
    with side.ts.Transaction() as transaction:
        found.with_transaction(transaction)[3, 3].write(5).result()
    with side.counting():
        assert found[3, 3].read().result() == 5
        found.read().result()


def written_and_compared(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/", pool="cache_pool#big")
    found[3, 3].write(5).result()
    with side.counting():
        assert found[3, 3].read().result() == 5


def committed_and_compared(side: Side) -> None:
    side.create_old("c/")
    found = side.open("c/", driver="zarr", pool="cache_pool#big")
    with side.ts.Transaction() as transaction:
        found.with_transaction(transaction)[3, 3].write(5).result()
    with side.counting():
        assert found[3, 3].read().result() == 5


def part_of_a_shard_written_and_compared(side: Side) -> None:
    side.create("a/")
    found = side.open("a/", pool="cache_pool#big")
    found[:8, :8].write(5).result()
    with side.counting():
        assert (found[:8, :8].read().result() == 5).all()


def fill_written_where_nothing_is(side: Side) -> None:
    made = side.create("a/")
    made[32:, :].write(0).result()
    with side.counting():
        made[30:40, 30:40].write(0).result()


def opened_in_a_transaction(side: Side) -> None:
    side.create("b/", sharded=False)
    kept = side.open("b/")
    with side.counting(), side.ts.Transaction() as transaction:
        side.open("b/", transaction=transaction)[:32, :32].write(1).result()
    assert kept.shape == (64, 64)


def opened_again_in_a_transaction(side: Side) -> None:
    side.create("b/", sharded=False)
    kept = side.open("b/", recheck_cached_metadata=False)
    with side.counting(), side.ts.Transaction() as transaction:
        opened = side.open("b/", recheck_cached_metadata=False, transaction=transaction)
        opened[:32, :32].write(1).result()
    assert kept.shape == (64, 64)


def grown(side: Side) -> None:
    side.create("x/y/b/", sharded=False)
    found = side.open("x/y/b/")
    with side.counting():
        found.resize(exclusive_max=[70, 64]).result()


def grown_again(side: Side) -> None:
    side.create("x/y/b/", sharded=False)
    found = side.open("x/y/b/").resize(exclusive_max=[70, 64]).result()
    with side.counting():
        found.resize(exclusive_max=[80, 64]).result()


def grown_in_a_transaction(side: Side) -> None:
    side.create("x/y/b/", sharded=False)
    found = side.open("x/y/b/")
    with side.counting(), side.ts.Transaction() as transaction:
        found.with_transaction(transaction).resize(exclusive_max=[70, 64]).result()
    assert side.open("x/y/b/").shape == (70, 64)


def grown_twice_in_a_transaction(side: Side) -> None:
    side.create("x/y/b/", sharded=False)
    found = side.open("x/y/b/")
    with side.counting(), side.ts.Transaction() as transaction:
        grown = found.with_transaction(transaction).resize(exclusive_max=[70, 64]).result()
        grown = grown.resize(exclusive_max=[80, 64]).result()
        grown[64:, :32].write(1).result()
    assert side.open("x/y/b/")[79:, 31].read().result().tolist() == [1]


def old_grown_in_a_transaction(side: Side) -> None:
    side.create_old("x/y/c/")
    found = side.open("x/y/c/", driver="zarr")
    with side.counting(), side.ts.Transaction() as transaction:
        found.with_transaction(transaction).resize(exclusive_max=[70, 64]).result()
    assert side.open("x/y/c/", driver="zarr").shape == (70, 64)


def grown_when_created(side: Side) -> None:
    made = side.create("x/y/b/", sharded=False)
    with side.counting():
        made.resize(exclusive_max=[70, 64]).result()


def opened_after_growing(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/").resize(exclusive_max=[70, 64]).result()
    time.sleep(0.03)
    with side.counting():
        side.open("b/")
    assert found.shape == (70, 64)


def opened_after_growing_in_a_transaction(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/")
    with side.ts.Transaction() as transaction:
        found.with_transaction(transaction).resize(exclusive_max=[70, 64]).result()
    time.sleep(0.03)
    with side.counting():
        assert side.open("b/").shape == (70, 64)


def many_chunks_removed(side: Side) -> None:
    layout = side.ts.ChunkLayout(chunk_shape=[1])
    made = side.open("d/", create=True, dtype=side.ts.int8, shape=[300], chunk_layout=layout)
    made.write(1).result()
    time.sleep(0.03)
    made = side.open("d/")
    with side.counting():
        made.resize(exclusive_max=[50]).result()


def shrunk(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/")
    with side.counting():
        found.resize(exclusive_max=[20, 20]).result()


def old_shrunk(side: Side) -> None:
    found = side.create_old("c/")
    found[32:, 32:].write(0).result()  # is not stored any more
    with side.counting():
        found.resize(exclusive_max=[20, 20]).result()


def old_metadata_checked(side: Side) -> None:
    side.create_old("c/")
    found = side.open("c/", driver="zarr", recheck_cached_metadata=True)
    found[3, 3].read().result()
    with side.counting():
        found[3, 3].read().result()


SCENARIOS: dict[Callable[[Side], None], tuple[int, int, int]] = {
    opening: (1, 1, 0),
    opening_again: (1, 0, 0),
    one_part: (1, 2, 0),
    one_part_again: (1, 1, 0),
    one_part_kept: (0, 0, 0),
    another_part_kept: (1, 1, 0),
    one_part_checked: (1, 0, 0),
    whole_shard: (1, 1, 0),
    parts_of_a_whole_shard: (1, 1, 0),
    everything: (4, 4, 0),
    a_chunk: (1, 1, 0),
    a_chunk_kept: (0, 0, 0),
    what_is_missing: (1, 0, 0),
    part_of_a_chunk_written: (1, 0, 1),
    chunk_written: (0, 0, 1),
    part_of_a_shard_written: (1, 0, 1),
    shard_written: (0, 0, 1),
    transaction_over_a_shard: (0, 0, 1),
    transaction_over_parts: (1, 0, 1),
    metadata_checked: (2, 1, 0),
    batch_of_one_shard: (1, 2, 0),
    batch_over_shards: (2, 4, 0),
    batch_over_chunks: (2, 2, 0),
    batch_of_neighbours: (1, 2, 0),
    batch_over_a_whole_shard: (1, 1, 0),
    batch_that_checks_metadata: (3, 2, 0),
    read_in_a_transaction: (0, 0, 0),
    old_opened: (1, 1, 0),
    old_chunk: (1, 1, 0),
    old_chunk_kept: (0, 0, 0),
    old_part_written: (1, 0, 1),
    old_transaction: (0, 0, 4),
    created_in_a_transaction: (1, 0, 3),
    read_back_in_a_transaction: (0, 0, 0),
    read_and_partly_written_in_a_transaction: (1, 1, 1),
    record_field_in_a_transaction: (1, 0, 1),
    record_field_written: (1, 0, 1),
    opening_beside: (1, 0, 0),
    transaction_checks_metadata: (1, 0, 1),
    kept_after_a_transaction: (0, 0, 0),
    written_and_compared: (1, 0, 0),
    committed_and_compared: (1, 0, 0),
    part_of_a_shard_written_and_compared: (1, 0, 0),
    fill_written_where_nothing_is: (4, 0, 2),
    opened_in_a_transaction: (1, 0, 1),
    grown: (1, 0, 1),
    grown_again: (0, 0, 1),
    grown_in_a_transaction: (1, 0, 1),
    grown_twice_in_a_transaction: (1, 0, 2),
    old_grown_in_a_transaction: (1, 0, 1),
    grown_when_created: (1, 0, 1),
    opened_after_growing: (1, 0, 0),
    opened_after_growing_in_a_transaction: (1, 0, 0),
    many_chunks_removed: (1, 0, 251),
    opened_again_in_a_transaction: (1, 0, 1),
    shrunk: (1, 0, 4),
    old_shrunk: (1, 0, 4),
    old_metadata_checked: (2, 1, 0),
}
"""Opens, reads and writes of ours."""


def requests(counts: dict[str, int]) -> tuple[int, int]:
    """Return how often keys were asked for, in order to look or to change, and reads."""
    return counts["opens"] + counts["writes"], counts["reads"]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_requests_are_not_more(scenario: Callable[[Side], None], tmp_path: Path) -> None:
    sides = [Side(tmp_path / word, real=word == "theirs") for word in ("ours", "theirs")]
    for side in sides:
        scenario(side)
    mine, real = (side.counts for side in sides)
    assert tuple(mine.values()) == SCENARIOS[scenario]
    assert all(map(operator.le, requests(mine), requests(real))), (mine, real)


@pytest.mark.parametrize(
    ("key", "reads"), [((), 1), ((slice(0, 896),), 2), ((slice(0, 1000, 500),), 3)]
)
def test_large_parts_of_shards_far_away_are_fetched_together(
    key: Any, reads: int, tmp_path: Path
) -> None:
    values = np.random.default_rng(1).integers(0, 99, (1024, 1024), "i4")
    layout = {"write_chunk": {"shape": [1024, 1024]}, "read_chunk": {"shape": [128, 128]}}
    found = {}
    for side in [Side(tmp_path / word, real=word == "theirs") for word in ("ours", "theirs")]:
        if not side.real:
            side.store = CountingStore(LatencyStore(LocalStore(tmp_path / "ours")))
            side.kvstore = {"driver": "tessarr", "store": side.store}
        made = side.open(
            create=True,
            dtype=side.ts.int32,
            shape=[1024, 1024],
            chunk_layout=side.ts.ChunkLayout(layout),
        )
        made.write(values).result()
        with side.counting():
            assert (made[key].read().result() == values[key]).all()
        found[side.real] = side.counts["reads"]
    assert found[False] == reads
    assert found[False] <= found[True]
