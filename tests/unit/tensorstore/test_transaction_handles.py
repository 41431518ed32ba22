"""Handles with uncommitted changes, and writes to parts of elements."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessarr.tensorstore as ts
from tessarr.errors import ConflictError

# Reads of staged changes


def records(field: str, **options: Any) -> ts.TensorStore:
    dtype = {"name": "struct", "configuration": {"fields": [
        {"name": "a", "data_type": "int16"}, {"name": "b", "data_type": "float32"},
    ]}}  # fmt: skip
    inner = {"name": "bytes", "configuration": {"endian": "little"}}
    sharding = {"chunk_shape": [4], "codecs": [inner]}
    spec = {
        "driver": "zarr3",
        "kvstore": "memory://records/",
        "field": field,
        "metadata": {
            "data_type": dtype,
            "shape": [16],
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [16]}},
            "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
        },
    }
    return ts.open(spec, **options).result()


def test_write_of_field_keeps_other_fields() -> None:
    context = ts.Context()
    first = records("a", create=True, context=context)
    second = records("b", open=True, context=context)
    second[...] = 1.5
    transaction = ts.Transaction()
    inside = first.with_transaction(transaction)
    inside[2:6] = 7
    second[3] = 2.5  # other writers change another field of the same element
    first[4] = 9
    first[6] = 8
    assert inside.read().result().tolist() == [0, 0, 7, 7, 7, 7, 8] + [0] * 9
    assert second.with_transaction(transaction)[3].read().result() == 2.5
    transaction.commit_sync()
    assert first.read().result().tolist() == [0, 0, 7, 7, 7, 7, 8] + [0] * 9
    assert second.read().result().tolist() == [1.5] * 3 + [2.5] + [1.5] * 12


def raw(**options: Any) -> ts.TensorStore:
    spec = {
        "driver": "zarr3",
        "kvstore": "memory://raw/",
        "metadata": {
            "data_type": "r64",
            "shape": [6],
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3]}},
        },
    }
    return ts.open(spec, **options).result()


def test_write_of_bytes_keeps_other_bytes() -> None:
    """Threads that write different bytes of the same elements lose no update."""
    handle = raw(create=True)
    expected = np.empty((6, 8), "S1")

    def write(position: int) -> None:
        for number in range(40):
            handle[:, position] = bytes([1 + number % 9 + position * 9])

    threads = [threading.Thread(target=write, args=(position,)) for position in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for position in range(8):
        expected[:, position] = bytes([1 + 39 % 9 + position * 9])
    assert np.array_equal(handle.read().result().view("u1"), expected.view("u1"))


@given(st.data())
def test_any_bytes_inside_of_elements(data: st.DataObject) -> None:
    context = ts.Context()
    handle = raw(create=True, delete_existing=True, context=context)
    expected = np.zeros((6, 8), "u1")
    transaction = data.draw(st.none() | st.builds(ts.Transaction))
    for _ in range(data.draw(st.integers(1, 4))):
        size = data.draw(st.integers(1, 4))
        several = {"min_size": size, "max_size": size}
        places = [data.draw(st.lists(st.integers(0, n), **several)) for n in (5, 7)]
        low, high = sorted(data.draw(st.tuples(st.integers(0, 8), st.integers(0, 8))))
        key, mode = data.draw(
            st.sampled_from([
                ((places[0], places[1]), "vindex"),
                ((slice(None), places[1]), "oindex"),
                ((places[0], slice(low, high)), "oindex"),
                ((slice(1, 5, 2), slice(low, high, 3)), "plain"),
                ((places[0][0], slice(None)), "plain"),
                ((..., places[1][0]), "plain"),
            ])
        )  # fmt: skip
        inside = handle.with_transaction(transaction)
        view = inside[key] if mode == "plain" else getattr(inside, mode)[key]
        values = np.arange(1, view.size + 1, dtype="u1").reshape(view.shape)
        view.write(values.view("S1")).result()
        expected[key] = values
        assert np.array_equal(inside.read().result().view("u1"), expected)
    if transaction is not None:
        transaction.commit_sync()
    assert np.array_equal(handle.read().result().view("u1"), expected)


def test_missing_subchunk_is_reported() -> None:
    inner = [{"name": "bytes", "configuration": {"endian": "little"}}]
    shards = {"name": "sharding_indexed", "configuration": {"chunk_shape": [2], "codecs": inner}}
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "memory", "path": "a/"},
        "metadata": {
            "data_type": "uint8",
            "shape": [8],
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
            "codecs": [shards],
        },
        "fill_missing_data_reads": False,
    }
    context = ts.Context()
    handle = ts.open(spec, context=context, create=True).result()
    handle[0] = 5
    assert handle[:2].read().result().tolist() == [5, 0]
    for missing in (slice(2, 4), slice(4, 8), slice(0, 8)):
        with pytest.raises(ValueError, match="the chunk is missing"):
            handle[missing].read().result()
        with ts.Batch() as batch:
            future = handle[missing].read(batch=batch)
        with pytest.raises(ValueError, match="the chunk is missing"):
            future.result()
    with ts.Transaction() as transaction:
        inside = handle.with_transaction(transaction)
        inside[2:8] = 1
        assert inside[2:8].read().result().tolist() == [1] * 6
    assert handle.read().result().tolist() == [5, 0, 1, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("fill", [0, 1])
@pytest.mark.parametrize("kind", ["uint16", "bool"])
@pytest.mark.parametrize(
    "keys",
    [
        [np.s_[2:7, 3:4]],
        [np.s_[:3], np.s_[5:]],
        [np.s_[::2, 1:, 1], np.s_[9, ::3]],
        [np.s_[4:, :, :2], np.s_[4:, :, 2:]],
        [np.s_[:]],
    ],
)
def test_chunk_without_codecs_keeps_other_writers_elements(
    keys: list[Any], kind: str, fill: int
) -> None:
    """The parts are boxes, several boxes and steps, always inside the array."""
    draw = np.random.default_rng(5)
    store = ts.open(
        {"driver": "zarr3", "kvstore": "memory://", "metadata": {"codecs": [{"name": "bytes"}]}},
        create=True,
        dtype=kind,
        shape=[10, 7, 3],
        fill_value=np.array(fill, kind),
        chunk_layout=ts.ChunkLayout(chunk_shape=[4, 4, 3]),
    ).result()
    expected = np.full((10, 7, 3), fill, kind)
    expected[3:6] = draw.integers(0, 2, (3, 7, 3))
    store[3:6] = expected[3:6]
    with ts.Transaction() as transaction:
        staged = store.with_transaction(transaction)
        parts = [(key, draw.integers(0, 2, expected[key].shape).astype(kind)) for key in keys]
        for key, values in parts:
            staged[key].write(values).result()
        # Other writers change elements that the transaction writes, and others.
        expected[3:9, 2:] = fill
        store[3:9, 2:] = expected[3:9, 2:]
    for key, values in parts:
        expected[key] = values
    np.testing.assert_array_equal(store.read().result(), expected)


@pytest.mark.parametrize("options", [{}, {"atomic": True}, {"repeatable_read": True}])
@pytest.mark.parametrize("shared", [False, True])
def test_cached_user_stores_join_transaction(options: dict[str, bool], shared: bool) -> None:
    store: dict[str, bytes] = {}
    spec = {"driver": "zarr3", "kvstore": {"driver": "tessarr", "store": store}}
    context = ts.Context()
    first = ts.open(spec, context=context, create=True, dtype="int8", shape=[3]).result()
    second = ts.open(spec, context=context if shared else ts.Context()).result()
    with ts.Transaction(**options) as transaction:
        first.with_transaction(transaction)[0] = 1
        second.with_transaction(transaction)[1] = 2
        assert first.with_transaction(transaction).read().result().tolist() == [1, 2, 0]
        assert "c/0" not in store
    assert store["c/0"] == b"\1\2\0"


def test_staged_elements_are_readable_during_list() -> None:
    """The chunks become keys, which stay visible until the commit."""
    layout = ts.ChunkLayout(chunk_shape=[64])
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    array = ts.open(
        spec, create=True, dtype="uint32", shape=[64 * 200], chunk_layout=layout
    ).result()
    transaction, listing = ts.Transaction(), True
    staged = array.with_transaction(transaction)

    def list_keys() -> None:
        while listing:
            staged.kvstore.list().result()

    thread = threading.Thread(target=list_keys)
    thread.start()
    try:
        for number in range(64):
            view = staged.vindex[np.arange(200) * 64 + number]
            view.write(np.full(200, number, "u4")).result()
            assert (view.read().result() == number).all()
    finally:
        listing = False
        thread.join()
    transaction.commit_sync()
    assert (array.read().result().reshape(200, 64) == np.arange(64)).all()


# Shrinking while others write

SHRUNK = {"chunk_layout": ts.ChunkLayout(chunk_shape=[4, 3]), "dtype": ts.int8}


def begin_transaction(size: int = 20) -> tuple[ts.TensorStore, ts.Transaction, Any]:
    """Return an array, a transaction, and the array's handle in the transaction."""
    built = ts.open(
        {"driver": "zarr3", "kvstore": "memory://"}, create=True, shape=[size, 3], **SHRUNK
    ).result()
    transaction = ts.Transaction()
    built.with_transaction(transaction)[0, 0] = 1
    return built, transaction, transaction._staging.array(built._driver.array)


