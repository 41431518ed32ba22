"""The number of requests that operations send to a cloud."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tessarr
from stores.clouds import Cloud
from tessarr.store.object.open import open_object_url
from tessarr.store.wrappers.wrapper import PrefixStore


def open_array(cloud: Cloud, path: str = "x", **settings: Any) -> tessarr.Array:
    return tessarr.open_array(cloud.url(path), storage_options=cloud.storage_options, **settings)


def create_array(cloud: Cloud, path: str = "x", **settings: Any) -> tessarr.Array:
    return tessarr.create_array(cloud.url(path), storage_options=cloud.storage_options, **settings)


def test_opening_is_one_request(cloud: Cloud) -> None:
    create_array(cloud, data=np.arange(16), chunks=4)
    cloud.proxy.reset_counts()
    array = open_array(cloud, mode="r")
    assert len(cloud.proxy.requests) == 1
    cloud.proxy.reset_counts()
    assert array[:].sum() == 120
    assert len(cloud.proxy.requests) == 4


def test_opening_consolidated_group_is_one_request(cloud: Cloud) -> None:
    options = cloud.storage_options
    group = tessarr.create_group(cloud.url("g"), storage_options=options)
    for name in "abc":
        group.create_array(name, data=np.arange(4), chunks=4)
    tessarr.consolidate_metadata(cloud.url("g"), storage_options=options)
    cloud.proxy.reset_counts()
    group = tessarr.open_group(cloud.url("g"), mode="r", storage_options=options)
    assert sorted(group) == ["a", "b", "c"]
    array: Any = group["b"]
    assert len(cloud.proxy.requests) == 1
    assert array[3] == 3
    assert len(cloud.proxy.requests) == 2


def test_consolidation_reads_and_writes_each_document_once(cloud: Cloud) -> None:
    """The write has the version of the first read as its precondition, and the result is bound."""
    options = cloud.storage_options
    group = tessarr.create_group(cloud.url("g"), storage_options=options)
    for name in "abc":
        group.create_array(name, shape=4, dtype="u1")
    for _ in range(2):  # the second one replaces copies
        cloud.proxy.reset_counts()
        group = tessarr.consolidate_metadata(cloud.url("g"), storage_options=options)
        assert sorted(name for name, _ in group.arrays()) == ["a", "b", "c"]
        assert len(cloud.proxy.requests) == 6  # 4 documents, a listing, and the write
    group.attrs["title"] = "t"
    assert tessarr.open_group(cloud.url("g"), storage_options=options).attrs["title"] == "t"


@pytest.mark.parametrize("settings", [{}, {"compressors": None}, {"shards": 16}])
def test_change_of_element_is_two_requests(cloud: Cloud, settings: dict[str, Any]) -> None:
    """A conditional write needs the value that it changes."""
    array = create_array(cloud, data=np.arange(16), chunks=8, **settings)
    cloud.proxy.reset_counts()
    array[3] = 7
    assert len(cloud.proxy.requests) == 2
    cloud.proxy.reset_counts()
    array[:8] = 1
    expected = 2 if "shards" in settings else 1
    assert len(cloud.proxy.requests) == expected


def test_element_of_known_shard_is_one_request(cloud: Cloud) -> None:
    """The version of the response confirms the index that an earlier read has cached."""
    writer = create_array(cloud, data=np.arange(64), chunks=4, shards=32)
    array = open_array(cloud, mode="r")
    assert array[3] == 3
    cloud.proxy.reset_counts()
    assert [array[position] for position in (4, 30, 31)] == [4, 30, 31]
    assert array[4:12].tolist() == list(range(4, 12))
    assert len(cloud.proxy.requests) == 4
    writer[4] = 7  # the positions of other subchunks stay or move
    assert [array[position] for position in (4, 5, 30)] == [7, 5, 30]
    writer[:32] = 1
    assert [array[position] for position in (4, 5, 30)] == [1, 1, 1]
    cloud.proxy.reset_counts()
    assert array[9] == 1
    assert len(cloud.proxy.requests) == 1
    writer[:32] = 0  # deletes the shard
    assert array[9] == 0


def test_creation_and_append_need_few_requests(cloud: Cloud) -> None:
    array = create_array(cloud, shape=(4, 4), chunks=(4, 4), dtype="u1")
    assert len(cloud.proxy.requests) <= 6
    cloud.proxy.reset_counts()
    array.append(np.ones((4, 4), "u1"))
    assert len(cloud.proxy.requests) <= 5


def test_groups_are_read_side_by_side(cloud: Cloud) -> None:
    """Listing a group is one listing, and one request for each document."""
    options = cloud.storage_options
    group = tessarr.create_group(cloud.url("g"), storage_options=options)
    for number in range(20):
        group.create_array(f"a{number}", shape=4, dtype="u1")
    cloud.proxy.reset_counts()
    cloud.proxy.delay_s = 0.05
    group = tessarr.open_group(cloud.url("g"), mode="r", storage_options=options)
    assert len(dict(group.items())) == 20
    assert len(cloud.proxy.requests) <= 22
    assert cloud.proxy.max_concurrent >= 10


def test_stored_sizes_come_from_listings(cloud: Cloud) -> None:
    array = create_array(cloud, "g/x", data=np.arange(64), chunks=4)
    expected = sum(len(cloud.get(key) or b"") for key in cloud.list("g/x"))
    cloud.proxy.reset_counts()
    assert array.nbytes_stored == expected
    assert len(cloud.proxy.requests) == 1
    assert "initialized: 16/16" in str(array.info)
    assert len(cloud.proxy.requests) == 2
    store = PrefixStore(open_object_url(cloud.url(), cloud.storage_options), "g")
    assert tessarr.open_array(store, path="x", mode="r").nbytes_stored == expected
    assert len(cloud.proxy.requests) == 4
