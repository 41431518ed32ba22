"""JSON and keywords with several problems: the packages report the same problem."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

import tessarr.tensorstore as ours

theirs = pytest.importorskip("tensorstore")

_CLASSES = (TypeError, IndexError, NotImplementedError, ValueError)
_KEYWORDS: dict[str, list[Any]] = {
    "read": ["x", []],
    "write": ["x"],
    "context": [5],
    "transaction": [5],
    "batch": [5],
    "open": ["x"],
    "create": ["x", [1]],
    "delete_existing": ["x"],
    "assume_metadata": ["x"],
    "open_mode": [5, "x"],
    "dtype": ["zz", 5, "float33"],
    "shape": ["a", [-1], 5, [1.5], [2**70]],
    "rank": [-1, "a", 100, 1.5],
    "fill_value": ["a", object()],
    "domain": [5, "x"],
    "chunk_layout": [5],
    "codec": [5, {"driver": "no"}, {}],
    "dimension_units": [5, ["1", "2", "3", "4", "5"]],
    "schema": [5],
    "recheck_cached_data": ["x", []],
    "recheck_cached_metadata": ["x"],
    "recheck_cached": ["x"],
    "no_such": [1],
}
_ONLY_OPEN = {"read", "write", "context", "transaction", "batch"}
_JSON: dict[str, list[Any]] = {
    "path": [5],
    "metadata": [5, {"shape": "a"}, {"codecs": 5}, {"no_such": 1}],
    "schema": [5, {"dtype": 5}, {"rank": -1}, {"chunk_layout": 5}],
    "transform": [5, {"input_rank": -1}, {"output": 5}],
    "dtype": [5, "zz"],
    "rank": ["a", -1, 100],
    "open": [5, "x"],
    "create": ["x"],
    "delete_existing": [2],
    "assume_metadata": ["y"],
    "cache_pool": [5, "no"],
    "metadata_cache_pool": ["x"],
    "data_copy_concurrency": [5],
    "context": [5, {"no": 1}],
    "recheck_cached_data": ["x"],
    "fill_missing_data_reads": ["x"],
    "store_data_equal_to_fill_value": [3],
    "kvstore": [5, {"driver": "no"}, {"driver": "memory", "x": 1}, "no://"],
    "no_such": [1],
}
_RIGHT = {"dtype": "int8", "shape": [4], "create": True}
_SPEC = {"driver": "zarr3", "kvstore": "memory://"}


def describe(ts: Any, json: dict[str, Any], keywords: dict[str, Any], only_spec: bool) -> Any:
    """Return the class of the error, or None."""
    try:
        if only_spec:
            ts.Spec(json).update(**keywords)
        else:
            ts.open(json, **keywords).result()
    except _CLASSES as error:
        return next(item for item in _CLASSES if isinstance(error, item))
    return None


@pytest.mark.parametrize(("one", "other"), [*itertools.combinations(_KEYWORDS, 2)])
def test_two_keywords_of_open(one: str, other: str) -> None:
    for first, second in itertools.product(_KEYWORDS[one], _KEYWORDS[other]):
        for wrong in ({one: first, other: second}, {other: second, one: first}):
            keywords = {**_RIGHT, **wrong}
            expected = describe(theirs, _SPEC, keywords, False)
            assert expected is not None
            assert describe(ours, _SPEC, keywords, False) is expected, wrong


@pytest.mark.parametrize("seed", range(20))
def test_json_and_keywords(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(100):
        json: dict[str, Any] = {
            "driver": draw.choice(["zarr3", "zarr", "auto", "json", "array"]),
            "kvstore": "memory://",
        }
        for name in draw.sample([*_JSON], draw.choice([0, 0, 1, 2])):
            json[name] = draw.choice(_JSON[name])
        keywords: dict[str, Any] = dict(_RIGHT)
        for name in draw.sample([*_KEYWORDS], draw.choice([0, 1, 2, 2, 3])):
            keywords[name] = draw.choice(_KEYWORDS[name])
        only_spec = draw.random() < 1 / 3
        if only_spec:
            keywords = {name: keywords[name] for name in keywords.keys() - _ONLY_OPEN}
        expected = describe(theirs, json, keywords, only_spec)
        assert describe(ours, json, keywords, only_spec) is expected, (json, keywords, only_spec)
