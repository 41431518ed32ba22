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
from tessarr.store import Store
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


def test_each_store_is_served(store: Store) -> None:
    """Values, parts, sizes and listings are those of the store."""
    store.put("a/v", VALUE[:5000])
    store.put("a/empty", b"")
    with tessarr.serve(store, listing=True) as server:
        assert send(f"{server.url}a/v")[2] == VALUE[:5000]
        assert send(f"{server.url}a/v", range="bytes=10-19")[2] == VALUE[10:20]
        assert send(f"{server.url}a/v", range="bytes=-10")[2] == VALUE[4990:5000]
        assert send(f"{server.url}a/v", range="bytes=4990-9999")[2] == VALUE[4990:5000]
        assert send(f"{server.url}a/v", range="bytes=5000-")[0] == 416
        status, headers, _ = send(f"{server.url}a/v", "HEAD")
        assert (status, headers["content-length"]) == (200, "5000")
        if "etag" in headers:
            assert send(f"{server.url}a/v", if_none_match=headers["etag"])[0] == 304
        assert send(f"{server.url}a/empty")[::2] == (200, b"")
        assert send(f"{server.url}a/empty", range="bytes=0-")[0] == 416
        assert send(f"{server.url}a/none")[0] == send(f"{server.url}a")[0] == 404
        assert b'href="v"' in send(f"{server.url}a/")[2]


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
