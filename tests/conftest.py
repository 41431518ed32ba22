"""Servers on loopback, for the tests of every folder that have something far away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stores import servers
from stores.servers import Door

_BUCKETS = {"s3", "gcs"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start a server of S3 or GCS, by fixture or by parameter."""
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        parameters = getattr(item, "callspec", None)
        values = parameters.params.values() if parameters is not None else ()
        names.update(str(value).partition(" ")[0] for value in values if isinstance(value, str))
        if names & _BUCKETS:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="module")
def s3() -> Iterator[Door]:
    """A server that speaks as S3 does."""
    with servers.s3() as door:
        yield door


@pytest.fixture(scope="module")
def gcs() -> Iterator[Door]:
    """A server that speaks as Google's storage does."""
    with servers.gcs() as door:
        yield door


@pytest.fixture(params=["s3", "gcs"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Door, str]:
    """A kind of store, its server, and a path that is empty, with a slash at its end."""
    door: Door = request.getfixturevalue(request.param)
    door.delay_s, door.refusals = 0.0, []
    return request.param, door, f"{tmp_path.name}/"
