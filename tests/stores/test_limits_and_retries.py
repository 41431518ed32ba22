"""Limits on concurrent requests, rate limits, and retries of stores."""

from __future__ import annotations

import errno
import os
import pickle
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import tessarr
from tessarr.errors import ArgumentError, StoreError
from tessarr.extensions import BytesBytesCodec, register_codec
from tessarr.store import ForeignStore, MemoryStore, Store
from tessarr.store.transient import is_transient, is_unapplied
from tessarr.store.wrappers.staged import StagedStore
from tessarr.stores import FsspecStore, LimitedStore, Limits, RetryingStore


class Tally:
    """Counter of concurrent requests and of their maximum."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        with self._lock:
            self.now += count
            self.most = max(self.most, self.now)


class Slow(dict[str, bytes]):
    """Store with slow requests."""

    concurrency = 16

    def __init__(self, tally: Tally | None = None) -> None:
        super().__init__()
        self.tally = tally or Tally()

    def _wait(self) -> None:
        self.tally.add(1)
        time.sleep(0.002)
        self.tally.add(-1)

    def get(self, key: str) -> bytes | None:  # type: ignore[override]
        self._wait()
        return super().get(key)

    def put(self, key: str, data: bytes) -> None:
        self._wait()
        self[key] = data

    def delete(self, key: str) -> None:
        self._wait()
        self.pop(key, None)

    def list(self, prefix: str) -> list[str]:
        return [key for key in self if key.startswith(prefix)]


@pytest.mark.parametrize("most", [1, 3])
def test_limits_bound_requests(most: int) -> None:
    """The limits apply to all stores that share them."""
    tally, limits = Tally(), Limits(concurrency=most)
    arrays = [
        tessarr.create_array(
            LimitedStore(ForeignStore(Slow(tally)), limits), data=np.arange(40), chunks=1
        )
        for _ in range(2)
    ]
    assert tally.most == most
    with ThreadPoolExecutor(2) as threads:
        read = list(threads.map(lambda array: array[...].tolist(), arrays))
    assert read == [list(range(40))] * 2
    assert tally.most == most
    arrays[0][3:9] = 7  # partial writes, which read first
    arrays[0].resize(20)
    assert arrays[0][...].tolist()[:10] == [0, 1, 2, 7, 7, 7, 7, 7, 7, 9]


def test_requests_without_limits_are_concurrent() -> None:
    slow = Slow()
    tessarr.create_array(slow, data=np.arange(40), chunks=1)
    assert slow.tally.most > 3


def test_writes_respect_concurrency_of_store() -> None:
    """Workers encode the next chunks while uploads wait."""
    slow = Slow()
    array = tessarr.create_array(slow, shape=200, chunks=1, dtype="i4", fill_value=3)
    values = np.arange(200, dtype="i4")
    array[:] = values
    assert slow.tally.most == slow.concurrency
    assert (array[:] == values).all()
    assert "c/3" not in slow
    array[:199] = 3  # three kinds of chunks: deleted, deleted and stored
    assert [key for key in slow if key != "zarr.json"] == ["c/199"]


def test_failed_write_ends_and_names_key() -> None:
    slow = Slow()
    array = tessarr.create_array(slow, shape=400, chunks=1, dtype="i4")
    put = slow.put

    def refuse(key: str, data: bytes) -> None:
        if key == "c/50":
            raise OSError("no room")
        put(key, data)

    slow.put = refuse  # type: ignore[method-assign]
    with pytest.raises(OSError, match="no room") as caught:
        array[:] = np.arange(1, 401)
    assert any("c/50" in note for note in caught.value.__notes__)
    assert 0 < len(slow) < 300


@pytest.mark.slow
def test_forked_child_has_own_limits() -> None:
    entered, leave = threading.Event(), threading.Event()

    class Blocking(Slow):
        def get(self, key: str) -> bytes | None:  # type: ignore[override]
            if key == "block":
                entered.set()
                leave.wait(20)
            return b"1"

    store = LimitedStore(ForeignStore(Blocking()), Limits(concurrency=1))
    thread = threading.Thread(target=store.get, args=("block",))
    thread.start()
    assert entered.wait(20)
    child = os.fork()
    if child == 0:
        os._exit(0 if store.get("a") == b"1" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    leave.set()
    thread.join()


def test_rate_limit_spaces_requests() -> None:
    store = LimitedStore({"a": b"1"}, Limits(reads_per_s=200))
    start = time.monotonic()
    for _ in range(9):
        store.get("a")
    assert time.monotonic() - start >= 8 / 200
    store.put("b", b"2")  # writes have their own rate, which is unlimited here
    growing = LimitedStore({"a": b"1"}, Limits(reads_per_s=100, doubling_s=1e-3))
    for _ in range(100):
        growing.get("a")


def test_limits_are_values() -> None:
    limits = Limits(concurrency=2, doubling_s=3)
    store = LimitedStore(MemoryStore({"a": b"1"}), limits)
    assert repr(pickle.loads(pickle.dumps(limits))) == repr(limits)
    assert pickle.loads(pickle.dumps(store)).get("a") == b"1"
    assert store == LimitedStore(store.store, limits) != LimitedStore(store.store, Limits())
    for wrong in ({"concurrency": 0}, {"reads_per_s": 0}, {"writes_per_s": -1}, {"doubling_s": -1}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            Limits(**wrong)


class Failing:
    """Store whose operations fail a number of times and then succeed."""

    def __init__(self, make: Callable[[], BaseException], times: int) -> None:
        self.items: dict[str, bytes] = {}
        self.make, self.times = make, times
        self.attempts: Counter[str] = Counter()

    def _fail(self, operation: str) -> None:
        self.attempts[operation] += 1
        if self.attempts[operation] <= self.times:
            raise self.make()

    def get(self, key: str) -> bytes | None:
        self._fail("get")
        return self.items.get(key)

    def open_value(self, key: str) -> Any:
        self._fail("open_value")
        return _Opened(self, self.items[key]) if key in self.items else None

    def put(self, key: str, data: bytes) -> None:
        self._fail("put")
        self.items[key] = data

    def delete(self, key: str) -> None:
        self._fail("delete")
        self.items.pop(key, None)

    def list(self, prefix: str) -> list[str]:
        self._fail("list")
        return [key for key in self.items if key.startswith(prefix)]


class _Opened:
    def __init__(self, store: Failing, data: bytes) -> None:
        self.size = len(data)
        self._store, self._data = store, data

    def read(self, offset: int, count: int) -> bytes:
        self._store._fail("read")
        return self._data[offset : offset + count]


class StatusError(Exception):
    """Error with a `status`, as web clients raise it."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def retried(failing: Failing, most: int = 9) -> RetryingStore:
    """Return the store with retries after short delays."""
    store = ForeignStore(failing)
    return RetryingStore(store, max_retries=most, first_delay_s=1e-4, max_delay_s=1e-3)


