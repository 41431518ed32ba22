"""An unpickled object equals the original if it does in TensorStore."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore", reason="the package tensorstore is absent")

ZARR = {"driver": "zarr3", "kvstore": "memory://", "dtype": "int8"}
OPEN = {**ZARR, "rank": 2}
SPECS: dict[str, Any] = {
    "array": {"driver": "array", "array": [[1, 2], [3, 4]], "dtype": "int8"},
    "rank": OPEN,
    "domain": {**ZARR, "schema": {"domain": {"shape": [4, 5]}}},
    "shape": {**ZARR, "metadata": {"shape": [4, 5]}},
    "transform": {**ZARR, "transform": {"input_exclusive_max": [[4], [5]]}},
}
KNOWN = SPECS.keys() - {"rank", "transform"}

LAYERS = [
    "ts.cast(spec, 'float32')",
    "ts.cast(spec, 'float32').T",
    "ts.cast(spec.T, 'float32')",
    "changed(ts.cast(spec, 'float32'), rank=2)",
    "changed(ts.cast(spec, 'float32'), context=ts.Context())",
    "changed(ts.cast(spec, 'float32'), minimal_spec=True)",
    "ts.cast(ts.cast(spec, 'float32'), 'int32')",
    "ts.cast(ts.cast(spec, 'float32').T, 'int32')",
    "changed(ts.cast(ts.cast(spec, 'float32'), 'int32'), rank=2)",
    "ts.Spec(ts.cast(spec, 'float32').to_json())",
    "ts.Spec({'driver': 'cast', 'base': spec.to_json()})",
    "ts.downsample(spec, [2, 2], 'mean')",
    "ts.downsample(ts.cast(spec, 'float32'), [2, 2], 'mean')",
    "ts.cast(ts.downsample(spec, [2, 2], 'stride'), 'float32')",
]
OF_STORES = [
    "ts.stack([ts.cast(spec, 'float32'), ts.cast(spec, 'float32')])",
    "ts.concat([ts.cast(spec, 'int8'), spec], axis=0)",
    "ts.overlay([ts.cast(ts.cast(spec, 'float32'), 'int8'), spec])",
    "ts.cast(ts.stack([ts.cast(spec, 'float32')]), 'int8')",
]


def _changed(spec: Any, **changes: Any) -> Any:
    spec.update(**changes)
    return spec


def _describe(ts: Any, text: str, spec_json: Any, of: str = "{}") -> Any:
    names = {"ts": ts, "spec": ts.Spec(spec_json), "changed": _changed}
    result = eval(text, names)
    again = pickle.loads(pickle.dumps(result))
    first, then = (eval(of.format("one"), {"one": item}) for item in (result, again))
    description = [json.dumps(item.to_json(), sort_keys=True) for item in (first, then)]
    return first == then, first.to_json(True) == then.to_json(True), description


@pytest.mark.parametrize("text", LAYERS)
@pytest.mark.parametrize("name", SPECS)
def test_specs_of_layers(name: str, text: str) -> None:
    assert _describe(ours, text, SPECS[name]) == _describe(theirs, text, SPECS[name])


@pytest.mark.parametrize("text", OF_STORES)
@pytest.mark.parametrize("name", sorted(KNOWN))
def test_specs_of_pickled_stores(name: str, text: str) -> None:
    """Layers open on first use: until then, stores contain specs."""
    result = _describe(ours, text, SPECS[name], "{}.spec()")
    assert result == _describe(theirs, text, SPECS[name], "{}.spec()")
    spec = text + ".spec()"
    assert _describe(ours, spec, SPECS[name]) == _describe(theirs, spec, SPECS[name])


def test_cast_pickle_state_is_not_in_json() -> None:
    for retained in (None, [2, True], {}):
        with pytest.raises(ValueError, match="kept"):
            ours.Spec({"driver": "cast", "base": SPECS["array"], "dtype": "int8", "kept": retained})
