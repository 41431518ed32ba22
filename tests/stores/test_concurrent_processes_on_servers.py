"""Concurrent changes of arrays on a server: no lost update, and no mixture of two states."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np
import pytest

import tessarr
import tessarr.tensorstore as ts
from stores import servers
from stores.clouds import Cloud
from stores.processes import run_programs, start_program
from stores.servers import Proxy
from tessarr.store.object.open import open_object_url
from tessarr.stores import Store

pytestmark = pytest.mark.slow

COUNT = 5  # changes of each process


def store_of(kind: str, url: str, path: str) -> Store:
    """Return the store of Tessarr's own interface."""
    options = {"endpoint_url": url, **({} if kind == "s3" else {"token": "anon"})}
    return open_object_url(f"{kind}://bucket/{path}", options)


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


def store_shards(cloud: Cloud, *values: np.ndarray[Any, Any]) -> list[bytes]:
    """Store one shard for each array, at ``0/c/0/0``, ``1/c/0/0``…; return the shards."""
    for number, item in enumerate(values):
        store = open_object_url(cloud.url(str(number)), cloud.storage_options)
        tessarr.create_array(store, data=item, chunks=8, shards=64, compressors=None)
    shards = [cloud.get(f"{number}/c/0/0") for number in range(len(values))]
    return [shard for shard in shards if shard is not None]


def test_value_replaced_during_read_is_read_again(cloud: Cloud) -> None:
    """If a shard changes during a read, the read uses the index and subchunks of one state."""
    old = np.arange(64 * 64, dtype="f8").reshape(64, 64)
    _, other = store_shards(cloud, old, -old)
    array = tessarr.open_array(cloud.url("0"), mode="r", storage_options=cloud.storage_options)
    cloud.proxy.reset_counts()
    cloud.proxy.callbacks = [lambda: cloud.put("0/c/0/0", other)]
    result = array[20:40, 20:40]
    assert cloud.proxy.callbacks == []
    assert (result == -old[20:40, 20:40]).all() or (result == old[20:40, 20:40]).all()
    assert (array[20:40, 20:40] == -old[20:40, 20:40]).all()


def test_value_replaced_repeatedly_during_read_is_read_whole(cloud: Cloud) -> None:
    """After repeated changes, the reader reads the whole value with one request."""
    shards = store_shards(cloud, *(np.full((64, 64), number, "f8") for number in (1, 2)))
    array = tessarr.open_array(cloud.url("0"), mode="r", storage_options=cloud.storage_options)
    cloud.proxy.reset_counts()
    cloud.proxy.callbacks = [
        partial(cloud.put, "0/c/0/0", shards[number % 2]) for number in range(1, 201)
    ]
    result = array[20:40, 20:40]
    assert result.min() == result.max()
    assert len(cloud.proxy.requests) < 50
    assert len(cloud.proxy.callbacks) > 150
    cloud.proxy.callbacks = []
