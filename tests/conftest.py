"""Fixtures with servers on loopback, for the tests of remote stores in every folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stores import servers
from stores.servers import Proxy

_BUCKETS = {"s3", "gcs"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start an S3 or GCS server, by fixture or by parameter."""
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        parameters = getattr(item, "callspec", None)
        values = parameters.params.values() if parameters is not None else ()
        names.update(str(value).partition(" ")[0] for value in values if isinstance(value, str))
        if names & _BUCKETS:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def s3() -> Iterator[Proxy]:
    """Yield an S3 server."""
    with servers.s3() as proxy:
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
