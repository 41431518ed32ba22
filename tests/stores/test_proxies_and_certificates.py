"""Forward proxies and certificates of own authorities."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tessarr
from stores.servers import file_server
from stores.tls import CA_FILE, run_forward_proxy, run_tls_server
from tessarr.errors import StoreError


@pytest.fixture(autouse=True)
def no_proxy_of_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return a folder with the array ``a``."""
    folder = tmp_path / "files"
    tessarr.create_array(folder / "a", data=[1, 2, 3])
    return folder


@pytest.fixture
def url(files: Path, tmp_path: Path) -> Iterator[str]:
    """Yield the URL of a web server with a certificate of an own authority."""
    with run_tls_server(files, tmp_path) as url:
        yield url


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[str]]]:
    """Yield the URL of a proxy and its requests."""
    with run_forward_proxy() as proxy:
        yield proxy


def read(url: str, **options: object) -> list[int]:
    array = tessarr.open_array(f"{url}/a", mode="r", storage_options={"retries": 0, **options})
    values: list[int] = array[:].tolist()
    return values


def test_ca_bundle_makes_server_trusted(url: str, tmp_path: Path) -> None:
    assert read(url, ca_bundle=tmp_path / CA_FILE) == [1, 2, 3]
    assert read(url, verify=str(tmp_path / CA_FILE)) == [1, 2, 3]


def test_unknown_authority_raises(url: str) -> None:
    with pytest.raises(StoreError, match=r"cannot read https://127.0.0.1.*certificate"):
        read(url)
    assert read(url, verify=False) == [1, 2, 3]


def test_https_requests_tunnel_through_proxy(
    url: str, proxy: tuple[str, list[str]], tmp_path: Path
) -> None:
    assert read(url, ca_bundle=tmp_path / CA_FILE, proxy=proxy[0]) == [1, 2, 3]
    assert set(proxy[1]) == {f"CONNECT {url.removeprefix('https://')}"}


def test_http_requests_name_whole_url_at_proxy(
    files: Path, proxy: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with file_server(files) as server:
        assert read(server.url, proxy=proxy[0]) == [1, 2, 3]
        assert proxy[1][0].startswith(f"GET {server.url}/a/")
        count = len(proxy[1])
        monkeypatch.setenv("HTTP_PROXY", proxy[0])
        # Connections with the same settings share a client, which reads the environment once.
        assert read(server.url, connect_timeout=7.5) == [1, 2, 3]
        assert len(proxy[1]) > count
        count = len(proxy[1])
        assert read(server.url, proxy="") == [1, 2, 3]
        assert read(server.url, proxy=proxy[0], no_proxy="127.0.0.1") == [1, 2, 3]
        assert len(proxy[1]) == count


def test_absent_proxy_raises(url: str) -> None:
    with pytest.raises(StoreError, match=r"cannot connect.*check the address.*proxy"):
        read(url, proxy="http://127.0.0.1:1", verify=False)