PASSING: list[Callable[[], BaseException]] = [
    lambda: StatusError(503),
    lambda: StatusError(429),
    ConnectionResetError,
    TimeoutError,
    lambda: OSError(16, "busy"),
    lambda: StoreError("locked", retryable=True),
]
STAYING: list[Callable[[], BaseException]] = [
    lambda: StatusError(403),
    PermissionError,
    ValueError,
    lambda: OSError(28, "full"),
    lambda: StoreError("broken"),
]


@pytest.mark.parametrize("make", PASSING, ids=range(len(PASSING)))
def test_transient_error_is_retried(make: Callable[[], BaseException]) -> None:
    failing = Failing(make, 3)
    array = tessarr.create_array(retried(failing), data=np.arange(100), chunks=10, shards=50)
    array[5:7] = 0
    assert array[3:9].tolist() == [3, 4, 0, 0, 7, 8]
    store = retried(failing)
    store.put("k", b"1")
    assert (store.get("k"), store.replace("k", b"2", b"1"), store.size("k")) == (b"1", True, 1)
    value = store.open_value("k")
    assert value is not None
    assert value.read(0, 1) == b"2"
    assert "k" in store.list()
    store.delete("k")
    store.delete_prefix("c/")
    assert store.list() == ["zarr.json"]