def test_write_outside_shrinking_array_is_dropped() -> None:
    built, transaction, before = begin_transaction()
    inside = built.with_transaction(transaction)
    shorter = inside.resize(exclusive_max=[10, None]).result()
    before[...] = 7  # it has started before
    chunks = [b"c/0/0", b"c/1/0", b"c/2/0", b"zarr.json"]
    assert inside.kvstore.list().result() == chunks
    longer = shorter.resize(exclusive_max=[20, None]).result()
    assert longer[12:].read().result().max() == 0
    longer[17] = 5
    transaction.commit_sync()
    result = built.resolve().result().read().result()[:, 0].tolist()
    assert result == [7] * 12 + [0] * 5 + [5] + [0] * 2
    assert built.kvstore.list().result() == [*chunks[:3], b"c/4/0", b"zarr.json"]


def test_regrown_array_accepts_writes() -> None:
    """The transaction or another writer writes, or the document has changed."""
    built, transaction, _ = begin_transaction()
    inside = built.with_transaction(transaction)
    document = inside.kvstore["zarr.json"]
    inside.resize(exclusive_max=[10, None]).result()
    built.resize(exclusive_max=[None, 9]).result()
    inside[:, 8] = 2
    assert inside.resize(exclusive_max=[18, None]).result().shape == (18, 9)
    inside[17] = 3
    inside.resize(exclusive_max=[4, None]).result()
    inside.kvstore["zarr.json"] = document
    again = ts.open(
        {"driver": "zarr3", "kvstore": inside.kvstore.spec(retain_context=True)},
        transaction=transaction,
    ).result()
    again[19] = 4
    assert again[19].read().result().tolist() == [4, 4, 4]
    assert again.kvstore.list().result() == [b"c/0/0", b"c/0/2", b"c/4/0", b"zarr.json"]


