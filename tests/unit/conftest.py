"""Fixtures of stores and formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tessarr.stores import LocalStore, MemoryStore


@pytest.fixture(params=["memory", "local"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path / "store")


@pytest.fixture(params=[2, 3])
def zarr_format(request: pytest.FixtureRequest) -> Any:
    return request.param
