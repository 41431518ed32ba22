"""Several processes that change one array on a server lose no update."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import fsspec.asyn
import numpy as np
import pytest

import tessarr
import tessarr.tensorstore as ts
from stores import servers
from stores.processes import run_programs, start_program
from stores.servers import Proxy
from tessarr.errors import UnsupportedError
from tessarr.store.fsspec.event_loop import run_in_loop
from tessarr.store.fsspec.servers import fetch_part, find_server
from tessarr.stores import FsspecStore

pytestmark = pytest.mark.slow

COUNT = 5  # changes of each process


def store_of(kind: str, url: str, path: str) -> FsspecStore:
    """Return the store of Tessarr's own interface."""
    if kind == "s3":
        return FsspecStore.from_url(f"s3://bucket/{path}", {"endpoint_url": url})
    return FsspecStore.from_url(f"gs://bucket/{path}", {"endpoint_url": url, "token": "anon"})


_WAIT = "print('ready', flush=True); input()\n"
_OWN = f"""
import sys
import tessarr
from stores.test_concurrent_processes_on_servers import COUNT, store_of
kind, url, path, number = *sys.argv[1:4], int(sys.argv[4])
store = store_of(kind, url, path)
cells, log = tessarr.open_array(store, path="cells"), tessarr.open_array(store, path="log")
{_WAIT}
for turn in range(COUNT):
    cells[turn, number] = 1 + turn
    log.append([[number, turn]] * 3)
    tessarr.open_group(store).attrs[f"{{number}}.{{turn}}"] = turn
"""
_TENSORSTORE = f"""
import sys
import tessarr.tensorstore as ts
from stores import servers
from stores.test_concurrent_processes_on_servers import COUNT
kind, url, path, number = *sys.argv[1:4], int(sys.argv[4])
proxy = servers.Proxy(0)
proxy.url = url
place = servers.kvstore_spec(kind, proxy, path + "cells/")
cells = ts.open({{"driver": "zarr3", "kvstore": place}}).result()
shape = [None, None, None]
{_WAIT}
for turn in range(COUNT):
    if number == 2 and turn % 2 == 0:
        with ts.Transaction() as transaction:
            cells.with_transaction(transaction)[turn, number] = 1 + turn
    else:
        cells[turn, number] = 1 + turn
    shape[number] = 100 + turn
    cells.resize(exclusive_max=shape[:2], expand_only=True).result()
"""


