"""The examples in the docstrings of the compiled stores."""

from __future__ import annotations

import doctest

import pytest

from tessarr import store


@pytest.mark.parametrize("name", ["LocalStore", "MemoryStore", "ForeignStore", "CountingStore"])
def test_examples(name: str) -> None:
    """Each example gives what it says."""
    text = getattr(store, name).__doc__
    example = doctest.DocTestParser().get_doctest(text, dict(vars(store)), name, None, None)
    assert example.examples
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize("name", store.__all__)
def test_everything_is_documented(name: str) -> None:
    """Every public class and its public methods have a docstring."""
    thing = getattr(store, name)
    if isinstance(thing, type):
        members = [getattr(thing, member) for member in dir(thing) if not member.startswith("_")]
        assert all(member.__doc__ for member in [thing, *members])
