"""Layers and their specs match TensorStore's.

An intended difference: specs of layers that were open before name their resources; TensorStore
omits them.
"""

from __future__ import annotations

import json
import pickle
import random
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ours
from tessarr.errors import NotFoundError

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

_NUMBERS = {"driver": "array", "array": [1, 2], "dtype": "int8"}
_OPEN = {"driver": "zarr3", "kvstore": "memory://", "schema": {"domain": {"shape": [2]}}}
_TYPED = {**_OPEN, "dtype": "int8"}
_LIMITED = {**_OPEN, "data_copy_concurrency": {"limit": 7}}
_LIMIT = {"data_copy_concurrency": {"limit": 3}}


def _changed(spec: Any, **keywords: Any) -> Any:
    spec.update(**keywords)
    return spec


_PROPERTIES = [
    "ts.Spec(stack(NUMBERS, **LIMIT))",
    "ts.Spec(stack(NUMBERS, data_copy_concurrency='data_copy_concurrency#a'))",
    "ts.Spec(stack(NUMBERS, data_copy_concurrency='data_copy_concurrency'))",
    "ts.Spec(stack(NUMBERS, context=LIMIT))",
    "ts.Spec(stack(NUMBERS)).to_json(include_defaults=True)",
    "ts.Spec(stack(LIMITED, **LIMIT))",
    "ts.Spec(stack(LIMITED, TYPED, **LIMIT))",
    "ts.open(stack(NUMBERS, **LIMIT)).result().spec()",
    "ts.open(stack(NUMBERS, **LIMIT)).result().spec(retain_context=True)",
    "ts.open(stack(NUMBERS, **LIMIT)).result().spec(unbind_context=True)",
    "ts.open(stack(NUMBERS), context=ts.Context(LIMIT)).result().spec(unbind_context=True)",
    "ts.open(stack(NUMBERS), context=ts.Context(LIMIT)).result().spec()",
    "repr(ts.open(stack(NUMBERS), context=ts.Context(LIMIT)).result())",
    "repr(ts.open(stack(NUMBERS)).result())",
    "repr(ts.overlay([ts.array(np.array([1, 2]))]))",
    "ts.overlay([ts.Spec(TYPED)], context=ts.Context(LIMIT)).spec(unbind_context=True)",
    "ts.overlay([ts.Spec(TYPED)]).spec(unbind_context=True)",
    "ts.overlay([ts.Spec(TYPED), ts.Spec(LIMITED)]).spec(unbind_context=True)",
    "ts.overlay([ts.Spec(OPEN), ts.Spec(TYPED)]).spec()",
    "ts.overlay([ts.Spec(OPEN)], dtype='int8').spec()",
    "ts.stack([ts.Spec(OPEN)], dtype='int8').spec()",
    "ts.Spec(stack(OPEN, TYPED))",
    "ts.Spec(stack(OPEN, OPEN, dtype='int8'))",
    "ts.Spec(stack(OPEN, OPEN))",
    "ts.Spec(stack(OPEN, OPEN)).dtype",
    "ts.Spec(stack(OPEN, NUMBERS)).dtype.name",
    "ts.Spec(mean(stack(OPEN), dtype='int8'))",
    "ts.Spec(mean(stack(OPEN, dtype='int8')))",
    "ts.Spec(mean(stack(OPEN, TYPED))).to_json(include_defaults=True)",
    "ts.Spec(mean(stack(BARE), dtype='int8'))",
    "ts.Spec(mean(stack(BARE), schema={'dtype': 'int8'}))",
    "ts.Spec(mean(stack(BARE, dtype='int8')))",
    "ts.Spec(mean(stack(NUMBERS), dtype='int16'))",
    "ts.Spec(mean(mean(stack(stack(NUMBERS), mean(stack(NUMBERS))))))",
    "ts.Spec(ts.Spec(mean(stack(mean(NUMBERS), mean(cast(NUMBERS))))).to_json())",
    "ts.Spec(cast(mean(stack(cast(NUMBERS, dtype='int16')))))",
    "ts.open(ts.open(mean(stack(NUMBERS))).result().spec().to_json()).result().spec()",
    "changed(ts.Spec(stack(OPEN, OPEN)), dtype='int8')",
    "changed(ts.Spec(stack(OPEN, TYPED)), dtype='int16')",
    "ts.open(stack(OPEN, OPEN), dtype='int8').result().spec()",
    "ts.open(stack(OPEN, OPEN)).result().spec()",
    "changed(ts.Spec(stack(NUMBERS, **LIMIT)), context=ts.Context(LIMIT))",
    "changed(ts.Spec(stack(NUMBERS, **LIMIT)), strip_context=True)",
    "changed(ts.Spec(stack(NUMBERS)), context=ts.Context(LIMIT), unbind_context=True)",
    "repr(changed(ts.Spec(stack(NUMBERS)), context=ts.Context(LIMIT)))",
    "ts.Spec(stack(NUMBERS, **LIMIT)) == ts.Spec(stack(NUMBERS))",
    "pickle.loads(pickle.dumps(ts.open(stack(NUMBERS, **LIMIT)).result())).spec()",
]


