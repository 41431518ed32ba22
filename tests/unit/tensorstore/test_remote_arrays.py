"""Arrays on servers of S3 and GCS: creation, reads, writes, resizing, and their requests."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import tessarr
import tessarr.tensorstore as ts
from stores import servers
from stores.servers import QUICK_RETRIES, Proxy, take_requests

pytestmark = pytest.mark.slow

VALUES = np.arange(64 * 64, dtype="i4").reshape(64, 64)


def test_many_arrays_open_concurrently(
    remote_path: tuple[str, Proxy, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many requests are under way as the context permits by default."""
    kind, proxy, path = remote_path
    documents: dict[str, bytes] = {}
    tessarr.create_array(documents, shape=(), dtype="u1")
    kvstore = ts.KvStore.open(servers.kvstore_spec(kind, proxy, path)).result()
    for i in range(50):
        kvstore.write(f"a{i}/zarr.json", documents["zarr.json"]).result()
    track_request, together = proxy.track_request, threading.Event()

    @contextmanager
    def wait_together(line: str, headers: dict[str, str]) -> Iterator[int]:
        with track_request(line, headers) as status:
            if proxy.active == 32:
                together.set()
            together.wait(30)
            yield status

    monkeypatch.setattr(proxy, "track_request", wait_together)
    proxy.reset_counts()
    context = ts.Context()
    specs = [
        {"driver": "zarr3", "kvstore": servers.kvstore_spec(kind, proxy, f"{path}a{i}/")}
        for i in range(50)
    ]
    futures = [ts.open(spec, context=context) for spec in specs]
    assert all(future.result().shape == () for future in futures)
    assert len(proxy.requests) == 50
    assert proxy.max_concurrent == 32


def test_arrays_of_one_context_keep_their_own_resources(web: Proxy, tmp_path: Path) -> None:
    tessarr.create_array(tmp_path, shape=(), dtype="u1")
    context = ts.Context({"http_request_retries#few": {**QUICK_RETRIES, "max_retries": 1}})
    spec = servers.kvstore_spec("http", web, "")
    for retries, attempts in (
        (QUICK_RETRIES, 5),
        ("http_request_retries#few", 2),
        (QUICK_RETRIES, 5),
    ):
        web.reset_counts()
        web.refusals = [503] * 9
        kvstore = {**spec, "http_request_retries": retries}
        error = ts.open({"driver": "zarr3", "kvstore": kvstore}, context=context).exception()
        assert "503" in str(error)
        assert len(web.requests) == attempts
    web.refusals = []


@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_arrays_are_created_written_and_resized(
    remote_path: tuple[str, Proxy, str], driver: str
) -> None:
    kind, proxy, path = remote_path
    spec = {"driver": driver, "kvstore": servers.kvstore_spec(kind, proxy, path)}
    array = ts.open(
        spec,
        create=True,
        dtype="int32",
        shape=[64, 64],
        chunk_layout=ts.ChunkLayout(chunk_shape=[32, 32]),
    ).result()
    array.write(VALUES).result()
    with pytest.raises(ValueError, match="exist"):
        ts.open(spec, create=True, dtype="int32", shape=[64, 64]).result()
    again = ts.open(spec).result()
    assert (again.read().result() == VALUES).all()
    again[3:40, 5].write(-1).result()
    grown = again.resize(exclusive_max=[96, 64]).result()
    assert grown.shape == (96, 64)
    assert ts.open(spec).result()[2:5, 5].read().result().tolist() == [133, -1, -1]
    shrunk = grown.resize(exclusive_max=[32, 64]).result()
    assert len([key for key in shrunk.kvstore.list().result() if b"zarr" not in key]) == 2
    with ts.Transaction() as transaction:
        inside = shrunk.with_transaction(transaction)
        inside[:4, :4] = 7
        inside[4:8, :4] = 8
        assert shrunk[0, 0].read().result() == 0
    assert shrunk[3:5, 0].read().result().tolist() == [7, 8]
    restored = pickle.loads(pickle.dumps(shrunk))
    assert (restored[:8, :4].read().result() == shrunk[:8, :4].read().result()).all()
    assert ts.open(servers.kvstore_spec(kind, proxy, path)).result().dtype == ts.int32  # detected
    created = ts.open(spec, create=True, delete_existing=True, dtype="uint8", shape=[2]).result()
    assert created.read().result().tolist() == [0, 0]


