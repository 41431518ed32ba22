"""What waits for a store that is far away waits together, however few threads there are."""

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


class Meeting:
    """A store in which requests for parts of chunks go on when there are so many at a time."""

    concurrency = 64

    def __init__(self) -> None:
        self.below = MemoryStore()
        self.put, self.delete, self.list = self.below.put, self.below.delete, self.below.list
        self.meets: threading.Barrier | None = None
        self.asked: list[str] = []

    def get(self, key: str) -> bytes | None:
        self.asked.append(key)
        self.meet(key)
        return self.below.get(key)

    def meet(self, key: str) -> None:
        if self.meets is not None and key.startswith("c/"):
            self.meets.wait(30)

    def open_value(self, key: str) -> OpenedValue | None:
        value = self.below.get(key)
        return None if value is None else Opened(self, key, value)


class Opened:
    """A value of which parts are read."""

    def __init__(self, store: Meeting, key: str, value: bytes) -> None:
        self.store, self.key, self.value = store, key, value
        self.size = len(value)

    def read(self, offset: int, count: int) -> bytes:
        self.store.asked.append(self.key)
        if offset + count < self.size:  # the index of a shard stands at its end
            self.store.meet(self.key)
        return self.value[offset : offset + count]


@pytest.fixture
def one_thread() -> Iterator[None]:
    with tessarr.options(threads=1):
        yield


def create_array(**settings: Any) -> tuple[Meeting, tessarr.Array]:
    store = Meeting()
    asked: dict[str, Any] = {"data": VALUES, "compressors": None, **settings}
    return store, tessarr.create_array(ForeignStore(store), **asked)


@pytest.mark.usefixtures("one_thread")
def test_futures_share_requests() -> None:
    """Reads that were begun are under way at the same time, as many as the store wants."""
    store, array = create_array(chunks=(1, 16384))
    store.meets = threading.Barrier(40)
    futures = [array.read(row) for row in range(40)]
    np.testing.assert_array_equal([future.result(60) for future in futures], VALUES)


@pytest.mark.usefixtures("one_thread")
def test_reads_of_many_shards_are_concurrent() -> None:
    """What lies apart in shards is asked for at the same time, in all of them."""
    values = np.tile(VALUES, 8)
    store, array = create_array(data=values, shards=(2, 1 << 17), chunks=(1, 4096))
    store.meets = threading.Barrier(40)  # the first and a distant subchunk of a row, of 20 shards
    columns = [0, 100_000]
    np.testing.assert_array_equal(array.oindex[::2, columns], values[::2, columns])


@pytest.mark.usefixtures("one_thread")
def test_distant_ranges_are_requested_concurrently() -> None:
    """What lies far apart in a large chunk that no codec changes is asked for at the same time."""
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
    """Where each request is waited for, it is worth more bytes than in a file."""
    store, array = create_array(**settings)
    store.asked.clear()
    np.testing.assert_array_equal(array[:4, 5], VALUES[:4, 5])
    assert len(store.asked) == requests  # and the index of a shard


def test_full_shard_read_is_one_request() -> None:
    """As something is wanted of each of them, its index is not asked for first."""
    store, array = create_array(shards=(40, 16384), chunks=(10, 4096))
    store.asked.clear()
    np.testing.assert_array_equal(array[5:35, 100:-100], VALUES[5:35, 100:-100])
    assert store.asked == ["c/0/0"]
    assert array[5, 0] == VALUES[5, 0]
    assert store.asked == ["c/0/0"] * 3  # of a part: the index, and a subchunk
