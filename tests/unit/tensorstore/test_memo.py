"""Memo keys of plain values."""

from __future__ import annotations

from collections import OrderedDict
from enum import IntEnum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessarr.tensorstore as ts
from tessarr.tensorstore.spec.memo import make_cache_key

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(PLAIN, PLAIN)
def test_memo_keys_are_equal_for_equal_values(one: Any, other: Any) -> None:
    """Keys are equal if and only if Python's representations are, including types and order."""
    keys = make_cache_key(one), make_cache_key(other)
    if None not in keys:
        assert (keys[0] == keys[1]) == (repr(one) == repr(other))
    assert make_cache_key([one, other]) != make_cache_key([[one], other])


def test_memo_distinguishes_kinds_and_bounds() -> None:
    values = [1, 1.0, True, "1", b"1", [1], (1,), {"1": 1}, None, 2**63, 0.0, -0.0, [], "", 0]
    assert len({make_cache_key(value) for value in values}) == len(values)
    assert make_cache_key(["ab", "c"]) != make_cache_key(["a", "bc"])
    assert make_cache_key([[], [1]]) != make_cache_key([[[]], 1])


class Few(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    "value",
    [
        np.array([1, 2]),
        np.float64(1),
        np.str_("a"),
        Few.ONE,
        OrderedDict(a=1),
        {1, 2},
        bytearray(b"1"),
        memoryview(b"1"),
        object(),
        "a" * (1 << 14),
        [0] * (1 << 12),
    ],
)
def test_objects_have_no_memo_key(value: Any) -> None:
    """Values with such parts, or with long parts, at any depth have no key, either."""
    assert make_cache_key(value) is None
    assert make_cache_key({"a": [(value,)]}) is None


def test_deeply_nested_values_have_no_memo_key() -> None:
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    assert make_cache_key(nested) is None
    while nested:  # an explicit loop, because deallocation recurses
        nested = nested[0]


def test_values_with_many_empty_parts_have_no_memo_key() -> None:
    assert make_cache_key([[]] * 1000) is not None
    assert make_cache_key([[]] * 100_000) is None
    assert make_cache_key([{}, ()] * 100_000) is None


def _spec_in(store: dict[str, bytes]) -> dict[str, Any]:
    return {
        "driver": "zarr3",
        "kvstore": {"driver": "tessarr", "store": store},
        "schema": {"dtype": "int8", "domain": {"shape": [3]}},
    }


def test_stores_in_specs_have_memo_key_by_identity() -> None:
    """Equal dicts are different stores."""
    for keywords in ({}, {"fill_value": 1}):
        stores: list[dict[str, bytes]] = [{}, {}]
        for value, store in enumerate(stores, 2):
            ts.open(_spec_in(store), create=True, **keywords).result()[...] = value
        assert [store["c/0"] for store in stores] == [b"\2\2\2", b"\3\3\3"]
        for value, store in enumerate(stores, 4):
            layer = {**_spec_in(store), "transform": {"input_shape": [3]}}
            ts.open({"driver": "stack", "layers": [layer]}).result()[...] = value
        assert [store["c/0"] for store in stores] == [b"\4\4\4", b"\5\5\5"]


def test_stores_in_keywords_have_memo_key_by_identity() -> None:
    stores: list[dict[str, bytes]] = [{}, {}]
    for store in stores:
        kvstore = {"driver": "tessarr", "store": store}
        ts.open({"driver": "zarr3"}, kvstore=kvstore, create=True, dtype="int8", shape=[3]).result()
    assert [list(store) for store in stores] == [["zarr.json"], ["zarr.json"]]
