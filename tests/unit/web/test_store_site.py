"""`tessarr.serve`: values, parts and listings of a store over HTTP, on a real server."""

from __future__ import annotations

import http.client
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

import tessarr
from tessarr.errors import ArgumentError, NotFoundError, StoreError, UnsupportedError
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.stores import MemoryStore
from tessarr.web.store import values
from unit.web.asgi import Reply

VALUE = bytes(range(256)) * 4
ORIGIN = "https://example.org"


def send(server: Any, key: str, method: str = "GET", **headers: str) -> Reply:
    """Send a request with the path exactly as given, and return the response."""
    parts = urlsplit(server.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=30)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, f"{parts.path}{key}", headers=named)
        response = connection.getresponse()
        body = response.read()
        pairs = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, pairs, body)
    finally:
        connection.close()


@pytest.fixture(scope="module")
def counting() -> CountingStore:
    items = {"a/value": VALUE, "a/empty": b"", "zarr.json": b"{}", "a/c d": b"1"}
    return CountingStore(MemoryStore(items))


@pytest.fixture(scope="module")
def server(counting: CountingStore) -> Iterator[Any]:
    with tessarr.serve(counting, cors=[ORIGIN]) as server:
        yield server


def count(counting: CountingStore, server: Any, *request: str, **headers: str) -> dict[str, int]:
    """Return the requests to the store during a request."""
    before = counting.counts()
    send(server, *request, **headers)
    after = counting.counts()
    return {name: after[name] - before[name] for name in ("opens", "reads", "read_bytes")}


def test_get_returns_value(server: Any) -> None:
    reply = send(server, "a/value")
    assert (reply.status, reply.body) == (200, VALUE)
    assert reply.headers["content-length"] == str(len(VALUE))
    assert reply.headers["accept-ranges"] == "bytes"
    assert reply.headers["content-type"] == "application/octet-stream"
    assert send(server, "zarr.json").headers["content-type"] == "application/json"
    assert send(server, "a/c%20d").body == b"1"


def test_empty_value_is_returned(server: Any) -> None:
    reply = send(server, "a/empty")
    assert (reply.status, reply.body, reply.headers["content-length"]) == (200, b"", "0")


@pytest.mark.parametrize(
    ("header", "span"),
    [
        ("bytes=3-9", slice(3, 10)),
        ("bytes=1000-", slice(1000, None)),
        ("bytes=-7", slice(-7, None)),
    ],
)
def test_range_returns_part(server: Any, header: str, span: slice) -> None:
    reply = send(server, "a/value", range=header)
    start, stop, _ = span.indices(len(VALUE))
    assert (reply.status, reply.body) == (206, VALUE[span])
    assert reply.headers["content-range"] == f"bytes {start}-{stop - 1}/{len(VALUE)}"
    assert reply.headers["content-length"] == str(stop - start)


def test_range_reads_only_its_bytes(counting: CountingStore, server: Any) -> None:
    one_read = {"opens": 1, "reads": 1}
    for header, size in (("bytes=3-9", 7), ("bytes=-7", 7), ("bytes=1000-", 24)):
        counts = count(counting, server, "a/value", range=header)
        assert counts == {**one_read, "read_bytes": size}


def test_bad_range_is_refused(server: Any) -> None:
    for header in ("bytes=1024-", "bytes=a-b", "bytes=-0"):
        reply = send(server, "a/value", range=header)
        assert (reply.status, reply.body) == (416, b"")
        assert reply.headers["content-range"] == "bytes */1024"


def test_head_returns_size_without_reading(counting: CountingStore, server: Any) -> None:
    reply = send(server, "a/value", "HEAD")
    assert (reply.status, reply.body) == (200, b"")
    assert reply.headers["content-length"] == str(len(VALUE))
    assert reply.headers["etag"] == send(server, "a/value").headers["etag"]
    counts = count(counting, server, "a/value", "HEAD")
    assert counts == {"opens": 1, "reads": 0, "read_bytes": 0}
    assert send(server, "a/none", "HEAD").status == 404


def test_known_value_is_not_sent(counting: CountingStore, server: Any) -> None:
    tag = send(server, "a/value").headers["etag"]
    reply = send(server, "a/value", if_none_match=tag)
    assert (reply.status, reply.body, reply.headers["etag"]) == (304, b"", tag)
    assert count(counting, server, "a/value", if_none_match=tag)["reads"] == 0
    assert send(server, "a/value", if_none_match='"x"').body == VALUE


