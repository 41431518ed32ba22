"""Zip files in buckets and on web servers: the URL of the file opens them for reading."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from stores.clouds import Cloud, WebServer
from stores.proxy import run_proxy
from tessarr.errors import NotFoundError, ReadOnlyError
from tessarr.store import open_store
from tessarr.store.zip.nested import ZipValueStore
from tessarr.stores import PrefixStore, ZipStore

VALUES = np.random.default_rng(0).random((256, 256))  # 512 KiB


def write_zip(path: Path, folder: str = "", values: Any = VALUES) -> bytes:
    """Write a Zip file with the array ``a`` in 16 chunks, and return its bytes."""
    with ZipStore(path, mode="w") as store:
        group = tessarr.create_group(PrefixStore(store, folder))
        group.create_array("a", data=values, chunks=(64, 64), compressors=None)
    return path.read_bytes()


@pytest.mark.parametrize(("name", "folder"), [("x.zip", ""), ("X y.OZX", "packed.zarr")])
def test_zip_file_in_bucket_is_read_by_ranges(
    cloud: Cloud, tmp_path: Path, name: str, folder: str
) -> None:
    """The directory is read once, and each chunk takes one request."""
    cloud.put(f"below/{name}", write_zip(tmp_path / "x.zip", folder))
    url, options = cloud.url(f"below/{name}"), cloud.storage_options
    group = tessarr.open_group(url, storage_options=options)
    assert len(cloud.proxy.requests) < 8
    for opened in (group, pickle.loads(pickle.dumps(group))):
        array = opened.get_array("a")
        assert (array[:] == VALUES).all()
        cloud.proxy.reset_counts()
        assert (array[128:192, :128] == VALUES[128:192, :128]).all()
        assert len(cloud.proxy.requests) == 2
        assert all("Range" in headers for headers in cloud.proxy.headers)


def test_zip_file_in_bucket_is_read_only(cloud: Cloud, tmp_path: Path) -> None:
    cloud.put("x.zip", write_zip(tmp_path / "x.zip"))
    url, options = cloud.url("x.zip"), cloud.storage_options
    store, _ = open_store(url, storage_options=options)
    assert isinstance(store, ZipValueStore)
    assert store.read_only
    with pytest.raises(ReadOnlyError):
        tessarr.open_array(url, path="a", mode="r+", storage_options=options)[0, 0] = 1
    with pytest.raises(NotFoundError):
        tessarr.open(cloud.url("none.zip"), mode="r", storage_options=options)


def test_replaced_zip_file_is_opened_again(cloud: Cloud, tmp_path: Path) -> None:
    """A read of a chunk notices that the file is another one, and reads its directory."""
    cloud.put("x.zip", write_zip(tmp_path / "x.zip"))
    array = tessarr.open_array(cloud.url("x.zip"), path="a", storage_options=cloud.storage_options)
    assert (array[128:192, 128:] == VALUES[128:192, 128:]).all()
    cloud.put("x.zip", write_zip(tmp_path / "y.zip", values=-VALUES))
    assert (array[128:192] == -VALUES[128:192]).all()


@pytest.mark.parametrize("site", ["ranges", "whole", "gzip"])
def test_zip_file_on_web_server_is_read(nginx: WebServer, tmp_path: Path, site: str) -> None:
    """The name is percent-encoded, and the URL may have a query."""
    data = write_zip(tmp_path / "x.zip", "packed.zarr")
    (nginx.folder / "a b.zip").write_bytes(data)
    with run_proxy(nginx.ports[site]) as proxy:
        array = tessarr.open_array(f"{proxy.url}/a%20b.zip?signature=1", path="a")
        assert (array[:] == VALUES).all()
        assert {line.partition(" ")[2] for line in proxy.requests} == {"/a%20b.zip?signature=1"}
