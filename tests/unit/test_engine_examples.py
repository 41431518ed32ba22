"""Docstring examples of the engine's classes and members, which pytest cannot collect."""

from __future__ import annotations

import doctest
import inspect

import pytest

from tessarr import _engine

_FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
_MEMBERS = {
    f"{name}.{member}": one
    for name, found in vars(_engine).items()
    if inspect.isclass(found)
    for member, one in vars(found).items()
}
_DOCUMENTED = {
    name: found.__doc__
    for name, found in {**vars(_engine), **_MEMBERS}.items()
    if ">>>" in (getattr(found, "__doc__", None) or "")
}


def test_there_are_examples() -> None:
    assert {"Dim", "Dim.hull", "KvStoreBase.read"} <= _DOCUMENTED.keys()


@pytest.mark.parametrize("name", sorted(_DOCUMENTED))
def test_examples_run(name: str) -> None:
    test = doctest.DocTestParser().get_doctest(
        str(_DOCUMENTED[name]), dict(vars(_engine)), name, None, 0
    )
    found: list[str] = []
    results = doctest.DocTestRunner(optionflags=_FLAGS).run(test, out=found.append)
    assert results.attempted, name
    assert not results.failed, "".join(found)
