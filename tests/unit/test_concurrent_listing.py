"""Listings of groups in stores that wait for each response: batches of concurrent reads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Literal

import pytest

import tessarr
from tessarr.errors import ArgumentError, DataError
from tessarr.flow.run import Delete, Flow, Get, Put, run_flow
from tessarr.stores import ForeignStore, LocalStore, MemoryStore

MEMBERS: Final = 50


class RoundStore:
    """A store in Python whose reads wait for the other reads of their round."""

    concurrency = 64

    def __init__(self) -> None:
        self.inner = MemoryStore()
        self.log: list[str] = []
        self.rounds: list[int] = []
        """The numbers of reads of consecutive rounds; the reads of a round wait for each other."""
        self.active = self.most = 0
        self.state = threading.Condition()

    def expect(self, *rounds: int) -> None:
        """Forget earlier reads, and set the numbers of reads of the next rounds."""
        self.log, self.rounds, self.most = [], [*rounds], 0

    def _wait(self, line: str) -> None:
        with self.state:
            self.log.append(line)
            ends = accumulate(self.rounds)
            end = next((end for end in ends if end >= len(self.log)), 0)
            self.active += 1
            self.most = max(self.most, self.active)
            self.state.notify_all()
            is_complete = self.state.wait_for(lambda: len(self.log) >= end, 30)
            self.active -= 1
        assert is_complete, f"{len(self.log)} reads started, not {end}"

    def get(self, key: str) -> bytes | None:
        self._wait(f"get {key}")
        return self.inner.get(key)

    def put(self, key: str, data: bytes) -> None:
        with self.state:
            self.log.append(f"put {key}")
        self.inner.put(key, data)

    def delete(self, key: str) -> None:
        with self.state:
            self.log.append(f"delete {key}")
        self.inner.delete(key)

    def list(self, prefix: str) -> list[str]:
        self._wait(f"list {prefix}")
        return self.inner.list(prefix)

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        self._wait(f"list_dir {prefix}")
        return self.inner.list_dir(prefix)


def create_members(zarr_format: Literal[2, 3] = 3) -> tuple[RoundStore, tessarr.Group]:
    store = RoundStore()
    group = tessarr.create_group(store.inner, zarr_format=zarr_format)
    for i in range(MEMBERS):
        group.create_array(f"a{i:02}", shape=(), dtype="u1")
    return store, tessarr.open_group(store, mode="r+")


LISTINGS: dict[str, Callable[[tessarr.Group], Any]] = {
    "list": list,
    "values": lambda g: list(g.values()),
    "items": lambda g: list(g.items()),
    "arrays": lambda g: list(g.arrays()),
    "members": lambda g: g.members(),
    "tree": lambda g: g.tree(),
    "info": lambda g: g.info,
}


@pytest.mark.parametrize("name", LISTINGS)
def test_listing_a_group_reads_documents_concurrently(name: str) -> None:
    store, group = create_members()
    store.expect(1, MEMBERS)
    LISTINGS[name](group)
    assert len(store.log) == len(set(store.log)) == 1 + MEMBERS
    assert store.most == MEMBERS


def test_listing_of_many_documents_has_at_most_64_concurrent_reads() -> None:
    store, group = create_members(zarr_format=2)
    store.expect(1, 64)
    assert len(group.members()) == MEMBERS
    assert len(store.log) == len(set(store.log)) == 1 + 3 * MEMBERS
    assert store.most == 64


def test_listing_respects_the_concurrency_of_the_store() -> None:
    store, _ = create_members()
    store.concurrency = 4
    group = tessarr.open_group(store, mode="r")
    store.expect(1, 4)
    assert len(list(group)) == MEMBERS
    assert store.most == 4


def test_consolidation_reads_documents_concurrently() -> None:
    store, _ = create_members()
    store.expect(1, 1, MEMBERS)
    tessarr.consolidate_metadata(store)
    members = [line for line in store.log if line.startswith("get a")]
    assert len(members) == len(set(members)) == store.most == MEMBERS


def test_each_level_takes_one_batch_of_listings_and_one_of_documents() -> None:
    store = RoundStore()
    root = tessarr.create_group(store.inner)
    for i in range(8):
        for j in range(3):
            root.create_array(f"g{i}/a{j}", shape=(), dtype="u1")
    group = tessarr.open_group(store, mode="r")
    store.expect(1, 8, 8, 24)
    assert len(group.members(None)) == 8 + 24
    assert len(store.log) == 1 + 8 + 8 + 24


def test_damaged_documents_do_not_affect_other_members() -> None:
    store, group = create_members()
    store.inner.put("a07/zarr.json", b"{")
    members = dict(group.members())
    assert isinstance(members["a07"], tessarr.Unreadable)
    assert sum(isinstance(member, tessarr.Array) for member in members.values()) == MEMBERS - 1


def test_error_of_a_concurrent_read_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    store, group = create_members()

    def fail(key: str) -> bytes | None:
        if key.startswith("a3"):
            raise OSError(f"no response for {key}")
        return store.inner.get(key)

    monkeypatch.setattr(store, "get", fail)
    with pytest.raises(OSError, match="no response for a30/"):
        list(group)


def test_concurrent_reads_have_the_options_of_the_caller() -> None:
    _, group = create_members()
    with tessarr.options(metadata_bytes=10):
        members = group.members()
    assert all(isinstance(member, tessarr.Unreadable) for _, member in members)


def test_batches_of_changes_keep_their_order() -> None:
    store = RoundStore()

    def change() -> Flow[None]:
        yield tuple(Put(f"k{i}", b"") for i in range(20))
        yield (Get("k0"), Delete("k0"), Get("k0"))

    run_flow(change(), ForeignStore(store))
    assert [line for line in store.log if "put" in line] == [f"put k{i}" for i in range(20)]
    assert store.log[-3:] == ["get k0", "delete k0", "get k0"]


def test_local_stores_and_mappings_read_without_threads(tmp_path: Path) -> None:
    for store in (LocalStore(tmp_path), MemoryStore(), ForeignStore({})):
        assert store.concurrency == 0


def test_batch_of_the_engine_returns_responses_and_errors() -> None:
    store = MemoryStore({"a/b": b"12", "c": b"3"})
    reads = [("get", "a/b"), ("get", "x"), ("size", "a/b"), ("list", ""), ("list_dir", "")]
    assert store.read_batch(reads, 2) == [b"12", None, 2, ["a/b", "c"], (["c"], ["a/"])]
    assert store.read_batch([], 2) == []
    large, small = store.read_batch([("get", "a/b"), ("get", "c")], 2, limit=1)
    assert isinstance(large, DataError)
    assert small == b"3"
    with pytest.raises(ArgumentError, match="put"):
        store.read_batch([("put", "a")], 2)


# Iteration and length


def test_length_after_iter_is_current() -> None:
    group = tessarr.create_group(None)
    group.create_group("a")
    for collection in (group, group.keys(), group.values(), group.items()):
        iterator = iter(collection)
        group.create_group("b")
        assert len(collection) == 2
        assert len(list(iterator)) == 2
        del group["b"]
        assert len(collection) == 1


def test_length_during_iteration_does_not_affect_it() -> None:
    group = tessarr.create_group(None)
    for name in "abc":
        group.create_group(name)
    iterator = iter(group)
    assert next(iterator) == "a"
    group.create_group("d")
    assert len(group) == 4
    assert list(iterator) == ["b", "c"]
