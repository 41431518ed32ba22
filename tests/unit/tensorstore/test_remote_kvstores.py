"""Arrays and keys on servers: S3, GCS and HTTP, all on loopback."""

from __future__ import annotations

import http.server
import json
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

import numpy as np
import pytest

import tessarr
import tessarr.tensorstore as ts
from stores import servers
from stores.servers import Proxy
from tessarr.errors import ReadOnlyError, StoreError
from tessarr.extensions import BytesBytesCodec, register_codec
from tessarr.stores import FsspecStore, RetryingStore

pytestmark = pytest.mark.slow

VALUES = np.arange(64 * 64, dtype="i4").reshape(64, 64)
QUICK = {"max_retries": 4, "initial_delay": "1ms", "max_delay": "2ms"}


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Proxy]:
    with servers.file_server(tmp_path) as proxy:
        yield proxy


def take_requests(proxy: Proxy, word: str = "") -> list[str]:
    """Return the requests since the last call that contain a word."""
    taken = [line for line in proxy.requests if word in unquote(line)]
    proxy.reset_counts()
    return taken


# Arrays


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
    context = ts.Context({"http_request_retries#few": {**QUICK, "max_retries": 1}})
    spec = servers.kvstore_spec("http", web, "")
    for retries, attempts in ((QUICK, 5), ("http_request_retries#few", 2), (QUICK, 5)):
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


# Limits and retries


def test_request_limit_of_context_is_respected(remote_path: tuple[str, Proxy, str]) -> None:
    """The limit applies to all handles of the context together; its default is 32."""
    kind, proxy, path = remote_path
    spec = {"driver": "zarr3", "kvstore": servers.kvstore_spec(kind, proxy, path)}
    context = ts.Context({f"{kind}_request_concurrency": {"limit": 3}})
    created = ts.open(
        spec,
        create=True,
        dtype="int32",
        shape=[64, 64],
        chunk_layout=ts.ChunkLayout(chunk_shape=[8, 8]),
        context=context,
    ).result()
    proxy.delay_s = 0.03
    proxy.reset_counts()
    created.write(VALUES).result()
    assert proxy.max_concurrent == 3
    other = ts.open(spec, context=context).result()
    futures = [array.read() for array in (created, other)]
    assert all((future.result() == VALUES).all() for future in futures)
    assert proxy.max_concurrent == 3
    many = ts.open(spec).result()
    proxy.reset_counts()
    many.read().result()
    assert 3 < proxy.max_concurrent <= 32


def test_busy_server_is_retried(remote_path: tuple[str, Proxy, str]) -> None:
    kind, proxy, path = remote_path
    context = ts.Context({f"{kind}_request_retries": QUICK})
    store = ts.KvStore.open(servers.kvstore_spec(kind, proxy, path), context=context).result()
    for work in (
        lambda: store.write("a", b"value").result(),
        lambda: store.read("a").result().value,
        lambda: store.read("a", byte_range=slice(1, 3)).result().value,
        lambda: store.list().result(),
        lambda: store.delete_range(ts.KvStore.KeyRange()).result(),
    ):
        expected = work()
        proxy.refusals = [503, 500, 429] if kind == "gcs" else [503, 500, 503]
        result = work()
        assert proxy.refusals == []
        if isinstance(expected, (bytes, list)):
            assert result == expected or result == []
    proxy.reset_counts()
    proxy.refusals = [503] * 5
    with pytest.raises(Exception, match=r".") as caught:
        store.read("a").result()
    assert (len(proxy.requests), proxy.refusals) == (5, []), caught.value
    never = ts.Context({f"{kind}_request_retries": {**QUICK, "max_retries": 0}})
    proxy.reset_counts()
    proxy.refusals = [503]
    with pytest.raises(Exception, match=r"."):
        ts.KvStore.open(servers.kvstore_spec(kind, proxy, path), context=never).result()["a"]
    assert len(proxy.requests) == 1


