"""Walks of hierarchies: the listed nodes, and the number of requests."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tessarr.errors import MetadataError, TessarrWarning
from tessarr.flow import walk
from tessarr.flow.create import create_node
from tessarr.flow.run import perform_request, run_flow
from tessarr.metadata.build import build_array_meta
from tessarr.metadata.node import ArrayMeta, GroupMeta


@pytest.fixture(params=[2, 3])
def zarr_format(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def store(zarr_format: Any, empty_store: Any) -> Any:
    store = empty_store
    for path in ("z", "b/y", "b/x", "b/deep/er"):
        run_flow(create_node(path, build_array_meta(shape=(2,), zarr_format=zarr_format)), store)
    run_flow(create_node("empty", GroupMeta(zarr_format)), store)
    store.items["z/c/0"] = b"a chunk"
    store.items["notes/readme.txt"] = b"no node"
    store.log.clear()
    return store


def test_names_are_sorted_and_need_no_parsing(store: Any, zarr_format: Any) -> None:
    for key in store.items:
        if key.startswith("z/."):
            store.items[key] = b"broken"
    assert run_flow(walk.list_names("", zarr_format), store) == ["b", "empty", "z"]


def test_members_by_depth(store: Any, zarr_format: Any) -> None:
    assert list(run_flow(walk.list_members("", zarr_format), store)) == ["b", "empty", "z"]
    children = run_flow(walk.list_members("", zarr_format, max_depth=1), store)
    assert list(children) == ["b", "b/deep", "b/x", "b/y", "empty", "z"]
    whole = run_flow(walk.list_members("", zarr_format, max_depth=None), store)
    assert list(whole) == ["b", "b/deep", "b/deep/er", "b/x", "b/y", "empty", "z"]
    assert isinstance(whole["b/deep"], GroupMeta)
    assert isinstance(whole["b/deep/er"], ArrayMeta)


def test_members_below_group(store: Any, zarr_format: Any) -> None:
    assert list(run_flow(walk.list_members("b", zarr_format), store)) == ["b/deep", "b/x", "b/y"]


def test_requests_grow_with_nodes_and_round_trips_with_depth(store: Any, zarr_format: Any) -> None:
    trips = 0
    flow = walk.list_members("", zarr_format, max_depth=None)
    with pytest.raises(StopIteration):
        request = next(flow)
        while True:
            trips += 1
            request = flow.send(perform_request(request, store))
    counts = Counter(operation for operation, _ in store.log)
    assert counts["list"] == 0
    assert counts["list_dir"] == 4  # the groups: root, b, empty, b/deep
    assert trips <= 3 * 4
    assert not any("z/" in key for operation, key in store.log if operation == "list_dir")


def test_broken_member_error_names_member(store: Any, zarr_format: Any) -> None:
    key = "b/x/zarr.json" if zarr_format == 3 else "b/x/.zarray"
    store.items[key] = b"{"
    result = run_flow(walk.list_members("", zarr_format, max_depth=None), store)
    assert isinstance(result["b/x"], MetadataError)
    assert key in str(result["b/x"])
    assert isinstance(result["b/y"], ArrayMeta)


def test_broken_group_is_not_listed(store: Any, zarr_format: Any) -> None:
    store.items["b/zarr.json" if zarr_format == 3 else "b/.zgroup"] = b"[]"
    result = run_flow(walk.list_members("", zarr_format, max_depth=None), store)
    assert list(result) == ["b", "empty", "z"]
    assert isinstance(result["b"], MetadataError)


def test_documents_of_both_formats_at_listed_group_are_warned_of(empty_store: Any) -> None:
    store = empty_store
    run_flow(create_node("g", GroupMeta(3)), store)
    store.items["g/.zgroup"] = b'{"zarr_format": 2}'
    with pytest.warns(TessarrWarning, match="'g' has both"):
        assert run_flow(walk.list_names("g", 3), store) == []


def test_array_and_group_at_once_is_warned_of(empty_store: Any) -> None:
    store = empty_store
    run_flow(create_node("a", build_array_meta(shape=(2,), zarr_format=2)), store)
    store.items["a/.zgroup"] = b'{"zarr_format": 2}'
    with pytest.warns(TessarrWarning, match="both"):
        result = run_flow(walk.list_members("", 2), store)
    assert isinstance(result["a"], ArrayMeta)


def test_reserved_names_are_no_members(empty_store: Any) -> None:
    store = empty_store
    run_flow(create_node("", GroupMeta(3)), store)
    store.items[".../zarr.json"] = b"not looked at"
    assert run_flow(walk.list_names("", 3), store) == []


def test_listing_skips_chunk_folders(empty_store: Any) -> None:
    """An array may have millions of chunks, and a bucket thousands of folders."""
    store = empty_store
    run_flow(create_node("top/a/x", build_array_meta(shape=(2,))), store)
    for name in ("zarr.json", "top/zarr.json", "top/a/zarr.json"):
        store.items.pop(name, None)
    store.items.update({f"top/a/x/c/{i}": b"" for i in range(9)})
    store.items.update({f"top/z{i}/file": b"" for i in range(9)})
    store.log.clear()
    assert run_flow(walk.find_nodes_below("top", 3), store) == ["a/x"]
    listed = [key for operation, key in store.log if operation == "list_dir"]
    assert listed == ["top/", "top/a/", "top/z0/", "top/z1/"]
    assert len(store.log) == 4 + 3 * (3 + 1)
