"""Creation of nodes: exclusive, ancestors first, no loss after a failure."""

from __future__ import annotations

from typing import Any

import pytest

from tessarr.errors import ExistsError
from tessarr.flow.create import create_node
from tessarr.flow.open import find_node
from tessarr.flow.run import run_flow
from tessarr.metadata.build import build_array_meta
from tessarr.metadata.node import GroupMeta


@pytest.fixture
def store(empty_store: Any) -> Any:
    return empty_store


def changes(store: Any) -> list[tuple[str, str]]:
    return [
        (operation, key)
        for operation, key in store.log
        if operation not in ("get", "size", "list", "list_dir")
    ]


def test_ancestors_first_and_node_last(store: Any) -> None:
    run_flow(create_node("a/b/c", build_array_meta(shape=(1,))), store)
    keys = ("zarr.json", "a/zarr.json", "a/b/zarr.json", "a/b/c/zarr.json")
    assert changes(store) == [("replace", key) for key in keys]


def test_format_2_writes_attributes_and_ancestors(store: Any) -> None:
    run_flow(create_node("foo", build_array_meta(shape=(1,), zarr_format=2)), store)
    assert sorted(store.items) == [".zattrs", ".zgroup", "foo/.zarray", "foo/.zattrs"]
    assert store.items[".zattrs"] == b"{}"


def test_known_group_needs_no_request(store: Any) -> None:
    run_flow(create_node("a", GroupMeta(3)), store)
    store.log.clear()
    run_flow(create_node("a/b", build_array_meta(shape=(1,)), within="a"), store)
    # Read the node, its deletion record and the consolidated metadata above; write the new node.
    assert len(store.log) == 4 + 1 + 2 + 1
    assert changes(store) == [("replace", "a/b/zarr.json")]


@pytest.mark.parametrize("old", [2, 3])
@pytest.mark.parametrize("new", [2, 3])
def test_create_where_node_of_any_format_exists_raises(store: Any, old: Any, new: Any) -> None:
    run_flow(create_node("", build_array_meta(shape=(1,), zarr_format=old)), store)
    before = dict(store.items)
    with pytest.raises(ExistsError) as caught:
        run_flow(create_node("", GroupMeta(new)), store)
    assert caught.value.kind == "node_exists"
    assert store.items == before


def test_concurrent_creation_has_one_winner(store: Any) -> None:
    flow = create_node("a", build_array_meta(shape=(1,)))
    requests = []
    with pytest.raises(ExistsError):
        request: Any = next(flow)
        while True:
            requests.append(request)
            # Another writer creates it between the lookup and the write.
            if getattr(request, "key", "") == "a/zarr.json":
                store.items["a/zarr.json"] = b"somebody else's"
            from tessarr.flow.run import perform_request

            request = flow.send(perform_request(request, store))
    assert store.items["a/zarr.json"] == b"somebody else's"


def test_create_with_overwrite_deletes_nodes_below(store: Any) -> None:
    run_flow(create_node("a/b", build_array_meta(shape=(1,))), store)
    store.items["a/b/c/0"] = b"x"
    run_flow(create_node("a", build_array_meta(shape=(1,)), overwrite=True), store)
    assert sorted(store.items) == ["a/zarr.json", "zarr.json"]


def test_overwriting_leaves_neighbours_with_same_beginning(store: Any) -> None:
    run_flow(create_node("a", build_array_meta(shape=(1,))), store)
    run_flow(create_node("ab", build_array_meta(shape=(1,))), store)
    run_flow(create_node("a", GroupMeta(3), overwrite=True), store)
    assert "ab/zarr.json" in store.items


def test_overwrite_without_node_deletes_nothing(store: Any) -> None:
    store.items["thesis.tex"] = b"three years of work"
    run_flow(create_node("", GroupMeta(3), overwrite=True), store)
    assert store.items["thesis.tex"] == b"three years of work"


def test_array_above_is_refused(store: Any) -> None:
    run_flow(create_node("a", build_array_meta(shape=(1,))), store)
    before = dict(store.items)
    for overwrite in (False, True):
        with pytest.raises(ExistsError, match="is an array"):
            run_flow(create_node("a/b/c", GroupMeta(3), overwrite=overwrite), store)
    assert store.items == before


@pytest.mark.parametrize(("above", "below"), [(2, 3), (3, 2)])
def test_groups_above_may_have_another_format(store: Any, above: Any, below: Any) -> None:
    run_flow(create_node("", GroupMeta(above)), store)
    run_flow(create_node("a/b", GroupMeta(below)), store)
    formats = [run_flow(find_node(path), store).zarr_format for path in ("", "a", "a/b")]
    assert formats == [above, below, below]


@pytest.mark.parametrize(("above", "below"), [(2, 3), (3, 2)])
def test_array_above_of_another_format_is_an_error(store: Any, above: Any, below: Any) -> None:
    run_flow(create_node("a", build_array_meta(shape=(1,), zarr_format=above)), store)
    before = dict(store.items)
    with pytest.raises(ExistsError, match="is an array"):
        run_flow(create_node("a/b", GroupMeta(below)), store)
    assert store.items == before


def test_failure_leaves_no_half_of_node(store: Any) -> None:
    store.fail_on = ("put", "a/.zattrs")
    with pytest.raises(OSError, match="no luck"):
        run_flow(create_node("a", build_array_meta(shape=(1,), zarr_format=2)), store)
    assert sorted(store.items) == [".zattrs", ".zgroup"]
