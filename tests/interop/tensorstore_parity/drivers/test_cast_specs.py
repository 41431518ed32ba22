"""Specs of nested casts: rank, domain and base match TensorStore's."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours
from interop.tensorstore_parity.random_views import outcome

theirs = pytest.importorskip("tensorstore", reason="casts are compared with it")

FIELDS: list[dict[str, Any]] = [
    {},
    {"rank": 1},
    {"schema": {"rank": 1}},
    {"schema": {"domain": {"shape": [2]}}},
    {"schema": {"domain": {"shape": [[2]]}}},
    {"transform": {"input_inclusive_min": [0], "input_exclusive_max": [2]}},
    {"transform": {"input_rank": 1}},
]
UPDATES: list[dict[str, Any]] = [{}, {"rank": 1}, {"shape": [2]}, {"dtype": "int32"}]
ACTS: dict[str, Callable[[Any, Any], Any]] = {
    "reversed": lambda ts, spec: spec[ts.d[:].stride[-1]],
    "moved": lambda ts, spec: spec.translate_by[3],
    "sliced": lambda ts, spec: spec[1:3],
    "labelled": lambda ts, spec: spec[ts.d[0].label["a"]],
    "with chunks": lambda ts, spec: _updated(spec, chunk_layout=ts.ChunkLayout(chunk_shape=[2])),
    "with an origin": lambda ts, spec: _updated(spec, chunk_layout=ts.ChunkLayout(grid_origin=[0])),
}


def _updated(spec: Any, **keywords: Any) -> Any:
    spec.update(**keywords)
    return spec


def _nested(dice: Random) -> dict[str, Any]:
    """Return casts of an array, each with constraints on its dimensions."""
    spec: dict[str, Any] = {"driver": "zarr3", "kvstore": "memory://", **dice.choice(FIELDS)}
    for _ in range(dice.randrange(1, 4)):
        spec = {"driver": "cast", "base": spec, **dice.choice([{}, *FIELDS])}
        if dice.random() < 0.7:
            spec["dtype"] = "int16"
    return spec


def _describe(spec: Any) -> list[Any]:
    return [
        outcome(spec.to_json),
        outcome(lambda: spec.to_json(include_defaults=True)),
        outcome(lambda: (spec.rank, repr(spec.domain), str(spec.dtype))),
        outcome(lambda: spec.base and spec.base.to_json()),
    ]


@pytest.mark.parametrize("number", range(150))
def test_specs_of_nested_casts(number: int) -> None:
    dice = Random(number)
    arguments, update = _nested(dice), dice.choice(UPDATES)
    acts = dice.choices(list(ACTS), k=dice.randrange(3))

    def describe(ts: Any) -> Any:
        spec = _updated(ts.Spec(arguments), **update)
        result = _describe(spec)
        for act in acts:
            spec = ACTS[act](ts, spec)
            result.append(_describe(spec))
        return result

    assert outcome(lambda: describe(ours)) == outcome(lambda: describe(theirs)), (
        arguments,
        update,
        acts,
    )


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("target", ["float32", "int8", "bool", "json", "string"])
@pytest.mark.parametrize("fill", [7, 7.5, 300, True, "NaN", None, [1, 2]])
@pytest.mark.parametrize("kind", ["int8", "float64", "bool", "bfloat16", None])
def test_fill_values_of_specs(kind: str | None, fill: Any, target: str, *, beside: bool) -> None:
    """Without a data type in the schema, a fill value stays JSON until the array opens."""
    schema: dict[str, Any] = {"fill_value": fill}
    base: dict[str, Any] = {"driver": "zarr3", "schema": schema}
    if kind is not None:
        (schema if beside else base)["dtype"] = kind

    def describe(ts: Any) -> Any:
        result = ts.Spec({"driver": "cast", "dtype": target, "base": base}).fill_value
        return None if result is None else (result.dtype, repr(result.tolist()))

    assert outcome(lambda: describe(ours)) == outcome(lambda: describe(theirs))


def test_numbers_do_not_cast_to_text() -> None:
    for kind in ("string", "ustring"):
        base = {"driver": "zarr3", "dtype": kind, "schema": {"fill_value": 7}}
        for target, expected in (("json", 7), ("string", ValueError), ("ustring", ValueError)):
            spec = ours.Spec({"driver": "cast", "dtype": target, "base": base})
            assert outcome(lambda spec=spec: spec.fill_value) == expected


@pytest.mark.parametrize("value", ["np.zeros((0, 5), 'i1')", "3", "np.zeros((1, 5), 'i1')[:0]"])
def test_write_to_empty_view_writes_nothing(value: str) -> None:
    for package in (ours, theirs):
        view = package.cast(package.array(np.zeros((5, 5), "i4")), "int8")[0:0]
        view.write(eval(value)).result()
        assert view.read().result().shape == (0, 5)