def test_first_request_is_conditional_write(s3: Proxy, tmp_path: Path) -> None:
    kvstore = servers.kvstore_spec("s3", s3, f"{tmp_path.name}/")
    written = ts.KvStore.open(kvstore).result().write("k", b"1", if_equal=b"\2").result()
    assert written.generation


def test_remote_kvstore_causes_few_requests(remote_path: tuple[str, Proxy, str]) -> None:
    """Opening, reads, parts of known shards and whole-chunk writes take one request."""
    kind, proxy, path = remote_path
    spec = {"driver": "zarr3", "kvstore": servers.kvstore_spec(kind, proxy, path)}
    chunks = {"write_chunk": {"shape": [64, 64]}, "read_chunk": {"shape": [16, 16]}}
    take_requests(proxy)
    array = ts.open(
        spec, create=True, dtype="int32", shape=[64, 128], chunk_layout=ts.ChunkLayout(chunks)
    ).result()
    created = take_requests(proxy)
    assert len(created) <= 2, created
    array[:, :64].write(VALUES).result()
    assert len(take_requests(proxy)) == 1
    opened = ts.open(spec).result()
    assert len(take_requests(proxy, "zarr.json")) == 1
    assert (opened[:, :64].read().result() == VALUES).all()
    assert len(take_requests(proxy)) == 1
    assert opened[3, 3].read().result() == VALUES[3, 3]
    assert len(take_requests(proxy)) == 1
    opened[:, 64:128].read().result()  # the store is empty
    assert len(take_requests(proxy)) == 1


_WITHOUT_PACKAGES = """
import sys

for package in ("aiohttp", "botocore", "fsspec", "gcsfs", "google.auth", "s3fs"):
    sys.modules[package] = None  # an import raises an ImportError
import tessarr.tensorstore as ts

base, path = sys.argv[1:]
for url in (f"s3://bucket/{path}", f"gs://bucket/{path}"):
    array = ts.open(f"{url}|zarr3:", create=True, dtype="int32", shape=[4]).result()
    array[1:3] = 7
    assert ts.open(url).result().read().result().tolist() == [0, 7, 7, 0]
    assert len(ts.KvStore.open(url).result().list().result()) == 2
assert ts.KvStore.open(f"{base}/").result().read("a").result().value == b"value"
"""


def test_urls_open_without_client_packages(
    s3: Proxy, gcs: Proxy, web: Proxy, tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(b"value")
    subprocess.run(
        [sys.executable, "-c", _WITHOUT_PACKAGES, web.url, f"{tmp_path.name}/"],
        env={**os.environ, "AWS_ENDPOINT_URL": s3.url},
        check=True,
    )
    for proxy in (s3, gcs, web):
        agents = {headers["User-Agent"].partition("/")[0] for headers in proxy.headers}
        assert agents == {"tessarr"}
        proxy.reset_counts()


def test_zip_files_anywhere(web: Proxy, s3: Proxy, tmp_path: Path) -> None:
    """A web server provides ranged reads; a bucket stores each change at once."""
    file = f"file://{tmp_path}/a.zip"
    created = ts.open(f"{file}|zip:x|zarr3:", create=True, dtype="int32", shape=[64, 64]).result()
    created.write(VALUES).result()
    del created
    far = f"{web.url}/a.zip|zip:x/"
    assert (ts.open(f"{far}|zarr3:").result().read().result() == VALUES).all()
    assert (ts.open(far).result()[5].read().result() == VALUES[5]).all()
    base = servers.kvstore_spec("s3", s3, f"{tmp_path.name}/b.zip")
    spec = {"driver": "zarr3", "kvstore": {"driver": "zip", "base": base, "path": "y/"}}
    array = ts.open(spec, create=True, dtype="int32", shape=[64, 64]).result()
    array.write(VALUES).result()
    assert (ts.open(spec).result().read().result() == VALUES).all()
    assert ts.KvStore.open({**base, "path": f"{tmp_path.name}/"}).result().list().result() == [
        b"b.zip"
    ]
