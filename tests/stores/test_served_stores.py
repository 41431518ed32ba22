"""Requests that `tessarr.serve` sends to remote stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest

import tessarr
from stores.clouds import Cloud
from stores.servers import file_server
from tessarr.store.object.open import open_object_url

SIZE = 3 << 20
VALUE = np.random.default_rng(1).bytes(SIZE)


def send(url: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        with urlopen(Request(url, method=method, headers=named), timeout=30) as response:
            return response.status, dict(response.headers), response.read()
    except HTTPError as error:
        return error.code, dict(error.headers), error.read()


def check_requests(proxy: Any, url: str) -> None:
    """Read the value ``v`` of a server in several forms, and check each request to its store."""

    def read(method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
        proxy.reset_counts()
        return send(f"{url}v", method, **headers)

    def ranges() -> list[str]:
        return [headers.get("Range", "") for headers in proxy.headers]

    assert read()[2] == VALUE
    assert len(proxy.requests) == 1
    assert read(range="bytes=1000-1999")[2] == VALUE[1000:2000]
    assert ranges() == ["bytes=1000-1999"]
    assert read(range="bytes=-100")[2] == VALUE[-100:]
    assert len(proxy.requests) == len(ranges()) <= 2
    status, headers, _ = read("HEAD")
    assert (status, headers["content-length"]) == (200, str(SIZE))
    assert ranges() == ["bytes=0-0"]
    tag = headers["etag"]
    assert read(if_none_match=tag)[0] == 304
    assert ranges() == ["bytes=0-0"]
    status, headers, _ = read(range=f"bytes={SIZE}-")
    assert (status, headers["content-range"]) == (416, f"bytes */{SIZE}")
    assert sum(len(text) > 0 for text in ranges()) >= len(ranges()) - 1


def test_served_bucket_gets_one_request_for_each_range(cloud: Cloud) -> None:
    open_object_url(cloud.url("data"), cloud.storage_options).put("v", VALUE)
    with tessarr.serve(cloud.url("data"), storage_options=cloud.storage_options) as server:
        check_requests(cloud.proxy, server.url)


@pytest.mark.slow
def test_served_web_server_gets_one_request_for_each_range(tmp_path: Path) -> None:
    (tmp_path / "v").write_bytes(VALUE)
    with file_server(tmp_path) as proxy, tessarr.serve(proxy.url) as server:
        check_requests(proxy, server.url)


def test_error_of_bucket_hides_its_address(cloud: Cloud) -> None:
    """The client sees the kind of the error, and neither the bucket nor a key."""
    options = {**cloud.storage_options, "retries": 0}
    with tessarr.serve(cloud.url("data"), storage_options=options) as server:
        cloud.proxy.refusals = [403]
        status, _, body = send(f"{server.url}v")
    assert (status, body) == (502, b"the store failed: access_denied\n")
