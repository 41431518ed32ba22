"""Resizes of handles, in transactions and with concurrent writers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import tessarr
import tessarr.tensorstore as ts
from tessarr.stores import MemoryStore

# Bounds


def resizable(store: Any, shape: int) -> Any:
    spec = {"driver": "zarr3", "kvstore": {"driver": "tessarr", "store": store}}
    layout = ts.ChunkLayout(chunk_shape=[2])
    built = ts.open(spec, create=True, dtype="uint8", shape=[shape], chunk_layout=layout).result()
    built.write(1).result()
    return ts.open(spec).result()


def test_shrink_removes_concurrently_grown_chunks() -> None:
    store = MemoryStore()
    stale = resizable(store, 4)
    others = tessarr.open_array(store)
    others.resize(10)
    others[...] = 5
    with ts.Transaction() as transaction:
        stale.with_transaction(transaction).resize(exclusive_max=[6]).result()
    array = tessarr.open_array(store)
    assert (array.shape, sorted(store)) == ((6,), ["c/0", "c/1", "c/2", "zarr.json"])
    array.resize(10)
    assert array[...].tolist() == [5, 5, 5, 5, 5, 5, 0, 0, 0, 0]


def test_resize_of_stale_handle_grows_further() -> None:
    store = MemoryStore()
    stale = resizable(store, 4)
    tessarr.open_array(store).attrs["kept"] = 1
    tessarr.open_array(store).resize(6)
    with ts.Transaction() as transaction:
        grown = stale.with_transaction(transaction).resize(exclusive_max=[8]).result()
        grown[4:].write(7).result()
    array = tessarr.open_array(store)
    assert (array.shape, array.attrs["kept"]) == ((8,), 1)
    assert array[...].tolist() == [1, 1, 1, 1, 7, 7, 7, 7]


def test_refused_resize_is_decided_again_at_commit() -> None:
    store = MemoryStore()
    stale = resizable(store, 8)
    tessarr.open_array(store).resize(2)
    assert stale.resize(exclusive_max=[4], expand_only=True).result().shape == (4,)
    assert tessarr.open_array(store)[...].tolist() == [1, 1, 0, 0]


# Resizes that others overtake


class UndeletableDict(dict[str, bytes]):
    """A mapping that can refuse deletions."""

    keeps = False

    def __delitem__(self, key: str) -> None:
        if self.keeps:
            raise PermissionError("not allowed")
        super().__delitem__(key)


def resize_in_transaction(location: Any) -> tuple[ts.TensorStore, ts.TensorStore]:
    """Return two independent handles."""
    spec: dict[str, Any] = {"driver": "zarr", "kvstore": location}
    layout = ts.ChunkLayout(chunk_shape=[5])
    item = ts.open(spec, create=True, dtype="int32", shape=[10], chunk_layout=layout).result()
    item[:] = 1
    return item, ts.open(spec, context=ts.Context()).result()


def test_write_after_resize_survives_concurrent_growth(tmp_path: Path) -> None:
    item, other = resize_in_transaction(f"file://{tmp_path}/")
    with ts.Transaction() as transaction:
        inside = item.with_transaction(transaction).resize(exclusive_max=[5]).result()
        inside = inside.resize(exclusive_max=[20]).result()
        inside[5:20] = 7
        other.resize(exclusive_max=[30]).result()
    result = ts.open(item.spec(), context=ts.Context()).result().read().result()
    assert result.tolist() == [1] * 5 + [7] * 15


def test_failure_after_commit_is_reported() -> None:
    """Tessarr cannot delete other writers' chunks: the resize ends with an error."""
    places = UndeletableDict()
    item, other = resize_in_transaction({"driver": "tessarr", "store": places})
    transaction = ts.Transaction()
    item.with_transaction(transaction).resize(exclusive_max=[10]).result()
    item.with_transaction(transaction).resize(exclusive_max=[9]).result()
    grown = other.resize(exclusive_max=[30]).result()
    grown[:] = 4
    places.keeps = True
    with pytest.raises(PermissionError):
        transaction.commit_async().result(timeout=60)


def test_atomic_resize_accepts_rewritten_document() -> None:
    context = ts.Context()
    spec: dict[str, Any] = {"driver": "zarr", "kvstore": "memory://a/"}
    item = ts.open(spec, create=True, dtype="int32", shape=[10], context=context).result()
    item.kvstore[".zarray"] = b" " + item.kvstore[".zarray"]
    with ts.Transaction(atomic=True) as transaction:
        item.with_transaction(transaction).resize(exclusive_max=[20]).result()[:] = 7
    assert item.resolve().result().read().result().tolist() == [7] * 20


class Overtaken(dict[str, bytes]):
    """A mapping that runs another operation during a read of a key."""

    others: tuple[str, Callable[[], Any]] | None = None

    def __getitem__(self, key: str) -> bytes:
        if self.others is not None and self.others[0] == key:
            (_, others), self.others = self.others, None
            thread = Thread(target=others)
            thread.start()
            thread.join(0.3)  # they may have to wait for this operation
        return super().__getitem__(key)


def test_two_resizes_in_transaction_apply_in_order() -> None:
    places = Overtaken()
    item, _ = resize_in_transaction({"driver": "tessarr", "store": places, "path": "a/"})
    with ts.Transaction() as transaction:
        inside = item.with_transaction(transaction)
        ended = Event()

        def overtake() -> None:
            inside.resize(exclusive_max=[4]).result()
            ended.set()

        places.others = ".zgroup", overtake
        inside.resize(exclusive_max=[6]).result()
        assert ended.wait(30)
        within = inside.resolve().result().shape
    array = tessarr.open_array(places, path="a")
    assert item.resolve().result().shape == within == array.shape == (4,)


@pytest.mark.parametrize("recheck", [True, "open", False])
def test_resize_of_replaced_array_is_refused(tmp_path: Path, recheck: Any) -> None:
    spec: dict[str, Any] = {"driver": "zarr", "kvstore": f"file://{tmp_path}/"}
    once = {**spec, "recheck_cached_metadata": recheck}
    old = ts.open(once, create=True, dtype="int32", shape=[10]).result()
    layout = ts.ChunkLayout(chunk_shape=[3])
    new = ts.open(
        spec,
        context=ts.Context(),
        create=True,
        delete_existing=True,
        dtype="int64",
        shape=[12],
        chunk_layout=layout,
    ).result()
    new[:] = 3
    with pytest.raises(
        ValueError, match=r"^FAILED_PRECONDITION: .* another writer replaced the array"
    ):
        old.resize(exclusive_max=[6]).result()
    assert ts.open(spec, context=ts.Context()).result().read().result().tolist() == [3] * 12
