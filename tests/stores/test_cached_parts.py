"""Cached parts of values: a cache never mixes parts of two values."""

from __future__ import annotations

import os
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fsspec.implementations.local import LocalFileSystem

import tessarr
from stores import servers
from stores.servers import Proxy
from tessarr.stores import ForeignStore, FsspecStore, HTTPStore, LocalStore, LRUStoreCache, ZipStore

pytestmark = pytest.mark.slow

INSIDE = 1 << 20  # bytes of a subchunk
COUNT = 4


class UnversionedStore:
    """Store with ranged reads and without generations."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, key: str) -> bytes | None:
        path = self._folder / key
        return path.read_bytes() if path.is_file() else None

    def list(self, prefix: str) -> list[str]:
        return list(LocalStore(self._folder).list(prefix))

    def open_value(self, key: str) -> Any:
        data = self.get(key)
        if data is None:
            return None
        return types.SimpleNamespace(
            size=len(data), read=lambda offset, count: data[offset : offset + count]
        )


class Disk(LocalFileSystem):  # type: ignore[misc]  # untyped
    """fsspec file system on a local disk."""

    protocol = "disk"


def put(folder: Path, value: int, time: float) -> None:
    """Store an array of one shard and one value, with a modification time in seconds."""
    array = tessarr.create_array(
        folder,
        shape=(COUNT * INSIDE,),
        chunks=(INSIDE,),
        shards=(COUNT * INSIDE,),
        dtype="u1",
        compressors=None,
        overwrite=True,
    )
    array[:] = value
    os.utime(folder / "c" / "0", (time, time))


@pytest.fixture(params=["tag", "time", "nothing", "fsspec", "own"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, Proxy | None]]:
    """Yield a store of a folder, with or without generations, and its request counter."""
    if request.param == "own":
        yield ForeignStore(UnversionedStore(tmp_path), read_only=True), None
        return
    if request.param == "fsspec":
        yield FsspecStore(Disk(), str(tmp_path), read_only=True), None
        return
    tells = {"tag": ("ETag",), "time": ("Last-Modified",), "nothing": ()}[request.param]
    kind = type("Files", (servers.Files,), {"validators": tells})
    with servers.file_server(tmp_path, kind) as proxy:
        yield HTTPStore(proxy.url), proxy if tells else None


def test_no_read_mixes_two_values(store: tuple[Any, Proxy | None], tmp_path: Path) -> None:
    """A new shard of the same size invalidates the cached parts of the old one."""
    put(tmp_path, 1, 1e9)
    array = tessarr.open_array(LRUStoreCache(store[0], None), mode="r")
    assert array[0] == 1
    put(tmp_path, 2, 1e9 + 1)
    assert np.unique(array[: 2 * INSIDE]).tolist() == [2]


def test_parts_of_one_value_are_requested_once(
    store: tuple[Any, Proxy | None], tmp_path: Path
) -> None:
    """With generations, each part takes one request; a cached part takes none."""
    put(tmp_path, 1, 1e9)
    array = tessarr.open_array(LRUStoreCache(store[0], None), mode="r")
    assert array[0] == 1
    proxy = store[1]
    counts = []
    for part in (1, 1, 2, 0):
        if proxy is not None:
            proxy.reset_counts()
        assert array[part * INSIDE] == 1
        counts.append(len(proxy.requests) if proxy else 0)
    assert counts == ([1, 0, 1, 0] if proxy else [0] * 4)


@pytest.mark.parametrize(("age_s", "age"), [(0, 2), (1000, 1)])
def test_recent_modification_time_is_weak_version(age_s: int, age: int, tmp_path: Path) -> None:
    """Many servers derive ETags from times in seconds, so the cache reads recent values again."""
    put(tmp_path, 1, time.time() - age_s)
    kind = type("Files", (servers.Files,), {"validators": ("ETag", "Last-Modified")})
    with servers.file_server(tmp_path, kind) as proxy:
        store = LRUStoreCache(HTTPStore(proxy.url), None, max_age_s=0.0)
        array = tessarr.open_array(store, mode="r")
        for _ in range(2):
            proxy.reset_counts()
            assert array[0] == 1
    assert len(proxy.requests) == age


def test_parts_of_zip_files_are_cached(tmp_path: Path) -> None:
    """A read of another part keeps the cached parts of the same value."""
    put(tmp_path / "a", 1, 1e9)
    with ZipStore(tmp_path / "a.zip", mode="w") as writer:
        tessarr.copy_store(LocalStore(tmp_path / "a"), writer)
    store = LRUStoreCache(ZipStore(tmp_path / "a.zip", mode="r"), None)
    array = tessarr.open_array(store, mode="r")
    parts = []
    for part in (0, 1, 0):
        misses = store.misses
        assert array[part * INSIDE] == 1
        parts.append(store.misses - misses)
    assert parts[1:] == [1, 0]
