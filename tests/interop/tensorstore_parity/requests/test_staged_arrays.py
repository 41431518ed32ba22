"""File requests in transactions and resizes: never more than TensorStore's."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from interop.tensorstore_parity.request_counting import VALUES, Scenarios, Side

SCENARIOS = Scenarios()


@SCENARIOS.expects(0, 0, 1)
def transaction_over_a_shard(side: Side) -> None:
    made = side.create("a/")
    with side.counting(), side.ts.Transaction() as transaction:
        inside = made.with_transaction(transaction)
        for at in range(0, 32, 4):
            inside[at : at + 4, :32].write(at + 1).result()


@SCENARIOS.expects(1, 0, 1)
def transaction_over_parts(side: Side) -> None:
    made = side.create("a/")
    with side.counting(), side.ts.Transaction() as transaction:
        inside = made.with_transaction(transaction)
        for at in range(0, 32, 8):
            inside[at, at].write(1).result()


@SCENARIOS.expects(0, 0, 0)
def read_in_a_transaction(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/", pool="cache_pool#big", recheck_cached_data=False)
    found.read().result()
    with side.counting(), side.ts.Transaction() as transaction:
        found.with_transaction(transaction)[3:5, 3:5].read().result()


@SCENARIOS.expects(0, 0, 4)
def old_transaction(side: Side) -> None:
    found = side.create_old("c/")
    with side.counting(), side.ts.Transaction() as transaction:
        inside = found.with_transaction(transaction)
        for at in range(0, 64, 8):
            inside[at : at + 8].write(at).result()


@SCENARIOS.expects(1, 0, 0)
def opened_after_a_transaction(side: Side) -> None:
    side.create("e/", sharded=False)
    time.sleep(0.03)
    found = side.open("e/", recheck_cached_metadata=False)
    with side.ts.Transaction() as transaction:
        found.with_transaction(transaction).resize(exclusive_max=[128, 64]).result()
    with side.counting(), side.ts.Transaction() as transaction:
        side.open("e/", recheck_cached_metadata=False, transaction=transaction)


@SCENARIOS.expects(1, 0, 0)
def opened_after_several_transactions(side: Side) -> None:
    side.create("e/", sharded=False)
    time.sleep(0.03)
    how = {"pool": "cache_pool#big", "recheck_cached_metadata": False}
    found = side.open("e/", **how)
    for rows in (128, 256):
        with side.ts.Transaction() as transaction:
            found.with_transaction(transaction).resize(exclusive_max=[rows, 64]).result()
    with side.counting(), side.ts.Transaction() as transaction:
        side.open("e/", **how, transaction=transaction)


@SCENARIOS.expects(1, 0, 3)
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


@SCENARIOS.expects(0, 0, 0)
def read_back_in_a_transaction(side: Side) -> None:
    made = side.create("a/")
    with side.counting():
        transaction = side.ts.Transaction()
        inside = made.with_transaction(transaction)
        inside[:32, :32].write(3).result()
        assert (inside[5:20, 5:20].read().result() == 3).all()
        transaction.abort()


@SCENARIOS.expects(1, 1, 1)
def read_and_partly_written_in_a_transaction(side: Side) -> None:
    made = side.create("b/", sharded=False)
    with side.counting(), side.ts.Transaction() as transaction:
        inside = made.with_transaction(transaction)
        inside[3, 3].write(3).result()
        assert inside[3:5, 4].read().result().tolist() == VALUES[3:5, 4].tolist()
        inside[5, 5].write(3).result()


@SCENARIOS.expects(1, 2, 0)
def read_again_in_a_transaction(side: Side) -> None:
    """The context has no cache."""
    side.create("a/")
    found = side.open("a/", recheck_cached_data="open")
    with side.counting(), side.ts.Transaction() as transaction:
        inside = found.with_transaction(transaction)
        for _ in range(3):
            inside[3, 3].read().result()


@SCENARIOS.expects(3, 1, 0)
def read_and_compared_in_a_transaction(side: Side) -> None:
    found = side.create("b/", sharded=False)
    with side.counting(), side.ts.Transaction() as transaction:
        inside = found.with_transaction(transaction)
        for _ in range(3):
            inside[3, 3].read().result()


@SCENARIOS.expects(0, 0, 1)
def read_before_a_transaction_writes(side: Side) -> None:
    """A partial write compares the earlier read of the chunk."""
    found = side.create("b/", sharded=False)
    transaction = side.ts.Transaction()
    inside = found.with_transaction(transaction)
    inside[3, 3].read().result()
    inside[4, 4].write(5).result()
    with side.counting():
        transaction.commit_sync()


@SCENARIOS.expects(4, 4, 0)
def read_again_where_a_cache_is_small(side: Side) -> None:
    side.create("b/", sharded=False)
    side.context = side.ts.Context({"cache_pool#big": {"total_bytes_limit": 5000}})
    found = side.open("b/", pool="cache_pool#big", recheck_cached_data=False)
    with side.counting(), side.ts.Transaction() as transaction:
        inside = found.with_transaction(transaction)
        for _ in range(3):
            inside.read().result()


@SCENARIOS.expects(12, 4, 0)
def compared_again_where_a_cache_is_small(side: Side) -> None:
    """The handle checks the generation of an evicted chunk, and does not read the chunk."""
    side.create("b/", sharded=False)
    side.context = side.ts.Context({"cache_pool#big": {"total_bytes_limit": 5000}})
    found = side.open("b/", pool="cache_pool#big", recheck_cached_data=True)
    with side.counting(), side.ts.Transaction() as transaction:
        inside = found.with_transaction(transaction)
        for _ in range(3):
            inside.read().result()


@SCENARIOS.expects(1, 1, 0)
def array_after_a_key_in_a_transaction(side: Side) -> None:
    """The cache of the array holds the chunk."""
    side.create("b/", sharded=False)
    found = side.open("b/", pool="cache_pool#big", recheck_cached_data=False)
    found[3, 3].read().result()
    keys = side.ts.KvStore.open(side.kvstore, context=side.context).result()
    with side.counting(), side.ts.Transaction() as transaction:
        assert keys.with_transaction(transaction).read("b/c/1/1").result().state == "value"
        assert found.with_transaction(transaction)[4, 4].read().result() == VALUES[4, 4]


@SCENARIOS.expects(2, 1, 0)
def key_after_its_chunk_in_a_transaction(side: Side) -> None:
    found = side.create("b/", sharded=False)
    keys = side.ts.KvStore.open(side.kvstore, context=side.context).result()
    with side.counting(), side.ts.Transaction() as transaction:
        found.with_transaction(transaction)[4, 4].read().result()
        keys.with_transaction(transaction).read("b/c/0/0").result()


@SCENARIOS.expects(1, 1, 1)
def key_of_a_shard_that_was_written_in_part(side: Side) -> None:
    found = side.create("a/")
    keys = side.ts.KvStore.open(side.kvstore, context=side.context).result()
    with side.counting(), side.ts.Transaction() as transaction:
        found.with_transaction(transaction)[3, 3].write(5).result()
        keys.with_transaction(transaction).read("a/c/0/0").result()


@SCENARIOS.expects(1, 0, 1)
def span_outside_of_a_value_in_a_transaction(side: Side) -> None:
    found = side.create("b/", sharded=False)
    keys = side.ts.KvStore.open(side.kvstore, context=side.context).result()
    with side.counting(), side.ts.Transaction() as transaction:
        found.with_transaction(transaction)[:32, :32].write(5).result()
        read = keys.with_transaction(transaction).read("b/c/1/1", byte_range=slice(9000, 9002))
        assert isinstance(read.exception(), ValueError)


@SCENARIOS.expects(1, 2, 0)
def subchunks_beside_those_that_were_written(side: Side) -> None:
    """A partial write of a shard reads no other subchunks."""
    found = side.create("a/")
    with side.counting():
        transaction = side.ts.Transaction()
        inside = found.with_transaction(transaction)
        inside[:8, 8:32].write(5).result()
        inside[:8, :32].read().result()
        transaction.abort()


@SCENARIOS.expects(1, 0, 0)
def cached_chunk_whose_read_has_to_repeat(side: Side) -> None:
    """The final read compares the chunk."""
    side.create("b/", sharded=False)
    found = side.open("b/", pool="cache_pool#big", recheck_cached_data=False)
    found[3, 3].read().result()
    with side.counting(), side.ts.Transaction(repeatable_read=True) as transaction:
        found.with_transaction(transaction)[3, 4].read().result()


@SCENARIOS.expects(1, 1, 1)
def chunk_written_whose_read_has_to_repeat(side: Side) -> None:
    found = side.create("b/", sharded=False)
    with side.counting(), side.ts.Transaction(repeatable_read=True) as transaction:
        inside = found.with_transaction(transaction)
        inside[3, 4].read().result()
        inside[3, 3].write(5).result()


@SCENARIOS.expects(1, 0, 1)
def record_field_in_a_transaction(side: Side) -> None:
    made = side.create_records("r/")
    with side.counting(), side.ts.Transaction() as transaction:
        inside = made.with_transaction(transaction)
        for at in range(0, 32, 4):
            inside[at : at + 4, :32].write(at + 1).result()


@SCENARIOS.expects(1, 0, 1)
def transaction_checks_metadata(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/", pool="cache_pool#big", recheck_cached_metadata=True)
    with side.counting(), side.ts.Transaction() as transaction:
        found.with_transaction(transaction)[:32, :32].write(5).result()


@SCENARIOS.expects(0, 0, 0)
def cached_after_transaction(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/", pool="cache_pool#big", recheck_cached_data=False)
    found.read().result()
    with side.ts.Transaction() as transaction:
        found.with_transaction(transaction)[3, 3].write(5).result()
    with side.counting():
        assert found[3, 3].read().result() == 5
        found.read().result()


@SCENARIOS.expects(1, 0, 0)
def committed_and_compared(side: Side) -> None:
    side.create_old("c/")
    found = side.open("c/", driver="zarr", pool="cache_pool#big")
    with side.ts.Transaction() as transaction:
        found.with_transaction(transaction)[3, 3].write(5).result()
    with side.counting():
        assert found[3, 3].read().result() == 5


@SCENARIOS.expects(2, 0, 1)
def opened_in_a_transaction(side: Side) -> None:
    side.create("b/", sharded=False)
    kept = side.open("b/")
    with side.counting(), side.ts.Transaction() as transaction:
        side.open("b/", transaction=transaction)[:32, :32].write(1).result()
    assert kept.shape == (64, 64)


@SCENARIOS.expects(1, 0, 1)
def opened_again_in_a_transaction(side: Side) -> None:
    side.create("b/", sharded=False)
    kept = side.open("b/", recheck_cached_metadata=False)
    with side.counting(), side.ts.Transaction() as transaction:
        opened = side.open("b/", recheck_cached_metadata=False, transaction=transaction)
        opened[:32, :32].write(1).result()
    assert kept.shape == (64, 64)


@SCENARIOS.expects(1, 0, 1)
def grown(side: Side) -> None:
    side.create("x/y/b/", sharded=False)
    found = side.open("x/y/b/")
    with side.counting():
        found.resize(exclusive_max=[70, 64]).result()


@SCENARIOS.expects(0, 0, 1)
def grown_again(side: Side) -> None:
    side.create("x/y/b/", sharded=False)
    found = side.open("x/y/b/").resize(exclusive_max=[70, 64]).result()
    with side.counting():
        found.resize(exclusive_max=[80, 64]).result()


@SCENARIOS.expects(1, 0, 1)
def grown_in_a_transaction(side: Side) -> None:
    side.create("x/y/b/", sharded=False)
    found = side.open("x/y/b/")
    with side.counting(), side.ts.Transaction() as transaction:
        found.with_transaction(transaction).resize(exclusive_max=[70, 64]).result()
    assert side.open("x/y/b/").shape == (70, 64)


@SCENARIOS.expects(2, 0, 2)  # a chunk at the edge needs a request: the array may be larger now
def grown_twice_in_a_transaction(side: Side) -> None:
    side.create("x/y/b/", sharded=False)
    found = side.open("x/y/b/")
    with side.counting(), side.ts.Transaction() as transaction:
        grown = found.with_transaction(transaction).resize(exclusive_max=[70, 64]).result()
        grown = grown.resize(exclusive_max=[80, 64]).result()
        grown[64:, :32].write(1).result()
    assert side.open("x/y/b/")[79:, 31].read().result().tolist() == [1]


@SCENARIOS.expects(1, 0, 1)
def old_grown_in_a_transaction(side: Side) -> None:
    side.create_old("x/y/c/")
    found = side.open("x/y/c/", driver="zarr")
    with side.counting(), side.ts.Transaction() as transaction:
        found.with_transaction(transaction).resize(exclusive_max=[70, 64]).result()
    assert side.open("x/y/c/", driver="zarr").shape == (70, 64)


@SCENARIOS.expects(1, 0, 1)
def grown_when_created(side: Side) -> None:
    made = side.create("x/y/b/", sharded=False)
    with side.counting():
        made.resize(exclusive_max=[70, 64]).result()


@SCENARIOS.expects(1, 0, 0)
def opened_after_growing(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/").resize(exclusive_max=[70, 64]).result()
    time.sleep(0.03)
    with side.counting():
        side.open("b/")
    assert found.shape == (70, 64)


@SCENARIOS.expects(1, 0, 0)
def opened_after_growing_in_a_transaction(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/")
    with side.ts.Transaction() as transaction:
        found.with_transaction(transaction).resize(exclusive_max=[70, 64]).result()
    time.sleep(0.03)
    with side.counting():
        assert side.open("b/").shape == (70, 64)


@SCENARIOS.expects(1, 0, 251)
def many_chunks_removed(side: Side) -> None:
    layout = side.ts.ChunkLayout(chunk_shape=[1])
    made = side.open("d/", create=True, dtype=side.ts.int8, shape=[300], chunk_layout=layout)
    made.write(1).result()
    time.sleep(0.03)
    made = side.open("d/")
    with side.counting():
        made.resize(exclusive_max=[50]).result()


@SCENARIOS.expects(1, 0, 4)
def shrunk(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/")
    with side.counting():
        found.resize(exclusive_max=[20, 20]).result()


@SCENARIOS.expects(1, 0, 4)
def old_shrunk(side: Side) -> None:
    found = side.create_old("c/")
    found[32:, 32:].write(0).result()  # no longer stored
    with side.counting():
        found.resize(exclusive_max=[20, 20]).result()


@pytest.mark.parametrize("scenario", SCENARIOS.all)
def test_requests_are_not_more(scenario: str, tmp_path: Path) -> None:
    SCENARIOS.check(scenario, tmp_path)