def run(program: str, kind: str, proxy: Proxy, path: str) -> None:
    """Run the same program in three concurrent processes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(p for p in __import__("sys").path if p))
        programs = [start_program(program, kind, proxy.url, path, number) for number in range(3)]
    run_programs(programs)


def test_concurrent_processes_lose_no_change(remote_path: tuple[str, Proxy, str]) -> None:
    """Processes write parts of one chunk and attributes, and append rows."""
    kind, proxy, path = remote_path
    store = store_of(kind, proxy.url, path)
    group = tessarr.create_group(store)
    cells = group.create_array("cells", shape=(COUNT, 3), chunks=(COUNT, 3), dtype="i4")
    log = group.create_array("log", shape=(0, 2), chunks=(8, 2), dtype="i4")
    run(_OWN, kind, proxy, path)
    assert (cells[:] == np.arange(1, COUNT + 1)[:, None]).all()
    assert len(tessarr.open_group(store).attrs) == 3 * COUNT
    rows = tessarr.open_array(store, path="log")[:].tolist()
    expected = sorted([number, turn] for number in range(3) for turn in range(COUNT) for _ in "012")
    assert sorted(rows) == expected
    assert log.shape == (0, 2)


def test_concurrent_processes_lose_no_change_through_kvstore(
    remote_path: tuple[str, Proxy, str],
) -> None:
    """Processes write parts of one chunk, also in transactions, and resize."""
    kind, proxy, path = remote_path
    spec = {"driver": "zarr3", "kvstore": servers.kvstore_spec(kind, proxy, f"{path}cells/")}
    chunk = ts.ChunkLayout(chunk_shape=[2 * COUNT, 3])
    new = ts.open(spec, create=True, dtype="int32", shape=[COUNT, 3], chunk_layout=chunk).result()
    run(_TENSORSTORE, kind, proxy, path)
    assert (new.read().result() == np.arange(1, COUNT + 1)[:, None]).all()
    assert ts.open(spec).result().shape == (99 + COUNT, 99 + COUNT)


def test_value_replaced_during_read_raises(remote_path: tuple[str, Proxy, str]) -> None:
    """If a shard changes during a read, the read uses the index and subchunks of one state."""
    kind, proxy, path = remote_path
    old = np.arange(64 * 64, dtype="f8").reshape(64, 64)
    stores = [store_of(kind, proxy.url, f"{path}{name}") for name in ("a", "b")]
    for store, values in zip(stores, (old, -old), strict=True):
        tessarr.create_array(store, data=values, chunks=8, shards=64, compressors=None)
    other = stores[1].get("c/0/0")
    assert other is not None
    array = tessarr.open_array(stores[0], mode="r")
    proxy.reset_counts()
    proxy.callbacks = [lambda: stores[0].put("c/0/0", other)]
    found = array[20:40, 20:40]
    assert proxy.callbacks == []
    # The GCS emulator ignores suffix ranges and returns the whole value.
    expected = -old if kind == "s3" else old
    assert (found == expected[20:40, 20:40]).all()
    assert sum("GET" in line for line in proxy.requests) > (3 if kind == "s3" else 0)


def test_value_replaced_repeatedly_during_read_raises(
    remote_path: tuple[str, Proxy, str],
) -> None:
    """After repeated changes, the reader reads the whole value with one request."""
    kind, proxy, path = remote_path
    values = [np.full((64, 64), number, "f8") for number in (1, 2)]
    stores = [store_of(kind, proxy.url, f"{path}{name}") for name in ("a", "b")]
    for store, one in zip(stores, values, strict=True):
        tessarr.create_array(store, data=one, chunks=8, shards=64, compressors=None)
    states = [store["c/0/0"] for store in stores]
    behind = store_of(kind, f"http://127.0.0.1:{proxy.port}", f"{path}a")
    array = tessarr.open_array(stores[0], mode="r")
    proxy.reset_counts()
    proxy.callbacks = [partial(behind.put, "c/0/0", states[number % 2]) for number in range(1, 201)]
    found = array[20:40, 20:40]
    assert found.min() == found.max()
    assert len(proxy.requests) < 50
    assert len(proxy.callbacks) > 150


def test_large_values_are_stored_one_part_after_another(
    s3: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uploads respect the limit of requests; a failed multipart upload leaves no parts."""
    monkeypatch.setattr("tessarr.store.fsspec.servers._S3_PUT_BYTES", 5 << 20)
    monkeypatch.setattr("tessarr.store.fsspec.servers._S3_PART_BYTES", 5 << 20)
    monkeypatch.setattr("tessarr.store.object.buckets._MAX_STORED_BYTES", 5 << 20)
    data = np.random.default_rng(0).bytes(11 << 20)
    store = store_of("s3", s3.url, tmp_path.name)
    s3.reset_counts()
    store.put("k", data)
    assert (len(s3.requests), s3.max_concurrent) == (5, 1)
    assert store.get("k") == data
    s3.reset_counts()
    rival = FsspecStore(store.fs, store.path, concurrency=1)  # with its own locks
    s3.callbacks = [lambda: rival.put("other", b"first")]  # after the read of the absent value
    assert not store.replace("other", data, None)
    assert store.get("other") == b"first"
    assert sum("uploadId" in line and "DELETE" in line for line in s3.requests) == 1


def test_server_without_conditions_raises(s3: Proxy, tmp_path: Path) -> None:
    """The error lists the option that permits writes by one process at a time."""
    proxy = s3
    store = store_of("s3", proxy.url, tmp_path.name)
    array = tessarr.create_array(store, shape=(4, 4), chunks=4, dtype="i4")
    proxy.callbacks = [lambda: proxy.refusals.extend([501, 501])]  # engine, file system
    with pytest.raises(UnsupportedError, match="conditional_writes=False"):
        array[0] = 1
    plain = FsspecStore(store.fs, store.path, conditional_writes=False)
    proxy.reset_counts()
    tessarr.open_array(plain)[0] = 1
    assert not any("If-Match" in headers or "If-None-Match" in headers for headers in proxy.headers)
    assert array[:].sum() == 4


def test_wait_in_loop_thread_raises() -> None:
    fs = fsspec.filesystem("http")
    server = find_server(fs)
    assert server is not None

    async def inside() -> None:
        with pytest.raises(NotImplementedError, match="cannot wait"):
            run_in_loop(fs.loop, fetch_part, fs, server, "http://127.0.0.1:9/key", None)

    fsspec.asyn.sync(fs.loop, inside, timeout=10)


def test_wait_in_busy_loop_thread_times_out() -> None:
    """The wait raises a timeout error, as on every other thread."""
    loop, own = fsspec.asyn.get_loop(), tessarr.Future[None]()
    promise, theirs = ts.Promise.new()

    async def ask() -> None:
        for timeout in (0, 0.001):
            for future in (own, theirs):
                with pytest.raises(TimeoutError):
                    future.result(timeout=timeout)

    with ThreadPoolExecutor(1) as threads:
        threads.submit(run_in_loop, loop, ask).result(60)
    promise.set_result(None)