def failing(kind: str, proxy: Proxy, path: str) -> Iterator[str]:
    """Perform operations that the server refuses; yield the texts of the errors."""
    context = ts.Context({f"{kind}_request_retries": {**QUICK, "max_retries": 1}})
    kvstore = servers.kvstore_spec(kind, proxy, path)
    store = ts.KvStore.open(kvstore, context=context).result()
    for act in (
        lambda: ts.open({"driver": "zarr3", "kvstore": kvstore}, context=context),
        lambda: store.read("a"),
        lambda: store.write("a", b"value"),
        store.list,
        lambda: store.delete_range(ts.KvStore.KeyRange("a", "b")),
    ):
        with pytest.raises(StoreError) as caught:  # which is a ValueError, as in TensorStore
            act().result()  # type: ignore[no-untyped-call]
        yield str(caught.value)


@pytest.mark.parametrize(("status", "code"), [(503, "ABORTED"), (403, "PERMISSION_DENIED")])
def test_failures_of_servers_are_errors_of_stores(
    remote_path: tuple[str, Proxy, str], status: int, code: str
) -> None:
    remote_path[1].refusals = [status] * 1000
    for text in failing(*remote_path):
        assert text.startswith(f"{code}: ")
    remote_path[1].refusals = []


def test_unreachable_server_raises() -> None:
    """The errors are equal without retries, and with a web server that sends no response."""
    for retries in (0, 1):
        context = ts.Context({"http_request_retries": {**QUICK, "max_retries": retries}})
        spec = {"driver": "zarr3", "kvstore": "http://127.0.0.1:9/a/"}
        with pytest.raises(
            StoreError, match=r"^ABORTED: .*127.0.0.1:9/a/.*: cannot connect"
        ) as caught:
            ts.open(spec, context=context).result()
        assert caught.value.retryable


def test_rate_limits_hold(remote_path: tuple[str, Proxy, str]) -> None:
    kind, proxy, path = remote_path
    name = f"experimental_{kind}_rate_limiter"
    context = ts.Context({name: {"read_rate": 100, "write_rate": 1e6, "doubling_time": "1h"}})
    spec = {**servers.kvstore_spec(kind, proxy, path), name: name}
    store = ts.KvStore.open(spec, context=context).result()
    store["a"] = b"1"
    limits = context[name]._get_or_build(lambda _: None)
    assert repr(limits) == "Limits(reads_per_s=100.0, writes_per_s=1000000.0, doubling_s=3600.0)"
    assert store["a"] == b"1"


# Credentials of AWS


@contextmanager
def answering(answers: dict[str, Any], seen: list[tuple[str, str]]) -> Iterator[str]:
    """A server with a few paths, like a credential server."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            path = self.path.partition("?")[0]
            seen.append((path, self.headers.get("Authorization", "")))
            answer = answers.get(path)
            data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = _answer  # noqa: N815 (the library names them)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def key_of(proxy: Proxy, path: str, credentials: Any) -> str:
    """Return the access key of a request's signature; "" without one. The server may refuse it."""
    spec = {**servers.kvstore_spec("s3", proxy, path), "aws_credentials": credentials}
    store = ts.KvStore.open(spec).result()
    proxy.reset_counts()
    with suppress(StoreError):
        store.read("absent").result()
    signed = proxy.headers[-1].get("Authorization", "")
    return signed.partition("Credential=")[2].partition("/")[0]


CREDENTIALS = {
    "Code": "Success",
    "AccessKeyId": "given",
    "SecretAccessKey": "secret",
    "Token": "token",
    "Expiration": "2999-01-01T00:00:00Z",
}


