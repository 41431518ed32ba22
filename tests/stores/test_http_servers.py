"""Responses of web servers: headers, redirects, refusals and listings."""

from __future__ import annotations

import http.server
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import tessarr
from stores.servers import file_server
from tessarr.cli import main
from tessarr.errors import ArgumentError, StoreError
from tessarr.stores import HTTPStore

pytestmark = pytest.mark.slow

VALUES = np.arange(4096, dtype="u2").reshape(64, 64)
OLD = "Tue, 03 Nov 2026 10:00:00 GMT"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Handler that adds headers to files and records paths and user agents."""

    protocol_version = "HTTP/1.1"
    tells: ClassVar[dict[str, str]] = {}
    asked: ClassVar[list[tuple[str, str]]] = []
    moved = ""
    delay_s = 0.0

    def do_GET(self) -> None:
        time.sleep(self.delay_s)
        self.asked.append((self.path, self.headers["User-Agent"]))
        path = self.path.removeprefix(self.moved) if self.moved else self.path
        if path == self.path and self.moved:
            self.send_response(302)
            self.send_header("Location", self.moved + self.path)
            self.send_header("Content-Length", "0")
            return self.end_headers()
        file = Path(self.directory + path)
        data = file.read_bytes() if file.is_file() else b"nothing is here"
        self.send_response(200 if file.is_file() else 404)
        for name, value in self.tells.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        return None

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Serve a folder; yield its URL and the recorded requests."""
    requests: list[tuple[str, str]] = []
    handler = type("Handler", (Handler,), {"asked": requests, **settings})
    factory = partial(handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), factory) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", requests
        server.shutdown()


def stored(folder: Path, **settings: Any) -> None:
    """Store the array of test values in a folder."""
    tessarr.create_array(folder, data=VALUES, chunks=(4, 64), **settings)


def test_chunks_take_one_request_each(tmp_path: Path) -> None:
    stored(tmp_path)
    with serving(tmp_path) as (url, requests):
        array = tessarr.open_array(url, mode="r")
        requests.clear()
        assert (array[:] == VALUES).all()
        assert len(requests) == 16
        assert array.store.get("none") is None  # and the connection stays open
        assert array[5, 6] == VALUES[5, 6]


@pytest.mark.parametrize(
    "tells",
    [
        {"ETag": '"\u00e9"'},
        {"Last-Modified": "Tue, 03 Nov 2026 10:00:00 +0000"},
        {"Last-Modified": "03 Nov 2026 10:00:00 GMT"},
        {"ETag": '"a"', "Last-Modified": OLD, "Date": "now"},
        {"ETag": 'W/"a"', "Content-Encoding": "Identity"},
    ],
)
@pytest.mark.parametrize("shards", [None, (64, 64)])
def test_values_are_read_with_any_headers(
    tmp_path: Path, tells: dict[str, str], shards: tuple[int, int] | None
) -> None:
    stored(tmp_path, shards=shards)
    with serving(tmp_path, tells=tells) as (url, _):
        array = tessarr.open_array(url, mode="r")
        for _ in range(3):
            assert (array[:] == VALUES).all()
            assert (array[3:9, 5] == VALUES[3:9, 5]).all()


def test_redirects_are_followed(tmp_path: Path) -> None:
    stored(tmp_path)
    with serving(tmp_path, moved="/there") as (url, _):
        array = tessarr.open_array(url, mode="r")
        for _ in range(2):
            assert (array[:] == VALUES).all()


def test_many_concurrent_reads_complete(tmp_path: Path) -> None:
    """More reads are pending than the pool has threads; other threads send the requests."""
    stored(tmp_path)
    with serving(tmp_path) as (url, requests):
        arrays = [tessarr.open_array(url, mode="r") for _ in range(40)]
        requests.clear()
        futures = [array.read(slice(None)) for array in arrays]
        assert all((future.result() == VALUES).all() for future in futures)
        assert len(requests) == 40 * 16


@pytest.mark.parametrize(
    "status",
    [
        202,
        204,
        302,
        304,
        429,
    ],
)
def test_response_without_file_raises(status: int) -> None:
    """Another status than success is an error with the status and the URL."""

    class Other(Handler):
        def do_GET(self) -> None:
            self.send_response(status)
            if status not in {204, 304}:
                self.send_header("Content-Length", "4")
            self.end_headers()
            if status not in {204, 304}:
                self.wfile.write(b"text")

    with serving(Path(), do_GET=Other.do_GET) as (url, _):
        store = HTTPStore(url, retries=False)
        for ask in (store.get, store.size):
            with pytest.raises(StoreError, match=rf"{url}/a: .*{status}") as raised:
                ask("a")
            assert (raised.value.key, raised.value.retryable) == ("a", status == 429)


