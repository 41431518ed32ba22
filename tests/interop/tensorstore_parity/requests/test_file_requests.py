"""Requests to files: never more than TensorStore's for the same operations."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from numpy import s_

from interop.tensorstore_parity.request_counting import (
    Program,
    Scenarios,
    Side,
    Step,
    codecs_of,
    reads,
)

CACHED = {"pool": "cache_pool#big", "recheck_cached_data": False}
CACHED_SINCE_OPEN = {"pool": "cache_pool#big", "recheck_cached_data": "open"}
CACHED_AND_CHECKED = {"pool": "cache_pool#big"}

ELEMENT = s_[3, 3]
BLOCKS = [s_[i, i] for i in (0, 9, 40, 50)]
"""Elements of two shards of four subchunks, and of two chunks."""

READS = {
    "subchunk": Program((1, 2, 0), "shards", reads(ELEMENT), opened={}),
    "subchunk_again": Program(
        (1, 1, 0), "shards", reads(ELEMENT), opened={}, before=reads(ELEMENT)
    ),
    "subchunk_in_cache": Program(
        (0, 0, 0), "shards", reads(ELEMENT, s_[5, 5]), CACHED_SINCE_OPEN, reads(ELEMENT)
    ),
    "subchunk_beside_cached_subchunk": Program(
        (1, 1, 0), "shards", reads(s_[13, 13]), CACHED_SINCE_OPEN, reads(ELEMENT)
    ),
    "subchunk_in_checked_cache": Program(
        (1, 0, 0), "shards", reads(ELEMENT), CACHED_AND_CHECKED, reads(ELEMENT)
    ),
    "shard": Program((1, 1, 0), "shards", reads(s_[:32, :32]), opened={}),
    "parts_of_all_subchunks": Program((1, 1, 0), "shards", reads(s_[1:31, 2:30]), opened={}),
    "all_shards": Program((4, 4, 0), "shards", reads(s_[...]), opened={}),
    "chunk": Program((1, 1, 0), "chunks", reads(ELEMENT), opened={}),
    "chunk_in_cache": Program((0, 0, 0), "chunks", reads(s_[4, 4]), CACHED, reads(ELEMENT)),
    "missing_chunk": Program((1, 0, 0), "chunks", reads(ELEMENT), before=[Step(s_[:32, :32], 0)]),
    "chunk_and_checked_metadata": Program(
        (2, 1, 0),
        "chunks",
        reads(ELEMENT),
        {"recheck_cached_metadata": True, "recheck_cached_data": True},
        reads(ELEMENT),
    ),
    "chunk_and_checked_metadata_in_small_cache": Program(
        (2, 1, 0),
        "chunks",
        reads(ELEMENT),
        {"pool": "cache_pool#big", "recheck_cached_metadata": True},
        reads(ELEMENT, s_[3, 40], s_[40, 3], s_[50, 50]),  # all chunks, one after another
        cache={"total_bytes_limit": 5000},
    ),
    "format_2_chunk": Program((1, 1, 0), "format 2", reads(ELEMENT)),
    "format_2_chunk_in_cache": Program(
        (0, 0, 0), "format 2", reads(s_[4, 4]), CACHED, reads(ELEMENT)
    ),
    "format_2_chunk_and_checked_metadata": Program(
        (2, 1, 0), "format 2", reads(ELEMENT), {"recheck_cached_metadata": True}, reads(ELEMENT)
    ),
    "written_element_in_checked_cache": Program(
        (1, 0, 0), "chunks", reads(ELEMENT), CACHED_AND_CHECKED, [Step(ELEMENT, 5)]
    ),
    "written_subchunk_in_checked_cache": Program(
        (1, 0, 0), "shards", reads(s_[:8, :8]), CACHED_AND_CHECKED, [Step(s_[:8, :8], 5)]
    ),
    "batch_of_one_shard": Program(
        (1, 2, 0),
        "shards",
        reads(*[s_[i, i] for i in (0, 9, 17, 25)]),
        opened={},
        scope="batch",
    ),
    "batch_of_two_shards": Program((2, 4, 0), "shards", reads(*BLOCKS), opened={}, scope="batch"),
    "batch_of_two_chunks": Program((2, 2, 0), "chunks", reads(*BLOCKS), opened={}, scope="batch"),
    "batch_of_neighbours": Program(
        (1, 2, 0),
        "shards",
        reads(s_[0, 8], s_[1, 9], *[s_[0:1, i : i + 1] for i in (0, 16, 31)]),
        opened={},
        scope="batch",
    ),
    "batch_of_both_halves_of_a_shard": Program(
        (1, 1, 0), "shards", reads(s_[:16, :32], s_[16:32, :32]), opened={}, scope="batch"
    ),
    "batch_with_checked_metadata": Program(
        (3, 2, 0), "chunks", reads(*BLOCKS), {"recheck_cached_metadata": True}, scope="batch"
    ),
}

WRITES = {
    "part_of_chunk": Program((1, 0, 1), "chunks", [Step(ELEMENT, 1)]),
    "chunk": Program((0, 0, 1), "chunks", [Step(s_[:32, :32], 1)]),
    "part_of_shard": Program((1, 0, 1), "shards", [Step(s_[:8, :8], 1)]),
    "shard": Program((0, 0, 1), "shards", [Step(s_[:32, :32], 1)]),
    "part_of_format_2_chunk": Program((1, 0, 1), "format 2", [Step(ELEMENT, 1)]),
    "record_field_of_shard": Program((1, 0, 1), "records", [Step(s_[:32, :32], 4)]),
    "fill_value_to_missing_shards": Program(
        (4, 0, 2), "shards", [Step(s_[30:40, 30:40], 0)], before=[Step(s_[32:, :], 0)]
    ),
}

SCENARIOS = Scenarios(
    {f"read_{name}": program for name, program in READS.items()}
    | {f"write_{name}": program for name, program in WRITES.items()}
)


@SCENARIOS.expects(1, 1, 0)
def open_array(side: Side) -> None:
    side.create("a/")
    side.context = side.ts.Context()
    with side.counting():
        side.open("a/")


@SCENARIOS.expects(1, 0, 0)
def open_array_again(side: Side) -> None:
    side.create("a/")
    side.open("a/", pool="cache_pool#big")
    with side.counting():
        side.open("a/", pool="cache_pool#big")


@SCENARIOS.expects(1, 0, 0)
def open_array_twice(side: Side) -> None:
    side.create("a/")
    side.context = side.ts.Context({})
    array = side.open("a/")
    with side.counting():
        side.open("a/")
    assert array.shape == (64, 64)


@SCENARIOS.expects(1, 1, 0)
def open_format_2_array(side: Side) -> None:
    side.create_format_2("c/")
    side.context = side.ts.Context()
    with side.counting():
        side.open("c/", driver="zarr")


@SCENARIOS.expects(2, 2, 0)
def read_layers_without_metadata_checks(side: Side) -> None:
    side.create("b/", sharded=False)
    array = side.open("b/", recheck_cached_metadata=True)
    layers = side.ts.stack([array, array[:, 32:].translate_to[0, 0]])
    with side.counting():
        layers[:, 3, 3].read().result()


@SCENARIOS.expects(1, 0, 1)
def write_after_write_without_change(side: Side) -> None:
    side.create("a/")[32:, :].write(0).result()
    array = side.open("a/", pool="cache_pool#big", recheck_cached_data=False)
    array[32:, 0].write(5).result()
    with side.counting():
        array[33:36, 20].write(0).result()  # the store is empty
        array[32:, 0].write(6).result()


@SCENARIOS.expects(0, 0, 1)
def write_large_shard_again(side: Side) -> None:
    grid = {"name": "regular", "configuration": {"chunk_shape": [1024, 1024]}}
    members = {"metadata": {"chunk_grid": grid, "codecs": codecs_of("shards", (256, 256))}}
    side.open("l/", members=members, create=True, dtype=side.ts.int32, shape=[1024, 1024]).write(
        5
    ).result()
    time.sleep(0.03)
    array = side.open("l/", pool="cache_pool#big", recheck_cached_data=False)
    array[512:, :32].write(6).result()
    with side.counting():
        array[512:, :32].write(7).result()


def _statistics(store: Any) -> None:
    result = store.storage_statistics(query_fully_stored=True, query_not_stored=True).result()
    assert (result.not_stored, result.fully_stored) == (False, True)


@SCENARIOS.expects(1, 0, 0)
def statistics_of_a_chunk(side: Side) -> None:
    array = side.create("b/", sharded=False)
    with side.counting():
        _statistics(array[3, 3])


@SCENARIOS.expects(0, 0, 0)
def statistics_of_chunks(side: Side) -> None:
    array = side.create("b/", sharded=False)
    with side.counting():  # a listing opens no files
        _statistics(array[:32])
        _statistics(array)


@SCENARIOS.expects(1, 1, 0)
def statistics_of_a_part_of_a_shard(side: Side) -> None:
    side.create("a/")
    array = side.open("a/")
    with side.counting():
        _statistics(array[3:20, 3])


@SCENARIOS.expects(4, 4, 0)
def statistics_of_shards(side: Side) -> None:
    side.create("a/")
    array = side.open("a/")
    with side.counting():
        _statistics(array)


@pytest.mark.parametrize("scenario", SCENARIOS.all)
def test_file_requests_do_not_exceed_tensorstore(scenario: str, tmp_path: Path) -> None:
    SCENARIOS.check(scenario, tmp_path)
