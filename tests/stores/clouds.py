"""Real servers of S3, GCS, Azure and HTTP on loopback, which `just servers` installs."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from stores.proxy import Answer, Handler, Proxy, run_proxy

__all__ = [
    "AZURE_ACCOUNT",
    "AZURE_KEY",
    "KEYS",
    "Cloud",
    "GcsHandler",
    "WebServer",
    "make_storage_options",
    "open_cloud",
    "run_azurite",
    "run_fake_gcs",
    "run_nginx",
    "run_versitygw",
]

FOLDER = Path(os.environ.get("TESSARR_SERVERS") or Path.home() / ".cache" / "tessarr-servers")
KEYS = {"key": "key", "secret": "secret"}
"""Credentials of the S3 server."""

AZURE_ACCOUNT = "devstoreaccount1"
AZURE_KEY = (  # the public key of all Azure emulators
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

# The shell kills the server when its input closes: also after the tests themselves were killed.
_SHELL = '"$@" & server=$!; read -r _; kill -KILL "$server"'


def _find_program(name: str) -> str:
    """Return the path of a server's program; without it, skip the test."""
    path = os.pathsep.join([str(FOLDER / "bin"), os.environ.get("PATH", ""), "/usr/sbin"])
    program = shutil.which(name, path=path)
    if program is None:
        pytest.skip(f"{name} is not installed: `just servers` installs it")
    return program