@pytest.mark.parametrize("header", [None, "bytes 0-1/9", "bytes 0-9/9", "bytes 0-4/*"])
def test_response_without_range_raises(header: str | None) -> None:
    """Without a Content-Range header, a partial response could pass for the whole value."""

    class Parts(Handler):
        def do_GET(self) -> None:
            self.send_response(206)
            if header is not None:
                self.send_header("Content-Range", header)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"01234")

    with (
        serving(Path(), do_GET=Parts.do_GET) as (url, _),
        pytest.raises(tessarr.errors.StoreError, match="Content-Range does not fit"),
    ):
        HTTPStore(url).size("a")


def test_timeout_error_names_url() -> None:
    ended = threading.Event()

    def wait(_: Any) -> None:
        ended.wait(10)

    with serving(Path(), do_GET=wait) as (url, _):
        with pytest.raises(StoreError, match=f"{url}/a: ") as raised:
            HTTPStore(url, timeout_s=0.1, retries=False).get("a")
        assert raised.value.retryable
        ended.set()


def test_abandoned_requests_are_cancelled(tmp_path: Path) -> None:
    """The server refuses one chunk; the failed read cancels the request for the other chunk."""
    stored(tmp_path)
    requested, ended = threading.Event(), threading.Event()

    def get(self: Handler) -> None:
        if self.path.endswith("/c/0/0"):
            requested.wait(20)
            self.send_error(403)
        elif "/c/" in self.path:
            requested.set()
            self.rfile.read(1)  # until the client closes the connection
            ended.set()
        else:
            Handler.do_GET(self)

    with serving(tmp_path, do_GET=get) as (url, _):
        array = tessarr.open_array(url, mode="r")
        with pytest.raises(StoreError, match="403"):
            array[:8]
        assert ended.wait(20)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
def test_open_connections_are_bounded(tmp_path: Path) -> None:
    """The limit on open files of the process bounds the number of connections."""
    stored(tmp_path)
    with ExitStack() as stack:
        served = [stack.enter_context(serving(tmp_path, delay_s=0.02)) for _ in range(4)]
        script = FEW_FILES.format(urls=[url for url, _ in served])
        subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


FEW_FILES = """
import resource
import tessarr

resource.setrlimit(resource.RLIMIT_NOFILE, (128, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
for url in {urls!r}:
    arrays = [tessarr.open_array(url, mode="r") for _ in range(12)]
    reads = [array.read(slice(None)) for array in arrays]
    while not all(read.done() for read in reads):
        with open("/dev/null"):
            pass
    assert all(read.result()[63, 63] == 4095 for read in reads)
"""


def refusing(status: int, **others: int) -> Any:
    """Return a handler method that responds with `status` to absent files.

    The keywords `others` map names to other statuses.
    """

    def get(self: Any) -> None:
        file = Path(self.directory + self.path)
        name = self.path.rpartition("/")[2]
        if name in others or not file.is_file():
            self.send_error(others.get(name, status))
        else:
            Handler.do_GET(self)

    return get


@pytest.mark.parametrize("status", [401, 403, 410])
def test_refusal_raises_store_error_with_url(tmp_path: Path, status: int) -> None:
    """A refused chunk is not absent, unless an option says so for status 403."""
    a = tessarr.create_array(tmp_path / "x", shape=(4, 4), chunks=(2, 4), dtype="i2", fill_value=7)
    a[:2] = 1
    with serving(tmp_path, do_GET=refusing(status)) as (url, _):
        opened = tessarr.open_array(f"{url}/x", mode="r")
        assert (opened[:2] == 1).all()
        with pytest.raises(StoreError, match=f"{url}/x/c/1/0: {status}"):
            opened[...]
        with pytest.raises(StoreError, match=f"{url}/y/zarr.json: {status}"):
            tessarr.open(f"{url}/y", mode="r")
        if status == 403:
            options = {"missing_status": (404, status)}
            lenient = tessarr.open_array(f"{url}/x", mode="r", storage_options=options)
            assert lenient[...].tolist() == [[1] * 4] * 2 + [[7] * 4] * 2


def test_invalid_missing_status_raises() -> None:
    """A status of success or of a server failure cannot mean absence."""
    for wrong in ((500,), (200,), (404, 401)):
        with pytest.raises(ArgumentError, match="missing_status"):
            HTTPStore("http://127.0.0.1:1", missing_status=wrong)


