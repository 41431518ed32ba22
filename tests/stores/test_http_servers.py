"""Requests of the engine to web servers, with a fallback to the fsspec file system."""

from __future__ import annotations

import errno
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

import fsspec.asyn
import numpy as np
import pytest
from fsspec.implementations.http import HTTPFileSystem

import tessarr
from stores.servers import file_server
from tessarr.errors import ArgumentError, StoreError, UnsupportedError
from tessarr.stores import FsspecStore

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
def serving(folder: Path, **how: Any) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Serve a folder; yield its URL and the recorded requests."""
    asked: list[tuple[str, str]] = []
    handler = type("Handler", (Handler,), {"asked": asked, **how})
    made = partial(handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), made) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def stored(folder: Path, **how: Any) -> None:
    """Store the array of test values in a folder."""
    tessarr.create_array(folder, data=VALUES, chunks=(4, 64), **how)


def test_engine_sends_http_requests(tmp_path: Path) -> None:
    stored(tmp_path)
    with serving(tmp_path) as (url, asked):
        array = tessarr.open_array(url, mode="r")
        asked.clear()
        assert (array[:] == VALUES).all()
        assert len(asked) == 16
        assert {agent.partition("/")[0] for _, agent in asked} == {"tessarr"}
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
    """After redirects, the engine leaves all requests to the file system, which follows them."""
    stored(tmp_path)
    with serving(tmp_path, moved="/there") as (url, asked):
        array = tessarr.open_array(url, mode="r")
        assert (array[:] == VALUES).all()
        asked.clear()
        assert (array[:] == VALUES).all()
        assert len(asked) == 2 * 16
        assert not any(agent.startswith("tessarr") for _, agent in asked)


def test_many_concurrent_reads_complete(tmp_path: Path) -> None:
    """More reads are pending than the pool has threads; other threads send the requests."""
    stored(tmp_path)
    with serving(tmp_path) as (url, asked):
        fs = fsspec.filesystem("http")
        arrays = [tessarr.open_array(FsspecStore(fs, url), mode="r") for _ in range(40)]
        asked.clear()
        futures = [array.read(slice(None)) for array in arrays]
        assert all((future.result() == VALUES).all() for future in futures)
        assert len(asked) == 40 * 16


@pytest.mark.skipif(sys.platform != "linux", reason="threads are counted by /proc")
def test_requests_need_few_threads(tmp_path: Path) -> None:
    stored(tmp_path)
    here = threading.Barrier(16 + 1)

    def threads() -> int:
        names = [(task / "comm").read_text() for task in Path("/proc/self/task").iterdir()]
        return sum(name.startswith("tessarr-web") for name in names)

    def get(self: Handler) -> None:
        if "/c/" in self.path:
            here.wait(20)  # until all requests arrive
            here.wait(20)
        Handler.do_GET(self)

    with serving(tmp_path, do_GET=get) as (url, _):
        array = tessarr.open_array(url, mode="r")
        before = threads()
        future = array.read(slice(None))
        here.wait(20)
        during = threads()
        here.wait(20)
        assert (future.result() == VALUES).all()
    assert 1 <= during <= before


def test_missing_status_403_means_absent(tmp_path: Path) -> None:
    from aiohttp import ClientResponseError

    with serving(tmp_path, do_GET=lambda self: self.send_error(403)) as (url, _):
        store = FsspecStore.from_url(url, allowed_exceptions=(ClientResponseError,))
        assert store.get("a") is None
        with pytest.raises(StoreError, match="403 Forbidden") as raised:
            FsspecStore.from_url(url).get("a")
        assert isinstance(raised.value.__cause__, ClientResponseError)


@pytest.mark.parametrize("own", [{}, {"client_kwargs": {"trust_env": False}}])
@pytest.mark.parametrize("status", [202, 204, 302, 304, 429])
def test_response_without_file_raises(own: dict[str, Any], status: int) -> None:
    """Another status than success is an error with the response headers, for both clients."""
    from aiohttp import ClientResponseError

    passes = status == 429

    class Other(Handler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Retry-After", "7")
            if status not in {204, 304}:
                self.send_header("Content-Length", "4")
            self.end_headers()
            if status not in {204, 304}:
                self.wfile.write(b"text")

    with serving(Path(), do_GET=Other.do_GET) as (url, _):
        fs = HTTPFileSystem(**own, skip_instance_cache=True)
        store = FsspecStore(fs, url)
        for ask in (store.get, store.size):
            with pytest.raises(StoreError, match=f"{url}/a: the server answers {status}") as raised:
                ask("a")
            assert (raised.value.key, raised.value.retryable) == ("a", passes)
            cause = raised.value.__cause__
            assert isinstance(cause, ClientResponseError)
            assert cause.headers is not None
            assert cause.headers["Retry-After"] == "7"
        fsspec.asyn.sync(fs.loop, (fs._session or fsspec.asyn.sync(fs.loop, fs.set_session)).close)


@pytest.mark.parametrize("told", [None, "bytes 0-1/9", "bytes 0-9/9", "bytes 0-4/*"])
def test_response_without_range_raises(told: str | None) -> None:
    """Without a Content-Range header, a partial response could pass for the whole value."""

    class Parts(Handler):
        def do_GET(self) -> None:
            self.send_response(206)
            if told is not None:
                self.send_header("Content-Range", told)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"01234")

    with (
        serving(Path(), do_GET=Parts.do_GET) as (url, _),
        pytest.raises(tessarr.errors.StoreError, match="5 bytes as the range"),
    ):
        FsspecStore.from_url(url).size("a")


@pytest.mark.parametrize(("sock_read", "agent"), [(None, "tessarr"), (9, "Python")])
def test_timeout_error_names_url(sock_read: float | None, agent: str) -> None:
    import aiohttp

    agents: list[str] = []
    ended = threading.Event()

    def wait(self: Any) -> None:
        agents.append(self.headers["User-Agent"].partition("/")[0])
        ended.wait(10)

    with serving(Path(), do_GET=wait) as (url, _):
        session = {"timeout": aiohttp.ClientTimeout(total=0.1, sock_read=sock_read)}
        fs = HTTPFileSystem(client_kwargs=session, skip_instance_cache=True)
        with pytest.raises(StoreError, match="/a: the server did not answer in time") as raised:
            FsspecStore(fs, url).get("a")
        assert isinstance(raised.value.__cause__, TimeoutError)
        assert (raised.value.errno, raised.value.retryable) == (errno.ETIMEDOUT, True)
        ended.set()
        assert agents == [agent]
        if fs._session is not None:
            fsspec.asyn.sync(fs.loop, fs._session.close)


def test_abandoned_requests_are_cancelled(tmp_path: Path) -> None:
    """The server refuses one chunk; the failed read cancels the request for the other chunk."""
    stored(tmp_path)
    asked, ended = threading.Event(), threading.Event()

    def get(self: Handler) -> None:
        if self.path.endswith("/c/0/0"):
            asked.wait(20)
            self.send_error(403)
        elif "/c/" in self.path:
            asked.set()
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
import fsspec, tessarr
from tessarr.stores import FsspecStore

resource.setrlimit(resource.RLIMIT_NOFILE, (128, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
fs = fsspec.filesystem("http")
for url in {urls!r}:
    arrays = [tessarr.open_array(FsspecStore(fs, url), mode="r") for _ in range(12)]
    reads = [array.read(slice(None)) for array in arrays]
    while not all(read.done() for read in reads):
        with open("/dev/null"):
            pass
    assert all(read.result()[63, 63] == 4095 for read in reads)
"""


