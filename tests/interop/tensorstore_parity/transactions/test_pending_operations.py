"""Operations before the commit belong to the transaction, as in TensorStore."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

_SIZE = 1 << 18


def _array(ts: Any, location: Any) -> Any:
    spec = {"driver": "zarr3", "kvstore": location}
    layout = ts.ChunkLayout(chunk_shape=[1 << 12])
    return ts.open(spec, create=True, dtype=ts.uint32, shape=[_SIZE], chunk_layout=layout).result()


@pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
def test_commit_waits_for_pending_writes(ts: Any) -> None:
    """The test uses a source that has not stored its values yet."""
    array, transaction, stored = _array(ts, "memory://"), ts.Transaction(), threading.Event()

    def values(domain: Any, chunk: Any, _: Any) -> None:
        assert stored.wait(60)
        chunk[...] = 7

    source = ts.virtual_chunked(
        values, dtype=ts.uint32, shape=[_SIZE], chunk_layout=array.chunk_layout
    )
    writing = array.with_transaction(transaction).write(source)
    committing = transaction.commit_async()
    assert not committing.done()
    assert not writing.done()
    stored.set()
    committing.result(timeout=60)
    writing.result(timeout=60)
    assert (array.read().result() == 7).all()


def _write(ts: Any, array: Any, _: Any) -> Any:
    return array.write(np.arange(_SIZE, dtype="u4"))


def _write_a_key(ts: Any, _: Any, store: Any) -> Any:
    return store.write("k", b"1" * _SIZE)


def _delete(ts: Any, _: Any, store: Any) -> Any:
    return store.delete_range(ts.KvStore.KeyRange("c/", "c0"))


def _create(ts: Any, array: Any, store: Any) -> Any:
    spec = {"driver": "zarr3", "metadata": {"shape": [3], "data_type": "int8"}}
    location = store.spec().to_json()
    spec["kvstore"] = {**location, "path": location.get("path", "") + "new/"}
    return ts.open(spec, create=True, transaction=array.transaction)


@pytest.mark.parametrize("begin", [_write, _write_a_key, _delete, _create])
def test_pending_operations_are_committed(
    begin: Callable[[Any, Any, Any], Any], tmp_path: Path
) -> None:
    """All of the operation, not only its finished part."""

    def result(ts: Any) -> list[Any]:
        location = f"file://{tmp_path}/{ts.__name__}/"
        array, transaction = _array(ts, location), ts.Transaction()
        array[:9000] = 3
        within = array.with_transaction(transaction)
        future = begin(ts, within, within.kvstore)
        transaction.commit_async().result()
        future.result()
        store = ts.KvStore.open(location).result()
        keys = sorted(store.list().result())
        return [keys, ts.open(f"{location}|zarr3:").result().read().result().tolist()]

    assert result(ours) == result(theirs)


def test_commit_starts_batched_operations() -> None:
    """With TensorStore, the commit would wait forever."""
    array = _array(ours, "memory://")
    array[:3] = [1, 2, 3]
    transaction, batch = ours.Transaction(), ours.Batch()
    within = array.with_transaction(transaction)
    within[1] = 5
    reading = within[:3].read(batch=batch)
    transaction.commit_async().result(timeout=60)
    assert reading.result().tolist() == [1, 5, 3]
    batch.submit()


def edge_chunk(ts: Any, folder: Path, *, sharded: bool) -> tuple[Any, dict[str, Any]]:
    """Return an array of 5 elements in a chunk of 10, and the spec for other writers."""
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if sharded:
        inner = {"chunk_shape": [1], "codecs": codecs}
        codecs = [{"name": "sharding_indexed", "configuration": inner}]
    metadata = {
        "shape": [5],
        "data_type": "int16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10]}},
        "codecs": codecs,
    }
    kvstore = {"driver": "file", "path": f"{folder}/{ts.__name__}/"}
    spec = {"driver": "zarr3", "kvstore": kvstore}
    return ts.open({**spec, "metadata": metadata}, create=True).result(), spec


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("staged", [False, True])
def test_concurrent_growth_keeps_other_writers_elements(
    tmp_path: Path, *, staged: bool, sharded: bool
) -> None:
    """A complete write to a chunk at the edge can be partial at commit time."""

    def result(ts: Any) -> list[int]:
        array, spec = edge_chunk(ts, tmp_path, sharded=sharded)
        grown = ts.open(spec, context=ts.Context()).result()
        if staged:
            transaction = ts.Transaction()
            array.with_transaction(transaction)[...] = 9
            grown.resize(exclusive_max=[30]).result()[5:] = 2
            ts.open(spec, context=ts.Context()).result().with_transaction(transaction)[10] = 7
            transaction.commit_sync()
        else:
            grown.resize(exclusive_max=[30]).result()[5:] = 2
            array[...] = 9
        after: list[int] = ts.open(spec, context=ts.Context()).result().read().result().tolist()
        return after

    mine = result(ours)
    assert mine == result(theirs)
    assert mine[:10] == [9] * 5 + [2] * 5


@pytest.mark.parametrize("sharded", [False, True])
def test_shrunk_elements_return_after_growth(tmp_path: Path, *, sharded: bool) -> None:
    """The elements return even if the transaction writes the rest of the chunk before."""

    def result(ts: Any) -> list[int]:
        array, _ = edge_chunk(ts, tmp_path, sharded=sharded)
        array[...] = [1, 2, 3, 4, 5]
        cut = array.resize(exclusive_max=[3]).result()
        cut[...] = 9
        after: list[int] = cut.resize(exclusive_max=[7]).result().read().result().tolist()
        return after

    assert result(ours) == result(theirs) == [9, 9, 9, 4, 5, 0, 0]