def test_credentials_of_each_type_are_used(
    moto: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "credentials"
    file.write_text(
        "[default]\naws_access_key_id = ofdefault\naws_secret_access_key = s\n"
        "[other]\naws_access_key_id = ofother\naws_secret_access_key = s\n"
    )
    path = f"{tmp_path.name}/"
    assert key_of(moto, path, {"type": "anonymous"}) == ""
    assert key_of(moto, path, {"type": "environment"}) == "key"
    assert key_of(moto, path, {"type": "default"}) == "key"
    profile = {"type": "profile", "profile": "other", "credentials_file": str(file)}
    assert key_of(moto, path, profile) == "ofother"
    assert key_of(moto, path, {"type": "profile", "credentials_file": str(file)}) == "ofdefault"
    assert key_of(moto, path, {"type": "profile", "credentials_file": "/absent"}) == ""
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    assert key_of(moto, path, {"type": "profile", "profile": "other"}) == "ofother"
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert key_of(moto, path, {"type": "environment"}) == ""
    assert key_of(moto, path, {"type": "default", "profile": "other"}) == "ofother"
    monkeypatch.delenv("AWS_SHARED_CREDENTIALS_FILE")
    assert key_of(moto, path, {"type": "default", "filename": str(file)}) == "ofdefault"


def test_credentials_of_containers(
    moto: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, str]] = []
    path = f"{tmp_path.name}/"
    token = tmp_path / "token"
    token.write_text("open sesame")
    with answering({"/credentials": CREDENTIALS}, seen) as url:
        credentials = {
            "type": "ecs",
            "endpoint": f"{url}/credentials",
            "auth_token_file": str(token),
        }
        assert key_of(moto, path, credentials) == "given"
        del credentials["auth_token_file"]
        assert key_of(moto, path, credentials) == "given"
        monkeypatch.setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "of the environment")
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/unused")
        assert key_of(moto, path, credentials) == "given"
    tokens = ["open sesame", "", "of the environment"]
    assert seen == [("/credentials", token) for token in tokens]
    monkeypatch.delenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
    assert key_of(moto, path, {"type": "ecs"}) == ""
    with pytest.raises(StoreError, match="cannot read the credentials of the container"):
        store = {**servers.kvstore_spec("s3", moto, path), "aws_credentials": credentials}
        ts.KvStore.open(store).result()["a"]


def test_credentials_of_machines(
    moto: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = "/latest/meta-data/iam/security-credentials/"
    answers = {"/latest/api/token": "token", role: "role", f"{role}role": CREDENTIALS}
    with answering(answers, []) as url:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", url)
        assert key_of(moto, f"{tmp_path.name}/", {"type": "imds"}) == "given"
        monkeypatch.delenv("AWS_EC2_METADATA_SERVICE_ENDPOINT")
        monkeypatch.delenv("AWS_ACCESS_KEY_ID")
        monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
        credentials = {"type": "default", "metadata_endpoint": url}
        assert key_of(moto, f"{tmp_path.name}/", credentials) == "given"


def test_metadata_of_machines_are_requested_on_demand(
    gcs: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store without other credentials takes its token from the metadata of the machine."""
    seen: list[tuple[str, str]] = []
    path = "/computeMetadata/v1/instance/service-accounts/default/token"
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))  # no credentials of gcloud
    spec = {
        **servers.kvstore_spec("gcs", gcs, f"{tmp_path.name}/"),
        "gcs_user_project": {"project_id": "payer"},
    }
    for answers, authorization in (
        ({path: {"access_token": "secret", "expires_in": 3600}}, "Bearer secret"),
        ({}, None),
    ):
        with answering(answers, seen) as url:
            monkeypatch.setenv("GCE_METADATA_HOST", url.removeprefix("http://"))
            store = pickle.loads(pickle.dumps(ts.KvStore.open(spec).result()))
            assert not seen
            gcs.reset_counts()
            for _ in range(2):
                assert store.read("absent").result().state == "missing"
        headers = [
            (headers.get("authorization"), headers["x-goog-user-project"])
            for headers in gcs.headers
        ]
        assert headers == [(authorization, "payer")] * 2
        assert seen
        seen.clear()


def test_s3_endpoint_without_bucket_is_refused() -> None:
    spec = {"driver": "s3", "endpoint": "http://127.0.0.1:1/"}
    with pytest.raises(ValueError, match="does not begin with one"):
        ts.KvStore.open(spec).result()


def test_host_header_is_signed(s3: Proxy, tmp_path: Path) -> None:
    """The signature contains it, too."""
    spec = {
        **servers.kvstore_spec("s3", s3, f"{tmp_path.name}/"),
        "host_header": "s3.amazonaws.com",
    }
    store = ts.KvStore.open(spec).result()
    s3.reset_counts()
    store.write("k", b"value").result()
    assert store.read("k").result().value == b"value"
    assert [headers["Host"] for headers in s3.headers] == ["s3.amazonaws.com"] * 2
    with pytest.raises(ValueError, match="without also setting"):
        ts.KvStore.open({"driver": "s3", "bucket": "bbb", "host_header": "x"}).result()


# The web


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
    context = ts.Context({"http_request_retries": QUICK, "http_request_concurrency": {"limit": 2}})
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


# Origins of errors


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
