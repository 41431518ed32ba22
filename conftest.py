"""Configuration of all tests: Hypothesis profiles, and a folder for each docstring example.

Plain ``pytest`` is the fast tier (``-m`` in pyproject.toml): it draws a quarter of the
Hypothesis examples. ``pytest -m ""`` (``just test-all``) is the exhaustive tier.
``HYPOTHESIS_PROFILE=search`` looks for new counterexamples, ``HYPOTHESIS_PROFILE=fuzz`` tries ten
times as many examples as the exhaustive tier.
"""

from __future__ import annotations

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

from tiers import is_fast_tier

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)

# The same examples in every run, so that a failure in CI is reproducible.
settings.register_profile(
    "exhaustive",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=_SLOW,
)
settings.register_profile("fast", settings.get_profile("exhaustive"), max_examples=25)
settings.register_profile("search", deadline=None, suppress_health_check=_SLOW)
settings.register_profile(
    "fuzz", max_examples=1000, deadline=None, print_blob=True, suppress_health_check=_SLOW
)

# A shell starts background programs with Ctrl-C ignored. Programs that tests start would inherit
# this, and the tests of Ctrl-C would wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the Hypothesis profile of the tier."""
    tier = "fast" if is_fast_tier(config) else "exhaustive"
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", tier))


def pytest_report_header(config: pytest.Config) -> str | None:
    """Report which tests the fast tier leaves out."""
    if is_fast_tier(config):
        return 'fast tier: tests marked slow are left out (pytest -m "" runs every test)'
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run each docstring example once: `tessarr.zarr` has functions of `tessarr`.

    Two runs in one process could create the same in-memory store.
    """
    by_docstring: dict[str, pytest.Item] = {}
    repeated = [
        item
        for item in items
        if isinstance(item, pytest.DoctestItem)
        and by_docstring.setdefault(item.dtest.docstring, item) is not item
    ]
    if repeated:
        config.hook.pytest_deselected(items=repeated)
        left_out = set(repeated)
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Take the test items out of garbage collection: scanning them takes 0.4 s each time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _run_examples_in_new_folder(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Run each docstring example in a new folder, because examples write relative files."""
    if isinstance(request.node, pytest.DoctestItem):
        folder = tmp_path_factory.mktemp("example")
        request.getfixturevalue("monkeypatch").chdir(folder)
