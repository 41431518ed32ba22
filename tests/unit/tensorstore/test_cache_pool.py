"""Shared caches of stores: requests to the base store, and visibility of other writers' changes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import tessarr
import tessarr.tensorstore as ts
from tessarr.errors import StoreError
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.stores import LocalStore
from tessarr.tensorstore.context.caching import caches_of, staleness_bound, with_cache

SHAPE = (64, 64)


@pytest.fixture
def store(tmp_path: Path) -> CountingStore:
    counting = CountingStore(LocalStore(tmp_path))
    array = tessarr.create_array(counting, shape=SHAPE, chunks=(8, 8), shards=(32, 32), dtype="i4")
    array[...] = np.arange(64 * 64).reshape(SHAPE)
    settle()
    return counting


def settle() -> None:
    """Wait until the time stamps of files show changes reliably."""
    time.sleep(0.03)


def pool(limit: int) -> Any:
    return ts.Context({"cache_pool": {"total_bytes_limit": limit}})["cache_pool"]


def cached(store: Any, memory: Any, recheck: Any) -> Any:
    """Return a store with a cache, whose documents are as fresh as the opening."""
    now = time.time()
    return with_cache(
        store, caches_of(memory), caches_of(memory).pool, (now, staleness_bound(recheck, now)), now
    )


def opened(store: CountingStore, recheck: Any, memory: Any) -> tessarr.Array:
    return tessarr.open_array(cached(store, memory, recheck), mode="r")


def count_requests(store: CountingStore, before: dict[str, int]) -> dict[str, int]:
    after = store.counts()
    return {name: after[name] - before[name] for name in ("opens", "reads")}


def test_cached_shard_read_sends_no_request(store: CountingStore) -> None:
    array = opened(store, "open", pool(10**7))
    before = store.counts()
    first = array[3, 3]
    assert count_requests(store, before) == {"opens": 1, "reads": 2}  # the index, then the chunk
    before = store.counts()
    assert array[3, 3] == first
    assert array[4, 4] == first + 65
    assert count_requests(store, before) == {"opens": 0, "reads": 0}
    array[9, 9]  # another chunk of this shard
    assert count_requests(store, before) == {"opens": 1, "reads": 1}


def test_parts_of_whole_read_are_cached(store: CountingStore) -> None:
    array = opened(store, "open", pool(10**7))
    everything = array[:16]
    before = store.counts()
    assert (array[:16] == everything).all()
    assert (array[3:9, :5] == everything[3:9, :5]).all()
    assert count_requests(store, before) == {"opens": 0, "reads": 0}


@pytest.mark.parametrize(("recheck", "asks"), [("open", 0), (True, 1)])
def test_written_chunks_are_cached(tmp_path: Path, recheck: Any, asks: int) -> None:
    store = CountingStore(LocalStore(tmp_path))
    view = cached(store, pool(10**7), recheck)
    array = tessarr.create_array(view, shape=(8,), chunks=(4,), dtype="i4")
    array[:4] = 5
    before = store.counts()
    assert (array[:4] == 5).all()
    assert count_requests(store, before) == {"opens": asks, "reads": 0}
    array[:4] = 0  # the write deletes it
    before = store.counts()
    assert (array[:4] == 0).all()
    assert count_requests(store, before) == {"opens": asks, "reads": 0}


def test_last_concurrent_write_is_cached(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    array = tessarr.create_array(
        cached(store, pool(10**7), recheck=False), shape=(4,), chunks=(4,), dtype="i4"
    )
    for _ in range(50):
        threads = [
            Thread(target=array.__setitem__, args=(slice(None), value)) for value in range(1, 5)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (array[:] == tessarr.open_array(store)[:]).all()


def test_unchanged_cached_value_is_not_read_again(store: CountingStore) -> None:
    array = opened(store, True, pool(10**7))
    array[3, 3]
    before = store.counts()
    array[3, 3]
    assert count_requests(store, before) == {"opens": 1, "reads": 0}


def test_without_pool_only_indexes_are_remembered(store: CountingStore) -> None:
    array = opened(store, True, pool(0)).with_config({"chunk_cache_bytes": 0})
    array[3, 3]
    before = store.counts()
    array[3, 3]
    assert count_requests(store, before) == {"opens": 1, "reads": 1}


def test_recheck_sees_writes_of_other_handles(store: CountingStore, tmp_path: Path) -> None:
    memory = pool(10**7)
    checked, remembered = (opened(store, recheck, memory) for recheck in (True, False))
    assert (checked[3, 3], remembered[3, 3]) == (195, 195)
    other = tessarr.open_array(LocalStore(tmp_path), mode="r+")
    other[3, 3] = -1
    assert remembered[3, 3] == 195
    assert checked[3, 3] == -1
    assert remembered[3, 3] == -1  # they share the cache


def test_absent_chunk_is_requested_again(store: CountingStore) -> None:
    memory = pool(10**6)
    checked, remembered = (cached(store, memory, recheck) for recheck in (True, False))
    assert (checked.get("x"), remembered.get("x")) == (None, None)
    store.put("x", b"1")
    assert remembered.get("x") is None
    assert (checked.get("x"), remembered.get("x")) == (b"1", b"1")


def test_time_to_check_from(store: CountingStore) -> None:
    memory = pool(10**6)
    store.put("x", b"1")
    asked_at = time.time()
    assert cached(store, memory, False).get("x") == b"1"
    before = store.counts()
    assert cached(store, memory, asked_at - 10).get("x") == b"1"
    assert count_requests(store, before)["opens"] == 0
    store.put("x", b"2")
    assert cached(store, memory, asked_at - 10).get("x") == b"1"
    assert cached(store, memory, time.time()).get("x") == b"2"
    assert cached(store, memory, "open").get("x") == b"2"
    store.put("x", b"3")
    assert cached(store, memory, "open").get("x") == b"3"


def test_cache_pool_limit_covers_all_arrays(tmp_path: Path) -> None:
    memory = pool(10_000)
    stores = [CountingStore(LocalStore(tmp_path / name)) for name in "ab"]
    for store in stores:
        for key in range(20):
            store.put(f"k{key}", os.urandom(1000))
    views = [cached(store, memory, False) for store in stores]
    for view in views:
        for key in range(20):
            view.get(f"k{key}")
    result = caches_of(memory).pool
    assert result is not None
    assert result.counts()["bytes"] <= 10_000
    before = stores[0].counts()
    views[0].get("k0")  # was evicted first
    assert count_requests(stores[0], before)["opens"] == 1


def test_equal_paths_in_two_stores_are_cached_separately(tmp_path: Path) -> None:
    memory = pool(10**6)
    stores = [LocalStore(tmp_path / name) for name in "ab"]
    for number, array in enumerate(stores):
        array.put("k", b"%d" % number)
    views = [cached(array, memory, False) for array in stores]
    assert [view.get("k") for view in views] == [b"0", b"1"]
    same = cached(LocalStore(tmp_path / "a"), memory, False)
    stores[0].put("k", b"changed")
    assert same.get("k") == b"0"  # the same location: a cache hit


def test_cached_parts_of_old_value_are_not_used(tmp_path: Path) -> None:
    """The cache may evict the rest of a value before its parts."""
    folder = LocalStore(tmp_path)
    folder.put("k", bytes(3000))
    memory = pool(2000)
    view = cached(folder, memory, False)
    value = view.open_value("k")
    assert value is not None
    value.read(0, 1000)
    for key in range(3):
        folder.put(f"x{key}", b"")
    settle()
    for _ in range(2):  # evicts the record of the value's length, and not its part
        value.read(0, 1000)
        for key in range(3):
            view.get(f"x{key}")
    folder.put("k", b"\1" * 3000)
    settle()
    for key in range(20):
        folder.put(f"y{key}", bytes(50))
        view.get(f"y{key}")
        value = view.open_value("k")
        assert value is not None
        try:
            rest = value.read(2000, 10)
        except StoreError as error:
            assert error.kind == "value_replaced"
            continue
        assert value.read(0, 1000) == rest * 100


def test_own_writes_are_visible(store: CountingStore) -> None:
    view = cached(store, pool(10**6), False)
    assert view.get("x") is None
    view.put("x", b"1")
    assert view.get("x") == b"1"
    view.delete("x")
    assert view.get("x") is None


@pytest.mark.parametrize("recheck", [None, "closed", [], {}, float("nan")])
def test_other_bounds_are_refused(recheck: object) -> None:
    with pytest.raises(ValueError, match="boolean, number"):
        staleness_bound(recheck, 0.0)


def test_bounds() -> None:
    assert [staleness_bound(recheck, 5.0) for recheck in (True, False, "open", 3, 2.5)] == [
        float("inf"),
        float("-inf"),
        5.0,
        3.0,
        2.5,
    ]


def test_unread_attributes_are_requested(tmp_path: Path) -> None:
    array = tessarr.create_array(tmp_path, shape=(4,), dtype="u1", zarr_format=2)
    array.attrs["unit"] = "m"
    context = ts.Context({"cache_pool": {"total_bytes_limit": 10**6}})
    spec = {"driver": "zarr", "kvstore": f"file://{tmp_path}/", "recheck_cached_metadata": False}
    opened = ts.open(spec, context=context).result()
    with_attributes = {**spec, "metadata": {"attributes": {"unit": "m"}}}
    assert ts.open(with_attributes, context=context).result().shape == opened.shape
    with pytest.raises(ValueError, match="unit"):
        ts.open({**spec, "metadata": {"attributes": {"unit": "s"}}}, context=context).result()


def test_growth_keeps_cached_chunks(store: CountingStore) -> None:
    context = ts.Context({"cache_pool": {"total_bytes_limit": 10**7}})
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "tessarr", "store": store},
        "recheck_cached_data": "open",
    }
    array = ts.open(spec, context=context).result()
    values = array.read().result()
    grown = array.resize(exclusive_max=[70, 64]).result()
    before = store.counts()
    assert (grown[:64].read().result() == values).all()
    assert count_requests(store, before) == {"opens": 0, "reads": 0}


def test_partial_write_reads_chunk_once(store: CountingStore) -> None:
    context = ts.Context({"cache_pool": {"total_bytes_limit": 10**7}})
    spec = {"driver": "zarr3", "kvstore": {"driver": "tessarr", "store": store}}
    array = ts.open(spec, context=context).result()
    before = store.counts()["looks"]
    for row in range(4):
        array[row, :3].write(row).result()
    assert store.counts()["looks"] - before == 1
    assert array[:4, 2].read().result().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_resize_searches_consolidated_metadata_in_groups_above(driver: str, tmp_path: Path) -> None:
    store = CountingStore(LocalStore(tmp_path))
    form: Any = 3 if driver == "zarr3" else 2
    root = tessarr.create_group(store, zarr_format=form)
    root.create_array("a/b/c", shape=(4,), dtype="u1")
    tessarr.consolidate_metadata(store)

    def grown(path: str, **options: Any) -> int:
        kvstore = {"driver": "tessarr", "store": store, "path": path}
        array = ts.open({"driver": driver, "kvstore": kvstore}, **options).result()
        before = store.counts()["opens"]
        array.resize(exclusive_max=[6]).result()
        return store.counts()["opens"] - before

    grown("a/b/c")
    assert tessarr.open_group(store, mode="r")["a/b/c"].shape == (6,)
    assert grown("x/y/z/c", create=True, dtype="uint8", shape=[4]) == 1


@pytest.mark.parametrize("limit", [10**4, 10**6, 2**20])
@pytest.mark.parametrize("own", [False, True])
def test_open_sees_metadata_changed_by_others(own: bool, limit: int, tmp_path: Path) -> None:
    """The open sees them with any cache size, and with a separate pool."""
    spec = {"driver": "zarr3", "kvstore": tmp_path.as_uri()}
    others = ts.open(spec, create=True, dtype=ts.uint8, shape=[4]).result()
    others.write(1).result()
    pools = {"cache_pool": {"total_bytes_limit": 0 if own else limit}}
    context = ts.Context(pools | {"cache_pool#own": {"total_bytes_limit": limit}})
    named = {"metadata_cache_pool": "cache_pool#own"} if own else {}
    for size in (4, 6, 8):
        others.resize(exclusive_max=[size]).result()
        handle = ts.open(spec | named, context=context).result()
        assert handle.shape == (size,)
        handle.read().result()
        del handle
