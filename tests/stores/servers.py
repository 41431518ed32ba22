"""Servers on loopback: S3, GCS and the web, behind a door that counts and refuses requests."""

from __future__ import annotations

import http.client
import http.server
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pytest
from multidict import CIMultiDict

__all__ = ["Door", "Files", "files", "gcs", "s3", "serving", "spec"]


class Door:
    """What stands before a server: notes requests, and refuses some of them.

    Parameters
    ----------
    port
        Of the server.

    Attributes
    ----------
    requests
        What was asked so far, as ``"GET /path"``.
    most
        How many requests were under way at a time.
    refusals
        With which status the next requests are answered.
    delay_s
        How long each one takes at least.
    then
        What happens after the next requests, one after each.
    way
        Passes a request on: by what asks the server, with the headers. An answer without a status
        is lost: the connection is closed.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.requests: list[str] = []
        self.headers: list[CIMultiDict[str]] = []
        self.refusals: list[int] = []
        self.delay_s = 0.0
        self.then: list[Callable[[], object]] = []
        self.way: Callable[[Callable[[dict[str, str]], Answer], dict[str, str]], Answer]
        self.way = lambda ask, headers: ask(headers)
        self.now = self.most = 0
        self.lock, self.changing = threading.Lock(), threading.Lock()
        self.url = ""

    @contextmanager
    def entered(self, line: str, headers: dict[str, str]) -> Iterator[int]:
        """Note a request; give the status with which it is refused, or 0."""
        with self.lock:
            self.requests.append(line)
            self.headers.append(CIMultiDict(headers))
            self.now += 1
            self.most = max(self.most, self.now)
            status = self.refusals.pop(0) if self.refusals else 0
        try:
            time.sleep(self.delay_s)
            yield status
        finally:
            with self.lock:
                self.now -= 1
                work = self.then.pop(0) if self.then else None
            if work is not None:
                work()

    def forget(self) -> None:
        """Begin to count anew."""
        self.requests, self.headers, self.most = [], [], 0


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    headers: dict[str, str]
    data: bytes


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    door: Door

    def _pass_on(self) -> None:
        body = self._body()
        headers = {k: v for k, v in self.headers.items() if k.lower() != "transfer-encoding"}
        if body:
            headers["Content-Length"] = str(len(body))
        with self.door.entered(f"{self.command} {self.path}", headers) as status:
            if status:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            # The servers themselves compare first, and change something later.
            with nullcontext() if self.command in {"GET", "HEAD"} else self.door.changing:
                found = self._answer(body, headers)
        if not found.status:
            self.close_connection = True
            return
        self.send_response(found.status)
        for name, value in found.headers.items():
            if name.lower() not in {"transfer-encoding", "connection", "content-length", "date"}:
                self.send_header(name, value)
        data = found.data
        size = found.headers.get("Content-Length") if self.command == "HEAD" else str(len(data))
        if size is not None:
            self.send_header("Content-Length", size)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _answer(self, body: bytes, headers: dict[str, str]) -> Answer:
        return self.door.way(partial(self._asked, self.command, self.path, body), headers)

    def _asked(self, command: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        there = http.client.HTTPConnection("127.0.0.1", self.door.port, timeout=30)
        there.request(command, path, body or None, headers)
        answer = there.getresponse()
        data = answer.read()
        there.close()
        return Answer(answer.status, dict(answer.getheaders()), data)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = _pass_on  # noqa: N815 (the library names them)

    def log_message(self, *_: Any) -> None:
        pass


class _GcsHandler(_Handler):
    """What the server of GCS does not know: generations of objects."""

    def _answer(self, body: bytes, headers: dict[str, str]) -> Answer:
        parts = urlsplit(self.path)
        query = parse_qs(parts.query)
        name = query.get("name") or [unquote(parts.path.rpartition("/o/")[2])]
        generation = self._generation(name[0]) if name[0] else "0"
        if query.get("ifGenerationMatch", [generation]) != [generation]:
            return Answer(412, {}, b"")
        answer = super()._answer(body, headers)
        if self.command == "GET" and "media" in query.get("alt", []):
            if self._generation(name[0]) != generation:
                return self._answer(body, headers)
            answer.headers["X-Goog-Generation"] = generation
        return answer

    def _generation(self, name: str) -> str:
        path = f"/storage/v1/b/bucket/o/{quote(name, safe='')}"
        found = self._asked("GET", path, b"", {})
        return json.loads(found.data)["generation"] if found.status == 200 else "0"


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # more that come at a time wait for a second


@contextmanager
def serving(handler: Any) -> Iterator[int]:
    """A server, by its port."""
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def _door(port: int, handler: type[_Handler] = _Handler) -> Iterator[Door]:
    door = Door(port)
    with serving(type("Handler", (handler,), {"door": door})) as own:
        door.url = f"http://127.0.0.1:{own}"
        yield door


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        yield


def spec(kind: str, door: Door, path: str) -> dict[str, Any]:
    """Return the JSON of the key-value store of a server."""
    if kind == "http":
        return {"driver": "http", "base_url": door.url, "path": f"/{path}"}
    found = {"driver": kind, "bucket": "bucket", "path": path}
    if kind == "s3":
        found |= {"endpoint": door.url, "aws_region": "us-east-1"}
    return found


@contextmanager
def s3() -> Iterator[Door]:
    """A server that speaks as S3 does, with the bucket ``bucket``."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        _put(port, "/bucket")
        names = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
        with _environment(**names), _door(port) as door:
            yield door
    finally:
        server.stop()


