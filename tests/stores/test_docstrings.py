"""Public stores have docstrings."""

from __future__ import annotations

import pytest

from tessarr import store


@pytest.mark.parametrize("name", store.__all__)
def test_every_public_store_has_docstring(name: str) -> None:
    """Every public class and its public methods have a docstring."""
    value = getattr(store, name)
    if isinstance(value, type):
        members = [getattr(value, member) for member in dir(value) if not member.startswith("_")]
        assert all(member.__doc__ for member in [value, *members])
