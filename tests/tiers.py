"""Tiers of the test suite: fast and exhaustive."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

__all__ = ["is_fast_tier"]


def is_fast_tier(config: pytest.Config) -> bool:
    """Return whether pytest runs the fast tier: the marker expression in pyproject.toml."""
    options: list[str] = config.getini("addopts")
    expression: str = options[options.index("-m") + 1]
    return bool(config.getoption("markexpr") == expression)
