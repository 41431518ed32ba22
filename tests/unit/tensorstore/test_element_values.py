"""Text, bytes and JSON: invalid elements raise an error before any write."""

from __future__ import annotations

import array
from collections import UserList, deque
from decimal import Decimal
from enum import IntEnum, StrEnum
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts
from tessarr.errors import NotJSONError


class Number(IntEnum):
    ONE = 1


class Word(StrEnum):
    A = "a"


def _store(name: str) -> ts.TensorStore:
    spec = {"driver": "array", "dtype": name, "array": ["a", "b", "c"], "rank": 1}
    return ts.open(spec).result()


def _stored(name: str) -> ts.TensorStore:
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    store = ts.open(spec, create=True, dtype=name, shape=[3]).result()
    store.write(_store(name).read().result()).result()
    return store


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("json", object(), TypeError),
        ("json", 2**70, OverflowError),
        ("json", {1: 2}, TypeError),
        ("ustring", 3, TypeError),
        ("ustring", b"a", TypeError),
        ("ustring", None, TypeError),
        ("ustring", ["a", "b"], ValueError),
        ("ustring", "\ud800", UnicodeEncodeError),
        ("string", "a", TypeError),
        ("string", np.array([1, 2, 3]), TypeError),
    ],
)
def test_invalid_element_is_refused(name: str, value: Any, error: type[Exception]) -> None:
    store = _store(name)
    before = store.read().result().tolist()
    with pytest.raises(error):
        store.write(value).result()
    assert store.read().result().tolist() == before


@pytest.mark.parametrize(
    ("name", "values", "error"),
    [
        ("ustring", np.array(["a", None, "c"], "O"), TypeError),
        ("ustring", ["a", 3, "c"], TypeError),
        ("ustring", ["a", ["b"], "c"], TypeError),
        ("ustring", np.array([b"a", b"b", b"c"]), TypeError),
        ("ustring", np.arange(3), TypeError),
        ("ustring", ["a", "\ud800", "c"], ValueError),
        ("string", [b"a", None, b"c"], TypeError),
        ("string", np.array(["a", "b", "c"]), TypeError),
    ],
)
@pytest.mark.parametrize("where", [_store, _stored])
def test_invalid_element_is_not_converted_to_text(
    where: Any, name: str, values: Any, error: Any
) -> None:
    store = where(name)
    before = store.read().result().tolist()
    with pytest.raises(error):
        store.write(values).result()
    assert store.read().result().tolist() == before


@pytest.mark.parametrize("where", [_store, _stored])
def test_text_is_of_objects(where: Any) -> None:
    store = where("ustring")
    for values in (["d", "é", ""], np.array(["d", "é", ""]), np.array(["d", "é", ""], "O")):
        store.write("x").result()
        store.write(values).result()
        result = store.read().result()
        assert (result.dtype, result.tolist()) == (np.dtype("O"), ["d", "é", ""])
        assert {type(item) for item in result} == {str}


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        ("json", (1, 2), [1, 2]),
        ("json", np.float32(2), 2.0),
        ("json", {"a": np.int8(1), "b": np.array([1, 2])}, {"a": 1, "b": [1, 2]}),
        ("json", [range(3), deque([1, {"a": range(1)}])], [[0, 1, 2], [1, {"a": [0]}]]),
        ("json", UserList([True, None]), [True, None]),
        ("json", [array.array("i", [1, 2])], [[1, 2]]),
        ("json", Fraction(1, 4), 0.25),
        ("json", [Decimal("1.5")], [1.5]),
        ("json", MappingProxyType({"a": (1,)}), {"a": [1]}),
        ("json", [Number.ONE, Word.A], [1, "a"]),
        ("ustring", np.str_("x"), "x"),
        ("string", np.bytes_(b"x"), b"x"),
    ],
)
def test_elements_are_plain(name: str, value: Any, stored: Any) -> None:
    store = _store(name)
    store[1] = value
    assert store[1].read().result()[()] == stored
    single = np.empty((), "O")
    single[()] = value
    assert ts.array(single, dtype=ts.dtype(name), copy=True).read().result()[()] == stored


@pytest.mark.parametrize("value", [b"a", bytearray(b"a"), [b"a"], {"a": memoryview(b"a")}, {1}, 1j])
def test_bytes_and_sets_are_not_json(value: Any) -> None:
    """Bytes would be text in one context and a list of numbers in another."""
    with pytest.raises(NotJSONError, match="JSON has nothing for"):
        ts.json(value)
    with pytest.raises(NotJSONError, match="is not JSON"):
        ts.Spec({"driver": "zarr3", "metadata": {"attributes": {"a": value}}})


def test_json_of_specs_is_plain() -> None:
    members = {"a": range(3), "b": Fraction(1, 2), "c": [Word.A, Number.ONE, deque([1])]}
    spec = ts.Spec({"driver": "zarr3", "metadata": {"attributes": members}})
    document = spec.to_json()["metadata"]["attributes"]
    assert document == {"a": [0, 1, 2], "b": 0.5, "c": ["a", 1, [1]]}
    assert {type(item) for item in document["c"]} == {str, int, list}


def test_range_is_list_of_elements() -> None:
    store = ts.array(range(3), dtype="json")
    assert (store.shape, store.read().result().tolist()) == ((3,), [0, 1, 2])
    store.write(range(3, 6)).result()
    assert store.read().result().tolist() == [3, 4, 5]


def test_json_of_array() -> None:
    assert ts.json(np.array([[1, 2], [3, 4]])) == [[1, 2], [3, 4]]


def test_format_2_stores_no_text_without_filter() -> None:
    """The old content is unchanged."""
    context = ts.Context()
    spec = {"driver": "zarr", "kvstore": "memory://a/"}
    ts.open(spec, create=True, dtype="int32", shape=[4], context=context).result().write(1).result()
    keys = ts.KvStore.open("memory://a/", context=context).result()
    before = {key: keys[key] for key in keys.list().result()}
    for name in ("string", "ustring"):
        with pytest.raises(ValueError, match="no filter makes bytes"):
            ts.open(
                spec, create=True, delete_existing=True, dtype=name, shape=[4], context=context
            ).result()
    assert {key: keys[key] for key in keys.list().result()} == before


ARRAYS: list[tuple[Any, Any]] = [
    (np.array([1, 2, 3]), [1, 2, 3]),
    (np.array([[1.5, 2]]), [[1.5, 2]]),
    (np.array([True, False]), [True, False]),
    (np.array([1, "a", None], object), [1, "a", None]),
    (np.empty((0, 3)), []),
    (np.array(5), 5),
    (array.array("i", [1, 2, 3]), [1, 2, 3]),
    (memoryview(np.array([1.5, 2])), [1.5, 2]),
    (np.ma.array([1, 2], mask=[0, 1]), [1, 2]),
]


@pytest.mark.parametrize(
    ("arguments", "expected"), ARRAYS, ids=[str(k) for k in range(len(ARRAYS))]
)
def test_array_in_json_element_becomes_list(arguments: Any, expected: Any) -> None:
    store = ts.array([0, 0, 0], dtype="json")
    store[1] = arguments
    assert store.read().result().tolist() == [0, expected, 0]
    with pytest.raises(TypeError, match="complex"):
        store[1] = np.array([1j])


def test_buffers_as_json() -> None:
    buffer = array.array("i", [4, 5, 6])
    store = ts.array(buffer, dtype="json")
    assert (store.dtype, store.read().result().tolist()) == (ts.json, [4, 5, 6])
    store.write(memoryview(buffer)[::-1]).result()
    assert store.read().result().tolist() == [6, 5, 4]
