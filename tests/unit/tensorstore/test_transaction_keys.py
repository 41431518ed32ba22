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


def test_what_is_written_after_its_range_was_removed_is_stored(store: ts.KvStore) -> None:
    store["a"], store["b"] = b"1", b"2"
    with ts.Transaction() as transaction:
        inside = store.with_transaction(transaction)
        inside.delete_range(Range()).result()
        inside["b"] = b"new"
        inside["c"] = b"3"
    assert {key: store[key] for key in store.list().result()} == {b"b": b"new", b"c": b"3"}


def test_what_is_written_again_is_not_removed_with_its_range_before(tmp_path: Path) -> None:
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


def test_changes_are_seen_inside_only(store: ts.KvStore) -> None:
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


def test_what_is_aborted_never_happens(store: ts.KvStore) -> None:
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


def test_a_committed_one_is_over(store: ts.KvStore) -> None:
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


def test_reads_that_must_repeat(store: ts.KvStore) -> None:
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
def test_reads_that_do_not_repeat_are_refused(
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
        inside["a"] = b"4"  # what it is to be depends on what it was
        assert inside["a"] == b"4"
    with pytest.raises(ConflictError):
        transaction.commit_sync()
    assert store.read("a").result().value == (after or b"")


def test_conditions_are_checked_again(store: ts.KvStore) -> None:
    generation = store.write("a", b"1").result().generation
    transaction = ts.Transaction()
    inside = store.with_transaction(transaction)
    inside.write("a", b"2", if_equal=generation).result()
    store["a"] = b"3"
    with pytest.raises(ConflictError):
        transaction.commit_sync()
    assert store["a"] == b"3"


def test_where_a_condition_is_not_met_in_the_end_nothing_is_changed(store: ts.KvStore) -> None:
    generation = store.write("b", b"1").result().generation
    transaction = ts.Transaction()
    inside = store.with_transaction(transaction)
    inside["a"] = inside["c"] = b"2"
    inside.write("b", b"2", if_equal=generation).result()
    store["b"] = b"3"
    with pytest.raises(ConflictError, match="nothing was changed"):
        transaction.commit_sync()
    assert (store.list().result(), store["b"]) == ([b"b"], b"3")


def test_a_condition_has_to_be_met_in_the_end_only(store: ts.KvStore) -> None:
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
def test_a_condition_that_does_not_hold_ends_the_transaction(
    store: ts.KvStore, later: Callable[[ts.KvStore], object], repeatable: bool
) -> None:
    """Whatever follows: of a change that was decided on an old value, nothing is made."""
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


def test_conditions_hold_though_the_key_is_deleted_with_others(store: ts.KvStore) -> None:
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
def test_a_commit_in_memory_that_is_refused_changes_nothing(atomic: bool) -> None:
    """Keys before the one that is refused, and ranges, stay, too."""
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


def test_ranges_are_deleted_in_the_end(store: ts.KvStore) -> None:
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


def test_several_keys_at_once(tmp_path: Path) -> None:
    for place in (MemoryStore(), SQLiteStore(tmp_path / "a.sqlite")):
        store = ts.KvStore.open(place).result()
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


def test_what_cannot_be_done_at_once_is_not_done(tmp_path: Path) -> None:
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


def test_atomic_commits_never_show_a_half() -> None:
    place = MemoryStore({"a": b"0", "b": b"0"})
    store = ts.KvStore.open(place).result()
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
        # "a" is read first: "b" may be newer, and never older.
        first, second = int(store["a"]), int(store["b"])
        assert first <= second
    thread.join()


def test_counters_lose_nothing() -> None:
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


def test_it_is_not_pickled_with_a_store() -> None:
    store = ts.KvStore.open("memory://").result()
    with pytest.raises(ValueError, match="transaction"):
        pickle.dumps(store.with_transaction(ts.Transaction()))


class Denying:
    """A store that says so often that something is not what was expected, though it is."""

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
def test_what_a_store_denies_without_a_reason_is_not_tried_for_ever(denials: int) -> None:
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