def test_preconditions_compare_tag(server: Any) -> None:
    tag = send(server, "a/value").headers["etag"]
    assert send(server, "a/value", if_match='"x"').status == 412
    assert send(server, "a/value", if_match=tag, range="bytes=0-1").body == VALUE[:2]
    assert send(server, "a/value", if_range=tag, range="bytes=0-1").status == 206
    assert send(server, "a/value", if_range='"x"', range="bytes=0-1").body == VALUE


def test_changed_value_has_another_tag() -> None:
    store = MemoryStore({"a": b"1"})
    with tessarr.serve(store) as server:
        tag = send(server, "a").headers["etag"]
        store.put("a", b"2")
        reply = send(server, "a", if_none_match=tag)
    assert (reply.status, reply.body) == (200, b"2")
    assert reply.headers["etag"] != tag


def test_store_without_versions_has_no_tag() -> None:
    with tessarr.serve({"a": b"123"}) as server:
        reply = send(server, "a", range="bytes=-1")
        assert (reply.status, reply.body) == (206, b"3")
        assert "etag" not in reply.headers


def test_absent_key_is_not_found(server: Any) -> None:
    for key in ("none", "a/none", "a", "a/value/none", "a/value.json"):
        reply = send(server, key)
        assert reply.status == 404, key
        assert reply.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "key",
    ["../a/value", "a/%2e%2e/zarr.json", "a/..%2fzarr.json", "/a/value", "a\\value", "a%00", "%ff"],
)
def test_path_that_may_leave_root_is_refused(server: Any, key: str) -> None:
    assert send(server, key).status in {400, 403}


def test_no_spelling_leads_out_of_folder(tmp_path: Path) -> None:
    """A file beside the served folder is never sent."""
    (tmp_path / "secret").write_text("secret")
    tessarr.create_array(tmp_path / "data.zarr", shape=(2,), dtype="u1")
    with tessarr.serve(tmp_path / "data.zarr") as server:
        assert send(server, "zarr.json").status == 200
        spellings = ["..", "%2e%2e", ".%2e", "%2E.", "c/../..", "c/%2e%2e/..", "./..", "/.."]
        slashes = ["/", "%2f", "%5c", "\\", "//"]
        keys = [f"{dots}{slash}secret" for dots in spellings for slash in slashes]
        keys += [f"{tmp_path}/secret", f"/{tmp_path}/secret", f"%2f{tmp_path}/secret"]
        replies = [send(server, key) for key in keys]
    assert {reply.status for reply in replies} <= {400, 403, 404}
    assert not any(b"secret" in reply.body for reply in replies)


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH", "OPTIONS"])
def test_other_methods_are_refused(server: Any, counting: CountingStore, method: str) -> None:
    reply = send(server, "a/value", method)
    assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD")
    assert counting.get("a/value") == VALUE


def test_pages_of_allowed_origin_read_responses(server: Any) -> None:
    reply = send(server, "a/value", origin=ORIGIN, range="bytes=0-1")
    assert reply.status == 206
    assert reply.headers["access-control-allow-origin"] == ORIGIN
    exposed = set(reply.headers["access-control-expose-headers"].split(", "))
    assert {"Content-Range", "Content-Length", "ETag", "Accept-Ranges"} <= exposed
    assert reply.headers["vary"] == "Origin"


def test_preflight_allows_range(server: Any) -> None:
    reply = send(
        server,
        "a/value",
        "OPTIONS",
        origin=ORIGIN,
        access_control_request_method="GET",
        access_control_request_headers="range,if-none-match",
        access_control_request_private_network="true",
    )
    assert reply.status == 200
    assert reply.headers["access-control-allow-origin"] == ORIGIN
    assert "Range" in reply.headers["access-control-allow-headers"]
    assert reply.headers["access-control-allow-methods"] == "GET, HEAD"
    assert reply.headers["access-control-allow-private-network"] == "true"


def test_pages_of_other_origins_are_refused(server: Any) -> None:
    assert send(server, "a/value", origin="https://evil.example").status == 403
    assert send(server, "a/value", origin="null").status == 403


def test_all_origins_are_allowed_on_request() -> None:
    with tessarr.serve({"a": b"1"}, cors=["*"]) as server:
        reply = send(server, "a", origin="https://evil.example")
    assert (reply.body, reply.headers["access-control-allow-origin"]) == (b"1", "*")


def test_viewers_of_links_are_allowed_by_default() -> None:
    viewer = {"origin": "https://hms-dbmi.github.io"}
    with tessarr.serve({"a": b"1"}) as server:
        assert (
            send(server, "a", **viewer).headers["access-control-allow-origin"] == viewer["origin"]
        )
    with tessarr.serve({"a": b"1"}, token=False) as server:
        assert send(server, "a", **viewer).status == 403


