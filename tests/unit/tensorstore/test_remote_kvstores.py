"""Arrays and keys on servers: S3, GCS and HTTP, all on loopback."""

from __future__ import annotations

import http.server
import json
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

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
    found = [line for line in proxy.requests if word in line]
    proxy.reset_counts()
    return found


# Arrays


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
    found = pickle.loads(pickle.dumps(shrunk))
    assert (found[:8, :4].read().result() == shrunk[:8, :4].read().result()).all()
    assert ts.open(servers.kvstore_spec(kind, proxy, path)).result().dtype == ts.int32  # detected
    created = ts.open(spec, create=True, delete_existing=True, dtype="uint8", shape=[2]).result()
    assert created.read().result().tolist() == [0, 0]


def test_the_first_request_may_depend_on_a_state(s3: Proxy, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    place = servers.kvstore_spec("s3", s3, f"{tmp_path.name}/")
    made = ts.KvStore.open(place).result().write("k", b"1", if_equal=b"\2").result()
    assert made.generation


def test_remote_kvstore_causes_few_requests(remote_path: tuple[str, Proxy, str]) -> None:
    """Opening, chunk reads and whole-chunk writes take one request; shard parts take two."""
    kind, proxy, path = remote_path
    spec = {"driver": "zarr3", "kvstore": servers.kvstore_spec(kind, proxy, path)}
    # The GCS server loses the last byte of values that end in "\r": not these shards.
    chunks = {"write_chunk": {"shape": [64, 64]}, "read_chunk": {"shape": [16, 16]}}
    take_requests(proxy)
    made = ts.open(
        spec, create=True, dtype="int32", shape=[64, 128], chunk_layout=ts.ChunkLayout(chunks)
    ).result()
    created = take_requests(proxy)
    assert len(created) <= 2, created
    made[:, :64].write(VALUES).result()
    assert len(take_requests(proxy)) == 1
    opened = ts.open(spec).result()
    assert len(take_requests(proxy, "zarr.json")) == 1
    assert (opened[:, :64].read().result() == VALUES).all()
    assert len(take_requests(proxy)) == 1
    assert opened[3, 3].read().result() == VALUES[3, 3]
    assert len(take_requests(proxy)) == (1 if kind == "gcs" else 2)  # no suffix ranges
    opened[:, 64:128].read().result()  # the store is empty
    assert len(take_requests(proxy)) == 1


# Limits and retries


def test_no_more_requests_than_the_context_allows(remote_path: tuple[str, Proxy, str]) -> None:
    """The limit applies to all handles of the context together; its default is 32."""
    kind, proxy, path = remote_path
    spec = {"driver": "zarr3", "kvstore": servers.kvstore_spec(kind, proxy, path)}
    context = ts.Context({f"{kind}_request_concurrency": {"limit": 3}})
    made = ts.open(
        spec,
        create=True,
        dtype="int32",
        shape=[64, 64],
        chunk_layout=ts.ChunkLayout(chunk_shape=[8, 8]),
        context=context,
    ).result()
    proxy.delay_s = 0.03
    proxy.reset_counts()
    made.write(VALUES).result()
    assert proxy.max_concurrent == 3
    other = ts.open(spec, context=context).result()
    futures = [one.read() for one in (made, other)]
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
        found = work()
        assert proxy.refusals == []
        if isinstance(expected, (bytes, list)):
            assert found == expected or found == []
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
    place = servers.kvstore_spec(kind, proxy, path)
    store = ts.KvStore.open(place, context=context).result()
    for act in (
        lambda: ts.open({"driver": "zarr3", "kvstore": place}, context=context),
        lambda: store.read("a"),
        lambda: store.write("a", b"value"),
        store.list,
        lambda: store.delete_range(ts.KvStore.KeyRange("a", "b")),
    ):
        with pytest.raises(StoreError) as caught:  # which is a ValueError, as in TensorStore
            act().result()  # type: ignore[no-untyped-call]
        assert not isinstance(caught.value.__cause__, (StoreError, type(None)))
        yield str(caught.value)


@pytest.mark.parametrize(("status", "code"), [(503, "ABORTED"), (403, "PERMISSION_DENIED")])
def test_failures_of_servers_are_errors_of_stores(
    remote_path: tuple[str, Proxy, str], status: int, code: str
) -> None:
    """The errors of client libraries, which are no Tessarr errors, are their causes."""
    remote_path[1].refusals = [status] * 1000
    for text in failing(*remote_path):
        assert text.startswith(f"{code}: ")
    remote_path[1].refusals = []


def test_a_server_that_is_not_there() -> None:
    """The errors are equal without retries, and with a web server that sends no response."""
    for retries in (0, 1):
        context = ts.Context({"http_request_retries": {**QUICK, "max_retries": retries}})
        spec = {"driver": "zarr3", "kvstore": "http://127.0.0.1:9/a/"}
        with pytest.raises(
            StoreError, match=r"^ABORTED: .*127.0.0.1:9/a/.*: Cannot connect"
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
            seen.append((self.path, self.headers.get("Authorization", "")))
            answer = answers.get(self.path)
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
    """Return the access key of a request's signature; "" without a signature."""
    spec = {**servers.kvstore_spec("s3", proxy, path), "aws_credentials": credentials}
    store = ts.KvStore.open(spec).result()
    proxy.reset_counts()
    store.read("absent").result()
    signed = proxy.headers[-1].get("Authorization", "")
    return signed.partition("Credential=")[2].partition("/")[0]


GIVEN = {
    "Code": "Success",
    "AccessKeyId": "given",
    "SecretAccessKey": "secret",
    "Token": "token",
    "Expiration": "2999-01-01T00:00:00Z",
}


def test_credentials_by_their_type(
    s3: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "credentials"
    file.write_text(
        "[default]\naws_access_key_id = ofdefault\naws_secret_access_key = s\n"
        "[other]\naws_access_key_id = ofother\naws_secret_access_key = s\n"
    )
    path = f"{tmp_path.name}/"
    assert key_of(s3, path, {"type": "anonymous"}) == ""
    assert key_of(s3, path, {"type": "environment"}) == "key"
    assert key_of(s3, path, {"type": "default"}) == "key"
    profile = {"type": "profile", "profile": "other", "credentials_file": str(file)}
    assert key_of(s3, path, profile) == "ofother"
    assert key_of(s3, path, {"type": "profile", "credentials_file": str(file)}) == "ofdefault"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    assert key_of(s3, path, {"type": "profile", "profile": "other"}) == "ofother"
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert key_of(s3, path, {"type": "default", "profile": "other"}) == "ofother"
    monkeypatch.delenv("AWS_SHARED_CREDENTIALS_FILE")
    assert key_of(s3, path, {"type": "default", "filename": str(file)}) == "ofdefault"


def test_credentials_of_containers(s3: Proxy, tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []
    token = tmp_path / "token"
    token.write_text("open sesame")
    with answering({"/credentials": GIVEN}, seen) as url:
        credentials = {
            "type": "ecs",
            "endpoint": f"{url}/credentials",
            "auth_token_file": str(token),
        }
        assert key_of(s3, f"{tmp_path.name}/", credentials) == "given"
    assert seen == [("/credentials", "open sesame")]


def test_credentials_of_machines(
    s3: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = "/latest/meta-data/iam/security-credentials/"
    answers = {"/latest/api/token": "token", role: "role", f"{role}role": GIVEN}
    with answering(answers, []) as url:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", url)
        assert key_of(s3, f"{tmp_path.name}/", {"type": "imds"}) == "given"


@pytest.mark.parametrize("named", [True, False])
def test_credentials_of_google_are_looked_up_when_they_are_needed(
    gcs: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    import google.auth
    import google.oauth2.credentials

    looked_up: list[bool] = []

    def find_credentials(**_: Any) -> Any:
        looked_up.append(named)
        if not named:
            raise google.auth.exceptions.DefaultCredentialsError("nobody")
        return google.oauth2.credentials.Credentials("secret"), "project"

    monkeypatch.setattr(google.auth, "default", find_credentials)
    spec = servers.kvstore_spec("gcs", gcs, f"{tmp_path.name}/")
    project = {"project_id": f"project-{named}"}  # otherwise fsspec returns the same file system
    opened = ts.KvStore.open({**spec, "gcs_user_project": project}).result()
    store = pickle.loads(pickle.dumps(opened))
    assert not looked_up
    gcs.reset_counts()
    for _ in range(2):
        assert store.read("absent").result().state == "missing"
    assert len(looked_up) == 1
    wanted = "Bearer secret" if named else None
    assert {headers.get("authorization") for headers in gcs.headers} == {wanted}


def test_a_bucket_may_begin_the_host() -> None:
    spec = {"driver": "s3", "endpoint": "http://127.0.0.1:1/"}
    with pytest.raises(ValueError, match="does not begin with one"):
        ts.KvStore.open(spec).result()


def test_another_host_may_be_named(s3: Proxy, tmp_path: Path) -> None:
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


def test_arrays_on_a_web_server(web: Proxy, tmp_path: Path) -> None:
    """Reads only: whole chunks, parts of shards, and detection of both formats."""
    for driver in ("zarr3", "zarr"):
        made = ts.open(
            {"driver": driver, "kvstore": f"file://{tmp_path}/{driver}/"},
            create=True,
            dtype="int32",
            shape=[64, 64],
            chunk_layout=ts.ChunkLayout(chunk_shape=[32, 32]),
        ).result()
        made.write(VALUES).result()
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


def test_parts_of_shards_on_a_web_server(web: Proxy, tmp_path: Path) -> None:
    """The requests are the index and the chunk, and not the whole shard."""
    data = np.random.default_rng(0).random((256, 256))
    chunks = {"write_chunk": {"shape": [256, 256]}, "read_chunk": {"shape": [32, 32]}}
    made = ts.open(
        {"driver": "zarr3", "kvstore": f"file://{tmp_path}/"},
        create=True,
        dtype="float64",
        shape=[256, 256],
        chunk_layout=ts.ChunkLayout(chunks),
    ).result()
    made.write(data).result()
    read = ts.open({"driver": "zarr3", "kvstore": web.url}).result()
    web.reset_counts()
    assert read[40, 40].read().result() == data[40, 40]
    ranges = [one.get("Range") for one in web.headers if "Range" in one]
    assert len(ranges) == 2, web.requests
    assert len(web.requests) <= 3


def test_keys_on_a_web_server(web: Proxy, tmp_path: Path) -> None:
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
def test_ranges_that_a_value_does_not_have_take_one_request(
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
    found = store.read("a", byte_range=slice(size, None), if_not_equal=known).result()
    assert found.state == "unspecified"
    for first, last in [(size + 9, size + 19), (size, size + 1), (size + 1, None), (9, size + 1)]:
        proxy.reset_counts()
        span = slice(first, last)
        with pytest.raises(ValueError, match=f"OUT_OF_RANGE: .* for value of size {size}"):
            store.read("a", byte_range=span).result()
        assert len(take_requests(proxy)) == 1
        assert store.read("a", byte_range=span, if_not_equal=known).result().state == "unspecified"
    proxy.reset_counts()
    found = store.read("a", byte_range=slice(size, None)).result()
    assert found.value == b""
    assert len(take_requests(proxy)) == 1
    assert store.read("a", if_not_equal=found.stamp.generation).result().state == "unspecified"


@pytest.mark.parametrize("tells", [("ETag",), ()])
@pytest.mark.parametrize("kind", ["web", "s3"])
def test_others_of_a_batch_are_read_where_a_range_is_refused(
    kind: str, tells: tuple[str, ...], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The refusal may omit the generation of the value, which later responses contain."""
    data = bytes(range(256)) * 300
    size = len(data)
    (tmp_path / "a").write_bytes(data)
    kinds = type("Kind", (servers.Files,), {"tells": tells})
    with servers.file_server(tmp_path, kinds) as web:
        proxy: Proxy = web if kind == "web" else request.getfixturevalue("s3")
        place = (
            proxy.url if kind == "web" else servers.kvstore_spec("s3", proxy, f"{tmp_path.name}/")
        )
        store = ts.KvStore.open(place).result()
        if kind == "s3":
            store.write("a", data).result()
        with ts.Batch() as batch:
            bad = store.read("a", byte_range=slice(size + 5, size + 9), batch=batch)
            good = [store.read("a", byte_range=slice(-n, None), batch=batch) for n in (10, 70_000)]
        with pytest.raises(ValueError, match="OUT_OF_RANGE"):
            bad.result()
        assert [one.result().value for one in good] == [data[-10:], data[-70_000:]]
        with pytest.raises(ValueError, match="OUT_OF_RANGE"):
            store.read("a", byte_range=slice(size + 5, None), if_not_equal=b"\5other").result()


def test_queries_and_headers_go_with_each_request(web: Proxy, tmp_path: Path) -> None:
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
    assert set(take_requests(web)) == {"GET /x/a?token=a+b&empty="}
    store.read("a", byte_range=slice(1, 2)).result()
    assert all((one["X-One"], one["X-Two"]) == ("1", "a: b") for one in web.headers)
    assert all("token=a+b" in line for line in web.requests)


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


def test_a_web_server_is_neither_written_nor_listed(web: Proxy) -> None:
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
    made = ts.open(f"{file}|zip:x|zarr3:", create=True, dtype="int32", shape=[64, 64]).result()
    made.write(VALUES).result()
    del made
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
class Picky(BytesBytesCodec):
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


def test_errors_of_others_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of a user's codec during a write passes unchanged, without a retry."""
    store = RetryingStore(FsspecStore.from_url("memory://errors-of-others"))
    array = tessarr.create_array(store, shape=4, dtype="i4", chunks=2, compressors=Picky())
    array[:2] = 1
    monkeypatch.setattr(Picky, "takes", False)
    with pytest.raises(LookupError, match="not today"):
        array[1] = 7
    monkeypatch.undo()
    assert array[:2].tolist() == [1, 1]