def test_resize_holds_after_replacing_another_array() -> None:
    store = ts.KvStore.open("memory://").result()
    transaction = ts.Transaction()

    def create_array(path: str) -> tuple[ts.TensorStore, Any]:
        spec = {"driver": "zarr3"}
        array = ts.open(spec, kvstore=store / path, create=True, shape=[20, 3], **SHRUNK).result()
        inside = array.with_transaction(transaction)
        inside[0] = 1
        return inside, transaction._staging.array(array._driver.array)

    item, began = create_array("one/")
    other, _ = create_array("other/")
    document = other.kvstore["zarr.json"]
    item.resize(exclusive_max=[10, None]).result()
    other.resize(exclusive_max=[10, None]).result()
    other.kvstore["zarr.json"] = document
    began[...] = 7
    assert item.kvstore.list().result() == [b"c/0/0", b"c/1/0", b"c/2/0", b"zarr.json"]


def test_array_shrinks_while_threads_write() -> None:
    for _ in range(20):
        built, transaction, _ = begin_transaction(400)
        inside, shrinking = built.with_transaction(transaction), threading.Event()

        def write(inside: Any = inside, shrunk: Any = shrinking) -> None:
            while not shrunk.is_set():
                with contextlib.suppress(ValueError):
                    inside.write(7).result()

        threads = [threading.Thread(target=write) for _ in range(3)]
        for thread in threads:
            thread.start()
        inside.resize(exclusive_max=[4, None]).result()
        shrinking.set()
        for thread in threads:
            thread.join()
        transaction.commit_sync()
        assert set(built.kvstore.list().result()) <= {b"c/0/0", b"zarr.json"}