@pytest.mark.parametrize("origin", ["example.org", "https://example.org/page", "", "ftp://a"])
def test_invalid_origin_is_an_error(origin: str) -> None:
    with pytest.raises(ArgumentError, match="is not an origin"):
        tessarr.serve({}, cors=[origin])


def test_origins_in_a_string_are_an_error() -> None:
    with pytest.raises(ArgumentError, match=r"cors '\*' is not a list of texts"):
        tessarr.serve({}, cors="*")


def test_request_without_token_is_refused(server: Any) -> None:
    parts = urlsplit(server.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    connection.request("GET", "/a/value")
    response = connection.getresponse()
    assert (response.status, VALUE in response.read()) == (403, False)
    connection.close()


def test_server_without_token_serves_at_root() -> None:
    with tessarr.serve({"a/b": b"1"}, token=False) as server:
        assert urlsplit(server.url).path == "/"
        assert send(server, "a/b").body == b"1"
        assert send(server, "%2e%2e/a/b").status == 400
        assert send(server, "a/b", host="evil.example").status == 403


def test_foreign_host_is_refused(server: Any) -> None:
    assert send(server, "a/value", host="evil.example").status == 403
    with tessarr.serve({"a": b"1"}, allow_hosts=["lab.example"]) as named:
        assert send(named, "a", host="lab.example").body == b"1"


def test_listing_is_disabled_by_default(server: Any) -> None:
    for prefix in ("", "a/"):
        reply = send(server, prefix)
        assert reply.status == 404
        assert b"--listing" in reply.body


def test_listing_links_keys_and_folders() -> None:
    items = {"g/zarr.json": b"", "g/a&b/c": b"", "g/x y": b"", "g/t:1": b""}
    with tessarr.serve(items, listing=True) as server:
        page = send(server, "g/").body.decode()
        for link in ('"../"', '"zarr.json"', '"a%26b/">a&amp;b/', '"x%20y"', '"./t%3A1"'):
            assert f"href={link}" in page
        assert 'href="g/"' in send(server, "").body.decode()
        assert send(server, "none/").status == 404
        assert send(server, "g").status == 404


def test_listing_is_read_by_http_store(tmp_path: Path) -> None:
    """Tessarr lists a group on the server."""
    group = tessarr.open_group(tmp_path / "g.zarr", mode="w")
    group.create_array("x y", shape=(2,), dtype="u1")
    group.create_group("inner")
    with tessarr.serve(tmp_path / "g.zarr", listing=True) as server:
        assert set(tessarr.open_group(server.url, mode="r")) == {"x y", "inner"}


def test_array_is_read_through_server(tmp_path: Path) -> None:
    values = np.arange(1000, dtype="f4").reshape(20, 50)
    array = tessarr.create_array(
        tmp_path / "data.zip", shape=(20, 50), dtype="f4", chunks=(5, 5), shards=(10, 25)
    )
    array[:] = values
    with tessarr.serve(tmp_path / "data.zip") as server:
        np.testing.assert_array_equal(
            tessarr.open(server.url, mode="r")[3:17, 10:45], values[3:17, 10:45]
        )


def test_part_of_shard_is_read_in_parts() -> None:
    """A client that reads one subchunk makes the server read an index and a subchunk."""
    store = CountingStore(MemoryStore())
    array = tessarr.create_array(
        store, shape=(1 << 20,), dtype="u1", chunks=(1 << 10,), shards=(1 << 20,), compressors=None
    )
    array[:] = 7
    size = store.size("c/0") or 0
    before = store.counts()
    with tessarr.serve(store) as server:
        assert tessarr.open(server.url, mode="r")[5000] == 7
    read = store.counts()["read_bytes"] - before["read_bytes"]
    assert read < size / 20


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(values, "_MAX_BLOCK_BYTES", 1000)
    monkeypatch.setattr(values, "_MIN_BLOCK_BYTES", 1000)
    return 1000


def test_large_value_is_sent_in_blocks(small_blocks: int) -> None:
    data = np.random.default_rng(1).bytes(10_500)
    store = CountingStore(MemoryStore({"a": data}))
    with tessarr.serve(store) as server:
        assert send(server, "a").body == data
        assert store.counts()["reads"] == 11
        assert send(server, "a", range="bytes=100-3100").body == data[100:3101]
        assert send(server, "a", range="bytes=-5000").body == data[-5000:]
    assert store.counts()["read_bytes"] == 10_500 + 3001 + 5000


def test_disconnected_client_ends_read(small_blocks: int) -> None:
    """The server stops reading a large value when the client has gone."""
    size = 64 << 20
    store = CountingStore(MemoryStore({"a": bytes(size)}))
    with tessarr.serve(store) as server:
        parts = urlsplit(server.url)
        with socket.create_connection((parts.hostname, parts.port)) as client:
            client.sendall(f"GET {parts.path}a HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            client.recv(1000)
        deadline = time.monotonic() + 30
        while server._server._uvicorn.server_state.tasks and time.monotonic() < deadline:
            time.sleep(0.01)
        assert store.counts()["read_bytes"] < size
        assert send(server, "a", range="bytes=0-3").body == bytes(4)


def test_slow_requests_run_concurrently() -> None:
    """Requests that wait for the store do not wait for each other."""
    barrier = threading.Barrier(8, timeout=30)

    class Meeting(dict[str, bytes]):
        def __getitem__(self, key: str) -> bytes:
            if key.startswith("k"):
                barrier.wait()  # until 8 threads read
            return super().__getitem__(key)

    names = [f"k{number}" for number in range(8)]
    store = Meeting({name: name.encode() for name in names})
    with tessarr.serve(store) as server, ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda name: send(server, name).body.decode(), names))
    assert replies == names


