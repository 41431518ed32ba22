"""Servers on loopback: S3, GCS and HTTP files, with a proxy that counts and refuses requests."""

from __future__ import annotations

import http.server
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import unquote
from urllib.request import Request, urlopen

import pytest

from stores import clouds
from stores.proxy import Answer, Handler, Proxy, run_proxy, run_server

__all__ = [
    "QUICK_RETRIES",
    "Answer",
    "Files",
    "Proxy",
    "file_server",
    "gcs",
    "kvstore_spec",
    "run_server",
    "s3",
    "take_requests",
]

QUICK_RETRIES = {"max_retries": 4, "initial_delay": "1ms", "max_delay": "2ms"}
"""A spec of retries without a wait."""


_KEYS = {"AWS_ACCESS_KEY_ID": clouds.KEYS["key"], "AWS_SECRET_ACCESS_KEY": clouds.KEYS["secret"]}


class _MotoHandler(Handler):
    """Handler for moto, which compares first and writes later."""

    one_write_at_a_time = True


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


def take_requests(proxy: Proxy, word: str = "") -> list[str]:
    """Return the requests since the last call that contain a word."""
    taken = [line for line in proxy.requests if word in unquote(line)]
    proxy.reset_counts()
    return taken


@contextmanager
def s3() -> Iterator[Proxy]:
    """Run a server of the S3 protocol, with the bucket ``bucket``."""
    names = {
        "AWS_ACCESS_KEY_ID": clouds.KEYS["key"],
        "AWS_SECRET_ACCESS_KEY": clouds.KEYS["secret"],
    }
    with (
        TemporaryDirectory() as folder,
        clouds.run_versitygw(Path(folder)) as port,
        _environment(**names),
        run_proxy(port) as proxy,
    ):
        Path(folder, "data", "bucket").mkdir()
        yield proxy


@contextmanager
def moto() -> Iterator[Proxy]:
    """Run an emulator of S3 that accepts all credentials, with the bucket ``bucket``."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        _, port = server.get_host_and_port()
        request = Request(f"http://127.0.0.1:{port}/bucket", method="PUT")
        request.add_header("Host", "s3.amazonaws.com")
        urlopen(request, timeout=30).close()
        with _environment(**_KEYS), run_proxy(port, _MotoHandler) as proxy:
            yield proxy
    finally:
        server.stop()


@contextmanager
def gcs() -> Iterator[Proxy]:
    """Run a server of the GCS protocol, with the bucket ``bucket``."""
    with TemporaryDirectory() as folder, clouds.run_fake_gcs(Path(folder)) as port:
        url = f"http://127.0.0.1:{port}/storage/v1/b?project=project"
        request = Request(url, b'{"name": "bucket"}', {"Content-Type": "application/json"})
        urlopen(request, timeout=30).close()
        with (
            run_proxy(port, clouds.GcsHandler) as proxy,
            _environment(TENSORSTORE_GCS_HTTP_URL=proxy.url),
        ):
            yield proxy


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
