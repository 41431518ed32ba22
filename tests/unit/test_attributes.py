"""Attributes: a mapping that stores each change, or leaves everything unchanged."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import ArgumentError, NotFoundError


@pytest.fixture(params=["array", "group"])
def node(request: pytest.FixtureRequest, store: Any, zarr_format: Any) -> Any:
    attributes = {"a": 1, "deep": {"list": [1, 2]}}
    if request.param == "group":
        return tessarr.create_group(store, path="n", zarr_format=zarr_format, attributes=attributes)
    return tessarr.create_array(
        store, path="n", shape=1, zarr_format=zarr_format, attributes=attributes
    )


def stored(node: Any) -> Any:
    if node.zarr_format == 3:
        return json.loads(node.store.get("n/zarr.json"))["attributes"]
    return json.loads(node.store.get("n/.zattrs"))


def check(node: Any, expected: dict[str, Any]) -> None:
    assert node.attrs.asdict() == expected
    assert stored(node) == expected
    assert tessarr.open(node.store, "r", path="n").attrs.asdict() == expected


def test_mapping(node: Any) -> None:
    assert node.attrs["a"] == 1
    assert list(node.attrs) == ["a", "deep"]
    assert len(node.attrs) == 2
    assert "a" in node.attrs
    assert "b" not in node.attrs
    assert node.attrs.get("b") is None
    assert node.attrs == {"a": 1, "deep": {"list": [1, 2]}}
    assert repr(node.attrs) == "Attributes({'a': 1, 'deep': {'list': [1, 2]}})"


def test_attribute_changes_are_stored(node: Any) -> None:
    node.attrs["b"] = "ü"
    check(node, {"a": 1, "deep": {"list": [1, 2]}, "b": "ü"})
    del node.attrs["deep"]
    check(node, {"a": 1, "b": "ü"})
    node.attrs.update({"c": None}, d=[True, 1.5])
    check(node, {"a": 1, "b": "ü", "c": None, "d": [True, 1.5]})
    assert node.attrs.pop("a") == 1
    assert node.attrs.setdefault("e", 7) == 7
    node.attrs.put({"z": {}})
    check(node, {"z": {}})
    node.attrs.clear()
    check(node, {})


def test_absent_attribute(node: Any) -> None:
    with pytest.raises(KeyError, match="nope") as caught:
        node.attrs["nope"]
    assert isinstance(caught.value, NotFoundError)
    assert caught.value.kind == "attribute_not_found"
    with pytest.raises(KeyError):
        del node.attrs["nope"]


def test_attribute_numpy_values_are_converted(node: Any) -> None:
    node.attrs.put(
        {"i": np.int64(3), "f": np.float32(0.5), "b": np.bool_(True), "a": np.arange(2), "t": (1,)}
    )
    check(node, {"i": 3, "f": 0.5, "b": True, "a": [0, 1], "t": [1]})
    assert type(node.attrs["i"]) is int


@pytest.mark.parametrize("value", [object(), {1: 2}, 1j, b"bytes", {"x": [set()]}])
def test_failed_change_changes_nothing(node: Any, value: Any) -> None:
    before = node.attrs.asdict()
    for change in (
        lambda: node.attrs.__setitem__("bad", value),
        lambda: node.attrs.update({"good": 1, "bad": value}),
        lambda: node.attrs.put({"bad": value}),
    ):
        with pytest.raises(ArgumentError, match="bad"):
            change()
        check(node, before)
    node.attrs["later"] = 1
    check(node, {**before, "later": 1})


def test_attribute_value_read_is_copy(node: Any) -> None:
    node.attrs["deep"]["list"].append(3)
    node.attrs.asdict()["deep"]["x"] = 1
    check(node, {"a": 1, "deep": {"list": [1, 2]}})


def test_attribute_value_set_is_copied(node: Any) -> None:
    mine = [1]
    node.attrs["x"] = mine
    mine.append(2)
    assert node.attrs["x"] == [1]


def test_attribute_set_by_another_handle_stays(node: Any) -> None:
    tessarr.open(node.store, path="n").attrs["theirs"] = 1
    node.attrs["ours"] = 2
    check(node, {"a": 1, "deep": {"list": [1, 2]}, "theirs": 1, "ours": 2})


def test_attributes_of_nodes_with_equal_documents_are_independent(
    store: Any, zarr_format: Any
) -> None:
    a, b = (
        tessarr.create_array(store, path=path, shape=1, zarr_format=zarr_format) for path in "ab"
    )
    a.attrs["x"] = 1
    assert dict(b.attrs) == {}
    assert dict(tessarr.open(store, path="b").attrs) == {}


def test_threads_edit_without_losing_anything(node: Any) -> None:
    from threading import Thread

    def work(name: str) -> None:
        mine = tessarr.open(node.store, path="n")
        for i in range(20):
            mine.attrs[f"{name}{i}"] = i

    threads = [Thread(target=work, args=(name,)) for name in "wxyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stored(node)) == 2 + 80


def test_missing_attribute_error_suggests_similar_name() -> None:
    a = tessarr.create_array(None, shape=3, attributes={"units": "K"})
    with pytest.raises(
        KeyError, match=r"array '/' has no attribute 'unit'; did you mean 'units'\?"
    ):
        a.attrs["unit"]
    with pytest.raises(KeyError, match=r"no attribute 'title'$"):
        del a.attrs["title"]
