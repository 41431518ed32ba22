"""Lookup of nodes: the requested documents, and the deciding document."""

from __future__ import annotations

from typing import Any

import pytest

from tessarr.errors import MetadataError, NotFoundError
from tessarr.flow import create
from tessarr.flow import open as open_flow
from tessarr.flow.run import run_flow
from tessarr.metadata.build import build_array_meta
from tessarr.metadata.node import ArrayMeta, GroupMeta


@pytest.fixture
def store(empty_store: Any) -> Any:
    return empty_store


def put(store: Any, path: str, meta: Any) -> None:
    prefix = open_flow.prefix_of(path)
    for name, document in create.dump_documents(meta).items():
        store.items[prefix + name] = document


def test_array_of_format_3_takes_one_request(store: Any) -> None:
    put(store, "a", build_array_meta(shape=(3,)))
    result = run_flow(open_flow.find_node("a"), store)
    assert isinstance(result, ArrayMeta)
    assert store.log == [("get", "a/zarr.json")]


def test_group_of_format_3_takes_one_request(store: Any) -> None:
    put(store, "", GroupMeta(3))
    assert run_flow(open_flow.find_node("", kind="group"), store) == GroupMeta(3)
    assert store.log == [("get", "zarr.json")]


def test_array_of_format_2_takes_three_requests(store: Any) -> None:
    put(store, "a", build_array_meta(shape=(3,), zarr_format=2, attributes={"x": 1}))
    result = run_flow(open_flow.find_node("a"), store)
    assert isinstance(result, ArrayMeta)
    assert result.attributes == {"x": 1}
    assert store.log == [("get", f"a/{name}") for name in ("zarr.json", ".zarray", ".zattrs")]


def test_find_node_of_format_2_skips_format_3(store: Any) -> None:
    put(store, "", build_array_meta(shape=(3,)))
    put(store, "", build_array_meta(shape=(4,), zarr_format=2))
    result = run_flow(open_flow.open_array("", zarr_format=2), store)
    assert result.shape == (4,)
    assert ("get", "zarr.json") not in store.log


def test_format_3_goes_before_format_2(store: Any) -> None:
    put(store, "", build_array_meta(shape=(3,)))
    put(store, "", build_array_meta(shape=(4,), zarr_format=2))
    assert run_flow(open_flow.open_array(""), store).shape == (3,)


def test_find_node_of_kind_group_requests_zgroup_first(store: Any) -> None:
    put(store, "", GroupMeta(2))
    run_flow(open_flow.open_group("", zarr_format=2), store)
    assert store.log == [("get", ".zgroup"), ("get", ".zattrs")]


def test_missing_zattrs_is_no_attributes(store: Any) -> None:
    put(store, "", GroupMeta(2))
    del store.items[".zattrs"]
    assert run_flow(open_flow.open_group(""), store).attributes == {}


@pytest.mark.parametrize("document", [b"", b"{", b"[]", b'{"zarr_format": 2}'])
def test_broken_document_raises_without_further_requests(store: Any, document: bytes) -> None:
    put(store, "", build_array_meta(shape=(3,), zarr_format=2))
    store.items["zarr.json"] = document
    with pytest.raises(MetadataError):
        run_flow(open_flow.find_node(""), store)
    assert store.log == [("get", "zarr.json")]


def test_open_of_missing_node_raises(store: Any) -> None:
    assert run_flow(open_flow.find_node("a"), store) is None
    with pytest.raises(NotFoundError) as caught:
        run_flow(open_flow.open_node("a"), store)
    assert (caught.value.kind, caught.value.path) == ("node_not_found", "a")


def test_other_kind_is_named(store: Any) -> None:
    put(store, "a", GroupMeta(3))
    with pytest.raises(NotFoundError, match="a group") as caught:
        run_flow(open_flow.open_array("a"), store)
    assert caught.value.kind == "array_not_found"
    put(store, "b", build_array_meta(shape=()))
    with pytest.raises(NotFoundError, match="an array") as caught:
        run_flow(open_flow.open_group("b"), store)
    assert caught.value.kind == "group_not_found"


def test_unchanged_document_is_parsed_once(store: Any) -> None:
    put(store, "a", build_array_meta(shape=(3,)))
    put(store, "b", build_array_meta(shape=(3,)))
    assert run_flow(open_flow.find_node("a"), store) is run_flow(open_flow.find_node("b"), store)


def test_changed_document_is_reparsed(store: Any) -> None:
    put(store, "a", build_array_meta(shape=(3,), zarr_format=2, attributes={"x": 1}))
    run_flow(open_flow.find_node("a"), store)
    store.items["a/.zattrs"] = b'{"x": 2}'
    result = run_flow(open_flow.open_array("a"), store)
    assert result.attributes == {"x": 2}


def count_nodes() -> int:
    return len(open_flow._parsed_nodes.keys() | open_flow._parsed_nodes._old.keys())


def test_document_memo_is_bounded(store: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(open_flow, "_MAX_DOCUMENTS", 100)
    for i in range(1500):
        put(store, "a", GroupMeta(3, {"i": i}))
        run_flow(open_flow.find_node("a"), store)
    assert count_nodes() <= 200


def test_document_memo_bounds_bytes(store: Any, monkeypatch: Any) -> None:
    """Large documents displace others; documents in use survive; too large ones are not kept."""
    monkeypatch.setattr(open_flow, "_MAX_BYTES", 10_000)
    open_flow._parsed_nodes.clear()
    put(store, "used", GroupMeta(3, {"used": True}))
    used = run_flow(open_flow.find_node("used"), store)
    for i in range(40):
        put(store, "a", GroupMeta(3, {"i": i, "text": "x" * 3000}))
        run_flow(open_flow.find_node("a"), store)
        assert run_flow(open_flow.find_node("used"), store) is used
    assert count_nodes() <= 8
    put(store, "b", GroupMeta(3, {"text": "x" * 20_000}))
    assert run_flow(open_flow.find_node("b"), store) == run_flow(open_flow.find_node("b"), store)
    assert count_nodes() <= 8
