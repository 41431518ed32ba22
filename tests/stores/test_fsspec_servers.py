"""`FsspecStore` on file systems of S3 and GCS: requests go through fsspec's public methods."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import fsspec.asyn
import numpy as np
import pytest

import tessarr
from stores.servers import Answer
from tessarr.errors import UnsupportedError
from tessarr.stores import FsspecStore

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from collections.abc import Callable

    from stores.servers import Proxy

pytest.importorskip("s3fs", reason="needs s3fs")
pytest.importorskip("gcsfs", reason="needs gcsfs")

VALUES = np.arange(64 * 64, dtype="i4").reshape(64, 64)
ODD_KEYS = ("a b", "a+b", "ä/ö", "50%", "a#b", "q=1&r=2", "~!$'()*,:@", "\u2028")


def create_store(kind: str, proxy: Proxy, path: str, **settings: Any) -> FsspecStore:
    """Return the store of a folder in a bucket."""
    if kind == "s3":
        fs = fsspec.filesystem("s3", endpoint_url=proxy.url)
    else:
        fs = fsspec.filesystem("gs", endpoint_url=proxy.url, token="anon")
    return FsspecStore(fs, f"bucket/{path}".rstrip("/"), **settings)


@pytest.fixture
def store(remote_path: tuple[str, Proxy, str]) -> FsspecStore:
    """Return an empty store on a server of each kind."""
    return create_store(*remote_path)


def test_array_is_changed_and_deleted(store: FsspecStore) -> None:
    """Whole and partial writes, reads, and deletions work like those of other stores."""
    array = tessarr.create_array(store, path="a", data=VALUES, chunks=16)
    array[3:40, 5] = -1
    expected = VALUES.copy()
    expected[3:40, 5] = -1
    assert (array[:] == expected).all()
    array[:16] = 0  # fill chunks are deleted
    assert len(store.list("a/c/")) == 12
    assert store["a/zarr.json"] == store.fs.cat_file(f"{store.path}/a/zarr.json")
    assert store.list_dir("a/") == (["a/zarr.json"], ["a/c/"])
    store.delete_prefix("a/")
    assert store.list() == ["zarr.json"]


def test_parts_of_shards_are_read_and_changed(store: FsspecStore) -> None:
    """A read of a subchunk takes ranges of the shard."""
    values = np.random.default_rng(0).random((256, 256))
    array = tessarr.create_array(store, data=values, chunks=32, shards=256, compressors=None)
    assert (array[40:60, 40] == values[40:60, 40]).all()
    array[40:60, 40] = 0
    values[40:60, 40] = 0
    assert (array[:] == values).all()


@pytest.mark.parametrize("concurrency", [3, 8])  # s3fs has at most 10 connections
def test_requests_are_concurrent(remote_path: tuple[str, Proxy, str], concurrency: int) -> None:
    """Reads and writes of many chunks keep the wanted number of requests under way."""
    proxy = remote_path[1]
    store = create_store(*remote_path, concurrency=concurrency)
    array = tessarr.create_array(store, data=VALUES, chunks=8, compressors=None)
    proxy.delay_s = 0.05
    for use in (lambda: array[:], lambda: array.__setitem__(slice(None), VALUES + 1)):
        proxy.reset_counts()
        use()
        assert proxy.max_concurrent == concurrency
    assert (array[:] == VALUES + 1).all()


def test_unusual_keys_and_folders_round_trip(remote_path: tuple[str, Proxy, str]) -> None:
    """The file system percent-encodes keys as the server expects."""
    kind, proxy, path = remote_path
    store = create_store(kind, proxy, f"{path}a folder/+ä")
    for key in ODD_KEYS:
        store.put(key, key.encode())
    assert {key: store.get(key) for key in ODD_KEYS} == {key: key.encode() for key in ODD_KEYS}
    assert store.list() == sorted(ODD_KEYS)


def test_opened_values_ignore_cached_listings(store: FsspecStore) -> None:
    """A listing in the file system's cache does not hide changes of other writers."""
    store.put("a/b", bytes(100_000))
    assert store.list() == ["a/b"]
    assert store.size("a/b") == 100_000
    other = type(store.fs)(**store.fs.storage_options, skip_instance_cache=True)
    other.pipe_file(f"{store.path}/a/b", bytes(200_000))
    other.pipe_file(f"{store.path}/a/c", bytes(200_000))
    assert (store.size("a/b"), store.size("a/c")) == (200_000, 200_000)


def forbid_absent(ask: Callable[[dict[str, str]], Answer], headers: dict[str, str]) -> Answer:
    """Respond like a bucket that hides absent keys from users without list permission."""
    answer = ask(headers)
    words = b"<Error><Code>AccessDenied</Code></Error>"
    return Answer(403, {}, words) if answer.status == 404 else answer


@pytest.mark.parametrize("option", ["allowed_exceptions", "missing_status"])
def test_absent_file_reported_as_forbidden_is_absent_by_option(
    s3: Proxy, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    array = tessarr.create_array(
        create_store("s3", s3, f"sparse-{option}"), shape=(64, 64), chunks=16, dtype="i4"
    )
    array[0, 0] = 1
    monkeypatch.setattr(s3, "forward", forbid_absent)
    denied = {
        "allowed_exceptions": (FileNotFoundError, PermissionError),
        "missing_status": (403, 404),
    }
    store = create_store("s3", s3, f"sparse-{option}", **{option: denied[option]})
    assert store.get("none") is None
    assert tessarr.open_array(store)[:].sum() == 1
    strict = create_store("s3", s3, f"sparse-{option}")
    assert strict.get("zarr.json") is not None
    with pytest.raises(PermissionError):
        strict.get("none")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_children_of_busy_parent_read_and_store(s3: Proxy) -> None:
    """While threads of the parent read, children open their own connections."""
    store = create_store("s3", s3, "forked")
    store.put("a", b"x")
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            assert store.get("a") == b"x"

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(5):
            child = os.fork()
            if child == 0:
                try:
                    signal.alarm(60)
                    store.put(f"b{number}", b"y")
                    os._exit(0 if store.get("a") == b"x" else 1)
                finally:
                    os._exit(2)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert [store.get(f"b{number}") for number in range(5)] == [b"y"] * 5


def test_calls_in_loop_thread_raise(s3: Proxy) -> None:
    """The same calls succeed on other threads."""
    store = create_store("s3", s3, "inside")
    array = tessarr.create_array(store, data=VALUES, chunks=16)
    calls: list[Callable[[], object]] = [
        lambda: array[:],
        lambda: array[3, 3],
        lambda: array.__setitem__(slice(None), 1),
        lambda: array.__setitem__((3, 3), 1),
        lambda: array.resize((4, 4)),
        lambda: store.get("zarr.json"),
    ]

    async def inside() -> None:
        for call in calls:
            with pytest.raises(UnsupportedError):
                call()

    fsspec.asyn.sync(store.fs.loop, inside, timeout=60)
    assert (array[:] == VALUES).all()