def test_custom_file_system_sends_own_requests(tmp_path: Path) -> None:
    """Custom headers keep the engine's client; request headers replace session headers."""
    stored(tmp_path)
    session = {"headers": {"User-Agent": "a", "X": "b"}}
    mine = {"client_kwargs": session, "headers": [("user-agent", "mine")]}
    own = {"client_kwargs": {"trust_env": True}}
    with serving(tmp_path) as (url, asked):
        for options, agent in ((own, "Python"), (mine, "mine")):
            fs = HTTPFileSystem(**options, skip_instance_cache=True)
            array = tessarr.open_array(FsspecStore(fs, url), mode="r")
            asked.clear()
            assert (array[:] == VALUES).all()
            assert {sent.partition("/")[0] for _, sent in asked} == {agent}
            if fs._session is not None:
                fsspec.asyn.sync(fs.loop, fs._session.close)


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


@pytest.mark.parametrize("own", [{}, {"client_kwargs": {"trust_env": False}}])
@pytest.mark.parametrize("status", [401, 403, 410])
def test_refusal_is_a_store_error_with_the_url_unless_it_means_absent(
    tmp_path: Path, status: int, own: dict[str, Any]
) -> None:
    """The engine and the file system agree; ``missing_status`` lists the statuses for absence."""
    a = tessarr.create_array(tmp_path / "x", shape=(4, 4), chunks=(2, 4), dtype="i2", fill_value=7)
    a[:2] = 1
    with serving(tmp_path, do_GET=refusing(status)) as (url, _):
        opened = tessarr.open_array(f"{url}/x", mode="r", storage_options=own)
        assert (opened[:2] == 1).all()
        with pytest.raises(
            StoreError, match=rf"{url}/x/c/1/0: .* {status} .*missing_status"
        ) as found:
            opened[...]
        assert (found.value.errno is None) == (status == 410)
        options = {**own, "missing_status": (404, status)}
        lenient = tessarr.open_array(f"{url}/x", mode="r", storage_options=options)
        assert lenient[...].tolist() == [[1] * 4] * 2 + [[7] * 4] * 2
        store = FsspecStore.from_url(f"{url}/x", own, missing_status=[status])
        assert store.get("c/1/0") is None
        with pytest.raises(StoreError, match="Authorization"):
            tessarr.open(f"{url}/y", mode="r", storage_options=own)


