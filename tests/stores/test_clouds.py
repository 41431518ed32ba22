"""The fixtures of real servers: buckets, faults of the proxy, and the end of the processes."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep

import numpy as np
import pytest

import tessarr
from stores.clouds import Cloud, WebServer
from stores.proxy import SLOW_DOWN, Answer, Fault, Proxy, every
from stores.servers import file_server


def test_array_round_trips_in_bucket(cloud: Cloud) -> None:
    """Storage options lead requests to the server, and another client sees the stored values."""
    values = np.arange(100).reshape(10, 10)
    options = cloud.storage_options
    tessarr.create_array(
        cloud.url("a"), data=values, chunks=(5, 5), compressors=None, storage_options=options
    )
    assert cloud.proxy.requests
    keys = [f"a/c/{i}/{j}" for i in (0, 1) for j in (0, 1)]
    assert cloud.list() == [*keys, "a/zarr.json"]
    assert cloud.get(keys[3]) == values[5:, 5:].tobytes()
    cloud.put(keys[0], cloud.get(keys[3]) or b"")
    cloud.delete(keys[3])
    assert cloud.get(keys[3]) is None
    result = tessarr.open_array(cloud.url("a"), mode="r", storage_options=options)[:]
    assert (result[:5, :5] == values[5:, 5:]).all()
    assert (result[5:, :5] == values[5:, :5]).all()
    assert (result[5:, 5:] == 0).all()


def test_buckets_are_empty(cloud: Cloud) -> None:
    """Each test has a bucket and a proxy without settings of other tests."""
    assert cloud.list() == []
    assert cloud.proxy.requests == []


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Proxy]:
    """Yield the proxy of a web server with the file ``a`` of 100 bytes."""
    (tmp_path / "a").write_bytes(bytes(100))
    with file_server(tmp_path) as proxy:
        yield proxy


def fetch(proxy: Proxy, timeout: float = 30) -> bytes:
    """Return the body of the file ``a``."""
    with urllib.request.urlopen(f"{proxy.url}/a", timeout=timeout) as response:
        data: bytes = response.read()
    return data


def test_proxy_refuses_requests(files: Proxy) -> None:
    """Statuses and whole responses stand for those of the server."""
    files.refusals = [429, SLOW_DOWN, 0]
    statuses, bodies = [], []
    for _ in range(2):
        with pytest.raises(urllib.error.HTTPError) as caught:
            fetch(files)
        statuses.append(caught.value.code)
        bodies.append(caught.value.read())
        caught.value.close()
    assert statuses == [429, 503]
    assert bodies == [b"", SLOW_DOWN.data]
    assert fetch(files) == bytes(100)
    assert files.requests == ["GET /a"] * 3


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault.RESET, ConnectionResetError),
        (Fault.LOST_RESPONSE, http.client.RemoteDisconnected),
        (Fault.DROPPED_BODY, http.client.IncompleteRead),
        (Fault.STALLED_BODY, TimeoutError),
        (Fault.HANG, TimeoutError),
    ],
)
def test_proxy_breaks_each_second_connection(
    files: Proxy, fault: Fault, error: type[Exception]
) -> None:
    """The other requests succeed."""
    files.choose_refusal = every(2, fault, word="GET")
    timeout = 0.2 if error is TimeoutError else 30
    for _ in range(2):
        assert fetch(files) == bytes(100)
        with pytest.raises(error):
            fetch(files, timeout)


@pytest.mark.parametrize(("fault", "count"), [(Fault.LOST_RESPONSE, 1), (Fault.RESET, 0)])
def test_server_performs_requests_whose_response_is_lost(
    files: Proxy, fault: Fault, count: int
) -> None:
    """After a reset, the server has seen nothing."""
    forwarded: list[dict[str, str]] = []

    def forward(send: Callable[[dict[str, str]], Answer], headers: dict[str, str]) -> Answer:
        forwarded.append(headers)
        return send(headers)

    files.forward = forward
    files.refusals = [fault]
    with pytest.raises(ConnectionError):
        fetch(files)
    assert len(forwarded) == count


@pytest.mark.parametrize(
    ("site", "statuses"),
    [
        ("ranges", (206, 404)),
        ("listing", (206, 404)),
        ("whole", (200, 404)),
        ("redirect", (206, 404)),
        ("gzip", (200, 404)),
        ("forbidden", (206, 403)),
    ],
)
def test_web_server_has_sites(nginx: WebServer, site: str, statuses: tuple[int, int]) -> None:
    """Each site handles ranges, absent files and folders as its name says."""
    (nginx.folder / "site").mkdir(exist_ok=True)
    (nginx.folder / "site" / "a").write_bytes(bytes(100))
    url = f"http://127.0.0.1:{nginx.ports[site]}/site/"
    headers = {"Range": "bytes=90-"}
    if site == "gzip":
        headers = {"Accept-Encoding": "gzip"}
    with urllib.request.urlopen(urllib.request.Request(f"{url}a", headers=headers)) as response:
        assert response.status == statuses[0]
        assert (response.headers["Content-Encoding"] == "gzip") == (site == "gzip")
        assert len(response.read()) == (10 if statuses[0] == 206 else 100) or site == "gzip"
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{url}none")
    assert caught.value.code == statuses[1]
    caught.value.close()
    if site == "listing":
        with urllib.request.urlopen(url) as response:
            assert b'href="a"' in response.read()


_PROGRAM = """
import sys
from pathlib import Path
from stores.clouds import run_versitygw
with run_versitygw(Path(sys.argv[1])) as port:
    print(port, flush=True)
    input()
"""


def test_killed_tests_leave_no_server(versitygw: int, tmp_path: Path) -> None:
    """The server ends when the process that started it was killed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(tmp_path)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
    deadline = monotonic() + 30
    while monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            return
        sleep(0.02)
    pytest.fail("the server still accepts connections")
