"""Stores that wrap other stores."""

from __future__ import annotations

import io
import logging
import pickle
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import ArgumentError, ReadOnlyError, StoreError
from tessarr.store import LocalStore, MemoryStore, Store
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.stores import (
    LatencyStore,
    LoggingStore,
    LRUStoreCache,
    PrefixStore,
    ReadOnlyStore,
    WrapperStore,
)

MAKERS: dict[str, Callable[[Any], WrapperStore]] = {
    "prefix": lambda store: PrefixStore(store, "a"),
    "read-only": ReadOnlyStore,
    "latency": lambda store: LatencyStore(store, read_s=1e-6),
    "logging": LoggingStore,
    "cache": lambda store: LRUStoreCache(store, max_size=1000),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_wrappers_accept_store_like(kind: str, tmp_path: Path) -> None:
    """A wrapper accepts folders, URLs with a path, mappings and stores."""
    make = MAKERS[kind]
    MemoryStore(name=f"test_wrap-{kind}").put("deep/a/k", b"v")
    LocalStore(tmp_path / "x").put("a/k", b"v")
    key = "k" if kind == "prefix" else "a/k"
    for store in (f"memory://test_wrap-{kind}/deep", tmp_path / "x", {"a/k": b"v"}):
        assert make(store).get(key) == b"v"
    with pytest.raises(TypeError, match="int is not a store"):
        make(3)


@pytest.mark.parametrize("kind", MAKERS)
def test_wrappers_are_pickled_and_shown(kind: str, tmp_path: Path) -> None:
    """An unpickled wrapper equals the original, and the repr shows its settings."""
    store = MAKERS[kind](LocalStore(tmp_path))
    again = pickle.loads(pickle.dumps(store))
    assert type(again) is type(store)
    assert again.store == store.store == LocalStore(tmp_path)
    assert repr(again) == repr(store)
    assert repr(store).startswith(f"{type(store).__name__}(LocalStore('{tmp_path}')")
    assert (again == store) is (kind != "cache")  # a pickled cache is empty
    assert hash(store) == hash(store)
    assert store != LocalStore(tmp_path)
    assert store.read_only is (kind == "read-only")


@pytest.mark.parametrize("kind", MAKERS)
def test_arrays_in_every_wrapper(kind: str, tmp_path: Path) -> None:
    """Arrays, with and without shards, read the same values through every wrapper."""
    data = np.arange(100 * 100).reshape(100, 100)
    for number, shards in enumerate([None, (50, 50)]):
        inner = LocalStore(tmp_path / str(number))
        path = "a/x"
        tessarr.create_array(inner, path=path, data=data, chunks=(10, 10), shards=shards)
        store = MAKERS[kind](inner)
        a = tessarr.open_array(store, path="x" if kind == "prefix" else path, mode="r")
        for _ in range(2):
            np.testing.assert_array_equal(a[:], data)
            np.testing.assert_array_equal(a[13, ::7], data[13, ::7])
        if kind == "read-only":
            with pytest.raises(ReadOnlyError):
                tessarr.open_array(store, path=path, mode="r+")[0, 0] = 1
            continue
        b = tessarr.open_array(store, path=a.path, mode="r+")
        b[3:55, 7] = -1
        assert (tessarr.open_array(inner, path=path)[3:55, 7] == -1).all()
        np.testing.assert_array_equal(a[:], tessarr.open_array(inner, path=path)[:])


def test_prefixes_compose_and_do_not_escape() -> None:
    """A path that leaves the prefix raises an error, in the constructor and in every method."""
    items = {"a/b/k": b"1", "secret": b"2"}
    store = PrefixStore(PrefixStore(items, "/a/"), "b")
    assert store.list() == ["k"]
    assert PrefixStore(items, "").list() == ["a/b/k", "secret"]
    with pytest.raises(ArgumentError):
        PrefixStore(items, "a/../..")
    with pytest.raises(ArgumentError):
        store.get("../../secret")


def test_read_only_refuses_every_change() -> None:
    """Every changing method raises an error."""
    store = ReadOnlyStore({"a/k": b"v"})
    calls: list[Callable[[], object]] = [
        lambda: store.put("k", b""),
        lambda: store.delete("a/k"),
        lambda: store.replace("a/k", None, b"v"),
        lambda: store.delete_prefix("a/"),
        lambda: store.hold("k", dict),
    ]
    for call in calls:
        with pytest.raises(ReadOnlyError):
            call()
    assert list(store.store) == ["a/k"]


def test_latency_store_delays_requests() -> None:
    """A request waits for the latency, its bytes for the bandwidth; threads wait concurrently."""
    store = LatencyStore({"k": b"x" * 1000}, read_s=0.02, write_s=0.03, bytes_per_s=1e5)

    def took(work: Callable[[], object]) -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    assert took(lambda: store.get("k")) >= 0.03
    assert took(store.list) >= 0.02
    assert took(lambda: store.delete("absent")) >= 0.03
    slow = LatencyStore({}, read_s=0.5)
    with ThreadPoolExecutor(8) as pool:
        assert took(lambda: list(pool.map(slow.size, ["a"] * 8))) < 8 * 0.5
    wrongs: list[dict[str, Any]] = [
        {"read_s": -1.0},
        {"write_s": float("nan")},
        {"bytes_per_s": 0.0},
    ]
    for wrong in wrongs:
        with pytest.raises(ArgumentError):
            LatencyStore({}, **wrong)


@pytest.mark.parametrize("kind", ["read-only", "cache", "logging"])
def test_latency_of_chunks_overlaps(kind: str, tmp_path: Path) -> None:
    """Through every wrapper, concurrent requests outnumber the threads."""
    data = np.arange(64).reshape(8, 8)
    inner = MemoryStore()
    far = LatencyStore(inner, read_s=0.05, write_s=0.05, concurrency=64)
    with tessarr.options(threads=1):
        array = tessarr.create_array(far, shape=(8, 8), chunks=(1, 1), dtype="i8")
        start = time.perf_counter()
        array[:] = data
        read = tessarr.open_array(MAKERS[kind](far), mode="r")
        np.testing.assert_array_equal(read[:], data)
        assert time.perf_counter() - start < 2 * 64 * 0.05  # one after another
    again = LatencyStore(LocalStore(tmp_path), read_s=0.001)
    sharded = tessarr.create_array(again, data=data, chunks=(1, 1), shards=(8, 8), compressors=None)
    np.testing.assert_array_equal(sharded[::2, ::2], data[::2, ::2])


def test_error_of_one_request_ends_read() -> None:
    """A failed request raises its error, and Ctrl-C raises KeyboardInterrupt."""

    class Failing(dict[str, bytes]):
        concurrency = 8

        def get(self, key: str) -> bytes | None:  # type: ignore[override]
            if key == "c/13":
                raise ZeroDivisionError(key)
            return self[key]

        put = dict.__setitem__
        delete = dict.__delitem__
        list = dict.keys

    array = tessarr.create_array(Failing(), shape=(50,), chunks=(1,), dtype="i4", fill_value=1)
    array[:] = np.arange(50)
    with pytest.raises(ZeroDivisionError):
        array[:]
    assert array[:10].tolist() == list(range(10))


def test_messages_of_logging_store(caplog: pytest.LogCaptureFixture) -> None:
    """Each call logs one message; failures log one level higher."""
    store = LoggingStore({"k": b"123"}, log_level="INFO")
    with caplog.at_level("INFO", "tessarr.store"):
        store.get("k")
        store.put("n", b"1")
        store.list("a/")
        with pytest.raises(ArgumentError):
            store.get("../k")
    levels = [record.levelname for record in caplog.records]
    assert levels == ["INFO", "INFO", "INFO", "WARNING"]
    texts = [record.getMessage() for record in caplog.records]
    assert texts[0].startswith("open 'k': 3 bytes, ")
    assert texts[1].startswith("update 'n': 1 bytes, ")
    assert texts[2].startswith("list 'a/': 0 bytes, ")
    assert "failed" in texts[3]
    with pytest.raises(ArgumentError, match="log_level must be one of"):
        LoggingStore({}, log_level="LOUD")


def test_logging_store_uses_handler() -> None:
    """The messages go to the handler only; the level may be a number."""
    text = io.StringIO()
    store = LoggingStore({}, log_level=logging.WARNING, log_handler=logging.StreamHandler(text))
    store.put("k", b"v")
    assert text.getvalue().startswith("update 'k': 1 bytes")


def test_failing_log_handler_raises() -> None:
    """An exception of the user's handler propagates."""

    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise StoreError("no room for logs")

    store = LoggingStore({"k": b"v"}, log_handler=Broken())
    with pytest.raises(StoreError, match="no room"):
        store.get("k")


def cached(limit: int | None = None, **options: Any) -> tuple[LRUStoreCache, CountingStore, Store]:
    inner = MemoryStore()
    counting = CountingStore(inner)
    return LRUStoreCache(counting, limit, **options), counting, inner


def test_cache_hit_needs_no_request() -> None:
    """The cache keeps values, absences and listings; its own writes update it."""
    cache, counting, _ = cached()
    a = tessarr.create_array(cache, shape=(10,), chunks=(5,), dtype="i4")
    a[:5] = 1
    for _ in range(3):
        assert tessarr.open_array(cache, mode="r")[:].sum() == 5
    opens = counting.counts()["opens"]
    assert tessarr.open_array(cache, mode="r")[:].sum() == 5
    assert counting.counts()["opens"] == opens
    a[5:] = 2
    assert a[:].sum() == tessarr.open_array(cache, mode="r")[:].sum() == 15
    hits, misses = cache.hits, cache.misses
    cache.get("c/0")
    assert (cache.hits, cache.misses) == (hits + 1, misses)
    assert cache.current_size > 0
    cache.invalidate()
    assert cache.current_size == 0


def test_invalidated_cache_shows_external_change() -> None:
    """Cached values end by `invalidate`, and by age."""
    cache, _, inner = cached()
    assert cache.get("k") is None
    inner.put("k", b"v")
    assert cache.get("k") is None
    cache.invalidate_values()
    assert cache.get("k") == b"v"
    brief, _, inner = cached(max_age_s=0.05)
    inner.put("k", b"1")
    assert brief.get("k") == b"1"
    inner.put("k", b"2")
    time.sleep(0.06)
    assert brief.get("k") == b"2"


def test_append_through_cache_sees_external_append(tmp_path: Path) -> None:
    """A shape change reads the stored document, not the cached one."""
    inner = LocalStore(tmp_path)
    tessarr.create_array(inner, shape=(2,), chunks=(2,), dtype="i4", fill_value=7)
    a = tessarr.open_array(LRUStoreCache(inner, None), mode="r+")
    tessarr.open_array(inner, mode="r+").append(np.array([1, 2]))
    a.append(np.array([3]))
    assert tessarr.open_array(inner)[:].tolist() == [7, 7, 1, 2, 3]


def test_cache_respects_max_size() -> None:
    """The cache never exceeds its size, and passes larger values through."""
    cache, counting, inner = cached(10_000)
    for number in range(50):
        inner.put(f"k{number}", bytes(1000))
    for number in [*range(50), 49, 48, 47]:
        assert cache.get(f"k{number}") == bytes(1000)
        assert cache.current_size <= 10_000
    assert counting.counts()["opens"] == 50
    inner.put("large", bytes(20_000))
    assert cache.get("large") == bytes(20_000)
    for wrong in (-1, 1.5, "1G", True):
        with pytest.raises(ArgumentError):
            LRUStoreCache({}, wrong)  # type: ignore[arg-type]


def test_threads_with_small_cache_read_last_write() -> None:
    """Each thread reads its last write, whatever the cache evicts."""
    cache, _, _ = cached(3000)

    def work(number: int) -> None:
        key = f"k{number}"
        for round_ in range(200):
            cache.put(key, bytes([round_]) * 500)
            assert cache.get(key) == bytes([round_]) * 500
            cache.get(f"k{(number + 1) % 4}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


def test_cache_of_replaced_open_value_is_consistent(tmp_path: Path) -> None:
    """Parts of a replaced value raise an error; a new read returns the new value."""
    cache = LRUStoreCache(LocalStore(tmp_path), max_size=10_000)
    cache.put("k", b"a" * 20_000)
    assert cache.open_value("k") is not None
    opened = cache.open_value("k")  # the cache knows that the key exists
    assert opened is not None
    cache.put("k", b"b" * 20_000)
    with pytest.raises(StoreError) as caught:
        opened.read(0, 10)
    assert (caught.value.kind, caught.value.retryable) == ("value_replaced", True)
    assert cache.get("k") == b"b" * 20_000