def test_invalid_missing_status_raises() -> None:
    """A status of success or of a server failure cannot mean absence."""
    for wrong in ((500,), (200,), ("404",)):
        with pytest.raises(ArgumentError, match="missing_status"):
            FsspecStore.from_url("http://127.0.0.1:1", missing_status=wrong)


@pytest.mark.parametrize("status", [401, 403, 404, 405, 410])
def test_server_that_cannot_list_says_so(tmp_path: Path, status: int) -> None:
    """Listing a group raises an error; users open its nodes by their paths."""
    group = tessarr.create_group(tmp_path / "g")
    group.create_array("a", data=[1, 2, 3])
    group.create_group("b")
    with serving(tmp_path, do_GET=refusing(status)) as (url, _):
        options = {"missing_status": (404, status)}
        opened = tessarr.open_group(f"{url}/g", mode="r", storage_options=options)
        for list_members in (list, len, lambda g: g.members(), lambda g: g.tree()):
            with pytest.raises(UnsupportedError, match=rf"cannot list {url}/g"):
                list_members(opened)
        assert opened.get_array("a")[...].tolist() == [1, 2, 3]
        tessarr.consolidate_metadata(tmp_path / "g")
        opened = tessarr.open_group(f"{url}/g", mode="r", storage_options=options)
        assert sorted(opened) == ["a", "b"]


def test_server_that_answers_everything_with_a_page_cannot_list(tmp_path: Path) -> None:
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
        with pytest.raises(UnsupportedError, match="lists nothing where there is a node"):
            list(group)


def test_server_that_can_list_lists_folders_that_are_not_there(tmp_path: Path) -> None:
    """An array without chunks has no chunk folder, which is no server failure."""
    group = tessarr.create_group(tmp_path / "g")
    group.create_array("a", shape=4, chunks=2)
    with file_server(tmp_path) as proxy:
        url = f"http://127.0.0.1:{proxy.port}"
        opened = tessarr.open_group(f"{url}/g", mode="r")
        assert opened.get_array("a").nchunks_initialized == 0
        assert list(opened) == ["a"]
        assert tessarr.open_array(f"{url}/g/a", mode="r").nchunks_initialized == 0
