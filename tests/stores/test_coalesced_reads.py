"""Concurrent and coalesced reads of remote stores, with few threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.store import ForeignStore, MemoryStore
from tessarr.store.protocol import OpenedValue

VALUES = np.random.default_rng(0).integers(0, 60000, (40, 16384)).astype("u2")


class ConcurrentReads:
    """Store whose ranged reads finish once a number of them are concurrent."""

    concurrency = 64

    def __init__(self) -> None:
        self.below = MemoryStore()
        self.put, self.delete, self.list = self.below.put, self.below.delete, self.below.list
        self.meets: threading.Barrier | None = None
        self.requested_keys: list[str] = []

    def get(self, key: str) -> bytes | None:
        self.requested_keys.append(key)
        self.meet(key)
        return self.below.get(key)

    def meet(self, key: str) -> None:
        if self.meets is not None and key.startswith("c/"):
            self.meets.wait(30)

    def open_value(self, key: str) -> OpenedValue | None:
        value = self.below.get(key)
        return None if value is None else Opened(self, key, value)


class Opened:
    """Value that supports ranged reads."""

    def __init__(self, store: ConcurrentReads, key: str, value: bytes) -> None:
        self.store, self.key, self.value = store, key, value
        self.size = len(value)

    def read(self, offset: int, count: int) -> bytes:
        self.store.requested_keys.append(self.key)
        if offset + count < self.size:  # the shard index is at the end of the shard
            self.store.meet(self.key)
        return self.value[offset : offset + count]


@pytest.fixture
def one_thread() -> Iterator[None]:
    with tessarr.options(threads=1):
        yield


def create_array(**settings: Any) -> tuple[ConcurrentReads, tessarr.Array]:
    store = ConcurrentReads()
    arguments: dict[str, Any] = {"data": VALUES, "compressors": None, **settings}
    return store, tessarr.create_array(ForeignStore(store), **arguments)


@pytest.mark.usefixtures("one_thread")
def test_futures_share_requests() -> None:
    """Pending reads are concurrent, up to the store's limit."""
    store, array = create_array(chunks=(1, 16384))
    store.meets = threading.Barrier(40)
    futures = [array.read(row) for row in range(40)]
    np.testing.assert_array_equal([future.result(60) for future in futures], VALUES)


@pytest.mark.usefixtures("one_thread")
def test_reads_of_many_shards_are_concurrent() -> None:
    """Distant ranges in several shards are read concurrently."""
    values = np.tile(VALUES, 8)
    store, array = create_array(data=values, shards=(2, 1 << 17), chunks=(1, 4096))
    store.meets = threading.Barrier(40)  # the first and a distant subchunk of a row, of 20 shards
    columns = [0, 100_000]
    np.testing.assert_array_equal(array.oindex[::2, columns], values[::2, columns])


@pytest.mark.usefixtures("one_thread")
def test_distant_ranges_are_requested_concurrently() -> None:
    """Distant ranges of a large uncompressed chunk are read concurrently."""
    values = np.zeros((40, 1 << 19), "u1")
    values[:, 7] = range(1, 41)
    store, array = create_array(data=values, chunks=values.shape)
    store.meets = threading.Barrier(40)
    np.testing.assert_array_equal(array[:, 7], values[:, 7])


@pytest.mark.parametrize(
    ("settings", "requests"),
    [({"shards": (4, 16384), "chunks": (1, 2048)}, 2), ({"chunks": VALUES.shape}, 1)],
    ids=["shards", "a chunk"],
)
def test_small_gaps_are_coalesced(settings: dict[str, Any], requests: int) -> None:
    """A slow store coalesces larger gaps than a file does."""
    store, array = create_array(**settings)
    store.requested_keys.clear()
    np.testing.assert_array_equal(array[:4, 5], VALUES[:4, 5])
    assert len(store.requested_keys) == requests  # and the shard index


def test_full_shard_read_is_one_request() -> None:
    """A read of every subchunk needs no separate request for the shard index."""
    store, array = create_array(shards=(40, 16384), chunks=(10, 4096))
    store.requested_keys.clear()
    np.testing.assert_array_equal(array[5:35, 100:-100], VALUES[5:35, 100:-100])
    assert store.requested_keys == ["c/0/0"]
    assert array[5, 0] == VALUES[5, 0]
    assert store.requested_keys == ["c/0/0"] * 3  # a partial read: the shard index and one subchunk
