"""What all tests share: the profiles of Hypothesis, and a place for the files of examples."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pathlib import Path

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large)

# The same examples each time: a failure of CI is a failure everywhere.
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=_SLOW,
)
# Other examples each time, and ten times as many: `just fuzz`.
settings.register_profile(
    "fuzz", max_examples=1000, deadline=None, print_blob=True, suppress_health_check=_SLOW
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(autouse=True)
def _examples_write_elsewhere(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Docstrings write files by relative names: give each a folder of its own."""
    if isinstance(request.node, pytest.DoctestItem):
        folder: Path = tmp_path_factory.mktemp("example")
        request.getfixturevalue("monkeypatch").chdir(folder)
