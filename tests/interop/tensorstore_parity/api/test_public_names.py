"""`tessarr.tensorstore` has every public name of the package TensorStore."""

from __future__ import annotations

import inspect
from types import GenericAlias
from typing import Any, get_args

import numpy as np
import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore")

_ELSEWHERE = {
    "ocdbt",  # a driver that Tessarr does not have
    "experimental_push_metrics_to_prometheus",
}


def _public(of: object) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_") and name != "annotations"}


_CLASSES = [name for name in sorted(_public(theirs)) if inspect.isclass(getattr(theirs, name))]


def test_package_has_all_tensorstore_names() -> None:
    assert _public(theirs) - _ELSEWHERE <= set(ours.__all__)


@pytest.mark.parametrize("name", _CLASSES)
def test_classes_have_public_names(name: str) -> None:
    mine, real = getattr(ours, name), getattr(theirs, name)
    assert _public(real) - {"name", "value"} <= _public(mine)  # enumeration members have these
    for inner in _public(real):
        if inspect.isclass(getattr(real, inner)):
            assert _public(getattr(real, inner)) <= _public(getattr(mine, inner)), inner


@pytest.mark.parametrize("name", _CLASSES)
def test_keywords_of_methods(name: str) -> None:
    mine, real = getattr(ours, name), getattr(theirs, name)
    for member in _public(real):
        expected = _keywords(getattr(real, member))
        if expected:
            assert expected <= _keywords(getattr(mine, member)), member


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in sorted(_public(theirs))
        if name.endswith(("Like", "Spec", "Term", "Option", "Method"))
    ],
)
@pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
def test_evaluated_annotations_are_types(ts: Any, name: str) -> None:
    kind = getattr(ts, name)
    assert type(None) in get_args(kind | None)
    if name == "FutureLike":
        assert int in get_args(kind[int])


@pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
def test_futures_and_promises_of_type(ts: Any) -> None:
    for kind in (ts.Future, ts.Promise):
        assert kind[int] == GenericAlias(kind, (int,))


@pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
def test_indexable_objects_are_not_iterable(ts: Any) -> None:
    view = ts.IndexTransform(2)
    for indexable in (
        view,
        view.oindex,
        view.label,
        ts.d,
        ts.d[0],
        ts.Spec({"driver": "zarr3"}),
        ts.array([1]),
    ):
        with pytest.raises(TypeError):
            iter(indexable)


@pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
def test_keyword_only_arguments_are_enforced(ts: Any) -> None:
    assert ts.Schema(json={"rank": 2}).rank == 2
    assert ts.ChunkLayout(json={"rank": 2}).rank == 2
    assert ts.ChunkLayout.Grid(json={"shape": [2]}).shape == (2,)
    assert ts.IndexTransform(2)(indices=(1, 2)) == (1, 2)
    for kind in (ts.OpenMode, ts.TensorStore.StorageStatistics):
        with pytest.raises(TypeError):
            kind(True)
    with pytest.raises(TypeError):
        ts.KvStore.ReadResult("there")


@pytest.mark.parametrize("ts", [ours, theirs], ids=["ours", "theirs"])
def test_batch_is_of_reads(ts: Any) -> None:
    into = ts.array(np.zeros(3))
    batch = ts.Batch()
    with pytest.raises(ValueError, match=r"batch"):
        into.write([1.0, 2.0, 3.0], batch=batch)
    written = into.write(ts.array(np.ones(3)), batch=batch)
    batch.submit()
    written.result()
    batch.submit()  # has no effect
    assert into.read().result().sum() == 3


def _keywords(function: object) -> set[str]:
    """Return the names of a function's parameters, or those in the docstring of a C function."""
    if not callable(function) or inspect.isclass(function):
        return set()
    try:
        return set(inspect.signature(function).parameters) - {"self"}
    except ValueError:
        pass
    members: set[str] = set()
    for line in (function.__doc__ or "").splitlines():
        head, bracket, rest = line.strip().partition("(")
        if bracket and head == getattr(function, "__name__", None):
            members |= {part.split(":")[0].strip() for part in rest.split(", ") if ":" in part}
    return {name for name in members - {"self"} if name.isidentifier()}
