"""What all tests share: the profiles of Hypothesis, and a folder for each example of a docstring.

``HYPOTHESIS_PROFILE=search pytest tests/property`` looks for new counterexamples,
``HYPOTHESIS_PROFILE=fuzz`` for ten times as long: numbers of examples there are multiples of the
profile's.
"""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

_SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)

# The same examples in every run: what fails in CI fails everywhere.
settings.register_profile(
    "fixed",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=_SLOW,
)
settings.register_profile("search", deadline=None, suppress_health_check=_SLOW)
settings.register_profile(
    "fuzz", max_examples=1000, deadline=None, print_blob=True, suppress_health_check=_SLOW
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# A shell starts what it runs in the background with Ctrl-C ignored, which the programs
# that tests start would inherit; the tests of Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _examples_write_elsewhere(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Docstrings write files by relative names: each gets a folder of its own."""
    if isinstance(request.node, pytest.DoctestItem):
        folder = tmp_path_factory.mktemp("example")
        request.getfixturevalue("monkeypatch").chdir(folder)
