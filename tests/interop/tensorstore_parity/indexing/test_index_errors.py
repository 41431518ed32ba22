"""Invalid operations on dimensions raise TensorStore's class of error.

Brackets with indices raise an IndexError, all other operations a ValueError.

Intended differences: dimension numbers beyond 64 bits are a TypeError, instead of a RuntimeError of
TensorStore's bindings. Indices from 2**63 to 2**64 are an IndexError like greater indices. Every
dimension needs a stride: TensorStore treats None as -2**63.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

VIEWS = {
    "domain": "ts.IndexDomain(shape=[4, 5])",
    "transform": "ts.IndexTransform(input_shape=[4, 5])",
    "array": "ts.array(np.zeros((4, 5)))",
    "spec": "ts.Spec({'driver': 'zarr3', 'kvstore': 'memory://', 'metadata': {'shape': [4, 5]}})",
    "schema": "ts.Schema(shape=[4, 5])",
}
ACTS = [
    *("view.label['x', 'x']", "view.label['x']", "view.label['x', 'y', 'z']"),
    *("view.translate_to[1, 2, 3]", "view.translate_by[1, 2, 3]", "view.translate_by[2**62 - 2]"),
    *("view.translate_to[2**62 - 1]", "view.translate_backward_by[2**62]"),
    *("view.transpose([0])", "view.transpose([0, 0])", "view.transpose([0, 5])"),
    *("view.transpose(['x', 'y'])", "view.transpose([0, 1, 2])"),
    *("view[ts.d[0, 5].label['x', 'y']]", "view[ts.d[0].label['x', 'x']]"),
    *("view[ts.d[0].translate_to[1, 2]]", "view[ts.d[0].transpose[5]]"),
    *("view[ts.d[0].translate_by[2**62 - 2]]", "view[ts.d['x'].label['y']]"),
]
WIDE = [2**63, 2**64, 2**70, -(2**63) - 1, -(2**70)]
BEYOND = [
    *("ts.d[0].translate_to[wide]", "ts.d[0].translate_by[wide]", "ts.d[0].stride[wide]"),
    *("ts.d[0, 1].translate_to[0, wide]", "ts.d[0].translate_backward_by[[wide]]"),
    *("ts.IndexTransform(1).output[wide]", "ts.IndexTransform(1).translate_to[wide]"),
]


def raised(text: str, package: Any, **names: Any) -> type[BaseException]:
    """Return the builtin class of an error."""
    view = {"view": eval(names.pop("view"), {"ts": package, "np": np})} if "view" in names else {}
    with pytest.raises(Exception) as caught:
        eval(text, {"ts": package, "np": np, **names, **view})
    return next(item for item in (IndexError, TypeError, ValueError) if caught.errisinstance(item))


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("view", VIEWS)
def test_invalid_operations_are_refused(view: str, act: str) -> None:
    result = [raised(act, package, view=VIEWS[view]) for package in (ts, theirs)]
    assert result[0] is result[1]


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("act", BEYOND)
def test_integers_beyond_64_bits_are_refused_immediately(act: str, wide: int) -> None:
    result = [raised(act, package, wide=wide) for package in (ts, theirs)]
    assert result == [TypeError, TypeError]


@pytest.mark.parametrize("wide", WIDE[1:])
@pytest.mark.parametrize("act", ["ts.d[0][wide]", "ts.d[0][0, wide]", "ts.IndexTransform(1)[wide]"])
def test_indices_beyond_64_bits_are_refused_immediately(act: str, wide: int) -> None:
    result = [raised(act, package, wide=wide) for package in (ts, theirs)]
    assert result == [IndexError, IndexError]


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("act", ["ts.d[wide]", "ts.d[0, wide]", "ts.d[0].transpose[[wide]]"])
def test_no_dimension_has_number_beyond_64_bits(act: str, wide: int) -> None:
    assert raised(act, ts, wide=wide) is TypeError


@pytest.mark.parametrize("values", ["float32", "int64", "object", "str"])
@pytest.mark.parametrize("shape", [(2, 3), (3, 1), (4,), ()], ids=str)
def test_rank_error_precedes_data_type_error(shape: Any, values: str) -> None:
    result = [
        raised("view.write(values).result()", package, view="ts.array([1, 2, 3], dtype='int32')",
               values=np.ones(shape, values))
        for package in (ts, theirs)
    ]  # fmt: skip
    assert result[0] is result[1] is (ValueError if len(shape) > 1 else TypeError)


OF_POSITIONS = [
    *("view[-1]", "view[4]", "view[0:5]", "view[0:9:2]", "view[:, 1:9]", "view[0, 9]"),
    *("view[2:1]", "view[0, 0, 0]", "view[..., ...]", "view[::0]"),
    *("view[ts.d[0][9]]", "view[ts.d[1][0:9]]", "view[ts.d[9][0]]", "view[ts.d['q'][0]]"),
    *("view[ts.IndexDomain(shape=[9, 9])]", "view[ts.IndexDomain(shape=[9])]"),
    *("view[ts.d[0].translate_to[2**62]]", "view[ts.newaxis, ..., 9]"),
]
EXPLICIT = ["array", "transform", "schema"]
OF_ARRAYS = ["view[[9]]", "view[[-1]]", "view.vindex[[1], [9]]", "view.oindex[[9], [9]]"]


@pytest.mark.parametrize(
    ("view", "act"),
    [
        *((view, act) for view in EXPLICIT for act in (*OF_POSITIONS, *ACTS)),
        *((view, act) for view in ("array", "transform") for act in OF_ARRAYS),
        ("transform", "view([9, 0])"),
        ("transform", "view([1, 2, 3])"),
    ],
)
def test_outside_position_error_has_status_code(view: str, act: str) -> None:
    """The text starts with the status code, as in futures, because programs search for it."""

    def describe(package: Any) -> bool:
        names = {"ts": package, "np": np}
        with pytest.raises(Exception) as caught:
            eval(act, names | {"view": eval(VIEWS[view], names)})
        text = str(caught.value)
        if package is ts and text.startswith("OUT_OF_RANGE: "):
            assert caught.value.kind == "out_of_bounds"  # type: ignore[attr-defined]
            assert text.count("OUT_OF_RANGE") == 1
        return text.startswith("OUT_OF_RANGE: ")

    assert describe(ts) == describe(theirs)
