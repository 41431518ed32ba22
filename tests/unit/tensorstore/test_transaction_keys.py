"""Transactions of keys: isolation, conditions, conflicts, atomicity."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tessarr.tensorstore as ts
from tessarr.errors import ArgumentError, ConflictError
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.stores import LocalStore, MemoryStore, SQLiteStore

Range = ts.KvStore.KeyRange


@pytest.fixture(params=["file", "memory", "sqlite", "python"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ts.KvStore:
    specs: dict[str, Any] = {
        "file": f"file://{tmp_path}/",
        "memory": "memory://",
        "sqlite": SQLiteStore(tmp_path / "a.sqlite"),
        "python": {"driver": "tessarr", "store": {}},
    }
    return ts.KvStore.open(specs[request.param]).result()


def test_write_after_delete_range_is_stored(store: ts.KvStore) -> None:
    store["a"], store["b"] = b"1", b"2"
    with ts.Transaction() as transaction:
        inside = store.with_transaction(transaction)
        inside.delete_range(Range()).result()
        inside["b"] = b"new"
        inside["c"] = b"3"
    assert {key: store[key] for key in store.list().result()} == {b"b": b"new", b"c": b"3"}


def test_rewrite_after_delete_range_is_not_removed(tmp_path: Path) -> None:
    counting = CountingStore(LocalStore(tmp_path))
    store = ts.KvStore.open({"driver": "tessarr", "store": counting}).result()
    store["a"], store["b"] = b"1", b"2"
    before = counting.counts()["updates"]
    with ts.Transaction() as transaction:
        inside = store.with_transaction(transaction)
        inside.delete_range(Range("a", "c")).result()
        inside["b"] = b"new"
    assert store.list().result() == [b"b"]
    assert counting.counts()["updates"] - before == 2


def test_staged_changes_are_invisible_outside(store: ts.KvStore) -> None:
    store["a"], store["b/x"], store["b/y"] = b"1", b"2", b"3"
    transaction = ts.Transaction()
    inside = store.with_transaction(transaction)
    inside["a"] = b"new"
    inside["c"] = b"4"
    del inside["b/x"]
    assert (inside["a"], "b/x" in inside) == (b"new", False)
    assert inside.list().result() == [b"a", b"b/y", b"c"]
    assert store.list().result() == [b"a", b"b/x", b"b/y"]
    assert store["a"] == b"1"
    transaction.commit_sync()
    assert store.list().result() == [b"a", b"b/y", b"c"]
    assert store["a"] == b"new"


def test_aborted_changes_are_not_stored(store: ts.KvStore) -> None:
    store["a"] = b"1"
    transaction = ts.Transaction()
    inside = store.with_transaction(transaction)
    inside["a"] = b"2"
    transaction.abort()
    transaction.abort()
    assert (transaction.open, transaction.aborted, transaction.commit_started) == (
        False,
        True,
        False,
    )
    assert store["a"] == b"1"
    for late in (lambda: inside["a"], lambda: inside.write("a", b"3").result()):
        with pytest.raises(ValueError, match="aborted"):
            late()
    with pytest.raises(ValueError, match="aborted"):
        transaction.commit_sync()


def test_committed_transaction_refuses_operations(store: ts.KvStore) -> None:
    transaction = ts.Transaction()
    inside = store.with_transaction(transaction)
    inside["a"] = b"1"
    assert transaction.commit_async().result() is None
    transaction.commit_sync()
    transaction.abort()
    assert (transaction.open, transaction.aborted, transaction.commit_started) == (
        False,
        False,
        True,
    )
    with pytest.raises(ValueError, match="already started"):
        inside["a"] = b"2"
    assert store["a"] == b"1"


def test_blocks_commit_or_abort(store: ts.KvStore) -> None:
    with ts.Transaction() as transaction:
        store.with_transaction(transaction)["a"] = b"1"
    assert store["a"] == b"1"
    with pytest.raises(ZeroDivisionError), ts.Transaction() as transaction:
        store.with_transaction(transaction)["a"] = b"2"
        _ = 1 // 0
    assert store["a"] == b"1"

    async def main() -> None:
        async with ts.Transaction() as transaction:
            await store.with_transaction(transaction).write("a", b"3")

    asyncio.run(main())
    assert store["a"] == b"3"


def test_repeatable_reads_without_changes_commit(store: ts.KvStore) -> None:
    store["a"] = b"1"
    for key, change in (("a", b"2"), ("absent", b"2")):
        transaction = ts.Transaction(repeatable_read=True)
        inside = store.with_transaction(transaction)
        inside.read(key).result()
        inside["b"] = b"1"
        store[key] = change
        with pytest.raises(ConflictError, match="Generation mismatch") as caught:
            transaction.commit_sync()
        assert isinstance(caught.value, ValueError)
        assert caught.value.retryable
        assert "b" not in store
    transaction = ts.Transaction()
    inside = store.with_transaction(transaction)
    inside.read("a").result()
    inside["b"] = b"1"
    store["a"] = b"3"
    transaction.commit_sync()
    assert store["b"] == b"1"


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize(("before", "after"), [(b"1", b"2"), (b"1", None), (None, b"2")])
def test_repeatable_read_with_changed_key_conflicts(
    store: ts.KvStore, before: bytes | None, after: bytes | None, *, again: bool
) -> None:
    store.write("a", before).result()
    transaction = ts.Transaction(repeatable_read=True)
    inside = store.with_transaction(transaction)
    assert (inside.read("a").result().value or None) == before
    store.write("a", after).result()
    if again:
        with pytest.raises(ConflictError, match="Generation mismatch"):
            inside.read("a").result()
        assert transaction.aborted
        with pytest.raises(ArgumentError, match="aborted"):
            inside["a"] = b"4"
    else:
        inside["a"] = b"4"  # the new value depends on the old one
        assert inside["a"] == b"4"
    with pytest.raises(ConflictError):
        transaction.commit_sync()
    assert store.read("a").result().value == (after or b"")


def test_commit_rechecks_conditions(store: ts.KvStore) -> None:
    generation = store.write("a", b"1").result().generation
    transaction = ts.Transaction()
    inside = store.with_transaction(transaction)
    inside.write("a", b"2", if_equal=generation).result()
    store["a"] = b"3"
    with pytest.raises(ConflictError):
        transaction.commit_sync()
    assert store["a"] == b"3"


def test_unmet_condition_at_commit_changes_nothing(store: ts.KvStore) -> None:
    generation = store.write("b", b"1").result().generation
    transaction = ts.Transaction()
    inside = store.with_transaction(transaction)
    inside["a"] = inside["c"] = b"2"
    inside.write("b", b"2", if_equal=generation).result()
    store["b"] = b"3"
    with pytest.raises(ConflictError, match="nothing was changed"):
        transaction.commit_sync()
    assert (store.list().result(), store["b"]) == ([b"b"], b"3")


def test_condition_is_checked_at_commit(store: ts.KvStore) -> None:
    missing = store.read("a").result().stamp.generation
    store["a"] = b"others"
    with ts.Transaction() as transaction:
        store.with_transaction(transaction).write("a", b"mine", if_equal=missing).result()
        del store["a"]
    assert store["a"] == b"mine"


@pytest.mark.parametrize("repeatable", [False, True])
@pytest.mark.parametrize(
    "later",
    [
        lambda _: None,
        lambda inside: inside.__setitem__("a", b"4"),
        lambda inside: inside.__delitem__("a"),
        lambda inside: inside.delete_range(Range()).result(),
    ],
    ids=["", "written", "removed", "removed as one of a range"],
)
def test_unmet_condition_aborts_transaction(
    store: ts.KvStore, later: Callable[[ts.KvStore], object], repeatable: bool
) -> None:
    """A change that depends on an old value is never stored after a conflict."""
    old = store.write("a", b"1").result().generation
    store["a"] = b"2"
    transaction = ts.Transaction(repeatable_read=repeatable)
    inside = store.with_transaction(transaction)
    inside["b"] = b"beside"
    assert inside.write("a", b"3", if_equal=old).result().generation
    assert inside["a"] == b"3"
    later(inside)
    with pytest.raises(ConflictError, match="nothing was changed"):
        transaction.commit_sync()
    assert (store["a"], "b" in store) == (b"2", False)


def test_condition_of_key_deleted_in_range_holds(store: ts.KvStore) -> None:
    store["a"] = b"0"
    transaction = ts.Transaction()
    staged = store.with_transaction(transaction)
    staged.write("a", b"1", if_equal=staged.read("a").result().stamp.generation).result()
    store["a"] = b"others"
    staged.delete_range(Range()).result()
    with pytest.raises(ConflictError):
        transaction.commit_sync()
    assert store["a"] == b"others"


@pytest.mark.parametrize("atomic", [False, True])
def test_refused_commit_in_memory_changes_nothing(atomic: bool) -> None:
    """Keys before the refused key, and ranges, also stay."""
    store = ts.KvStore.open("memory://").result()
    for key in ("a", "b", "z"):
        store[key] = b"old"
    known = store.read("z").result().stamp.generation
    transaction = ts.Transaction(atomic=atomic)
    staged = store.with_transaction(transaction)
    staged["a"] = staged["c"] = b"new"
    staged.delete_range(ts.KvStore.KeyRange("b", "c")).result()
    staged.write("z", b"new", if_equal=known).result()
    store["z"] = b"other"
    with pytest.raises(ConflictError, match="z"):
        transaction.commit_sync()
    assert {key: store[key] for key in store.list().result()} == {
        b"a": b"old",
        b"b": b"old",
        b"z": b"other",
    }


def test_delete_range_applies_at_commit(store: ts.KvStore) -> None:
    store["d/a"], store["d/b"], store["e"] = b"1", b"2", b"3"
    transaction = ts.Transaction()
    inside = store.with_transaction(transaction)
    (inside / "d/").delete_range(Range()).result()
    assert inside.list().result() == [b"e"]
    inside["d/c"] = b"4"
    assert inside.list().result() == [b"d/c", b"e"]
    assert store.list().result() == [b"d/a", b"d/b", b"e"]
    transaction.commit_sync()
    assert store.list().result() == [b"d/c", b"e"]


def test_atomic_commit_of_several_keys(tmp_path: Path) -> None:
    for target in (MemoryStore(), SQLiteStore(tmp_path / "a.sqlite")):
        store = ts.KvStore.open(target).result()
        store["gone"] = b"1"
        with ts.Transaction(atomic=True) as transaction:
            inside = store.with_transaction(transaction)
            inside["a"], inside["b"] = b"1", b"2"
            inside.delete_range(Range("g")).result()
        assert store.list().result() == [b"a", b"b"]
        transaction = ts.Transaction(atomic=True, repeatable_read=True)
        inside = store.with_transaction(transaction)
        inside.read("b").result()
        inside["a"], inside["c"] = b"3", b"3"
        store["b"] = b"4"
        with pytest.raises(ConflictError) as caught:
            transaction.commit_sync()
        assert caught.value.key == "b"
        assert (store["a"], "c" in store) == (b"1", False)


def test_atomic_commit_of_several_files_is_refused(tmp_path: Path) -> None:
    store = ts.KvStore.open(f"file://{tmp_path}/").result()
    transaction = ts.Transaction(atomic=True)
    inside = store.with_transaction(transaction)
    inside["a"], inside["b"] = b"1", b"2"
    with pytest.raises(ValueError, match="single atomic"):
        transaction.commit_sync()
    assert store.list().result() == []
    with ts.Transaction(atomic=True) as transaction:
        store.with_transaction(transaction)["a"] = b"1"
    assert store["a"] == b"1"
    other = ts.KvStore.open("memory://").result()
    transaction = ts.Transaction(atomic=True)
    store.with_transaction(transaction)["b"] = b"1"
    other.with_transaction(transaction)["b"] = b"1"
    with pytest.raises(ValueError, match="single atomic"):
        transaction.commit_sync()
    assert "b" not in store
    assert "b" not in other


def test_atomic_commit_is_never_partly_visible() -> None:
    location = MemoryStore({"a": b"0", "b": b"0"})
    store = ts.KvStore.open(location).result()
    stop = threading.Event()

    def change() -> None:
        for number in range(300):
            with ts.Transaction(atomic=True) as transaction:
                inside = store.with_transaction(transaction)
                inside["a"] = inside["b"] = b"%d" % number
        stop.set()

    thread = threading.Thread(target=change)
    thread.start()
    while not stop.is_set():
        # The read of "a" comes first: "b" may be newer, and never older.
        first, second = int(store["a"]), int(store["b"])
        assert first <= second
    thread.join()


def test_concurrent_counters_all_arrive() -> None:
    store = ts.KvStore.open(MemoryStore({"a": b"0", "b": b"0"})).result()

    def count() -> None:
        done = 0
        while done < 40:
            transaction = ts.Transaction(atomic=True, repeatable_read=True)
            inside = store.with_transaction(transaction)
            for key in ("a", "b"):
                inside[key] = b"%d" % (int(inside[key]) + 1)
            try:
                transaction.commit_sync()
            except ConflictError:
                continue
            done += 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (store["a"], store["b"]) == (b"160", b"160")


def test_store_in_transaction_is_not_pickled() -> None:
    store = ts.KvStore.open("memory://").result()
    with pytest.raises(ValueError, match="transaction"):
        pickle.dumps(store.with_transaction(ts.Transaction()))


class Denying:
    """A store that always reports a conflict."""

    def __init__(self, denials: int) -> None:
        self.items: dict[str, bytes] = {}
        self.denials = denials

    def get(self, key: str) -> bytes | None:
        return self.items.get(key)

    def put(self, key: str, data: bytes) -> None:
        self.items[key] = bytes(data)

    def delete(self, key: str) -> None:
        del self.items[key]

    def list(self, prefix: str) -> list[str]:
        return [key for key in self.items if key.startswith(prefix)]

    def replace_all(self, values: dict[str, bytes], conditions: dict[str, bytes]) -> bool:
        del conditions
        self.denials -= 1
        if self.denials < 0:
            self.items |= values
        return self.denials < 0


@pytest.mark.parametrize("denials", [3, 1000])
def test_commit_to_denying_store_ends(denials: int) -> None:
    denying = Denying(denials)
    store = ts.KvStore.open({"driver": "tessarr", "store": denying}).result()
    transaction = ts.Transaction(atomic=True)
    inside = store.with_transaction(transaction)
    inside["a"], inside["b"] = b"1", b"2"
    if denials > 100:
        with pytest.raises(ConflictError):
            transaction.commit_sync()
        assert denying.items == {}
    else:
        transaction.commit_sync()
        assert denying.items == {"a": b"1", "b": b"2"}