@pytest.mark.parametrize("text", _PROPERTIES)
def test_layer_specs_match_tensorstore(text: str) -> None:
    """A stack has its own resources, and one data type for all layers."""

    def stack(*layers: Any, **members: Any) -> dict[str, Any]:
        return {"driver": "stack", "layers": list(layers), **members}

    def mean(base: Any, **members: Any) -> dict[str, Any]:
        method = {"downsample_factors": [2], "downsample_method": "mean"}
        return {"driver": "downsample", "base": base, **method, **members}

    def cast(base: Any, **members: Any) -> dict[str, Any]:
        return {"driver": "cast", "base": base, **members}

    def describe(ts: Any) -> Any:
        names = {"NUMBERS": _NUMBERS, "OPEN": _OPEN, "TYPED": _TYPED, "LIMITED": _LIMITED}
        names |= {"LIMIT": _LIMIT, "stack": stack, "changed": _changed, "mean": mean, "cast": cast}
        names["BARE"] = {"driver": "array", "array": [1, 2]}
        try:
            result = eval(text, {"ts": ts, "np": np, "pickle": pickle, **names})
        except ValueError:
            return ValueError
        return json.loads(json.dumps(result.to_json() if hasattr(result, "to_json") else result))

    assert describe(ours) == describe(theirs)


def test_layers_from_specs_share_memory() -> None:
    """A write to a layer that is a spec is visible to reads."""
    store = ours.overlay([ours.Spec({**_TYPED, "open": True, "create": True})])
    store.write([1, 2]).result()
    later = ours.overlay([ours.Spec(_TYPED)], context=ours.Context())
    with pytest.raises(NotFoundError):
        later.read().result()
    reading = store.spec(open_mode=ours.OpenMode(open=True), retain_context=True)
    assert ours.open(reading).result().read().result().tolist() == [1, 2]


def test_empty_layers_add_nothing() -> None:
    """Along each dimension, empty layers have no effect beside other layers."""
    draw = random.Random(3)

    def domain(ts: Any, kind: str, layers: list[tuple[list[int], list[int]]]) -> Any:
        built = [
            ts.array(np.zeros(shape, "i1")).translate_to[tuple(origin)] for origin, shape in layers
        ]
        axis = {"overlay": {}, "concat": {"axis": 0}, "stack": {"axis": 0}}[kind]
        try:
            store = getattr(ts, kind)(built, **axis)
        except ValueError:
            return ValueError
        try:
            return repr(store.domain), store.read().result().shape
        except ValueError:
            return repr(store.domain), ValueError

    for _ in range(1000):
        rank, kind = draw.choice([1, 2]), draw.choice(["overlay", "concat", "stack"])
        layers = [
            (
                [draw.choice([0, 1, 5, -2]) for _ in range(rank)],
                [draw.choice([0, 0, 1, 3]) for _ in range(rank)],
            )
            for _ in range(draw.choice([1, 2, 2, 3]))
        ]
        assert domain(ours, kind, layers) == domain(theirs, kind, layers), (kind, layers)


_VIEWS: dict[str, Any] = {
    "none": {},
    "cast": {"driver": "cast", "dtype": "int16"},
    "downsample": {
        "driver": "downsample",
        "downsample_factors": [1, 1],
        "downsample_method": "mean",
    },
}


@pytest.mark.parametrize("view", ["cast", "downsample"])
@pytest.mark.parametrize("explicit", [{"rank": 2}, {"rank": 2, "chunk": {"elements": 5}}, {}])
def test_layout_with_rank_constrains_base(view: str, explicit: Any) -> None:
    base = {"driver": "zarr3", "kvstore": "memory://"}
    spec = {**_VIEWS[view], "base": base, "schema": {"rank": 2, "chunk_layout": explicit}}
    later = {**spec, "schema": {"rank": 2}}

    def describe(ts: Any, include_defaults: bool) -> list[Any]:
        changed = _changed(ts.Spec(later), chunk_layout=ts.ChunkLayout(explicit))
        return [item.to_json(include_defaults) for item in (ts.Spec(spec), changed)]

    for include_defaults in (False, True):
        assert describe(ours, include_defaults) == describe(theirs, include_defaults)


@pytest.mark.parametrize("view", _VIEWS)
@pytest.mark.parametrize("driver", ["zarr3", "zarr"])
def test_impossible_chunks_raise_on_access(view: str, driver: str) -> None:
    layout = {"grid_origin": [1, 0]}
    explicit = {
        "domain": {"shape": [4, 5]},
        "chunk_layout": layout,
        "fill_value": 3,
        "dtype": "int8",
    }
    spec: dict[str, Any] = {"driver": driver, "kvstore": "memory://", "schema": explicit}
    if view != "none":
        spec = {**_VIEWS[view], "base": spec}
    members = ["fill_value", "dimension_units", "domain", "dtype", "rank", "codec", "base"]

    def describe(ts: Any) -> list[Any]:
        result = ts.Spec(spec)
        return [[repr(getattr(item, name)) for name in members] for item in (result, result.T)]

    assert describe(ours) == describe(theirs)
    for ts in (ours, theirs):
        for name in ("chunk_layout", "schema"):
            with pytest.raises(ValueError, match="grid_origin"):
                getattr(ts.Spec(spec), name)