@pytest.mark.parametrize("make", STAYING, ids=range(len(STAYING)))
def test_final_error_is_raised_at_once(make: Callable[[], BaseException]) -> None:
    failing = Failing(make, 1)
    with pytest.raises(type(make())):
        retried(failing).get("k")
    assert failing.attempts["get"] == 1
    assert not is_transient(make())


class Lossy(dict[str, bytes]):
    """Store with conditional writes that can lose one response."""

    lost = ""

    def put(self, key: str, data: bytes) -> None:
        self[key] = data

    def delete(self, key: str) -> None:
        self.pop(key, None)

    def list(self, prefix: str) -> list[str]:
        return [key for key in self if key.startswith(prefix)]

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        if self.get(key) != expected:
            return False
        self.pop(key, None)
        if data is not None:
            self[key] = data
        if key == self.lost:
            self.lost = ""
            raise ConnectionError
        return True


def test_append_after_lost_response_adds_rows_once() -> None:
    """A lost append raises an error; a lost idempotent change is repeated."""
    lossy = Lossy()
    store = RetryingStore(ForeignStore(lossy), first_delay_s=1e-4)
    array = tessarr.create_array(store, data=np.arange(4), chunks=2)
    lossy.lost = "zarr.json"
    with pytest.raises(StoreError, match="the response to a change was lost"):
        array.append(np.arange(2))
    assert tessarr.open_array(store).shape == (6,)
    lossy.lost = "zarr.json"
    array = tessarr.open_array(store)
    array.resize(8)
    assert tessarr.open_array(store).shape == (8,)
    lossy.lost = "c/0"
    array[1] = 7
    assert array[:2].tolist() == [0, 7]


@pytest.mark.parametrize("data", [b"2", bytes(2 << 20), None], ids=["small", "large", "none"])
def test_applied_replace_is_no_conflict(data: bytes | None) -> None:
    """The response is lost, and the stored value is the new one."""
    lossy = Lossy(k=b"1")
    lossy.lost = "k"
    store = RetryingStore(ForeignStore(lossy), first_delay_s=1e-4)
    with pytest.raises(StoreError, match="the response to a change was lost") as caught:
        store.replace("k", data, b"1")
    assert caught.value.kind == "answer_lost"
    assert lossy.get("k") == data
    assert not store.replace("k", b"3", b"1")


class UnstableStore(Lossy):
    """Store that raises the errors `change` and `reads`; a failed write changes the value."""

    def __init__(self, change: Exception, *reads: Exception | None) -> None:
        super().__init__(k=b"1")
        self.changes, self.reads = [change], list(reads)

    def get(self, key: str, default: Any = None) -> Any:
        error = self.reads.pop(0) if self.reads else None
        if error is not None:
            raise error
        return super().get(key, default)

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        if not self.changes:
            return super().replace(key, data, expected)
        assert data is not None
        self[key] = data
        raise self.changes.pop(0)


class Overtaken(Lossy):
    """Store that loses a response, after which another writer changes the new value."""

    def __init__(self, lost: Exception, others: Callable[[bytes], bytes], key: str = "k") -> None:
        super().__init__(k=b"1")
        self.error, self.others, self.key = lost, others, key

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        done = super().replace(key, data, expected)
        if done and key == self.key:
            self.key = ""
            self[key] = self.others(self[key])
            raise self.error
        return done


LOST = {"broken": ConnectionError(), "told": StoreError("lost", kind="answer_lost")}


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
def test_conflict_after_lost_response_is_ambiguous(lost: Exception) -> None:
    """The current value may derive from the value of the lost write."""
    changes: list[Callable[[Store], object]] = [
        lambda store: store.replace("k", b"2", b"1"),
        lambda store: committed(store, b"2"),
    ]
    for change in changes:
        store = Overtaken(lost, lambda value: value + b", 3")
        with pytest.raises(StoreError, match="lost, and another writer changed") as caught:
            change(RetryingStore(ForeignStore(store), first_delay_s=1e-4))
        assert caught.value.kind == "answer_lost"
        assert store["k"] == b"2, 3"