def test_limited_keys_and_arrays_share_location(tmp_path: Path) -> None:
    """Stores that differ in the limit of concurrent decodings are the same store."""
    context = ts.Context({"data_copy_concurrency": {"limit": 1}})
    location = f"{tmp_path.as_uri()}/"
    spec = {
        "driver": "zarr3",
        "kvstore": location,
        "metadata": {"shape": [2], "data_type": "uint8"},
    }
    array = ts.open(spec, create=True, context=context).result()
    array.write([1, 2]).result()
    keys = ts.KvStore.open(location, context=context).result()
    with ts.Transaction() as transaction:
        inside, staged = array.with_transaction(transaction), keys.with_transaction(transaction)
        staged["c/0"] = b"\3\4"
        assert inside.read().result().tolist() == [3, 4]
        inside[0] = 5
        assert staged["c/0"] == b"\5\4"
    assert array.read().result().tolist() == [5, 4]


@pytest.mark.parametrize("recheck", [True, False])
def test_transaction_reads_respect_staleness_bound(recheck: bool, tmp_path: Path) -> None:
    """Each transaction has its own bound, although all share a cache."""
    spec = {"driver": "zarr3", "kvstore": tmp_path.as_uri()}
    options = {"create": True, "dtype": ts.uint8, "shape": [4]}
    writer = ts.open(spec, **options).result()
    writer.write(1).result()
    handles = [ts.open(spec, recheck_cached_data=bound).result() for bound in (recheck, True)]
    transaction = ts.Transaction()
    first, other = (handle.with_transaction(transaction) for handle in handles)
    assert first[0].read().result() == other[0].read().result() == 1
    writer.write(20).result()
    assert first[1].read().result() in ([20] if recheck else [1, 20])
    assert other[1].read().result() == 20
    transaction.abort()


@pytest.mark.parametrize("limit", [None, 10**6])
@pytest.mark.parametrize("recheck", ["open", True, "time"])
def test_small_cache_respects_staleness_bound(
    limit: int | None, recheck: Any, tmp_path: Path
) -> None:
    """The transaction's cache holds the chunk, and another handle needs a current one."""
    spec = {"driver": "zarr3", "kvstore": tmp_path.as_uri()}
    writer = ts.open(spec, create=True, dtype=ts.uint8, shape=[4]).result()
    writer.write(1).result()
    small = ts.Context({"cache_pool": {"total_bytes_limit": 10**6}})
    first = ts.open(spec, context=small, recheck_cached_data=False).result()
    first.read().result()
    writer.write(20).result()
    recheck = time.time() if recheck == "time" else recheck
    context = ts.Context({"cache_pool": {"total_bytes_limit": limit}} if limit else {})
    other = ts.open(spec, context=context, recheck_cached_data=recheck).result()
    transaction = ts.Transaction()
    inside = [handle.with_transaction(transaction) for handle in (first, other)]
    assert [handle[0].read().result() for handle in inside] == [1, 20]
    transaction.abort()


def test_changed_cached_chunk_conflicts_once(tmp_path: Path) -> None:
    """The transaction has repeatable reads; the next transaction reads the chunk again."""
    context = ts.Context({"cache_pool": {"total_bytes_limit": 10**8}})
    spec = {"driver": "zarr3", "kvstore": tmp_path.as_uri(), "recheck_cached_data": False}
    writer = ts.open(spec, create=True, dtype=ts.uint8, shape=[4]).result()
    writer.write(1).result()
    time.sleep(0.03)  # until time stamps distinguish changes
    reader = ts.open(spec, context=context).result()
    reader.read().result()
    writer.write(20).result()
    result = []
    for _ in range(2):
        transaction = ts.Transaction(repeatable_read=True)
        inside = reader.with_transaction(transaction)
        result.append(inside[0].read().result())
        inside[1] = inside[0].read().result() + 1
        with contextlib.suppress(ConflictError):
            transaction.commit_sync()
            result.append("done")
    assert result == [1, 20, "done"]
    assert writer.read().result().tolist() == [20, 21, 20, 20]


def _read(array: Any) -> Any:
    return array[1].read().result()


def _stored(array: Any) -> Any:
    return array.storage_statistics(query_fully_stored=True).result().fully_stored


