"""Blosc's item size beside its shuffle: merged, stored and reported like TensorStore's."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from interop.tensorstore_parity.random_schemas import JSON, agree, both

_CONFIGURATIONS: list[JSON] = [
    {name: value for name, value in (("shuffle", shuffle), ("typesize", size)) if value is not None}
    for shuffle, size in itertools.product(
        (None, "noshuffle", "shuffle", "bitshuffle"), (None, 2, 4)
    )
]
_WHOLE: JSON = {"cname": "lz4", "clevel": 5, "blocksize": 0}


def _chain(configuration: JSON) -> list[JSON]:
    little = {"name": "bytes", "configuration": {"endian": "little"}}
    return [little, {"name": "blosc", "configuration": dict(configuration)}]


def _codec(configuration: JSON) -> JSON:
    return {"driver": "zarr3", "codecs": _chain(configuration)}


def _updated(ts: Any, first: JSON, other: JSON) -> Any:
    schema = ts.Schema(codec=ts.CodecSpec(_codec(first)))
    schema.update(codec=ts.CodecSpec(_codec(other)))
    return schema.to_json()


def _spec(first: JSON, other: JSON) -> JSON:
    metadata = {"shape": [4], "data_type": "int16", "codecs": _chain(first)}
    schema = {"codec": _codec(other)}
    return {"driver": "zarr3", "kvstore": "memory://", "metadata": metadata, "schema": schema}


def _describe(ts: Any, first: JSON, other: JSON) -> Any:
    spec = ts.Spec(_spec(first, other))
    return [spec.to_json(), spec.codec.to_json()]


def _created(ts: Any, first: JSON, other: JSON) -> Any:
    store = ts.open(_spec(first, other), create=True, context=ts.Context()).result()
    stored = json.loads(store.kvstore.read("zarr.json").result().value)
    return [stored["codecs"], store.codec.to_json(), store.spec().to_json()["metadata"]]


def _opened(ts: Any, first: JSON, other: JSON) -> Any:
    """Open another writer's array, whose item size may lack a shuffle."""
    context = ts.Context()
    document = {
        "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "int16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 0,
        "codecs": _chain({**_WHOLE, **first}),
    }  # fmt: skip
    keys = ts.KvStore.open("memory://", context=context).result()
    keys["zarr.json"] = json.dumps(document)
    results = []
    for constraints in (
        {"metadata": {"codecs": _chain(other)}},
        {"schema": {"codec": _codec(other)}},
    ):
        spec = {"driver": "zarr3", "kvstore": "memory://", **constraints}
        store = ts.open(spec, context=context).result()
        results.append([store.codec.to_json(), store.spec().to_json()["metadata"]])
    return results


@pytest.mark.parametrize("make", [_updated, _describe, _created, _opened])
def test_blosc_typesize_merges_with_each_shuffle(make: Any) -> None:
    """Different sizes conflict, even without a shuffle; without a shuffle, the JSON has none."""
    for first, other in itertools.product(_CONFIGURATIONS, repeat=2):
        arguments, actual, expected = both(make, first, other)
        assert agree(actual, expected), (arguments, actual, expected)
