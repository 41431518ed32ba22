"""Blocks of buffered writes that end during a garbage collection inside a store."""

from __future__ import annotations

import gc
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import tessarr
from tessarr.stores import MemoryStore


class LockedStore:
    """A store in Python that holds a lock in each write, and calls `on_write` once in it."""

    def __init__(self) -> None:
        self.inner = MemoryStore()
        self.lock = threading.Lock()
        self.on_write: Callable[[], object] | None = None

    def get(self, key: str) -> bytes | None:
        return self.inner.get(key)

    def put(self, key: str, data: bytes) -> None:
        with self.lock:
            call, self.on_write = self.on_write, None
            if call is not None:
                call()
            self.inner.put(key, data)

    def delete(self, key: str) -> None:
        with self.lock:
            self.inner.delete(key)

    def list(self, prefix: str) -> list[str]:
        return self.inner.list(prefix)


@pytest.fixture(autouse=True)
def _without_automatic_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def store() -> LockedStore:
    return LockedStore()


@pytest.fixture
def array(store: LockedStore) -> tessarr.Array:
    """An array of two chunks."""
    return tessarr.create_array(store, shape=4, dtype="u1", chunks=2, compressors=None)


def abandon_block(array: tessarr.Array) -> None:
    """Buffer elements of both chunks in a block that only the garbage collector finds."""
    block: Any = array.buffered()
    block.__enter__()
    array[0] = array[2] = 1
    cycle = [block]
    cycle.append(cycle)


def abandon_generator(array: tessarr.Array) -> None:
    """Buffer elements in a generator that only the garbage collector closes."""

    def generate() -> Iterator[None]:
        with array.buffered():
            array[0] = array[2] = 1
            yield

    generator = generate()
    next(generator)
    cycle: list[Any] = [generator]
    cycle.append(cycle)


def run_to_its_end(work: Callable[[], object]) -> None:
    """Run a function in a thread that may hang."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(1e-3)


@pytest.mark.filterwarnings("ignore:a block of buffered writes:ResourceWarning")
@pytest.mark.parametrize("abandon", [abandon_block, abandon_generator])
@pytest.mark.parametrize("key", ["c/0", "c/1", "other"])
def test_collection_inside_a_store_stores_blocks(
    store: LockedStore, array: tessarr.Array, abandon: Callable[[tessarr.Array], None], key: str
) -> None:
    """A block ends while its thread holds the lock of a chunk, and the lock of the store."""
    abandon(array)
    store.on_write = gc.collect
    run_to_its_end(lambda: array._store.put(key, b"\x05\x06"))
    assert array[0] == array[2] == 1
    last = {"c/0": [1, 6, 1, 0], "c/1": [1, 0, 1, 6], "other": [1, 0, 1, 0]}[key]
    wait_until(lambda: tessarr.open_array(store.inner, mode="r")[...].tolist() == last)


def test_block_of_collected_generator_has_no_warning(
    store: LockedStore, array: tessarr.Array
) -> None:
    """The end of the generator leaves the block, also if another thread stores it later."""
    abandon_generator(array)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        gc.collect()
    assert not caught
    wait_until(lambda: tessarr.open_array(store.inner, mode="r")[...].tolist() == [1, 0, 1, 0])
