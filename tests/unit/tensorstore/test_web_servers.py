"""Arrays and keys on web servers, and ranges that servers refuse."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import tessarr.tensorstore as ts
from stores import servers
from stores.servers import QUICK_RETRIES, Proxy, take_requests
from tessarr.errors import ReadOnlyError

pytestmark = pytest.mark.slow

VALUES = np.arange(64 * 64, dtype="i4").reshape(64, 64)


def test_arrays_on_web_server(web: Proxy, tmp_path: Path) -> None:
    """Reads only: whole chunks, parts of shards, and detection of both formats."""
    for driver in ("zarr3", "zarr"):
        created_spec = ts.open(
            {"driver": driver, "kvstore": f"file://{tmp_path}/{driver}/"},
            create=True,
            dtype="int32",
            shape=[64, 64],
            chunk_layout=ts.ChunkLayout(chunk_shape=[32, 32]),
        ).result()
        created_spec.write(VALUES).result()
        spec = {"driver": driver, "kvstore": f"{web.url}/{driver}/"}
        read = ts.open(spec).result()
        assert (read.read().result() == VALUES).all()
        assert (ts.open(f"{web.url}/{driver}/").result()[3].read().result() == VALUES[3]).all()
        web.reset_counts()
        ts.open(spec).result()
        assert len(take_requests(web)) == 1
        read[3, 3].read().result()
        assert len(take_requests(web)) == 1
        with pytest.raises(ReadOnlyError):
            read[0].write(1).result()


def test_parts_of_shards_on_web_server(web: Proxy, tmp_path: Path) -> None:
    """The requests are the index and the chunk, and not the whole shard."""
    data = np.random.default_rng(0).random((256, 256))
    chunks = {"write_chunk": {"shape": [256, 256]}, "read_chunk": {"shape": [32, 32]}}
    spec = ts.open(
        {"driver": "zarr3", "kvstore": f"file://{tmp_path}/"},
        create=True,
        dtype="float64",
        shape=[256, 256],
        chunk_layout=ts.ChunkLayout(chunks),
    ).result()
    spec.write(data).result()
    read = ts.open({"driver": "zarr3", "kvstore": web.url}).result()
    web.reset_counts()
    assert read[40, 40].read().result() == data[40, 40]
    ranges = [headers.get("Range") for headers in web.headers if "Range" in headers]
    assert len(ranges) == 2, web.requests
    assert len(web.requests) <= 3


def test_keys_on_web_server(web: Proxy, tmp_path: Path) -> None:
    (tmp_path / "a b").write_bytes(b"0123456789")
    store = ts.KvStore.open(f"{web.url}/").result()
    assert store["a b"] == b"0123456789"
    assert store.read("a b", byte_range=slice(2, 5)).result().value == b"234"
    assert store.read("c").result().state == "missing"
    assert "c" not in store
    assert pickle.loads(pickle.dumps(store))["a b"] == b"0123456789"
    for work in (
        lambda: store.write("a", b"1").result(),
        lambda: store.write("a b", None).result(),
        lambda: store.delete_range(ts.KvStore.KeyRange()).result(),
    ):
        with pytest.raises(NotImplementedError):
            work()
    assert (tmp_path / "a b").read_bytes() == b"0123456789"


@pytest.mark.parametrize("kind", ["web", "s3"])
def test_unsatisfiable_range_takes_one_request(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A server that refuses a range sends the size, and may omit the generation."""
    data = bytes(range(256)) * 300
    size = len(data)
    (tmp_path / "a").write_bytes(data)
    proxy: Proxy = request.getfixturevalue(kind)
    spec = servers.kvstore_spec("s3", proxy, f"{tmp_path.name}/")
    store = ts.KvStore.open(proxy.url if kind == "web" else spec).result()
    if kind == "s3":
        store.write("a", data).result()
    known = store.read("a").result().stamp.generation
    result = store.read("a", byte_range=slice(size, None), if_not_equal=known).result()
    assert result.state == "unspecified"
    for first, last in [(size + 9, size + 19), (size, size + 1), (size + 1, None), (9, size + 1)]:
        proxy.reset_counts()
        span = slice(first, last)
        with pytest.raises(ValueError, match=f"OUT_OF_RANGE: .* for value of size {size}"):
            store.read("a", byte_range=span).result()
        assert len(take_requests(proxy)) == 1
        assert store.read("a", byte_range=span, if_not_equal=known).result().state == "unspecified"
    proxy.reset_counts()
    result = store.read("a", byte_range=slice(size, None)).result()
    assert result.value == b""
    assert len(take_requests(proxy)) == 1
    assert store.read("a", if_not_equal=result.stamp.generation).result().state == "unspecified"


