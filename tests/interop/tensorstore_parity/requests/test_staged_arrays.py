"""File requests in transactions and resizes: never more than TensorStore's."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from numpy import s_

from interop.tensorstore_parity.request_counting import (
    VALUES,
    Counts,
    Program,
    Scenarios,
    Side,
    Step,
    compare_requests,
    reads,
)

CACHED = {"pool": "cache_pool#big", "recheck_cached_data": False}
CHECKED = {"pool": "cache_pool#big", "recheck_cached_data": True}
SMALL = {"total_bytes_limit": 5000}
"""A cache that holds one chunk."""

ELEMENT = s_[3, 3]
STRIPS = [Step(s_[i : i + 4, :32], i + 1) for i in range(0, 32, 4)]
"""Writes that fill a shard."""

TRANSACTIONS = {
    "write_shard_in_strips": Program((0, 0, 1), "shards", STRIPS),
    "write_record_field_in_strips": Program((1, 0, 1), "records", STRIPS),
    "write_elements_of_shard": Program(
        (1, 0, 1), "shards", [Step(s_[i, i], 1) for i in range(0, 32, 8)]
    ),
    "write_format_2_chunks_in_rows": Program(
        (0, 0, 4), "format 2", [Step(s_[i : i + 8], i) for i in range(0, 64, 8)]
    ),
    "write_chunk_with_checked_metadata": Program(
        (1, 0, 1),
        "chunks",
        [Step(s_[:32, :32], 5)],
        {"pool": "cache_pool#big", "recheck_cached_metadata": True},
    ),
    "write_read_write": Program(
        (1, 1, 1), "chunks", [Step(ELEMENT, 3), Step(s_[3:5, 4]), Step(s_[5, 5], 3)]
    ),
    "read_cached_chunk": Program((0, 0, 0), "chunks", reads(s_[3:5, 3:5]), CACHED, reads(s_[...])),
    "read_subchunk_three_times_without_cache": Program(
        (1, 2, 0), "shards", reads(*[ELEMENT] * 3), {"recheck_cached_data": "open"}
    ),
    "read_chunk_three_times_with_checks": Program((3, 1, 0), "chunks", reads(*[ELEMENT] * 3)),
    "read_all_three_times_in_small_cache": Program(
        (4, 4, 0), "chunks", reads(*[s_[...]] * 3), CACHED, cache=SMALL
    ),
    # The handle checks the generation of an evicted chunk, and does not read the chunk.
    "read_all_three_times_in_small_checked_cache": Program(
        (12, 4, 0), "chunks", reads(*[s_[...]] * 3), CHECKED, cache=SMALL
    ),
}

REPEATABLE_READS = {
    # The commit compares the generation of the cached chunk.
    "read_cached_chunk_repeatably": Program(
        (1, 0, 0), "chunks", reads(s_[3, 4]), CACHED, reads(ELEMENT)
    ),
    "read_and_write_chunk_repeatably": Program(
        (1, 1, 1), "chunks", [Step(s_[3, 4]), Step(ELEMENT, 5)]
    ),
}

SCENARIOS = Scenarios(
    {name: replace(program, scope="transaction") for name, program in TRANSACTIONS.items()}
    | {name: replace(program, scope="repeatable") for name, program in REPEATABLE_READS.items()}
)


@SCENARIOS.expects(1, 0, 0)
def open_after_transaction(side: Side) -> None:
    side.create("e/", sharded=False)
    time.sleep(0.03)
    array = side.open("e/", recheck_cached_metadata=False)
    with side.ts.Transaction() as transaction:
        array.with_transaction(transaction).resize(exclusive_max=[128, 64]).result()
    with side.counting(), side.ts.Transaction() as transaction:
        side.open("e/", recheck_cached_metadata=False, transaction=transaction)


@SCENARIOS.expects(1, 0, 0)
def open_after_two_transactions(side: Side) -> None:
    side.create("e/", sharded=False)
    time.sleep(0.03)
    options = {"pool": "cache_pool#big", "recheck_cached_metadata": False}
    array = side.open("e/", **options)
    for rows in (128, 256):
        with side.ts.Transaction() as transaction:
            array.with_transaction(transaction).resize(exclusive_max=[rows, 64]).result()
    with side.counting(), side.ts.Transaction() as transaction:
        side.open("e/", **options, transaction=transaction)


@SCENARIOS.expects(1, 0, 3)
def create_array(side: Side) -> None:
    with side.counting(), side.ts.Transaction() as transaction:
        array = side.open(
            "d/",
            create=True,
            dtype=side.ts.int32,
            shape=[64],
            chunk_layout=side.ts.ChunkLayout(chunk_shape=[32]),
            transaction=transaction,
        )
        array.write(5).result()


@SCENARIOS.expects(0, 0, 0)
def read_staged_subchunks(side: Side) -> None:
    array = side.create("a/")
    with side.counting():
        transaction = side.ts.Transaction()
        inside = array.with_transaction(transaction)
        inside[:32, :32].write(3).result()
        assert (inside[5:20, 5:20].read().result() == 3).all()
        transaction.abort()


@SCENARIOS.expects(0, 0, 1)
def commit_write_after_read(side: Side) -> None:
    """A partial write compares the earlier read of the chunk."""
    array = side.create("b/", sharded=False)
    transaction = side.ts.Transaction()
    inside = array.with_transaction(transaction)
    inside[3, 3].read().result()
    inside[4, 4].write(5).result()
    with side.counting():
        transaction.commit_sync()


@SCENARIOS.expects(1, 1, 0)
def read_chunk_after_its_key(side: Side) -> None:
    """The cache of the array holds the chunk."""
    side.create("b/", sharded=False)
    array = side.open("b/", pool="cache_pool#big", recheck_cached_data=False)
    array[3, 3].read().result()
    keys = side.ts.KvStore.open(side.kvstore, context=side.context).result()
    with side.counting(), side.ts.Transaction() as transaction:
        assert keys.with_transaction(transaction).read("b/c/1/1").result().state == "value"
        assert array.with_transaction(transaction)[4, 4].read().result() == VALUES[4, 4]


@SCENARIOS.expects(2, 1, 0)
def read_key_after_its_chunk(side: Side) -> None:
    array = side.create("b/", sharded=False)
    keys = side.ts.KvStore.open(side.kvstore, context=side.context).result()
    with side.counting(), side.ts.Transaction() as transaction:
        array.with_transaction(transaction)[4, 4].read().result()
        keys.with_transaction(transaction).read("b/c/0/0").result()


@SCENARIOS.expects(1, 1, 1)
def read_key_of_partly_written_shard(side: Side) -> None:
    array = side.create("a/")
    keys = side.ts.KvStore.open(side.kvstore, context=side.context).result()
    with side.counting(), side.ts.Transaction() as transaction:
        array.with_transaction(transaction)[3, 3].write(5).result()
        keys.with_transaction(transaction).read("a/c/0/0").result()


@SCENARIOS.expects(1, 0, 1)
def read_byte_range_beyond_staged_value(side: Side) -> None:
    array = side.create("b/", sharded=False)
    keys = side.ts.KvStore.open(side.kvstore, context=side.context).result()
    with side.counting(), side.ts.Transaction() as transaction:
        array.with_transaction(transaction)[:32, :32].write(5).result()
        read = keys.with_transaction(transaction).read("b/c/1/1", byte_range=slice(9000, 9002))
        assert isinstance(read.exception(), ValueError)


@SCENARIOS.expects(1, 2, 0)
def read_subchunks_beside_staged_ones(side: Side) -> None:
    """A partial write of a shard reads no other subchunks."""
    array = side.create("a/")
    with side.counting():
        transaction = side.ts.Transaction()
        inside = array.with_transaction(transaction)
        inside[:8, 8:32].write(5).result()
        inside[:8, :32].read().result()
        transaction.abort()


@SCENARIOS.expects(0, 0, 0)
def read_cached_after_commit(side: Side) -> None:
    side.create("b/", sharded=False)
    array = side.open("b/", pool="cache_pool#big", recheck_cached_data=False)
    array.read().result()
    with side.ts.Transaction() as transaction:
        array.with_transaction(transaction)[3, 3].write(5).result()
    with side.counting():
        assert array[3, 3].read().result() == 5
        array.read().result()


@SCENARIOS.expects(1, 0, 0)
def read_format_2_after_commit(side: Side) -> None:
    side.create_format_2("c/")
    array = side.open("c/", driver="zarr", pool="cache_pool#big")
    with side.ts.Transaction() as transaction:
        array.with_transaction(transaction)[3, 3].write(5).result()
    with side.counting():
        assert array[3, 3].read().result() == 5


@SCENARIOS.expects(2, 0, 1)
def open_array(side: Side) -> None:
    side.create("b/", sharded=False)
    array = side.open("b/")
    with side.counting(), side.ts.Transaction() as transaction:
        side.open("b/", transaction=transaction)[:32, :32].write(1).result()
    assert array.shape == (64, 64)


@SCENARIOS.expects(1, 0, 1)
def open_array_with_cached_metadata(side: Side) -> None:
    side.create("b/", sharded=False)
    array = side.open("b/", recheck_cached_metadata=False)
    with side.counting(), side.ts.Transaction() as transaction:
        opened = side.open("b/", recheck_cached_metadata=False, transaction=transaction)
        opened[:32, :32].write(1).result()
    assert array.shape == (64, 64)


@SCENARIOS.expects(2, 0, 2)  # a chunk at the edge needs a request: the array may be larger now
def grow_twice_in_transaction(side: Side) -> None:
    side.create("x/y/b/", sharded=False)
    array = side.open("x/y/b/")
    with side.counting(), side.ts.Transaction() as transaction:
        grown = array.with_transaction(transaction).resize(exclusive_max=[70, 64]).result()
        grown = grown.resize(exclusive_max=[80, 64]).result()
        grown[64:, :32].write(1).result()
    assert side.open("x/y/b/")[79:, 31].read().result().tolist() == [1]


@SCENARIOS.expects(1, 0, 0)
def open_after_growth(side: Side) -> None:
    side.create("b/", sharded=False)
    array = side.open("b/").resize(exclusive_max=[70, 64]).result()
    time.sleep(0.03)
    with side.counting():
        side.open("b/")
    assert array.shape == (70, 64)


@SCENARIOS.expects(1, 0, 0)
def open_after_growth_in_transaction(side: Side) -> None:
    side.create("b/", sharded=False)
    array = side.open("b/")
    with side.ts.Transaction() as transaction:
        array.with_transaction(transaction).resize(exclusive_max=[70, 64]).result()
    time.sleep(0.03)
    with side.counting():
        assert side.open("b/").shape == (70, 64)


@SCENARIOS.expects(1, 0, 251)
def shrink_away_many_chunks(side: Side) -> None:
    layout = side.ts.ChunkLayout(chunk_shape=[1])
    array = side.open("d/", create=True, dtype=side.ts.int8, shape=[300], chunk_layout=layout)
    array.write(1).result()
    time.sleep(0.03)
    array = side.open("d/")
    with side.counting():
        array.resize(exclusive_max=[50]).result()


@SCENARIOS.expects(0, 0, 1)
def grow_again(side: Side) -> None:
    side.create("x/y/b/", sharded=False)
    array = side.open("x/y/b/").resize(exclusive_max=[70, 64]).result()
    with side.counting():
        array.resize(exclusive_max=[80, 64]).result()


@SCENARIOS.expects(1, 0, 1)
def grow_by_creating_handle(side: Side) -> None:
    array = side.create("x/y/b/", sharded=False)
    with side.counting():
        array.resize(exclusive_max=[70, 64]).result()


@SCENARIOS.expects(1, 0, 4)
def shrink_format_2_with_missing_chunk(side: Side) -> None:
    array = side.create_format_2("c/")
    array[32:, 32:].write(0).result()  # no longer stored
    with side.counting():
        array.resize(exclusive_max=[20, 20]).result()


@pytest.mark.parametrize("scenario", SCENARIOS.all)
def test_staged_array_requests_do_not_exceed_tensorstore(scenario: str, tmp_path: Path) -> None:
    SCENARIOS.check(scenario, tmp_path)


@pytest.mark.parametrize(
    ("kind", "shape", "in_transaction", "expected"),
    [
        ("chunks", (70, 64), False, (1, 0, 1)),
        ("chunks", (70, 64), True, (1, 0, 1)),
        ("format 2", (70, 64), True, (1, 0, 1)),
        ("chunks", (20, 20), False, (1, 0, 4)),
    ],
)
def test_resize_requests_do_not_exceed_tensorstore(
    kind: str, shape: tuple[int, int], in_transaction: bool, expected: Counts, tmp_path: Path
) -> None:
    def resize(side: Side) -> None:
        side.create_array(kind)
        array = side.open_array(kind)
        with side.counting():
            if in_transaction:
                with side.ts.Transaction() as transaction:
                    array.with_transaction(transaction).resize(exclusive_max=shape).result()
            else:
                array.resize(exclusive_max=shape).result()
        assert side.open_array(kind).shape == shape

    compare_requests(resize, expected, tmp_path)
