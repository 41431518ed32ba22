"""Profiles of Hypothesis: the same examples in every run, unless HYPOTHESIS_PROFILE says otherwise.

``HYPOTHESIS_PROFILE=search pytest tests/property`` looks for new counterexamples.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]

settings.register_profile(
    "fixed", derandomize=True, deadline=None, database=None, suppress_health_check=_SLOW
)
settings.register_profile("search", deadline=None, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
