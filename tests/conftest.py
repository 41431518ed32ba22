"""Fixtures of all folders: servers on loopback, and options of the process that tests change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from stores import clouds, servers
from stores.clouds import Cloud, WebServer
from stores.servers import Proxy
from tessarr.options import configure, current

_SERVERS = {"s3", "moto", "gcs", "cloud", "versitygw", "fake_gcs", "azurite", "nginx"}

# Otherwise gcsfs asks for the kind of each bucket by gRPC, which no test server has, and waits.
os.environ.setdefault("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start the server of a cloud or nginx, by fixture or by parameter."""
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        parameters = getattr(item, "callspec", None)
        values = parameters.params.values() if parameters is not None else ()
        names.update(str(value).partition(" ")[0] for value in values if isinstance(value, str))
        if names & _SERVERS:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _keep_options() -> Iterator[None]:
    """Restore the options of the process after each test."""
    before = current()
    yield
    if current() != before:
        configure(**{field.name: getattr(before, field.name) for field in fields(before)})


@pytest.fixture(scope="module")
def s3() -> Iterator[Proxy]:
    """Yield an S3 server."""
    with servers.s3() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def moto() -> Iterator[Proxy]:
    """Yield an S3 emulator for any credentials, regions and settings: no real server takes all."""
    with servers.moto() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def gcs() -> Iterator[Proxy]:
    """Yield a GCS server."""
    with servers.gcs() as proxy:
        yield proxy


@pytest.fixture(params=["s3", "gcs"])
def remote_path(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Proxy, str]:
    """Return a kind of store, its server, and an empty path that ends with a slash."""
    proxy: Proxy = request.getfixturevalue(request.param)
    proxy.delay_s, proxy.refusals = 0.0, []
    return request.param, proxy, f"{tmp_path.name}/"


@pytest.fixture(scope="session")
def versitygw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Yield the port of an S3 server."""
    with clouds.run_versitygw(tmp_path_factory.mktemp("versitygw")) as port:
        yield port


@pytest.fixture(scope="session")
def fake_gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Yield the port of a GCS server."""
    with clouds.run_fake_gcs(tmp_path_factory.mktemp("fake-gcs")) as port:
        yield port


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Yield the port of an Azure server."""
    with clouds.run_azurite(tmp_path_factory.mktemp("azurite")) as port:
        yield port


@pytest.fixture(scope="session")
def nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """Yield a web server."""
    with clouds.run_nginx(tmp_path_factory.mktemp("nginx")) as server:
        yield server


@pytest.fixture(params=["s3", "gs", "az"])
def cloud(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    """Yield a new bucket on a server of each kind."""
    name = {"s3": "versitygw", "gs": "fake_gcs", "az": "azurite"}[request.param]
    with clouds.open_cloud(request.param, request.getfixturevalue(name)) as bucket:
        yield bucket