@pytest.mark.parametrize(
    "status",
    [
        401,
        403,
        404,
        405,
        410,
    ],
)
def test_listing_on_server_without_listing_raises(tmp_path: Path, status: int) -> None:
    """Listing a group raises an error; users open its nodes by their paths."""
    group = tessarr.create_group(tmp_path / "g")
    group.create_array("a", data=[1, 2, 3])
    group.create_group("b")
    with serving(tmp_path, do_GET=refusing(status)) as (url, _):
        options = {"missing_status": (403, 404)}
        opened = tessarr.open_group(f"{url}/g", mode="r", storage_options=options)
        for list_members in (list, len, lambda g: g.members(), lambda g: g.tree()):
            with pytest.raises(StoreError, match="cannot list"):
                list_members(opened)
        assert opened.get_array("a")[...].tolist() == [1, 2, 3]
        tessarr.consolidate_metadata(tmp_path / "g")
        opened = tessarr.open_group(f"{url}/g", mode="r", storage_options=options)
        assert sorted(opened) == ["a", "b"]


def test_info_without_listing_lacks_stored_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Web servers usually refuse listings; the other properties need none."""
    tessarr.create_array(tmp_path / "a", data=VALUES, chunks=32)
    with serving(tmp_path, do_GET=refusing(403)) as (url, _):
        array = tessarr.open_array(f"{url}/a", mode="r")
        assert "nbytes_stored: unknown; chunks: 4" in str(array.info)
        assert ("No. bytes stored", "unknown") in array.info.items()
        assert array.info.asdict()["stored_bytes"] is None
        assert main(["info", f"{url}/a"]) == 0
        assert "unknown of 4 chunks: the store refuses listings" in capsys.readouterr().out
        with pytest.raises(StoreError, match="cannot list"):
            _ = array.nbytes_stored


@pytest.mark.parametrize("settings", [{}, {"chunks": 16}])
def test_copy_from_server_without_listing(tmp_path: Path, settings: dict[str, Any]) -> None:
    """A copy tries all chunks of an array, with equal chunks and with others."""
    group = tessarr.create_group(tmp_path / "g")
    group.create_array("b/a", shape=(64, 64), dtype="u2", chunks=32, fill_value=3)[:32] = 1
    expected = np.where(np.arange(64)[:, None] < 32, 1, 3).repeat(64, axis=1)
    with serving(tmp_path, do_GET=refusing(404)) as (url, _):
        array = tessarr.open_array(f"{url}/g/b/a", mode="r")
        tessarr.copy_to(array, tmp_path / "copy", **settings)
        copy = tessarr.open_array(tmp_path / "copy")
        assert (np.asarray(copy) == expected).all()
        assert copy.nchunks_initialized == (2 if not settings else 8)
        copy[:] = 0
        copy[:] = array
        assert (np.asarray(copy) == expected).all()
        with pytest.raises(StoreError, match="cannot list"):
            tessarr.copy_to(f"{url}/g", tmp_path / "copies", **settings)
        tessarr.consolidate_metadata(tmp_path / "g")
        tessarr.copy_to(f"{url}/g", tmp_path / "copies", **settings)
        copies = tessarr.open_group(tmp_path / "copies", mode="r")
        assert (np.asarray(copies["b/a"]) == expected).all()


def test_listing_of_page_without_names_raises(tmp_path: Path) -> None:
    """A page without file names is no listing of a folder that holds a node."""
    tessarr.create_group(tmp_path / "g").create_array("a", data=[1])

    def get(self: Any) -> None:
        if Path(self.directory + self.path).is_file():
            Handler.do_GET(self)
            return
        known = self.path.endswith(("/", "/g"))
        self.send_response(200 if known else 404)
        self.send_header("Content-Length", "13")
        self.end_headers()
        self.wfile.write(b"<html></html>")

    with serving(tmp_path, do_GET=get) as (url, _):
        group = tessarr.open_group(f"{url}/g", mode="r")
        with pytest.raises(StoreError, match="cannot list"):
            list(group)


def test_listing_of_missing_folder_is_empty(tmp_path: Path) -> None:
    """An array without chunks has no chunk folder, which is no server failure."""
    group = tessarr.create_group(tmp_path / "g")
    group.create_array("a", shape=4, chunks=2)
    with file_server(tmp_path) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        opened = tessarr.open_group(f"{url}/g", mode="r")
        assert opened.get_array("a").nchunks_initialized == 0
        assert list(opened) == ["a"]
        assert tessarr.open_array(f"{url}/g/a", mode="r").nchunks_initialized == 0
