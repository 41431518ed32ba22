"""Fixture with every kind of store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stores.kinds import KINDS

if TYPE_CHECKING:
    from pathlib import Path

    from tessarr.store import Store


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Yield an empty store of each kind."""
    return KINDS[request.param](tmp_path)
