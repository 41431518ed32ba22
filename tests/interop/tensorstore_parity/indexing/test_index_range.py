"""The ends of the index range: results or classes of errors match TensorStore's.

Omitted: -2**63, which TensorStore ignores in some arguments.
"""

from __future__ import annotations

import itertools

import pytest

import tessarr.tensorstore as ts
from interop.tensorstore_parity.random_views import outcome

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

INFINITE = 2**62 - 1
EDGES = [INFINITE - 1, INFINITE, INFINITE + 1, 2**63 - 1]
NUMBERS = [sign * edge for edge in EDGES for sign in (1, -1)]
TEXTS = [
    *("ts.Dim(v)", "ts.Dim(inclusive_min=v)", "ts.Dim(inclusive_min=v, size=0)"),
    *("ts.Dim(exclusive_max=v)", "ts.Dim(inclusive_max=v)", "ts.Dim(inclusive_min=5, size=v)"),
    *("ts.IndexDomain(inclusive_min=[v])", "ts.IndexDomain(exclusive_max=[v])"),
    *("ts.IndexDomain(inclusive_max=[v])", "ts.IndexDomain(shape=[v])"),
    *("ts.IndexDomain(inclusive_min=[5], shape=[v])", "ts.IndexDomain(json={'shape': [v]})"),
    *("ts.IndexDomain(json={'inclusive_min': [v]})", "ts.IndexDomain(json={'exclusive_max': [v]})"),
    "ts.IndexDomain(json={'inclusive_max': [v]})",
    *("v in ts.Dim()", "v in ts.Dim(5)", "free[v]", "free[v:]", "free[:v]", "free[v:v]"),
    *("free[5:v:2]", "free[5:v:-1]", "free[v::3]", "three[v]", "three[v:]", "three[1:v]"),
    *("open[v]", "open[1:v]", "open[v:2]", "free[[v]]", "free[[v, 1]]", "free[[v, 1]][0]"),
    *("free[[v, 1]][1]", "free([v])", "three([v])", "free[[v, 1]]([0])"),
    *("three.translate_to[v]", "three.translate_by[v]", "three.translate_backward_by[v]"),
    *("free.translate_by[v]", "three[0:0].translate_by[v]", "above.translate_by[v]"),
    *("one('index_array=[1], offset=v')[0]", "one('index_array=[v]')[0]", "one('offset=v')"),
    "one('index_array=[5], index_range=ts.Dim(inclusive_min=v)')[0]",
    *("one('input_dimension=0, offset=v')", "one('input_dimension=0, stride=v')"),
]


def describe(package: object, text: str, v: int = 0) -> object:
    names = {
        "ts": package,
        "v": v,
        "free": package.IndexTransform(1),
        "three": package.IndexTransform(input_shape=[3]),
        "above": package.IndexTransform(input_inclusive_min=[0]),
        "open": package.IndexTransform(
            input_shape=[3], implicit_lower_bounds=[True], implicit_upper_bounds=[True]
        ),
        "one": lambda arguments: package.IndexTransform(
            input_shape=[1], output=[eval(f"ts.OutputIndexMap({arguments})", names)]
        ),
    }
    return outcome(lambda: repr(eval(text, names)))


@pytest.mark.parametrize("text", TEXTS)
def test_numbers_at_range_limits(text: str) -> None:
    for v in NUMBERS:
        assert describe(ts, text, v) == describe(theirs, text, v), v


def test_positions_outside_are_error_of_position() -> None:
    for text in ("three([5])", "three[[0, 1, 9]]([2])", "three[[0, 1]]([2])", "open([5])"):
        assert describe(ts, text) == describe(theirs, text), text


def test_stride_of_0_makes_constant_of_index_array() -> None:
    text = "ts.IndexTransform(input_shape=[3], output=[ts.OutputIndexMap([1, 2, 9], 4, 0, %s)])"
    for within in ("ts.Dim()", "ts.Dim(5)"):
        assert describe(ts, text % within) == describe(theirs, text % within)


def test_index_arrays_do_not_run_along_implicit_bounds() -> None:
    json = "{'input_exclusive_max': [[%d]], 'input_inclusive_min': [0], 'output': [%s]}"
    for maps in ("{'index_array': [1, 2, 3]}", "{'index_array': [1, 2, 3], 'stride': 0}"):
        text = f"ts.IndexTransform(json={json % (3, maps)})"
        assert describe(ts, text) == describe(theirs, text)


def test_hull_and_intersection_match_tensorstore() -> None:
    intervals = [(9, 9), (0, 0), (0, 5), (3, 8), (5, 5), (-3, -3)]
    flags = list(itertools.product([True, False], repeat=2))
    dims = [
        f"ts.Dim({lower}, {upper}, implicit_lower={flag[0]}, implicit_upper={flag[1]})"
        for (lower, upper), flag in itertools.product(intervals, flags)
    ]
    for item, other, act in itertools.product(dims, dims, ["hull", "intersect"]):
        for text in (f"{item}.{act}({other})", f"ts.IndexDomain([{item}]).{act}([{other}])"):
            assert describe(ts, text) == describe(theirs, text), text


@pytest.mark.parametrize(
    "bounds",
    ["", "label='x'", "inclusive_min=3", "exclusive_max=3", "-2, 1", "size=0"],
)
def test_iteration_needs_finite_interval(bounds: str) -> None:
    text = f"[at for at, _ in zip(ts.Dim({bounds}), range(5))]"
    assert describe(ts, text) == describe(theirs, text)
    assert describe(ts, f"list(ts.Dim({bounds}))") == describe(theirs, f"list(ts.Dim({bounds}))")
