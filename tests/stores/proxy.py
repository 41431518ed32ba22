"""Proxy on loopback: it counts, delays, refuses and breaks the requests to a server."""

from __future__ import annotations

import http.client
import http.server
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from multidict import CIMultiDict

__all__ = [
    "EXPIRED_TOKEN",
    "SLOW_DOWN",
    "TOO_MANY_REQUESTS",
    "WRONG_REGION",
    "Answer",
    "Fault",
    "Handler",
    "Proxy",
    "every",
    "run_proxy",
    "run_server",
]


class Answer(NamedTuple):
    """Response of a server."""

    status: int
    headers: dict[str, str]
    data: bytes


class Fault(Enum):
    """Break of a connection."""

    RESET = "the server gets nothing, and the connection is reset"
    HANG = "the server gets nothing, and no response arrives"
    LOST_RESPONSE = "the server performs the request, and the connection closes without a response"
    DROPPED_BODY = "the connection closes after half of the response's body"
    STALLED_BODY = "nothing follows after half of the response's body"


def _s3_error(status: int, code: str, message: str, **headers: str) -> Answer:
    text = f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code>'
    text += f"<Message>{message}</Message><RequestId>1</RequestId></Error>"
    return Answer(status, {"Content-Type": "application/xml", **headers}, text.encode())


SLOW_DOWN = _s3_error(503, "SlowDown", "Please reduce your request rate.")
EXPIRED_TOKEN = _s3_error(400, "ExpiredToken", "The provided token has expired.")
WRONG_REGION = _s3_error(
    301,
    "PermanentRedirect",
    "The bucket must be addressed using the specified endpoint.",
    **{"x-amz-bucket-region": "eu-west-3"},
)
TOO_MANY_REQUESTS = Answer(429, {"Retry-After": "1"}, b"")

Refusal = int | Answer | Fault
"""What the proxy does instead of forwarding: a status (0 forwards), a response or a fault."""


def every(count: int, refusal: Refusal, word: str = "") -> Callable[[str], Refusal]:
    """Return a `Proxy.choose_refusal` for each `count`-th request whose line contains `word`."""
    lock, seen = threading.Lock(), 0

    def choose(line: str) -> Refusal:
        nonlocal seen
        if word not in line:
            return 0
        with lock:
            seen += 1
            return refusal if seen % count == 0 else 0

    return choose


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
    headers
        The headers of these requests.
    max_concurrent
        The largest number of concurrent requests.
    refusals
        The refusals of the next requests.
    choose_refusal
        Returns the refusal of a request line when `refusals` is empty.
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
        self.lock, self.write_lock = threading.Lock(), threading.Lock()
        self.closing = threading.Event()
        self.active = 0
        self.url = ""
        self.reset()

    def reset(self) -> None:
        """Clear the recorded requests, and forward all later requests at once."""
        self.reset_counts()
        self.refusals: list[Refusal] = []
        self.choose_refusal: Callable[[str], Refusal] = lambda _: 0
        self.delay_s = 0.0
        self.callbacks: list[Callable[[], object]] = []
        self.forward: Callable[[Callable[[dict[str, str]], Answer], dict[str, str]], Answer]
        self.forward = lambda send, headers: send(headers)

    def reset_counts(self) -> None:
        """Clear the recorded requests."""
        self.requests: list[str] = []
        self.headers: list[CIMultiDict[str]] = []
        self.max_concurrent = 0

    @contextmanager
    def track_request(self, line: str, headers: dict[str, str]) -> Iterator[Answer | Fault | None]:
        """Record a request; yield its refusal, or None."""
        with self.lock:
            self.requests.append(line)
            self.headers.append(CIMultiDict(headers))
            self.active += 1
            self.max_concurrent = max(self.max_concurrent, self.active)
            refusal = self.refusals.pop(0) if self.refusals else self.choose_refusal(line)
        try:
            time.sleep(self.delay_s)
            if isinstance(refusal, int):
                yield Answer(refusal, {}, b"") if refusal else None
            else:
                yield refusal
        finally:
            with self.lock:
                self.active -= 1
                work = self.callbacks.pop(0) if self.callbacks else None
            if work is not None:
                work()


class Handler(http.server.BaseHTTPRequestHandler):
    """Handler of a proxy's requests; a subclass may change the responses in `answer`."""

    protocol_version = "HTTP/1.1"
    proxy: Proxy

    one_write_at_a_time = False
    """For emulators that compare first and write later: whether the proxy makes both one step."""

    def _handle(self) -> None:
        body = self._read_body()
        replaced = {"transfer-encoding", "content-length"}
        headers = {k: v for k, v in self.headers.items() if k.lower() not in replaced}
        if body:
            headers["Content-Length"] = str(len(body))
        with self.proxy.track_request(f"{self.command} {self.path}", headers) as refusal:
            if isinstance(refusal, Answer):
                response = refusal
            elif refusal is Fault.RESET or refusal is Fault.HANG:
                response = Answer(0, {}, b"")
            elif self.one_write_at_a_time and self.command not in {"GET", "HEAD"}:
                with self.proxy.write_lock:
                    response = self.answer(body, headers)
            else:
                response = self.answer(body, headers)
        if refusal is Fault.HANG:
            self.proxy.closing.wait()
        if refusal is Fault.RESET:  # closing sends RST
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if response.status == 0 or refusal is Fault.LOST_RESPONSE:
            self.close_connection = True
            return
        self._respond(response, refusal)

    def _respond(self, response: Answer, refusal: Answer | Fault | None) -> None:
        self.send_response(response.status)
        for name, value in response.headers.items():
            if name.lower() not in {"transfer-encoding", "connection", "content-length", "date"}:
                self.send_header(name, value)
        data = response.data
        size: str | None = str(len(data))
        if self.command == "HEAD":
            size = CIMultiDict(response.headers).get("Content-Length")
        if size is not None:
            self.send_header("Content-Length", size)
        self.end_headers()
        if refusal is Fault.DROPPED_BODY or refusal is Fault.STALLED_BODY:
            data = data[: len(data) // 2]
            self.close_connection = True
        if self.command != "HEAD":
            self.wfile.write(data)
        if refusal is Fault.STALLED_BODY:
            self.proxy.closing.wait()

    def answer(self, body: bytes, headers: dict[str, str]) -> Answer:
        """Return the response to the request."""
        return self.proxy.forward(partial(self.send, self.command, self.path, body), headers)

    def send(self, command: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        """Send a request to the server and return the response."""
        connection = http.client.HTTPConnection("127.0.0.1", self.proxy.port, timeout=30)
        connection.request(command, path, body or None, headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        return Answer(answer.status, dict(answer.getheaders()), data)

    def _read_body(self) -> bytes:
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


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # further connections would wait for a second


@contextmanager
def run_server(handler: Any) -> Iterator[int]:
    """Run a server and yield its port."""
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def run_proxy(port: int, handler: type[Handler] = Handler) -> Iterator[Proxy]:
    """Run a proxy of the server on a port."""
    proxy = Proxy(port)
    with run_server(type("Handler", (handler,), {"proxy": proxy})) as proxy_port:
        proxy.url = f"http://127.0.0.1:{proxy_port}"
        try:
            yield proxy
        finally:
            proxy.closing.set()
