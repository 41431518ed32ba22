"""Selection of tests with programs that use Zarr, which run in the exhaustive tier.

The fast tier does not import these modules, because they import zarr-python, xarray or Dask.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tiers import is_fast_tier

_FOLDER = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the modules out of the fast tier."""
    return True if collection_path.suffix == ".py" and is_fast_tier(config) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests as slow, so that markers select them."""
    for item in items:
        if item.path.is_relative_to(_FOLDER):
            item.add_marker(pytest.mark.slow)
