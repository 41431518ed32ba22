"""Everything that the package TensorStore calls by a name has it in `tessarr.tensorstore`, too."""

from __future__ import annotations

import inspect

import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore")

_ELSEWHERE = {
    "ocdbt",  # a driver that Tessarr does not have
    "experimental_collect_matching_metrics",
    "experimental_collect_prometheus_format_metrics",
    "experimental_push_metrics_to_prometheus",
    "experimental_update_verbose_logging",
    "parse_tensorstore_flags",
}


def _public(of: object) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_") and name != "annotations"}


_CLASSES = [name for name in sorted(_public(theirs)) if inspect.isclass(getattr(theirs, name))]


def test_names_of_the_package() -> None:
    assert _public(theirs) - _ELSEWHERE <= set(ours.__all__)


@pytest.mark.parametrize("name", _CLASSES)
def test_names_of_classes(name: str) -> None:
    mine, real = getattr(ours, name), getattr(theirs, name)
    assert _public(real) - {"name", "value"} <= _public(mine)  # members of enumerations have these
    for inner in _public(real):
        if inspect.isclass(getattr(real, inner)):
            assert _public(getattr(real, inner)) <= _public(getattr(mine, inner)), inner


@pytest.mark.parametrize("name", _CLASSES)
def test_keywords_of_methods(name: str) -> None:
    mine, real = getattr(ours, name), getattr(theirs, name)
    for member in _public(real):
        wanted = _keywords(getattr(real, member))
        if wanted and not _takes_any(getattr(mine, member)):
            assert wanted <= _keywords(getattr(mine, member)), member


def _takes_any(function: object) -> bool:
    """Whether a function has its keywords by the name of a type: then they are tested as such."""
    parameters = inspect.signature(function).parameters.values() if callable(function) else ()
    return any(one.kind is one.VAR_KEYWORD for one in parameters)


def _keywords(function: object) -> set[str]:
    """Return the names of a function's parameters: of one in C, as its docstring has them."""
    if not callable(function) or inspect.isclass(function):
        return set()
    try:
        return set(inspect.signature(function).parameters) - {"self"}
    except ValueError:
        pass
    found: set[str] = set()
    for line in (function.__doc__ or "").splitlines():
        head, bracket, rest = line.strip().partition("(")
        if bracket and head == getattr(function, "__name__", None):
            found |= {part.split(":")[0].strip() for part in rest.split(", ") if ":" in part}
    return {name for name in found - {"self"} if name.isidentifier()}
