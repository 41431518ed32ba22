"""Concurrent uploads of many values to a bucket, without a thread for each."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pytest

import tessarr
from stores.servers import Answer
from tessarr.codec.base import BytesBytesCodec, deliver, register_codec
from tessarr.errors import InternalError, StoreError
from tessarr.stores import LimitedStore, Limits, LRUStoreCache, RetryingStore, S3Store

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from collections.abc import Callable

    from stores.servers import Proxy

SIDE, CHUNK, FEW = 34, 4, 24
FULL = (SIDE // CHUNK) ** 2  # chunks that end before the edge
ALL = (SIDE // CHUNK + 1) ** 2
VALUES = np.arange(1, SIDE * SIDE + 1, dtype="i4").reshape(SIDE, SIDE)


def create_array(store: Any, path: str) -> tessarr.Array:
    """Return a new array, after the first request to its bucket."""
    array = tessarr.create_array(store, path=path, shape=VALUES.shape, chunks=CHUNK, dtype="i4")
    array[0, 0] = 1
    return array


def bucket(proxy: Proxy, folder: str) -> S3Store:
    """Return the store of a folder, with a small limit of concurrent requests."""
    return S3Store("bucket", folder, endpoint=proxy.url, concurrency=FEW, retries=False)


def methods(proxy: Proxy) -> dict[str, int]:
    """Return the number of requests of each method since the last call."""
    result = Counter(line.split()[0] for line in proxy.requests)
    proxy.reset_counts()
    return dict(result)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="names of threads are in /proc")
def test_write_of_many_chunks_uses_few_threads(s3: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    array = create_array(bucket(s3, "threads"), "a")
    before = set(os.listdir("/proc/self/task"))
    most = 0

    def count(ask: Callable[[dict[str, str]], Answer], headers: dict[str, str]) -> Answer:
        nonlocal most
        own = 0
        for task in set(os.listdir("/proc/self/task")) - before:
            with suppress(OSError):
                name = Path(f"/proc/self/task/{task}/comm").read_text()
                own += name.startswith("tessarr-") and not name.startswith("tessarr-web")
        most = max(most, own)
        return ask(headers)

    monkeypatch.setattr(s3, "forward", count)
    monkeypatch.setattr(s3, "delay_s", 0.02)
    s3.reset_counts()
    array[:32, :32] = VALUES[:32, :32]
    assert s3.max_concurrent == FEW
    assert most <= (os.cpu_count() or 1)
    assert methods(s3) == {"PUT": FULL}
    assert (array[:32, :32] == VALUES[:32, :32]).all()


def test_partial_and_fill_chunks_are_stored(s3: Proxy) -> None:
    """The engine reads partial chunks first and deletes fill-value chunks, within the limit."""
    array = create_array(bucket(s3, "parts"), "a")
    array[:] = VALUES
    assert s3.max_concurrent == FEW
    assert (array[:] == VALUES).all()
    values = VALUES + 1
    values[16:32] = 0
    s3.reset_counts()
    array[2:] = values[2:]
    assert s3.max_concurrent <= FEW
    columns = SIDE // CHUNK + 1
    rows_full, rows_fill = SIDE // CHUNK - 1 - 4 + 1, 4
    assert methods(s3) == {
        "GET": columns,
        "PUT": (rows_full + 1) * columns,
        "POST": rows_fill * columns,  # deletions
    }
    values[:2] = VALUES[:2]
    assert (array[:] == values).all()


def test_write_to_busy_server_is_retried(s3: Proxy) -> None:
    store = RetryingStore(bucket(s3, "busy"), max_retries=60, first_delay_s=0.001)
    array = create_array(store, "a")
    s3.reset_counts()
    s3.refusals = [503] * 40
    array[:] = VALUES
    assert methods(s3) == {"PUT": ALL + 40}
    assert (array[:] == VALUES).all()


def test_failed_write_stops_later_writes(s3: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    array = create_array(bucket(s3, "refused"), "a")

    def refuse(ask: Callable[[dict[str, str]], Answer], headers: dict[str, str]) -> Answer:
        return Answer(403, {}, b"") if len(s3.requests) > 40 else ask(headers)

    s3.reset_counts()
    with monkeypatch.context() as patched:
        patched.setattr(s3, "forward", refuse)
        with pytest.raises((StoreError, PermissionError)) as raised:
            array[:] = VALUES
        assert s3.active == 0
    request_count = len(s3.requests)
    assert request_count < ALL
    assert "a/c/" in str(raised.value)
    assert array[0, 0] == 1
    assert len(s3.requests) == request_count + 1


def test_stored_value_is_cached(s3: Proxy) -> None:
    array = create_array(LRUStoreCache(bucket(s3, "cached"), max_size=1 << 24), "a")
    array[:] = VALUES
    s3.reset_counts()
    assert (array[:] == VALUES).all()
    assert methods(s3) == {}
    array[:] = VALUES + 1
    assert methods(s3) == {"PUT": ALL}
    assert (array[:] == VALUES + 1).all()
    assert methods(s3) == {}


def test_concurrent_writes_respect_limits(s3: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    array = create_array(LimitedStore(bucket(s3, "limited"), Limits(concurrency=5)), "a")
    monkeypatch.setattr(s3, "delay_s", 0.002)
    s3.reset_counts()
    array[:] = VALUES
    assert s3.max_concurrent == 5
    assert methods(s3) == {"PUT": ALL}
    assert (array[:] == VALUES).all()


def test_write_waits_for_held_keys(s3: Proxy) -> None:
    store = bucket(s3, "held")
    array = create_array(store, "a")
    held, seen = threading.Event(), threading.Event()

    def work() -> None:
        held.set()
        seen.wait(30)
        assert "PUT /bucket/held/a/c/3/3" not in s3.requests

    holder = threading.Thread(target=tessarr.stores.Store.hold, args=(array.store, "a/c/3/3", work))
    holder.start()
    assert held.wait(30)
    s3.reset_counts()
    future = array.write(..., VALUES)
    while len(s3.requests) < ALL - 1:
        assert not future.done()
    seen.set()
    future.result()
    holder.join()
    assert methods(s3) == {"PUT": ALL}
    assert (array[:] == VALUES).all()


def test_interrupt_ends_write_after_pending_requests(
    s3: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = create_array(bucket(s3, "ended"), "a")
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        signal.pthread_kill(main, signal.SIGINT)

    monkeypatch.setattr(s3, "delay_s", 0.2)
    s3.reset_counts()
    s3.callbacks = [interrupt]
    with pytest.raises(KeyboardInterrupt):
        array[:] = VALUES
    assert s3.active == 0
    request_count = len(s3.requests)
    assert request_count < ALL
    monkeypatch.setattr(s3, "delay_s", 0)
    array[:] = VALUES
    assert len(s3.requests) == request_count + ALL
    assert (array[:] == VALUES).all()


def test_wait_for_held_key_is_interruptible(s3: Proxy) -> None:
    """The interrupted write stores nothing when the key becomes free."""
    array = create_array(bucket(s3, "given up"), "a")
    main = threading.main_thread().ident
    assert main is not None
    held, ended = threading.Event(), threading.Event()

    def work() -> None:
        held.set()
        ended.wait(30)

    def interrupt() -> None:
        while len(s3.requests) < ALL - 1:
            sleep(0.01)
        signal.pthread_kill(main, signal.SIGINT)

    holder = threading.Thread(target=tessarr.stores.Store.hold, args=(array.store, "a/c/3/3", work))
    holder.start()
    assert held.wait(30)
    s3.reset_counts()
    killer = threading.Thread(target=interrupt)
    killer.start()
    with pytest.raises(KeyboardInterrupt):
        array[:] = VALUES
    assert not ended.is_set()
    ended.set()
    holder.join()
    killer.join()
    assert len(s3.requests) == ALL - 1
    array[12:16, 12:16] = 1
    assert (array[12:16, 12:16] == 1).all()


@dataclass(frozen=True)
class Forking(BytesBytesCodec):
    """Codec that forks while it encodes a chunk."""

    name = "tests.forking"
    children: ClassVar[list[int]] = []
    changes_left: ClassVar[int] = -1

    def encode(self, data: Any) -> bytes:
        Forking.changes_left -= 1
        if not Forking.changes_left:
            child = os.fork()
            if not child:
                signal.alarm(30)
            Forking.children.append(child)
        return bytes(data)

    def decode(self, data: Any, out: Any = None) -> Any:
        return deliver(bytes(data), out)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_write_in_child_of_writing_parent_raises(s3: Proxy) -> None:
    """Pending writes belong to the parent process."""
    register_codec(Forking)
    with tessarr.options(threads=1):
        array = tessarr.create_array(
            bucket(s3, "forked"),
            path="a",
            shape=VALUES.shape,
            chunks=CHUNK,
            dtype="i4",
            compressors=[Forking()],
        )
        array[0, 0] = 1
        Forking.changes_left = 30
        try:
            array[:] = VALUES
        except InternalError:
            os._exit(7)
        finally:
            if Forking.children == [0]:
                os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(Forking.children[0], 0)[1]) == 7
    assert (array[:] == VALUES).all()
