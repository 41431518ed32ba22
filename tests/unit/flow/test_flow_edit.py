"""Edits of nodes are atomic, despite concurrent writers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tessarr.errors import ArgumentError, NotFoundError
from tessarr.flow import edit
from tessarr.flow import open as flow_open
from tessarr.flow.create import create_node
from tessarr.flow.run import perform_request, run_flow
from tessarr.metadata.build import build_array_meta


@pytest.fixture(params=[2, 3])
def zarr_format(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def store(zarr_format: Any, empty_store: Any) -> Any:
    store = empty_store
    meta = build_array_meta(shape=(2,), zarr_format=zarr_format, attributes={"old": 1})
    run_flow(create_node("a", meta), store)
    store.log.clear()
    return store


def test_edit_attributes_keeps_other_members(store: Any, zarr_format: Any) -> None:
    if zarr_format == 3:
        document = json.loads(store.items["a/zarr.json"])
        document["later"] = {"must_understand": False, "x": [1]}
        store.items["a/zarr.json"] = json.dumps(document).encode()
    flow = edit.edit_attributes("a", zarr_format, "array", lambda old: {**old, "new": (1, 2)})
    assert run_flow(flow, store) == {"old": 1, "new": [1, 2]}
    key = "a/zarr.json" if zarr_format == 3 else "a/.zattrs"
    document = json.loads(store.items[key])
    if zarr_format == 3:
        assert document["later"] == {"must_understand": False, "x": [1]}
        assert document["shape"] == [2]
        document = document["attributes"]
    assert document == {"old": 1, "new": [1, 2]}


def test_edit_attributes_keeps_concurrent_changes(store: Any, zarr_format: Any) -> None:
    other = edit.edit_attributes("a", zarr_format, "array", lambda old: {**old, "theirs": 2})
    flow = edit.edit_attributes("a", zarr_format, "array", lambda old: {**old, "ours": 3})
    request: Any = next(flow)
    with pytest.raises(StopIteration) as end:
        while True:
            if type(request).__name__ == "Change" and "theirs" not in str(store.items):
                run_flow(other, store)
            request = flow.send(perform_request(request, store))
    assert end.value.value == {"old": 1, "theirs": 2, "ours": 3}


def test_unchanged_attributes_are_not_written(store: Any, zarr_format: Any) -> None:
    run_flow(edit.edit_attributes("a", zarr_format, "array", lambda old: old), store)
    assert {operation for operation, _ in store.log} <= {"get", "look"}


def test_non_json_value_changes_nothing(store: Any, zarr_format: Any) -> None:
    before = dict(store.items)
    flow = edit.edit_attributes("a", zarr_format, "array", lambda old: {**old, "x": object()})
    with pytest.raises(ArgumentError, match="attributes/x"):
        run_flow(flow, store)
    assert store.items == before


def test_stored_nan_does_not_block_other_edits(zarr_format: Any, empty_store: Any) -> None:
    store = empty_store
    run_flow(
        create_node(
            "a", build_array_meta(shape=(2,), zarr_format=zarr_format, attributes={"n": 1.5})
        ),
        store,
    )
    for key, document in store.items.items():
        store.items[key] = document.replace(b"1.5", b"NaN")
    result = run_flow(
        edit.edit_attributes("a", zarr_format, "array", lambda old: {**old, "x": 1}), store
    )
    assert result["x"] == 1


def test_edit_of_deleted_node_raises(store: Any, zarr_format: Any) -> None:
    store.items.clear()
    with pytest.raises(NotFoundError):
        run_flow(edit.edit_attributes("a", zarr_format, "array", lambda _: {"x": 1}), store)
    assert store.items == {}


def test_shape(store: Any, zarr_format: Any) -> None:
    run_flow(
        edit.edit_shape("a", zarr_format, lambda document: replace(document, shape=(5,))), store
    )
    assert run_flow(edit.read_stored_array("a", zarr_format), store).shape == (5,)


def test_new_shape_is_known_without_parsing(store: Any, zarr_format: Any) -> None:
    run_flow(
        edit.edit_shape("a", zarr_format, lambda document: replace(document, shape=(5,))), store
    )
    known = run_flow(edit.read_stored_array("a", zarr_format), store)
    assert run_flow(edit.read_stored_array("a", zarr_format), store) is known
    flow_open._parsed_nodes.clear()
    parsed = run_flow(edit.read_stored_array("a", zarr_format), store)
    assert parsed is not known
    assert parsed == known


@pytest.mark.parametrize("lengths", [(), (2,), (2, 3)])
def test_reshaped_document_equals_json_encoding(
    lengths: Any, zarr_format: Any, empty_store: Any
) -> None:
    store = empty_store
    inside = {"shape": [], "deep": {"shape": [1, 2], "text": '\n  "shape": ['}}
    meta = build_array_meta(shape=lengths, zarr_format=zarr_format, attributes=inside)
    run_flow(create_node("a", meta), store)
    key = "a/zarr.json" if zarr_format == 3 else "a/.zarray"
    expected = json.loads(store.items[key])
    for more in (1, 20, 3):  # the first comes from JSON, the others from the written documents
        shape = tuple(length * more for length in lengths)

        def longer(document: Any, shape: Any = shape) -> Any:
            return replace(document, shape=shape)

        run_flow(edit.edit_shape("a", zarr_format, longer), store)
        expected["shape"] = list(shape)
        indent, sort_keys = (2, False) if zarr_format == 3 else (4, True)
        text = json.dumps(expected, indent=indent, sort_keys=sort_keys)
        assert store.items[key].decode() == text


def test_edit_of_foreign_document_keeps_its_members(store: Any, zarr_format: Any) -> None:
    run_flow(edit.edit_shape("a", zarr_format, lambda doc: replace(doc, shape=(5,))), store)
    key = "a/zarr.json" if zarr_format == 3 else "a/.zarray"
    document = {**json.loads(store.items[key]), "later": {"must_understand": False}}
    store.items[key] = json.dumps(document).encode()
    run_flow(edit.edit_shape("a", zarr_format, lambda doc: replace(doc, shape=(6,))), store)
    assert json.loads(store.items[key]) == {**document, "shape": [6]}