def committed(store: Store, data: bytes | None) -> str | int | None:
    """Return the result of a transaction that replaces ``b"1"``."""
    staged = StagedStore(store, False)
    assert staged.replace("k", data, b"1")
    return staged.commit(False)


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
def test_only_idempotent_changes_are_repeated(lost: Exception) -> None:
    """Appends are not repeated after another append; writes of attributes and elements are."""
    values = Overtaken(lost, lambda value: re.sub(rb"\b6\b", b"8", value), "")
    retrying = RetryingStore(ForeignStore(values), first_delay_s=1e-4)
    array = tessarr.create_array(retrying, data=np.arange(4), chunks=4, compressors=None)
    values.key = "zarr.json"
    with pytest.raises(StoreError, match="lost, and another writer changed"):
        array.append(np.arange(2))
    assert tessarr.open_array(retrying).shape == (8,)
    values.key, values.others = "zarr.json", lambda value: re.sub(rb"\b8\b", b"9", value)
    tessarr.open_array(retrying).attrs["a"] = 5
    array = tessarr.open_array(retrying)
    assert (array.shape, array.attrs["a"]) == ((9,), 5)
    values.key, values.others = "c/0", lambda value: value[:24] + bytes(8)
    tessarr.open_array(retrying)[1] = 7
    assert tessarr.open_array(retrying)[:4].tolist() == [0, 7, 2, 0]


@pytest.mark.parametrize("status", [408, 429, 503])
def test_busy_status_applies_no_change(status: int) -> None:
    """With a busy status, an equal current value comes from another writer; no read is needed."""
    store = RetryingStore(ForeignStore(UnstableStore(StatusError(status))), first_delay_s=1e-4)
    assert not store.replace("k", b"2", b"1")
    assert store.get("k") == b"2"


@pytest.mark.parametrize("status", [500, 502, 504])
def test_gateway_status_is_ambiguous(status: int) -> None:
    store = RetryingStore(ForeignStore(UnstableStore(StatusError(status))), first_delay_s=1e-4)
    with pytest.raises(StoreError, match="the response to a change was lost"):
        store.replace("k", b"2", b"1")


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
def test_busy_status_after_lost_response_is_ambiguous(lost: Exception) -> None:
    """A busy status does not resolve the earlier lost response."""
    troubled = UnstableStore(lost, None, StatusError(503))
    store = RetryingStore(ForeignStore(troubled), first_delay_s=1e-4)
    with pytest.raises(StoreError, match="the response to a change was lost"):
        store.replace("k", b"2", b"1")
    assert troubled.reads == []


@pytest.mark.parametrize("often", [1, 2])
@pytest.mark.parametrize("data", [b"2", bytes(2 << 20), None], ids=["small", "large", "none"])
def test_applied_commit_is_no_conflict(data: bytes | None, often: int) -> None:
    """The response of the store is lost, with one or two layers of retries."""
    lossy = Lossy(k=b"1")
    store: Store = ForeignStore(lossy)
    for _ in range(often):
        store = RetryingStore(store, first_delay_s=1e-4)
    lossy.lost = "k"
    with pytest.raises(StoreError, match="the response to a change was lost") as caught:
        committed(store, data)
    assert caught.value.kind == "answer_lost"
    assert lossy.get("k") == data


class LookupFailures(Lossy):
    """Store whose reads and writes fail in a given order, each after a write of another client."""

    def __init__(self, *failures: tuple[str, Exception]) -> None:
        super().__init__(key=b"1")
        self.failures = list(failures)

    def _fail(self, step: str) -> None:
        if self.failures and self.failures[0][0] == step:
            self["key"] = b"theirs"
            raise self.failures.pop(0)[1]

    def get(self, key: str, default: Any = None) -> Any:
        self._fail("get")
        return super().get(key, default)

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        self._fail("replace")
        return super().replace(key, data, expected)


