"""Requests to files: never more than TensorStore's for the same operations."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from interop.tensorstore_parity.request_counting import Scenarios, Side, codecs_of

SCENARIOS = Scenarios()


@SCENARIOS.expects(1, 1, 0)
def opening(side: Side) -> None:
    side.create("a/")
    side.context = side.ts.Context()
    with side.counting():
        side.open("a/")


@SCENARIOS.expects(1, 0, 0)
def opening_again(side: Side) -> None:
    side.create("a/")
    side.open("a/", pool="cache_pool#big")
    with side.counting():
        side.open("a/", pool="cache_pool#big")


@SCENARIOS.expects(1, 2, 0)
def one_part(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    with side.counting():
        found[3, 3].read().result()


@SCENARIOS.expects(1, 1, 0)
def one_part_again(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    found[3, 3].read().result()
    with side.counting():
        found[3, 3].read().result()


@SCENARIOS.expects(0, 0, 0)
def one_part_cached(side: Side) -> None:
    side.create("a/")
    found = side.open("a/", pool="cache_pool#big", recheck_cached_data="open")
    found[3, 3].read().result()
    with side.counting():
        found[3, 3].read().result()
        found[5, 5].read().result()


@SCENARIOS.expects(1, 1, 0)
def another_part_cached(side: Side) -> None:
    side.create("a/")
    found = side.open("a/", pool="cache_pool#big", recheck_cached_data="open")
    found[3, 3].read().result()
    with side.counting():
        found[13, 13].read().result()


@SCENARIOS.expects(1, 0, 0)
def one_part_checked(side: Side) -> None:
    side.create("a/")
    found = side.open("a/", pool="cache_pool#big")
    found[3, 3].read().result()
    with side.counting():
        found[3, 3].read().result()


@SCENARIOS.expects(1, 1, 0)
def whole_shard(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    with side.counting():
        found[:32, :32].read().result()


@SCENARIOS.expects(1, 1, 0)
def parts_of_a_whole_shard(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    with side.counting():
        found[1:31, 2:30].read().result()


@SCENARIOS.expects(4, 4, 0)
def everything(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    with side.counting():
        found.read().result()


@SCENARIOS.expects(1, 1, 0)
def a_chunk(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/")
    with side.counting():
        found[3, 3].read().result()


@SCENARIOS.expects(0, 0, 0)
def cached_chunk(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/", pool="cache_pool#big", recheck_cached_data=False)
    found[3, 3].read().result()
    with side.counting():
        found[4, 4].read().result()


@SCENARIOS.expects(1, 0, 0)
def what_is_missing(side: Side) -> None:
    made = side.create("b/", sharded=False)
    made[:32, :32].write(0).result()
    with side.counting():
        made[3, 3].read().result()


@SCENARIOS.expects(1, 0, 1)
def part_of_a_chunk_written(side: Side) -> None:
    made = side.create("b/", sharded=False)
    with side.counting():
        made[3, 3].write(1).result()


@SCENARIOS.expects(0, 0, 1)
def chunk_written(side: Side) -> None:
    made = side.create("b/", sharded=False)
    with side.counting():
        made[:32, :32].write(1).result()


@SCENARIOS.expects(1, 0, 1)
def part_of_a_shard_written(side: Side) -> None:
    made = side.create("a/")
    with side.counting():
        made[:8, :8].write(1).result()


@SCENARIOS.expects(0, 0, 1)
def shard_written(side: Side) -> None:
    made = side.create("a/")
    with side.counting():
        made[:32, :32].write(1).result()


@SCENARIOS.expects(2, 1, 0)
def metadata_checked(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/", recheck_cached_metadata=True, recheck_cached_data=True)
    found[3, 3].read().result()
    with side.counting():
        found[3, 3].read().result()


@SCENARIOS.expects(1, 2, 0)
def batch_of_one_shard(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    with side.counting():
        with side.ts.Batch() as batch:
            futures = [found[at, at].read(batch=batch) for at in (0, 9, 17, 25)]
        for future in futures:
            future.result()


@SCENARIOS.expects(2, 4, 0)
def batch_over_shards(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    with side.counting():
        with side.ts.Batch() as batch:
            futures = [found[at, at].read(batch=batch) for at in (0, 9, 40, 50)]
        for future in futures:
            future.result()


@SCENARIOS.expects(2, 2, 0)
def batch_over_chunks(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/")
    with side.counting():
        with side.ts.Batch() as batch:
            futures = [found[at, at].read(batch=batch) for at in (0, 9, 40, 50)]
        for future in futures:
            future.result()


@SCENARIOS.expects(1, 2, 0)
def batch_of_neighbours(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    with side.counting():
        with side.ts.Batch() as batch:
            futures = [found[at, at + 8].read(batch=batch) for at in (0, 1)]
            futures += [found[0:1, at : at + 1].read(batch=batch) for at in (0, 16, 31)]
        for future in futures:
            future.result()


@SCENARIOS.expects(1, 1, 0)
def batch_over_a_whole_shard(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    with side.counting():
        with side.ts.Batch() as batch:
            futures = [found[at : at + 16, :32].read(batch=batch) for at in (0, 16)]
        for future in futures:
            future.result()


@SCENARIOS.expects(3, 2, 0)
def batch_that_checks_metadata(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/", recheck_cached_metadata=True)
    with side.counting():
        with side.ts.Batch() as batch:
            futures = [found[at, at].read(batch=batch) for at in (0, 9, 40, 50)]
        for future in futures:
            future.result()


@SCENARIOS.expects(2, 2, 0)
def layers_whose_metadata_are_not_checked(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/", recheck_cached_metadata=True)
    layers = side.ts.stack([found, found[:, 32:].translate_to[0, 0]])
    with side.counting():
        layers[:, 3, 3].read().result()


@SCENARIOS.expects(1, 1, 0)
def old_opened(side: Side) -> None:
    side.create_old("c/")
    side.context = side.ts.Context()
    with side.counting():
        side.open("c/", driver="zarr")


@SCENARIOS.expects(1, 1, 0)
def old_chunk(side: Side) -> None:
    found = side.create_old("c/")
    with side.counting():
        found[3, 3].read().result()


@SCENARIOS.expects(0, 0, 0)
def cached_old_chunk(side: Side) -> None:
    side.create_old("c/")
    found = side.open("c/", driver="zarr", pool="cache_pool#big", recheck_cached_data=False)
    found[3, 3].read().result()
    with side.counting():
        found[4, 4].read().result()


@SCENARIOS.expects(1, 0, 1)
def old_part_written(side: Side) -> None:
    found = side.create_old("c/")
    with side.counting():
        found[3, 3].write(1).result()


@SCENARIOS.expects(1, 0, 1)
def record_field_written(side: Side) -> None:
    made = side.create_records("r/")
    with side.counting():
        made[:32, :32].write(4).result()


@SCENARIOS.expects(1, 0, 0)
def opening_beside(side: Side) -> None:
    side.create("a/")
    side.context = side.ts.Context({})
    kept = side.open("a/")
    with side.counting():
        side.open("a/")
    assert kept.shape == (64, 64)


@SCENARIOS.expects(1, 0, 0)
def written_and_compared(side: Side) -> None:
    side.create("b/", sharded=False)
    found = side.open("b/", pool="cache_pool#big")
    found[3, 3].write(5).result()
    with side.counting():
        assert found[3, 3].read().result() == 5


@SCENARIOS.expects(1, 0, 0)
def part_of_a_shard_written_and_compared(side: Side) -> None:
    side.create("a/")
    found = side.open("a/", pool="cache_pool#big")
    found[:8, :8].write(5).result()
    with side.counting():
        assert (found[:8, :8].read().result() == 5).all()


@SCENARIOS.expects(4, 0, 2)
def fill_written_where_nothing_is(side: Side) -> None:
    made = side.create("a/")
    made[32:, :].write(0).result()
    with side.counting():
        made[30:40, 30:40].write(0).result()


@SCENARIOS.expects(1, 0, 1)
def written_after_nothing_changed(side: Side) -> None:
    made = side.create("a/")
    made[32:, :].write(0).result()
    found = side.open("a/", pool="cache_pool#big", recheck_cached_data=False)
    found[32:, 0].write(5).result()
    with side.counting():
        found[33:36, 20].write(0).result()  # the store is empty
        found[32:, 0].write(6).result()


@SCENARIOS.expects(0, 0, 1)
def large_shard_written_again(side: Side) -> None:
    grid = {"name": "regular", "configuration": {"chunk_shape": [1024, 1024]}}
    members = {"metadata": {"chunk_grid": grid, "codecs": codecs_of("shards", (256, 256))}}
    side.open("l/", members=members, create=True, dtype=side.ts.int32, shape=[1024, 1024]).write(
        5
    ).result()
    time.sleep(0.03)
    found = side.open("l/", pool="cache_pool#big", recheck_cached_data=False)
    found[512:, :32].write(6).result()
    with side.counting():
        found[512:, :32].write(7).result()


@SCENARIOS.expects(2, 1, 0)
def old_metadata_checked(side: Side) -> None:
    side.create_old("c/")
    found = side.open("c/", driver="zarr", recheck_cached_metadata=True)
    found[3, 3].read().result()
    with side.counting():
        found[3, 3].read().result()


def _statistics(store: Any) -> None:
    found = store.storage_statistics(query_fully_stored=True, query_not_stored=True).result()
    assert (found.not_stored, found.fully_stored) == (False, True)


@SCENARIOS.expects(1, 0, 0)
def statistics_of_a_chunk(side: Side) -> None:
    found = side.create("b/", sharded=False)
    with side.counting():
        _statistics(found[3, 3])


@SCENARIOS.expects(0, 0, 0)
def statistics_of_chunks(side: Side) -> None:
    found = side.create("b/", sharded=False)
    with side.counting():  # a listing opens no files
        _statistics(found[:32])
        _statistics(found)


@SCENARIOS.expects(1, 1, 0)
def statistics_of_a_part_of_a_shard(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    with side.counting():
        _statistics(found[3:20, 3])


@SCENARIOS.expects(4, 4, 0)
def statistics_of_shards(side: Side) -> None:
    side.create("a/")
    found = side.open("a/")
    with side.counting():
        _statistics(found)


@SCENARIOS.expects(2, 1, 0)
def metadata_looked_at_where_a_cache_is_small(side: Side) -> None:
    """Chunks do not evict metadata."""
    side.create("b/", sharded=False)
    side.context = side.ts.Context({"cache_pool#big": {"total_bytes_limit": 5000}})
    found = side.open("b/", pool="cache_pool#big", recheck_cached_metadata=True)
    found.read().result()
    with side.counting():
        found[3, 3].read().result()


@pytest.mark.parametrize("scenario", SCENARIOS.all)
def test_requests_are_not_more(scenario: str, tmp_path: Path) -> None:
    SCENARIOS.check(scenario, tmp_path)