def _put(port: int, path: str) -> None:
    there = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    there.request("PUT", path, headers={"Host": "s3.amazonaws.com"})
    assert there.getresponse().status == 200
    there.close()


@contextmanager
def gcs() -> Iterator[Door]:
    """A server that speaks as Google's storage does, with the bucket ``bucket``."""
    from gcp_storage_emulator.server import create_server

    server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="bucket")
    server.start()
    try:
        port = server._api._httpd.server_port  # it tells it nowhere else
        with _door(port, _GcsHandler) as door, _environment(TENSORSTORE_GCS_HTTP_URL=door.url):
            yield door
    finally:
        server.stop()


class Files(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, whole or by ranges."""

    ranges = True
    """Whether ranges are served; otherwise whole files are."""

    tells: tuple[str, ...] = ("ETag",)
    """Which headers tell the state of a file."""

    tells_size = True
    """Whether the size of a file is told that does not have a range."""

    unit = "bytes"
    """How it spells what ranges count, whose case does not matter (RFC 9110, 14.1)."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            super().do_GET()
            return
        data = path.read_bytes()
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        part, span = data, ""
        if self.ranges and found is not None:
            start, end = int(found[1] or 0), int(found[2] or len(data) - 1)
            if not found[1]:
                start, end = max(0, len(data) - end), len(data) - 1
            if start >= len(data):
                self._refuse(len(data))
                return
            part = data[start : end + 1]
            span = f"{start}-{start + len(part) - 1}/{len(data)}"
        self.send_response(206 if span else 200)
        if span:
            self.send_header("Content-Range", f"{self.unit} {span}")
        self.send_header("Content-Length", str(len(part)))
        for tells in self.tells:
            if tells == "ETag":
                self.send_header("ETag", f'"{path.stat().st_mtime_ns:x}"')
            else:
                self.send_header(tells, self.date_time_string(path.stat().st_mtime))
        self.end_headers()
        self.wfile.write(part)

    def _refuse(self, size: int) -> None:
        self.send_response(416)
        if self.tells_size:
            self.send_header("Content-Range", f"{self.unit} */{size}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def files(folder: Path, kind: type[Files] = Files) -> Iterator[Door]:
    """A web server of a folder."""
    with serving(partial(kind, directory=str(folder))) as port, _door(port) as door:
        yield door