def _find_ports(count: int) -> list[int]:
    """Return unused ports."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(sock.getsockname()[1]) for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


@contextmanager
def _run_program(port: int, folder: Path, *command: str, **environment: str) -> Iterator[int]:
    """Run a server; yield its port as soon as it accepts connections."""
    log = folder / "log.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["sh", "-c", _SHELL, "sh", *command],
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C ends the tests, and their end ends the server
        )
    with process:  # closes the input and waits
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    text = log.read_text(errors="replace")
                    raise TimeoutError(f"{command[0]} did not start: {text}") from error
                time.sleep(0.02)
        yield port


def run_versitygw(folder: Path) -> AbstractContextManager[int]:
    """Run a server of S3, with the credentials `KEYS`, and yield its port."""
    (port,) = _find_ports(1)
    data = folder / "data"
    data.mkdir()
    try:  # the server stores a value and its ETag in one step only with extended attributes
        os.setxattr(data, "user.test", b"")
    except (AttributeError, OSError):
        pytest.skip("versitygw needs a temporary folder with extended attributes")
    program = _find_program("versitygw")
    arguments = ["--port", f"127.0.0.1:{port}", "--quiet", "posix"]
    keys = {"ROOT_ACCESS_KEY": KEYS["key"], "ROOT_SECRET_KEY": KEYS["secret"]}
    return _run_program(port, folder, program, *arguments, str(data), **keys)


def run_fake_gcs(folder: Path) -> AbstractContextManager[int]:
    """Run a server of GCS, and yield its port."""
    (port,) = _find_ports(1)
    program = _find_program("fake-gcs-server")
    arguments = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-log-level", "error"]
    arguments += ["-public-host", "127.0.0.1"]  # the host of XML requests, with any port
    arguments += ["-backend", "filesystem", "-filesystem-root", "data"]
    return _run_program(port, folder, program, *arguments)


class GcsHandler(Handler):
    """Handler that checks the precondition of deletions, which fake-gcs-server ignores."""

    one_write_at_a_time = True

    def answer(self, body: bytes, headers: dict[str, str]) -> Answer:
        path, _, query = self.path.partition("?")
        expected = parse_qs(query).get("ifGenerationMatch")
        if self.command == "DELETE" and expected is not None:
            current = self.send("GET", path, b"", {})
            generation = json.loads(current.data)["generation"] if current.status == 200 else "0"
            if [generation] != expected:
                return Answer(412, {}, b"")
        return super().answer(body, headers)


def run_azurite(folder: Path) -> AbstractContextManager[int]:
    """Run a server of Azure blobs, with the account `AZURE_ACCOUNT`, and yield its port."""
    (port,) = _find_ports(1)
    program = _find_program("azurite-blob")
    arguments = ["--silent", "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    arguments += ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"]
    return _run_program(port, folder, program, *arguments)


@dataclass(frozen=True)
class Cloud:
    """New bucket of a server, behind a proxy.

    `get`, `put`, `delete` and `list` use the client library of fsspec, past the proxy.
    """

    kind: str
    bucket: str
    proxy: Proxy
    storage_options: dict[str, Any]
    fs: Any

    def url(self, path: str = "") -> str:
        """Return the URL of a path in the bucket."""
        return f"{self.kind}://{self.bucket}/{path}"

    def get(self, key: str) -> bytes | None:
        """Return a stored value, or None."""
        try:
            value: bytes = self.fs.cat_file(f"{self.bucket}/{key}")
        except FileNotFoundError:
            return None
        return value

    def put(self, key: str, value: bytes) -> None:
        """Store a value."""
        self.fs.pipe_file(f"{self.bucket}/{key}", value)

    def delete(self, key: str) -> None:
        """Delete a value."""
        self.fs.rm_file(f"{self.bucket}/{key}")

    def list(self, prefix: str = "") -> list[str]:
        """Return the keys that start with a prefix, sorted."""
        keys = [path.removeprefix(f"{self.bucket}/") for path in self.fs.find(self.bucket)]
        return sorted(key for key in keys if key.startswith(prefix))


def make_storage_options(kind: str, url: str) -> dict[str, Any]:
    """Return the storage options of a server."""
    if kind == "s3":
        return {"endpoint_url": url, **KEYS}
    if kind == "gs":
        return {"endpoint_url": url, "token": "anon", "project": "project"}
    parts = {
        "DefaultEndpointsProtocol": "http",
        "AccountName": AZURE_ACCOUNT,
        "AccountKey": AZURE_KEY,
        "BlobEndpoint": f"{url}/{AZURE_ACCOUNT}",
    }
    return {"connection_string": ";".join(f"{name}={value}" for name, value in parts.items())}


@contextmanager
def open_cloud(kind: str, port: int) -> Iterator[Cloud]:
    """Make a bucket on the server of the kind "s3", "gs" or "az", and run a proxy of it."""
    fsspec = pytest.importorskip("fsspec")
    pytest.importorskip({"s3": "s3fs", "gs": "gcsfs", "az": "adlfs"}[kind])
    options = make_storage_options(kind, f"http://127.0.0.1:{port}")
    fs = fsspec.filesystem(kind, **options, skip_instance_cache=True, use_listings_cache=False)
    bucket = f"test-{uuid.uuid4().hex}"
    fs.mkdir(bucket)
    with run_proxy(port, GcsHandler if kind == "gs" else Handler) as proxy:
        yield Cloud(kind, bucket, proxy, make_storage_options(kind, proxy.url), fs)


@dataclass(frozen=True)
class WebServer:
    """Web server of the files in a folder, with one port for each configuration in `ports`."""

    folder: Path
    ports: dict[str, int]


_SITES = {
    "ranges": "root {folder};",  # no listings
    "listing": "root {folder}; autoindex on;",
    "whole": "root {folder}; max_ranges 0;",
    "redirect": "location / {{ return 302 http://127.0.0.1:{ranges}$request_uri; }}",
    "gzip": "root {folder}; gzip on; gzip_types *; gzip_min_length 1; gzip_proxied any;",
    "forbidden": "root {folder}; error_page 404 =403 /none; location = /none {{ return 403; }}",
}
_NGINX = """
daemon off; master_process off; pid nginx.pid; error_log stderr;
events {{ worker_connections 1024; }}
http {{
access_log off; default_type application/octet-stream; keepalive_requests 100000;
client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4;
scgi_temp_path t5;
{sites}
}}
"""


@contextmanager
def run_nginx(folder: Path) -> Iterator[WebServer]:
    """Run a web server."""
    program = _find_program("nginx")
    data = folder / "data"
    data.mkdir()
    ports = dict(zip(_SITES, _find_ports(len(_SITES)), strict=True))
    sites = [
        f"server {{ listen 127.0.0.1:{ports[name]}; {text.format(folder=data, **ports)} }}"
        for name, text in _SITES.items()
    ]
    (folder / "nginx.conf").write_text(_NGINX.format(sites="\n".join(sites)))
    arguments = ["-p", str(folder), "-c", "nginx.conf", "-e", "stderr"]
    with _run_program(ports["forbidden"], folder, program, *arguments):
        yield WebServer(data, ports)