@pytest.mark.parametrize("tells", [("ETag",), ()])
@pytest.mark.parametrize("kind", ["web", "s3"])
def test_refused_range_does_not_stop_batch(
    kind: str, tells: tuple[str, ...], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The refusal may omit the generation of the value, which later responses contain."""
    data = bytes(range(256)) * 300
    size = len(data)
    (tmp_path / "a").write_bytes(data)
    kinds = type("Kind", (servers.Files,), {"tells": tells})
    with servers.file_server(tmp_path, kinds) as web:
        proxy: Proxy = web if kind == "web" else request.getfixturevalue("s3")
        kvstore = (
            proxy.url if kind == "web" else servers.kvstore_spec("s3", proxy, f"{tmp_path.name}/")
        )
        store = ts.KvStore.open(kvstore).result()
        if kind == "s3":
            store.write("a", data).result()
        with ts.Batch() as batch:
            bad = store.read("a", byte_range=slice(size + 5, size + 9), batch=batch)
            good = [store.read("a", byte_range=slice(-n, None), batch=batch) for n in (10, 70_000)]
        with pytest.raises(ValueError, match="OUT_OF_RANGE"):
            bad.result()
        assert [read.result().value for read in good] == [data[-10:], data[-70_000:]]
        with pytest.raises(ValueError, match="OUT_OF_RANGE"):
            store.read("a", byte_range=slice(size + 5, None), if_not_equal=b"\5other").result()


def test_requests_have_queries_and_headers(web: Proxy, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "a").write_bytes(b"value")
    spec = {
        "driver": "http",
        "base_url": f"{web.url}?token=a%20b&empty=",
        "path": "/x/",
        "headers": ["X-One: 1", "X-Two: a: b"],
    }
    store = ts.KvStore.open(spec).result()
    assert store["a"] == b"value"
    assert store.spec().to_json() == spec
    assert set(take_requests(web)) == {"GET /x/a?token=a%20b&empty="}
    store.read("a", byte_range=slice(1, 2)).result()
    assert all((headers["X-One"], headers["X-Two"]) == ("1", "a: b") for headers in web.headers)
    assert all("token=a%20b" in line for line in web.requests)


def test_web_addresses_are_encoded_once(web: Proxy, tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "c@d").write_bytes(b"value")
    for folder in ("a%20b", "a b/", "a%20b/"):
        store = ts.KvStore.open({"driver": "http", "base_url": f"{web.url}/{folder}"}).result()
        assert (store / "c@d").read("").result().value == b"value"
    web.reset_counts()
    store = ts.KvStore.open({"driver": "http", "base_url": f"{web.url}/a%2Fb"}).result()
    assert store.read("c d").result().state == "missing"
    assert {line.partition(" ")[2] for line in take_requests(web)} == {"/a%2Fb/c%20d"}


def test_web_server_is_neither_written_nor_listed(web: Proxy) -> None:
    """As with TensorStore, the error is one for missing values, and no request occurs."""
    store = ts.KvStore.open({"driver": "http", "base_url": web.url}).result()
    for act in (
        lambda: store.write("a", b"1").result(),
        lambda: store.write("a", None).result(),
        lambda: store.delete_range(ts.KvStore.KeyRange("a", "b")).result(),
        lambda: store.list().result(),
    ):
        with pytest.raises(NotImplementedError):
            act()
    assert not web.requests


def test_busy_web_server_is_retried(web: Proxy, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"value")
    context = ts.Context(
        {"http_request_retries": QUICK_RETRIES, "http_request_concurrency": {"limit": 2}}
    )
    store = ts.KvStore.open(f"{web.url}/", context=context).result()
    for statuses in ([503, 503], [429, 500, 502, 504], [408]):
        web.refusals = list(statuses)
        assert store["a"] == b"value"
        assert web.refusals == []
    web.refusals = [403, 503]
    with pytest.raises(Exception, match="403"):
        store["a"]
    assert web.refusals == [503]
    web.refusals = []
    web.delay_s = 0.03
    web.reset_counts()
    futures = [store.read("a") for _ in range(12)]
    assert all(future.result().value == b"value" for future in futures)
    assert web.max_concurrent == 2
