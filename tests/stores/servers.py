"""Servers on loopback: S3, GCS and HTTP files, with a proxy that counts and refuses requests."""

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

__all__ = ["Files", "Proxy", "file_server", "gcs", "kvstore_spec", "run_server", "s3"]


class Proxy:
    """Proxy of a server: it records requests and refuses some of them.

    Parameters
    ----------
    port
        The port of the server.

    Attributes
    ----------
    requests
        The requests so far, as ``"GET /path"``.
    max_concurrent
        The largest number of concurrent requests.
    refusals
        The statuses of the responses to the next requests.
    delay_s
        The least time of each response in seconds.
    callbacks
        Functions that run after the next requests, one after each.
    forward
        Forwards a request: it gets the function that calls the server, and the headers. For a
        response without a status, the proxy closes the connection.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.requests: list[str] = []
        self.headers: list[CIMultiDict[str]] = []
        self.refusals: list[int] = []
        self.delay_s = 0.0
        self.callbacks: list[Callable[[], object]] = []
        self.forward: Callable[[Callable[[dict[str, str]], Answer], dict[str, str]], Answer]
        self.forward = lambda send, headers: send(headers)
        self.active = self.max_concurrent = 0
        self.lock, self.write_lock = threading.Lock(), threading.Lock()
        self.url = ""

    @contextmanager
    def track_request(self, line: str, headers: dict[str, str]) -> Iterator[int]:
        """Record a request; yield the status with which the proxy refuses it, or 0."""
        with self.lock:
            self.requests.append(line)
            self.headers.append(CIMultiDict(headers))
            self.active += 1
            self.max_concurrent = max(self.max_concurrent, self.active)
            status = self.refusals.pop(0) if self.refusals else 0
        try:
            time.sleep(self.delay_s)
            yield status
        finally:
            with self.lock:
                self.active -= 1
                work = self.callbacks.pop(0) if self.callbacks else None
            if work is not None:
                work()

    def reset_counts(self) -> None:
        """Clear the recorded requests."""
        self.requests, self.headers, self.max_concurrent = [], [], 0


class Answer(NamedTuple):
    """Response of a server."""

    status: int
    headers: dict[str, str]
    data: bytes


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: Proxy

    def _handle(self) -> None:
        body = self._body()
        headers = {k: v for k, v in self.headers.items() if k.lower() != "transfer-encoding"}
        if body:
            headers["Content-Length"] = str(len(body))
        with self.proxy.track_request(f"{self.command} {self.path}", headers) as status:
            if status:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            # The servers compare first and write later; the lock makes both one step.
            with nullcontext() if self.command in {"GET", "HEAD"} else self.proxy.write_lock:
                response = self._answer(body, headers)
        if not response.status:
            self.close_connection = True
            return
        self.send_response(response.status)
        for name, value in response.headers.items():
            if name.lower() not in {"transfer-encoding", "connection", "content-length", "date"}:
                self.send_header(name, value)
        data = response.data
        size = response.headers.get("Content-Length") if self.command == "HEAD" else str(len(data))
        if size is not None:
            self.send_header("Content-Length", size)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _answer(self, body: bytes, headers: dict[str, str]) -> Answer:
        return self.proxy.forward(partial(self._forward, self.command, self.path, body), headers)

    def _forward(self, command: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.proxy.port, timeout=30)
        connection.request(command, path, body or None, headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return Answer(answer.status, dict(answer.getheaders()), data)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = _handle  # noqa: N815 (the library names them)

    def log_message(self, *_: Any) -> None:
        pass


class _GcsHandler(_Handler):
    """Handler that adds generations of objects, which the emulator of GCS lacks."""

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
        response = self._forward("GET", path, b"", {})
        return json.loads(response.data)["generation"] if response.status == 200 else "0"


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # further connections would wait for a second


@contextmanager
def run_server(handler: Any) -> Iterator[int]:
    """Run a server and yield its port."""
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def run_proxy(port: int, handler: type[_Handler] = _Handler) -> Iterator[Proxy]:
    proxy = Proxy(port)
    with run_server(type("Handler", (handler,), {"proxy": proxy})) as proxy_port:
        proxy.url = f"http://127.0.0.1:{proxy_port}"
        yield proxy


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        yield


def kvstore_spec(kind: str, proxy: Proxy, path: str) -> dict[str, Any]:
    """Return the JSON spec of a key-value store on a server."""
    if kind == "http":
        return {"driver": "http", "base_url": proxy.url, "path": f"/{path}"}
    spec = {"driver": kind, "bucket": "bucket", "path": path}
    if kind == "s3":
        spec |= {"endpoint": proxy.url, "aws_region": "us-east-1"}
    return spec


@contextmanager
def s3() -> Iterator[Proxy]:
    """Run a server of the S3 protocol, with the bucket ``bucket``."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        _put(port, "/bucket")
        names = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
        with _environment(**names), run_proxy(port) as proxy:
            yield proxy
    finally:
        server.stop()


def _put(port: int, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("PUT", path, headers={"Host": "s3.amazonaws.com"})
    assert connection.getresponse().status == 200
    connection.close()


@contextmanager
def gcs() -> Iterator[Proxy]:
    """Run a server of the GCS protocol, with the bucket ``bucket``."""
    from gcp_storage_emulator.server import create_server

    server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="bucket")
    server.start()
    try:
        port = server._api._httpd.server_port  # no public attribute has it
        with (
            run_proxy(port, _GcsHandler) as proxy,
            _environment(TENSORSTORE_GCS_HTTP_URL=proxy.url),
        ):
            yield proxy
    finally:
        server.stop()


class Files(http.server.SimpleHTTPRequestHandler):
    """Handler that serves the files of a folder, whole or by ranges."""

    ranges = True
    """Whether the handler serves ranges; otherwise it serves whole files."""

    validators: tuple[str, ...] = ("ETag",)
    """Headers that identify the version of a file."""

    unit = "bytes"
    """The spelling of the range unit, whose case does not matter (RFC 9110, 14.1)."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            super().do_GET()
            return
        data = path.read_bytes()
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        part, span = data, ""
        if self.ranges and match is not None:
            start, end = int(match[1] or 0), int(match[2] or len(data) - 1)
            if not match[1]:
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
        for header in self.validators:
            if header == "ETag":
                self.send_header("ETag", f'"{path.stat().st_mtime_ns:x}"')
            else:
                self.send_header(header, self.date_time_string(path.stat().st_mtime))
        self.end_headers()
        self.wfile.write(part)

    def _refuse(self, size: int) -> None:
        self.send_response(416)
        self.send_header("Content-Range", f"{self.unit} */{size}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def file_server(folder: Path, kind: type[Files] = Files) -> Iterator[Proxy]:
    """Run a web server of a folder."""
    with run_server(partial(kind, directory=str(folder))) as port, run_proxy(port) as proxy:
        yield proxy
