"""HTTP file server with latency: ``python bench/slow_server.py FOLDER SECONDS`` prints its port.

The server sends each response SECONDS after its request. It caches responses in memory, so that a
response takes little work. It acknowledges uploads and discards them.
"""

from __future__ import annotations

import asyncio
import re
import sys
from functools import cache
from itertools import count as counting
from pathlib import Path

_RANGE = re.compile(rb"\r\nrange: *bytes=(\d*)-(\d*)", re.IGNORECASE)
_COUNT = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_EXPECTS = re.compile(rb"\r\nexpect: *100-continue", re.IGNORECASE)
_STORED = b'HTTP/1.1 200 OK\r\nETag: "%x"\r\nContent-Length: 0\r\n\r\n'
_NUMBERS = counting(1)


@cache
def read_file(folder: str, path: str) -> bytes | None:
    """Return the bytes of a file, or None."""
    file = Path(folder + path)
    return file.read_bytes() if file.is_file() else None


@cache
def make_response(
    folder: str, method: bytes, path: str, wanted: tuple[bytes, bytes] | None
) -> bytes:
    """Return the response to a request for a file, or a range of it."""
    whole = read_file(folder, path)
    if whole is None:
        return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    part, status, span = whole, b"200 OK", b""
    if wanted:
        first, last = wanted
        begin = int(first) if first else max(len(whole) - int(last), 0)
        end = min(int(last) + 1, len(whole)) if first and last else len(whole)
        if begin >= end:
            return b"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\n\r\n"
        part, status = whole[begin:end], b"206 Partial Content"
        span = b"Content-Range: bytes %d-%d/%d\r\n" % (begin, end - 1, len(whole))
    head = b'HTTP/1.1 %s\r\nETag: "%x"\r\nContent-Length: %d\r\n%s\r\n'
    head %= status, hash(whole) & 2**64 - 1, len(part), span
    return head if method == b"HEAD" else head + part


class Connection(asyncio.Protocol):
    """Protocol that answers requests, one after another.

    Parameters
    ----------
    folder
        The folder that is served.
    delay
        Seconds between a request and its response.
    """

    def __init__(self, folder: str, delay: float) -> None:
        self._folder = folder
        self._delay = delay
        self._received = b""
        self._head: bytes | None = None  # of a request whose body is incomplete

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of the responses."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each complete request."""
        self._received += data
        while self._head is not None or (end := self._received.find(b"\r\n\r\n")) >= 0:
            if self._head is None:
                self._head, self._received = self._received[: end + 4], self._received[end + 4 :]
                if _EXPECTS.search(self._head):
                    self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            count = _COUNT.search(self._head)
            body = int(count[1]) if count else 0
            if len(self._received) < body:
                return
            request, self._head, self._received = self._head, None, self._received[body:]
            if self._delay:
                asyncio.get_running_loop().call_later(self._delay, self._answer, request)
            else:
                self._answer(request)

    def _answer(self, request: bytes) -> None:
        method, path = request.split(b" ", 2)[:2]
        if method == b"PUT":
            self._transport.write(_STORED % next(_NUMBERS))
            return
        wanted = _RANGE.search(request)
        groups = (wanted[1], wanted[2]) if wanted else None
        self._transport.write(make_response(self._folder, method, path.decode(), groups))


async def serve(folder: str, delay: float) -> None:
    """Serve the folder until the process ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Connection(folder, delay), "127.0.0.1", 0, backlog=1024
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], float(sys.argv[2])))