@pytest.mark.parametrize("order", [1, -1])
def test_lost_read_is_no_ambiguous_write(order: int) -> None:
    """A refused connection and a busy file are no lost responses."""
    busy = OSError(errno.EBUSY, "in use")
    failures = [("replace", busy), ("get", ConnectionResetError())][::order]
    store = RetryingStore(ForeignStore(LookupFailures(*failures)), first_delay_s=1e-4)
    assert not store.replace("key", b"2", b"1")
    store = RetryingStore(
        ForeignStore(LookupFailures(("replace", ConnectionRefusedError()))), first_delay_s=1e-4
    )
    assert not store.replace("key", b"2", b"1")
    store = RetryingStore(
        ForeignStore(LookupFailures(("replace", ConnectionResetError()))), first_delay_s=1e-4
    )
    with pytest.raises(StoreError, match="the response to a change was lost"):
        store.replace("key", b"2", b"1")


def test_unreachable_server_applied_no_change() -> None:
    exceptions = pytest.importorskip("botocore.exceptions", reason="needs s3fs")
    for kind in (exceptions.EndpointConnectionError, exceptions.ConnectTimeoutError):
        assert is_unapplied(kind(endpoint_url="http://127.0.0.1")) is None
    assert is_unapplied(exceptions.ReadTimeoutError(endpoint_url="http://127.0.0.1")) is False


@pytest.mark.parametrize("times", [2, 3])
def test_interrupt_after_lost_response_is_raised(times: int) -> None:
    """The interrupt propagates, also from the read that looks for other writers."""
    lossy = LookupFailures(("replace", ConnectionResetError()))
    store = RetryingStore(ForeignStore(lossy), first_delay_s=1e-4)
    called = 0

    def update(now: bytes | None) -> bytes:
        nonlocal called
        called += 1
        if called == times:
            raise KeyboardInterrupt
        return (now or b"") + b"!"

    with pytest.raises(KeyboardInterrupt):
        store.change("key", update)
    assert called == times


def test_retries_end_after_max_retries() -> None:
    failing = Failing(TimeoutError, 100)
    with pytest.raises(TimeoutError):
        retried(failing, most=3).put("k", b"1")
    assert failing.attempts["put"] == 4
    with pytest.raises(TimeoutError):
        retried(failing, most=0).get("k")
    assert failing.attempts["get"] == 1


def test_work_under_held_key_runs_once() -> None:
    done = []

    def work() -> None:
        done.append(1)
        raise TimeoutError

    with pytest.raises(TimeoutError):
        retried(Failing(TimeoutError, 1)).hold("k", work)
    assert done == [1]


def test_cause_of_error_is_classified() -> None:
    error = OSError(5, "translated")
    error.__cause__ = StatusError(500)
    assert is_transient(error)
    assert is_unapplied(error) is False
    error.__cause__ = StatusError(503)
    assert is_unapplied(error)
    lost = ConnectionError("lost, and then busy")
    lost.__cause__ = error
    assert is_unapplied(lost) is False


@register_codec
@dataclass(frozen=True)
class FailingCodec(BytesBytesCodec):
    """A codec that may refuse to encode."""

    name = "test.picky"
    takes: ClassVar[bool] = True

    def encode(self, data: Any, /) -> bytes:
        if not self.takes:
            raise LookupError("not today")
        return bytes(data)

    def decode(self, data: Any, /, out: Any = None) -> bytes:
        del out
        return bytes(data)


@pytest.mark.slow
def test_user_codec_error_passes_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a user's codec during a write passes unchanged, without a retry."""
    store = RetryingStore(FsspecStore.from_url("memory://errors-of-others"))
    array = tessarr.create_array(store, shape=4, dtype="i4", chunks=2, compressors=FailingCodec())
    array[:2] = 1
    monkeypatch.setattr(FailingCodec, "takes", False)
    with pytest.raises(LookupError, match="not today"):
        array[1] = 7
    monkeypatch.undo()
    assert array[:2].tolist() == [1, 1]
