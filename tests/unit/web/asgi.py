"""Requests to an ASGI application without a server."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np


@dataclass(frozen=True)
class Reply:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def numbers(self) -> np.ndarray:
        shape = [int(word) for word in self.headers["tessarr-shape"].split(",") if word]
        return np.frombuffer(self.body, self.headers["tessarr-dtype"]).reshape(shape)


def send_request(app: Any, url: str, *, method: str = "GET", **headers: str) -> Reply:
    """Send a request and return the response; the default Host is localhost."""
    parts = urlsplit(url)
    pairs = {"host": "localhost", **headers}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": parts.path,
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in pairs.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    messages: list[dict[str, Any]] = []

    requests = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> dict[str, Any]:
        for request in requests:
            return request
        await asyncio.sleep(60)  # the client stays connected
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        messages.append(message)

    asyncio.run(app(scope, receive, send))
    start, *bodies = messages
    return Reply(
        start["status"],
        {name.decode().lower(): value.decode() for name, value in start["headers"]},
        b"".join(message.get("body", b"") for message in bodies),
    )
