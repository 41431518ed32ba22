"""Transactions of arrays: requests, and the thread that commits."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessarr
import tessarr.tensorstore as ts
from tessarr._engine import start_reads
from tessarr.errors import ArgumentError, ConflictError
from tessarr.index_space import Dim, IndexDomain, IndexTransform, lower
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.stores import LocalStore, MemoryStore


def count_requests(before: dict[str, int], store: CountingStore) -> dict[str, int]:
    after = store.counts()
    return {name: after[name] - before[name] for name in after if after[name] != before[name]}


# Handles


def _chosen(array: tessarr.Array, key: Any) -> tuple[IndexTransform, Any]:
    whole = IndexDomain._of(tuple(Dim._of(0, size) for size in array.shape))
    view = IndexTransform(whole)[key]
    return view, lower(view, array.shape)


def write(transaction: ts.Transaction, array: tessarr.Array, key: Any, value: Any) -> None:
    view, chosen = _chosen(array, key)
    if not chosen.size:
        return
    values = np.array(np.broadcast_to(np.asarray(value, array.dtype), view.shape))
    future: Any = ts.Future._pending()
    staged = transaction._staging.array(array)
    staged._write_future(chosen.axes, chosen.out_axes, chosen.buffer(values), future, None)
    future.result(timeout=60)


def read(transaction: ts.Transaction, array: tessarr.Array, key: Any = ...) -> Any:
    _, chosen = _chosen(array, key)
    buffer = np.empty(chosen.buffer_shape, array.dtype)
    future: Any = ts.Future._pending()
    staged = transaction._staging.array(array)
    start_reads([staged._prepare_read(chosen.axes, chosen.out_axes, buffer)], [future])
    return chosen.result(future.result(timeout=60))


# Arrays


def sharded(store: Any, **settings: Any) -> tessarr.Array:
    array = tessarr.create_array(
        store, shape=(8, 8), chunks=(2, 2), shards=(8, 8), dtype="i4", **settings
    )
    array[...] = np.arange(64).reshape(8, 8)
    return array


def test_many_writes_to_one_shard_are_one_request() -> None:
    store = CountingStore(MemoryStore())
    array = sharded(store)
    before = store.counts()
    transaction = ts.Transaction()
    for row in range(8):
        write(transaction, array, row, -row)
    assert count_requests(before, store) == {}
    transaction.commit_sync()
    changes = count_requests(before, store)
    assert (changes.pop("updates"), changes.pop("written_bytes") > 0) == (1, True)
    assert changes == {}  # the transaction wrote the whole shard: no reads
    assert np.array_equal(array[:, 3], -np.arange(8))


def test_parts_of_shard_are_one_request(tmp_path: Path) -> None:
    store = CountingStore(LocalStore(tmp_path))
    array = sharded(store)
    before = store.counts()
    with ts.Transaction() as transaction:
        for index in ((0, 0), (3, 5), (7, 7)):
            write(transaction, array, index, -1)
    changes = count_requests(before, store)
    assert changes["updates"] == 1
    assert changes.get("opens", 0) == 0


def test_concurrent_writers_of_chunk_keep_elements() -> None:
    array = tessarr.create_array(MemoryStore(), shape=(8,), chunks=(8,), dtype="u1")
    transaction = ts.Transaction()
    write(transaction, array, slice(0, 2), 7)
    assert read(transaction, array).tolist() == [7, 7, 0, 0, 0, 0, 0, 0]
    array[2] = 8
    assert read(transaction, array).tolist() == [7, 7, 8, 0, 0, 0, 0, 0]
    assert array[...].tolist() == [0, 0, 8, 0, 0, 0, 0, 0]
    transaction.commit_sync()
    assert array[...].tolist() == [7, 7, 8, 0, 0, 0, 0, 0]


def test_repeatable_read_of_changed_array_conflicts() -> None:
    array = tessarr.create_array(MemoryStore(), shape=(8,), chunks=(4,), dtype="u1")
    array[...] = 1
    transaction = ts.Transaction(repeatable_read=True)
    read(transaction, array, slice(0, 4))
    write(transaction, array, slice(4, 8), 5)
    array[0] = 2
    with pytest.raises(ConflictError):
        transaction.commit_sync()
    assert array[...].tolist() == [2, 1, 1, 1, 1, 1, 1, 1]


def test_abort_leaves_array_unchanged() -> None:
    array = sharded(MemoryStore())
    transaction = ts.Transaction()
    write(transaction, array, ..., 0)
    transaction.abort()
    assert array[7, 7] == 63


def test_atomic_commit_of_array_and_keys() -> None:
    location = MemoryStore()
    array = sharded(location)
    transaction = ts.Transaction(atomic=True)
    write(transaction, array, (slice(0, 3), slice(1, 4)), -1)
    store = ts.KvStore.open(location).result()
    store.with_transaction(transaction)["note"] = b"changed"
    assert "note" not in store
    transaction.commit_sync()
    assert store["note"] == b"changed"
    assert int((array[...] == -1).sum()) == 9


def test_texts_and_records_are_staged() -> None:
    text = tessarr.create_array(MemoryStore(), shape=(4,), chunks=(2,), dtype="T")
    text[...] = ["a", "b", "c", "d"]
    with ts.Transaction() as transaction:
        write(transaction, text, slice(1, 3), "x" * 50)
        assert list(read(transaction, text)) == ["a", "x" * 50, "x" * 50, "d"]
    assert list(text[...]) == ["a", "x" * 50, "x" * 50, "d"]
    record = np.dtype([("a", "<i2"), ("b", "<f8")])
    table = tessarr.create_array(MemoryStore(), shape=(3,), chunks=(3,), dtype=record)
    with ts.Transaction() as transaction:
        write(transaction, table, 1, np.array((7, 1.5), record))
    assert table[...].tolist() == [(0, 0.0), (7, 1.5), (0, 0.0)]


@given(
    boxes=st.lists(
        st.tuples(
            st.tuples(st.integers(0, 6), st.integers(1, 7)),
            st.tuples(st.integers(0, 4), st.integers(1, 5)),
        ),
        max_size=6,
    ),
    outside=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), max_size=3),
    atomic=st.booleans(),
    shards=st.sampled_from([None, (4, 4)]),
    compressors=st.sampled_from([None, "auto"]),
)
def test_write_order_matches_writes_without_transaction(
    boxes: list[Any],
    outside: list[tuple[int, int]],
    *,
    atomic: bool,
    shards: Any,
    compressors: Any,
) -> None:
    array = tessarr.create_array(
        MemoryStore(),
        shape=(7, 5),
        chunks=(2, 2),
        shards=shards,
        compressors=compressors,
        dtype="i4",
        fill_value=-5,
    )
    expected = np.full((7, 5), -5, "i4")
    transaction = ts.Transaction(atomic=atomic)
    staged = np.zeros((7, 5), bool)
    values = expected.copy()
    for number, sides in enumerate(boxes):
        key = tuple(slice(low, max(low, high)) for low, high in sides)
        write(transaction, array, key, number)
        values[key] = number
        staged[key] = True
    for index in outside:
        array[index] = 99
        expected[index] = 99
    expected[staged] = values[staged]
    assert np.array_equal(read(transaction, array), expected)
    transaction.commit_sync()
    assert np.array_equal(array[...], expected)


@pytest.mark.parametrize("dtype", ["int32", "bool"])
@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
@pytest.mark.parametrize("location", ["start", "end"])
def test_shard_without_codecs_equals_plain_write(
    location: str, order: list[int], dtype: str
) -> None:
    """The transaction stages the stored bytes, for any written parts."""
    inner = {
        "chunk_shape": [2, 2],
        "codecs": [
            {"name": "transpose", "configuration": {"order": order}},
            {"name": "bytes", "configuration": {"endian": "little"}}
            if dtype == "int32"
            else "bytes",
        ],
        "index_location": location,
    }
    metadata = {
        "shape": [8, 12],
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 6]}},
        "codecs": [{"name": "sharding_indexed", "configuration": inner}],
    }
    values = np.arange(1, 97).reshape(8, 12).astype(dtype)
    values[:2, :2] = 0  # a subchunk that is not stored
    for parts in ([slice(0, 8)], [slice(k, k + 1) for k in range(8)], [slice(0, 3), slice(2, 8)]):
        spec = {"driver": "zarr3", "kvstore": "memory://", "metadata": metadata}
        alone, staged = (ts.open(spec, create=True).result() for _ in range(2))
        alone[...] = values
        with ts.Transaction() as transaction:
            inside = staged.with_transaction(transaction)
            for part in parts:
                inside[part] = ~values[part]
                inside[part] = values[part]
            keys = alone.kvstore.list().result()
            # Read values are stable, and the program can write them again.
            assert [inside.kvstore[key] for key in keys] == [alone.kvstore[key] for key in keys]
            inside[4, 7] = alone[4, 7] = ~values[4, 7]
        assert staged.kvstore.list().result() == keys
        assert [staged.kvstore[key] for key in keys] == [alone.kvstore[key] for key in keys]


def test_arrays_without_axes() -> None:
    array = tessarr.create_array(MemoryStore(), shape=(), dtype="i4")
    with ts.Transaction() as transaction:
        write(transaction, array, (), 3)
        assert int(read(transaction, array, ())) == 3
        assert int(array[()]) == 0
    assert int(array[()]) == 3


class RecordingDict(dict[str, bytes]):
    """A dictionary that records the threads that write."""

    threads: set[int]

    def __setitem__(self, key: str, value: bytes) -> None:
        self.threads.add(threading.get_ident())
        super().__setitem__(key, value)


@pytest.mark.parametrize("main", [False, True])
def test_commit_runs_in_calling_thread(main: bool) -> None:
    """The exception is a commit that Ctrl-C would end halfway."""
    mapping = RecordingDict()
    mapping.threads = set()
    store = ts.KvStore.open({"driver": "tessarr", "store": mapping}).result()

    def commit() -> None:
        for key in "abc":
            with ts.Transaction() as transaction:
                store.with_transaction(transaction)[key] = b"1"

    thread = threading.Thread(target=commit)
    if main:
        commit()
    else:
        thread.start()
        thread.join()
    assert sorted(mapping) == ["a", "b", "c"]
    if main:
        assert threading.get_ident() not in mapping.threads
    else:
        assert mapping.threads == {thread.ident}


@pytest.mark.parametrize(
    ("keys", "size", "is_inline"), [(1, 10, True), (2, 10, False), (1, 1 << 17, False)]
)
def test_commit_sync_writes_small_file_inline(
    keys: int, size: int, is_inline: bool, tmp_path: Path
) -> None:
    """A hand-off to another thread would take longer; an asynchronous commit uses it."""
    store = ts.KvStore.open(f"file://{tmp_path}/").result()
    for commit, at_once in [
        (ts.Transaction.commit_async, False),
        (ts.Transaction.commit_sync, is_inline),
    ]:
        transaction, ended = ts.Transaction(), list[int]()
        transaction.future.add_done_callback(
            lambda _, ended=ended: ended.append(threading.get_ident())
        )
        for number in range(keys):
            store.with_transaction(transaction)[f"key{number}"] = bytes(size)
        commit(transaction)
        transaction.future.result(60)
        assert (ended == [threading.get_ident()]) == at_once
        assert len(store["key0"]) == size


def test_empty_commit_is_done_at_once() -> None:
    assert ts.Transaction().commit_async().done()


def test_keys_are_staged_during_iteration() -> None:
    """Another thread can add a memory store."""
    transaction = ts.Transaction(atomic=True)
    first, second = (
        ts.KvStore.open("memory://").result().with_transaction(transaction) for _ in range(2)
    )
    first["a"] = b"1"

    def stage(_frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and function.__name__ == "count_changes":
            sys.setprofile(None)
            second["a"] = b"2"

    sys.setprofile(stage)
    try:
        transaction._check_single_target()
    finally:
        sys.setprofile(None)
    assert transaction.open
    with pytest.raises(ArgumentError, match="2 places"):
        transaction.commit_sync()


def test_unreferenced_transaction_is_collected() -> None:
    store = ts.KvStore.open("memory://").result()
    transaction = ts.Transaction()
    store.with_transaction(transaction)["a"] = b"1"
    gone = weakref.ref(transaction)
    del transaction
    gc.collect()
    assert gone() is None
    assert "a" not in store


def test_future_during_commit_gets_result() -> None:
    store = ts.KvStore.open("memory://").result()
    futures: list[ts.Future[None]] = []
    current: list[ts.Transaction] = []
    stop = threading.Event()

    def look() -> None:
        last = False
        while not last:
            last = stop.is_set()
            futures.extend(transaction.future for transaction in current[-1:])

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for number in range(2000):
            current.append(ts.Transaction())
            store.with_transaction(current[-1])[f"{number}"] = b"1"
            current[-1].commit_sync()
    finally:
        stop.set()
        thread.join()
    assert futures
    for future in futures:
        future.result(60)
    assert len(store.list().result()) == 2000


@pytest.mark.parametrize(
    ("shard", "codec", "is_inline"),
    [
        (1 << 10, None, True),
        (1 << 14, None, True),
        (1 << 20, None, False),
        (1 << 10, "zstd", True),
        (1 << 14, "zstd", False),
    ],
)
def test_large_commit_runs_in_another_thread(
    shard: int, codec: str | None, is_inline: bool
) -> None:
    codecs = [{"name": codec}] if codec else []
    encoded = ts.CodecSpec({"driver": "zarr3", "codecs": [{"name": "bytes"}, *codecs]})
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    layout = ts.ChunkLayout(read_chunk_shape=[256], write_chunk_shape=[shard])
    new: dict[str, Any] = {"dtype": ts.uint8, "shape": [1 << 20], "chunk_layout": layout}
    array = ts.open(spec, create=True, codec=encoded, **new).result()
    transaction = ts.Transaction()
    ended: list[int] = []
    transaction.future.add_done_callback(lambda _: ended.append(threading.get_ident()))
    array.with_transaction(transaction)[5] = 7
    transaction.commit_async().result()
    assert int(array[5].read().result()) == 7
    assert (ended == [threading.get_ident()]) == is_inline


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_transaction_copy_is_refused(duplicate: Callable[[Any], Any]) -> None:
    """Two objects cannot commit the same changes."""
    with pytest.raises(TypeError, match="cannot be pickled or copied"):
        duplicate(ts.Transaction())