@pytest.mark.parametrize(("look", "last"), [(_read, 20), (_stored, True)])
def test_unrepeatable_read_conflicts_once(
    look: Callable[[Any], Any], last: Any, tmp_path: Path
) -> None:
    """The cache holds another version than the transaction's read; no abort follows."""
    context = ts.Context({"cache_pool": {"total_bytes_limit": 10**8}})
    spec = {"driver": "zarr3", "kvstore": tmp_path.as_uri()}
    writer = ts.open(spec, create=True, dtype=ts.uint8, shape=[4]).result()
    writer.write(1).result()
    time.sleep(0.03)  # until time stamps distinguish changes
    reader = ts.open(spec, context=context, recheck_cached_data=False).result()
    reader.read().result()
    writer.write(20).result()
    result: list[Any] = []
    for _ in range(2):
        transaction = ts.Transaction(repeatable_read=True)
        writer.with_transaction(transaction)[0].read().result()
        try:
            result.append(look(reader.with_transaction(transaction)))
        except ConflictError:
            result.append("conflict")
    assert result == ["conflict", last]


@pytest.mark.parametrize("ended", [True, False])
def test_handles_keep_no_transactions(tmp_path: Path, ended: bool) -> None:
    """Handles refer neither to ended nor to dropped transactions."""
    spec = {"driver": "zarr3", "kvstore": tmp_path.as_uri()}
    handle = ts.open(spec, create=True, dtype=ts.uint8, shape=[4]).result()
    transaction = ts.Transaction()
    inside = handle.with_transaction(transaction)
    inside[:2].write(1).result()
    inside.read().result()
    if ended:
        transaction.commit_sync()
    left = weakref.ref(transaction)
    del transaction, inside
    gc.collect()
    assert left() is None
    assert handle.read().result().tolist() == ([1, 1, 0, 0] if ended else [0] * 4)


def test_staged_elements_survive_change_of_chunk_key(
    tmp_path: Path,
) -> None:
    """The commit does not call the function again with another writer's value."""
    spec = {"driver": "zarr3", "kvstore": tmp_path.as_uri()}
    handle = ts.open(spec, create=True, dtype=ts.uint8, shape=[4]).result()
    handle.write(1).result()
    keys, transaction = handle.kvstore, ts.Transaction()
    handle.with_transaction(transaction)[2].write(7).result()
    transaction._staging.change(
        keys._location.store, keys._key("c/0"), lambda now: (now or b"")[:3] + b"8"
    )
    handle[0].write(5).result()
    with pytest.raises(ConflictError):
        transaction.commit_sync()
    assert handle.read().result().tolist() == [5, 1, 1, 1]


def test_elements_overwrite_conditional_key_change(
    tmp_path: Path,
) -> None:
    """The commit calls the function again, and its result has the other elements."""
    spec = {"driver": "zarr3", "kvstore": tmp_path.as_uri()}
    handle = ts.open(spec, create=True, dtype=ts.uint8, shape=[4]).result()
    handle.write(1).result()
    keys, transaction = handle.kvstore, ts.Transaction()
    transaction._staging.change(
        keys._location.store, keys._key("c/0"), lambda now: (now or b"")[:3] + b"\10"
    )
    handle.with_transaction(transaction)[2].write(7).result()
    handle[0].write(5).result()
    transaction.commit_sync()
    assert handle.read().result().tolist() == [5, 1, 7, 8]


@pytest.mark.parametrize("removed", ["key", "range"])
@pytest.mark.parametrize("where", ["memory", "file"])
def test_elements_overwrite_keys_of_transaction(removed: str, where: str, tmp_path: Path) -> None:
    """The elements win over other writers' values."""
    spec = {"driver": "zarr3", "kvstore": {"driver": where, "path": f"{tmp_path}/"}}
    layout = ts.ChunkLayout(chunk_shape=[2])
    handle = ts.open(spec, create=True, dtype=ts.uint8, shape=[6], chunk_layout=layout).result()
    handle.write(1).result()
    with ts.Transaction() as transaction:
        keys = handle.kvstore.with_transaction(transaction)
        if removed == "key":
            del keys["c/0"]
        else:
            keys.delete_range(ts.KvStore.KeyRange("c/0", "c/1")).result()
        keys["c/1"] = b"\2\3"
        inside = handle.with_transaction(transaction)
        inside[1:3].write(7).result()
        inside[5].write(8).result()
        assert inside.read().result().tolist() == [0, 7, 7, 3, 1, 8]
        handle.write(9).result()
    assert handle.read().result().tolist() == [0, 7, 7, 3, 9, 8]
