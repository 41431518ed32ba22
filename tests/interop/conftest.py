"""Selection of comparisons with other Zarr libraries, which run in the exhaustive tier.

The fast tier does not import these modules, because they import the other libraries.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tiers import is_fast_tier

_FOLDER = Path(__file__).parent
_FAST_MODULES = {"test_corpus.py", "test_golden.py"}
"""Modules that read files of other libraries without importing any of them."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the comparisons out of the fast tier."""
    compares = collection_path.suffix == ".py" and collection_path.name not in _FAST_MODULES
    return True if compares and is_fast_tier(config) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the comparisons, so that markers select these tests."""
    for item in items:
        if item.path.is_relative_to(_FOLDER) and item.path.name not in _FAST_MODULES:
            item.add_marker(pytest.mark.slow)
