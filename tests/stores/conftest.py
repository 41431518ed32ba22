"""Fixtures with every kind of store, and with an environment without settings of stores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from stores.clouds import open_cloud
from stores.kinds import KINDS
from tessarr.store import Store
from tessarr.store.object.open import open_object_url

_CLOUDS = {"versitygw": "s3", "fake_gcs": "gs", "azurite": "az"}
"""The servers of clouds, and the schemes of their URLs."""


@pytest.fixture(params=[*KINDS, *_CLOUDS])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Yield an empty store of each kind."""
    if request.param in KINDS:
        yield KINDS[request.param](tmp_path)
        return
    port = request.getfixturevalue(request.param)
    with open_cloud(_CLOUDS[request.param], port) as cloud:
        yield open_object_url(cloud.url("root"), cloud.storage_options)


@pytest.fixture
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Remove all variables and files that settings of object stores may come from."""
    words = ("AWS_", "AZURE_", "GOOGLE_", "STORAGE_", "SERVICE_", "IDENTITY_", "CLOUDSDK_")
    for name in list(os.environ):
        if name.startswith(words) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