class Failing(dict[str, bytes]):
    """A store whose values raise errors."""

    errors: ClassVar[dict[str, Exception]] = {
        "store": StoreError("cannot reach https://user:password@host"),
        "other": RuntimeError("password"),
    }

    def __getitem__(self, key: str) -> bytes:
        if key in self.errors:
            raise self.errors[key]
        return super().__getitem__(key)


@pytest.mark.parametrize(
    ("key", "status", "body"),
    [
        ("store", 502, b"the store failed: store_failed\n"),
        ("other", 500, b"the request failed: RuntimeError\n"),
    ],
)
def test_error_of_store_is_reported_without_details(
    key: str, status: int, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with tessarr.serve(Failing()) as server:
        reply = send(server, key)
    assert (reply.status, reply.body) == (status, body)
    assert "password" in caplog.text  # the log is for the operator of the server


def test_error_within_value_closes_connection(
    small_blocks: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client sees an incomplete body, never a short value."""
    reads = []

    async def read(source: values.ValueSource, value: Any, start: int) -> bytes:
        reads.append(start)
        raise StoreError("the disk is gone")

    monkeypatch.setattr(values.ValueSource, "read", read)
    store = MemoryStore({"a": bytes(10_000)})
    with tessarr.serve(store) as server, pytest.raises(http.client.IncompleteRead):
        send(server, "a")
    assert reads == [1000]
    assert "the disk is gone" in caplog.text


def test_replaced_value_is_opened_again() -> None:
    """A value that is replaced between opening and reading is not an error for the client."""

    class Opened:
        size = 3

        def __init__(self, replaced: bool) -> None:
            self.replaced = replaced

        def read(self, offset: int, count: int) -> bytes:
            if self.replaced:
                raise StoreError("replaced", kind="value_replaced")
            return b"new"[offset : offset + count]

    class Replaced:
        opened = 0

        def get(self, key: str) -> None:
            return None

        put = delete = list = get

        def open_value(self, key: str) -> Opened | None:
            if key != "a":
                return None
            self.opened += 1
            return Opened(self.opened < 3)

    store = Replaced()
    with tessarr.serve(store) as server:
        assert send(server, "a").body == b"new"
    assert store.opened == 3


def test_node_and_path_are_roots(tmp_path: Path) -> None:
    root = tessarr.open_group(tmp_path / "g.zarr", mode="w")
    root.create_array("a/b", shape=(2,), dtype="u1")
    for arguments in ((root["a"],), (tmp_path / "g.zarr", "a"), (tmp_path / "g.zarr" / "a",)):
        store, path = (*arguments, None)[:2]
        with tessarr.serve(store, path=path) as server:
            assert tessarr.open(server.url, mode="r", path="b").shape == (2,)
            assert send(server, "../zarr.json").status in {400, 403}


def test_absent_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="there is no such folder"):
        tessarr.serve(tmp_path / "none.zarr")
    (tmp_path / "text").write_text("text")
    with pytest.raises(NotFoundError, match="it is a file"):
        tessarr.serve(tmp_path / "text")


def test_links_name_url(tmp_path: Path) -> None:
    array = tessarr.create_array(tmp_path / "a.zarr", shape=(2, 2), dtype="u1")
    with tessarr.serve(array) as server:
        assert all(server.url.rstrip("/") in unquote(link) for link in server.links.values())
        assert repr(server) == f"StoreServer({server.url!r})"
    with tessarr.serve({"a": b"1"}) as server:
        assert server.links == {}


def test_closed_server_refuses_connections() -> None:
    with tessarr.serve({"a": b"1"}) as server:
        pass
    with pytest.raises(ConnectionError):
        send(server, "a")


def test_missing_package_is_reported_with_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'tessarr\[view\]'"):
        tessarr.serve({})
