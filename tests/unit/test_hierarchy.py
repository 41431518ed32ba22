"""Creation of whole hierarchies, and their tree views."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tessarr
from stores.failing import Failing
from tessarr.errors import ArgumentError, ExistsError, MetadataError, StoreError
from tessarr.stores import MemoryStore

NODES: dict[str, Any] = {
    "b/x": {"shape": (4,), "dtype": "i2", "chunks": 2, "attributes": {"k": 1}},
    "a": {"attributes": {"title": "t"}},
    "a/deep/er/y": {"shape": (2, 2)},
    "c": None,
}
PATHS = ["a", "a/deep", "a/deep/er", "a/deep/er/y", "b", "b/x", "c"]


def stored(store: Any) -> dict[str, bytes | None]:
    return {key: store.get(key) for key in store.list("")}


def test_hierarchy_is_created_with_groups_between(store: Any, zarr_format: Any) -> None:
    created = dict(tessarr.create_hierarchy(store, NODES, zarr_format=zarr_format))
    assert list(created) == ["", *PATHS]
    root = tessarr.open_group(store)
    assert [path for path, _ in root.members(None)] == PATHS
    assert all(created[path] == root[path] for path in PATHS)
    assert created["a"].attrs["title"] == "t"
    assert created["b/x"].attrs["k"] == 1
    assert (created["b/x"].shape, created["b/x"].dtype, created["b/x"].chunks) == (
        (4,),
        np.int16,
        (2,),
    )
    assert {node.zarr_format for node in created.values()} == {zarr_format}
    created["b/x"][:] = 5
    assert root["b/x"][:].tolist() == [5] * 4


def test_group_creates_hierarchy_below_itself(store: Any, zarr_format: Any) -> None:
    root = tessarr.create_group(store, zarr_format=zarr_format)
    group = root.create_group("here")
    created = dict(group.create_hierarchy(NODES))
    assert list(created) == PATHS
    assert root["here/b/x"] == created["b/x"]
    more = dict(group.create_hierarchy({"a/z": None}))
    assert list(more) == ["a/z"]
    with pytest.raises(ArgumentError, match="in itself"):
        group.create_hierarchy({"": None})


def test_create_hierarchy_accepts_nodes_metadata_and_documents(
    store: Any, zarr_format: Any
) -> None:
    """A node, its metadata and its documents have equal content."""
    source = tessarr.create_group(None, zarr_format=zarr_format, attributes={"k": 1})
    x = source.create_array("x", data=[1, 2, 3], chunks=2, attributes={"u": "m"})
    documents: dict[str, Any] = {}
    for path, node in ("", source), ("x", x):
        names = ("zarr.json",) if zarr_format == 3 else (".zarray", ".zgroup", ".zattrs")
        result: dict[str, Any] = {}
        for name in names:
            content = node._store.get(f"{path}/{name}" if path else name)
            if content is not None:
                value = json.loads(content)
                result |= {"attributes": value} if name == ".zattrs" else value
        documents[path] = result
    for nodes in (
        {"": source, "x": x},
        {"": source.metadata, "x": x.metadata},
        documents,
    ):
        created = dict(tessarr.create_hierarchy(store, nodes, overwrite=True))
        assert created["x"].metadata == x.metadata
        assert created["x"].attrs.asdict() == {"u": "m"}
        assert created[""].attrs.asdict() == {"k": 1}
        assert created["x"][:].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("nodes", "error"),
    [
        ({"new": None, "there": None}, ExistsError),
        ({"new": None, "array/x": None}, ExistsError),
        ({"new": {"shape": (3,)}, "new/x": None}, ArgumentError),
        ({"new": None, "/new/": None}, ArgumentError),
        ({"new": None, "..": None}, ArgumentError),
        ({"new": None, "x": {"shape": (-1,)}}, ArgumentError),
        ({"new": None, "x": {"shape": (1,), "colour": 1}}, TypeError),
        ({"new": None, "x": {"shape": (1,), "data": [1]}}, TypeError),
        ({"new": None, "x": {"colour": 1}}, TypeError),
        ({"new": None, "x": {"zarr_format": 3, "node_type": "array"}}, MetadataError),
        ({"new": None, "x": {"zarr_format": 2}}, ArgumentError),
        ({"new": None, "x": {"attributes": {"k": object()}}}, ArgumentError),
    ],
)
def test_create_hierarchy_invalid_node_changes_nothing(nodes: Any, error: type[Exception]) -> None:
    store = MemoryStore()
    root = tessarr.create_group(store)
    root.create_group("there/below")
    root.zeros("array", shape=1)
    before = stored(store)
    for create in (root.create_hierarchy, lambda nodes: tessarr.create_hierarchy(store, nodes)):
        with pytest.raises(error):
            create(nodes)
        assert stored(store) == before


def test_overwriting() -> None:
    store = MemoryStore()
    root = tessarr.create_group(store, attributes={"kept": True})
    root.create_group("there/below")
    created = dict(
        tessarr.create_hierarchy(store, {"there/new": None, "there": None}, overwrite=True)
    )
    assert list(created) == ["there", "there/new"]
    assert [path for path, _ in root.members(None)] == ["there", "there/new"]
    assert tessarr.open_group(store).attrs["kept"]


def test_failing_store_stays_unchanged(zarr_format: Any) -> None:
    items = Failing()
    tessarr.create_group(items, zarr_format=zarr_format)
    before = dict(items)
    for steps in range(100):
        items.changes_left = steps
        try:
            tessarr.create_hierarchy(items, NODES)
            break
        except StoreError:
            assert dict(items) == before
    assert steps >= len(PATHS)
    assert [path for path, _ in tessarr.open_group(items).members(None)] == PATHS


def test_drawing(store: Any) -> None:
    tessarr.create_hierarchy(store, NODES)
    drawn = "/\n├── a\n│   └── deep\n├── b\n│   └── x (4,) int16\n└── c"
    root = tessarr.open_group(store)
    assert str(tessarr.tree(store, level=2)) == drawn
    assert str(tessarr.tree(root, False, 2)) == drawn
    assert str(tessarr.tree(store, path="b")) == "/b\n└── x (4,) int16"
    x = root.get_array("b/x")
    assert str(tessarr.tree(x)) == str(tessarr.tree(store, path="b/x")) == repr(x)
