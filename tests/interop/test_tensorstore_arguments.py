"""Arguments of the index space's classes, drawn at random: what is taken, and how it is refused."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore")

_CLASSES = (TypeError, IndexError, ValueError)
_FLAT: list[Any] = [
    *(None, 0, 1, 5, -1, 33, 2**62 - 2, 2**62, 2**63, 1.0, 1.5, True),
    *("x", "", b"y", np.int64(3), {}, {"rank": 1}),
]
_LISTS: list[Any] = [
    *([], [1], [3, 4], (2,), [-1, 5], [1.0], [None], ["x"], ["x", ""], ["x", "x"], [b"x"]),
    *([True], [False, True], [[1]], "ab", np.array([2, 3]), np.array([1.0]), {"a": 1}),
]
_BOUNDS = ("inclusive_min", "exclusive_max", "inclusive_max", "shape", "labels")
_IMPLICIT = ("implicit_lower_bounds", "implicit_upper_bounds")
_KEYWORDS = {
    "Dim": [
        *("inclusive_min", "exclusive_max", "inclusive_max", "size", "label"),
        *("implicit_lower", "implicit_upper"),
    ],
    "IndexDomain": ["rank", *_BOUNDS, *_IMPLICIT],
    "IndexTransform": ["input_rank", *(f"input_{name}" for name in _BOUNDS), *_IMPLICIT],
    "OutputIndexMap": ["offset", "stride", "input_dimension", "index_array"],
    "Unit": ["multiplier", "base_unit"],
}


def _drawn(name: str, draw: random.Random) -> tuple[list[Any], dict[str, Any]]:
    first = [draw.choice(_FLAT) for _ in range(draw.choice((0, 0, 1, 2)))]
    if name == "IndexTransform":  # of these TensorStore crashes
        first = [
            one for one in first[:1] if not isinstance(one, (str, bytes, dict))
        ]  # it ends there
    keywords: dict[str, Any] = {}
    count = min(draw.choice((0, 1, 1, 2, 3)), len(_KEYWORDS[name]))
    for keyword in draw.sample(_KEYWORDS[name], count):
        lists = keyword.removeprefix("input_") in {*_BOUNDS, *_IMPLICIT, "index_array"}
        kinds = _LISTS if lists and name != "Dim" else _FLAT
        if keyword in {"implicit_lower", "implicit_upper"}:
            kinds = [True, False, "x"]  # of numbers some overloads want booleans only
        keywords[keyword] = draw.choice(kinds)
    return first, keywords


def _made(of: Any, first: list[Any], keywords: dict[str, Any]) -> object:
    try:
        return repr(of(*first, **keywords))
    except _CLASSES as error:
        return next(one for one in _CLASSES if isinstance(error, one))


@pytest.mark.parametrize("name", _KEYWORDS)
def test_arguments_are_those_of_tensorstore(name: str) -> None:
    draw = random.Random(name)
    for _ in range(1500):
        first, keywords = _drawn(name, draw)
        expected = _made(getattr(theirs, name), first, keywords)
        assert _made(getattr(ours, name), first, keywords) == expected, (first, keywords)


_OTHERS = [
    "ts.IndexDomain(dimensions=[ts.Dim(3), ts.Dim(label='x')])",
    "ts.IndexDomain([ts.Dim(3)], rank=1)",
    "ts.IndexDomain([ts.Dim(3)], labels=['x'])",
    "ts.IndexDomain([2, 3])",
    "ts.IndexDomain(ts.IndexDomain(2))",
    "ts.IndexDomain(dims=[ts.Dim(3)])",
    "ts.IndexDomain(json={'x'})",
    "ts.IndexDomain(json='x')",
    "ts.IndexDomain(json={'rank': object()})",
    "ts.IndexDomain(json={'labels': [b'x']})",
    "ts.IndexDomain(json={'rank': 1}, rank=1)",
    "ts.IndexDomain(2).hull(5)",
    "ts.IndexTransform(json=object())",
    "ts.IndexTransform(json={'input_rank': 1}, input_rank=1)",
    "ts.IndexTransform(domain=2)",
    "ts.IndexTransform(domain=ts.IndexDomain(2), output=[ts.OutputIndexMap(3)])",
    "ts.IndexTransform(ts.IndexDomain(2), [ts.OutputIndexMap(3)])",
    "ts.IndexTransform([ts.Dim(3)])",
    "ts.IndexTransform(input_shape=[2], domain=ts.IndexDomain(1))",
    "ts.IndexTransform(ts.IndexDomain(2), output=[5])",
    "2**70 in ts.Dim(3)",
    "ts.d['x'].mark_bounds_implicit[::1]",
    "ts.Schema(rank=-1)",
    "ts.Schema(shape=5)",
    "ts.Schema(fill_value=object())",
    "ts.Context(spec={})",
]


@pytest.mark.parametrize("text", _OTHERS)
def test_other_arguments(text: str) -> None:
    def result(ts: Any) -> object:
        try:
            return repr(eval(text, {"ts": ts}))
        except _CLASSES as error:
            return next(one for one in _CLASSES if isinstance(error, one))

    assert result(ours) == result(theirs)
