"""Deletions that stop: a new node contains nothing of a deleted node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from stores.failing import Stopping
from tessarr.errors import ExistsError
from tessarr.flow import deletion
from tessarr.flow.run import DeletePrefix, HasAtomicDelete, RemoveLink
from tessarr.stores import LocalStore, MemoryStore, SQLiteStore, Store

# Untyped, because the test knows the kind of each member.
open_group: Any = tessarr.open_group


def hierarchy(store: Any, zarr_format: Any) -> Any:
    """Create a group with nested arrays and groups, and a group beside it."""
    root = open_group(store, mode="a", zarr_format=zarr_format)
    root.create_array("kept", data=np.arange(4), chunks=2)
    group = root.create_group("x", attributes={"old": True})
    group.create_array("a", data=np.arange(1, 9), chunks=3)
    group.create_group("g").create_array("b", data=np.ones((4, 4)), chunks=2)
    return root


def stops(zarr_format: Any, action: Callable[[Any], object]) -> Iterator[dict[str, bytes]]:
    """Yield the store after `action` stops for good at its first, second, … change."""
    for count in range(200):
        store = Stopping()
        root = hierarchy(store, zarr_format)
        store.changes_left = count
        try:
            action(root)
        except OSError:
            yield dict(store)
        else:
            assert count > 2
            return
    raise AssertionError("it never went well")


def check_not_back(items: dict[str, bytes], zarr_format: Any) -> None:
    """Check that new nodes at the deleted path contain nothing of the old ones."""
    root = open_group(dict(items), mode="r+", zarr_format=zarr_format)
    if "x" in root:
        assert root["x/a"][:].tolist() == list(range(1, 9))  # no key is deleted yet
        del root["x"]
    assert root["kept"][:].tolist() == [0, 1, 2, 3]
    creations: tuple[Callable[[Any], Any], ...] = (
        lambda group: group.create_group("x"),
        lambda group: group.create_group("x/new"),
        lambda group: group.create_array("x", shape=8, chunks=3, dtype="i8", fill_value=-1),
        lambda group: group.create_array("x/a", shape=8, chunks=3, dtype="i8", fill_value=-1),
        lambda group: group.create_array("x/g/b", shape=8, chunks=3, dtype="i8", fill_value=-1),
        lambda group: group.require_group("x"),
        lambda group: group.require_group("x/g"),
        lambda group: group.require_array("x/a", 8, "i8", chunks=3, fill_value=-1),
        lambda group: group.require_array("x/g/b", 8, "i8", chunks=3, fill_value=-1),
        lambda group: tessarr.open_array(
            group.store,
            "a",
            path="x/a",
            shape=8,
            dtype="i8",
            chunks=3,
            fill_value=-1,
            zarr_format=zarr_format,
        ),
        lambda group: group.move("kept", "x"),
    )
    if "x/a" in root:  # until then, the node is readable by its path
        assert root["x/a"][:].tolist() == list(range(1, 9))
    for create in creations:
        left = dict(items)
        root = open_group(left, mode="r+", zarr_format=zarr_format)
        if "x" in root:
            continue
        created = create(root)
        result = dict(root.members(max_depth=None))
        arrays = [path for path, node in result.items() if isinstance(node, tessarr.Array)]
        for path in arrays:
            values = result[path][...]
            assert path == "kept" or values.tolist() in ([-1] * 8, [0, 1, 2, 3])
        assert "old" not in (root["x"].attrs if created is None else created.attrs)
        assert {"x/g/b", "x/a"} & set(arrays) <= {getattr(created, "path", None)}
        assert not any("__deleted" in key for key in left)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_interrupted_delete_restores_no_nodes(zarr_format: Any) -> None:
    """After a stop at any change of a deletion, new nodes at that path are empty."""
    for items in stops(zarr_format, lambda root: root.__delitem__("x")):
        check_not_back(items, zarr_format)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_interrupted_delete_of_root_restores_no_nodes(zarr_format: Any) -> None:
    """Mode "w" deletes the whole store."""

    def overwrite(root: Any) -> None:
        open_group(root.store, mode="w", zarr_format=zarr_format)

    for items in stops(zarr_format, overwrite):
        left = open_group(items, mode="a", zarr_format=zarr_format)
        assert sorted(left) in ([], ["kept", "x"])
        if "x" in left:
            assert left["x/a"][:].tolist() == list(range(1, 9))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_interrupted_move_keeps_complete_node(zarr_format: Any) -> None:
    """After a stop at any change of a move, the node is complete at one path or at both."""
    for items in stops(zarr_format, lambda root: root.move("x", "y")):
        root = open_group(items, mode="r+", zarr_format=zarr_format)
        assert {"x", "y"} & set(root)
        for name in {"x", "y"} & set(root):
            assert root[name]["a"][:].tolist() == list(range(1, 9))
            assert root[name]["g/b"][:].sum() == 16
        if "y" not in root:
            created = root.create_array("y", shape=8, chunks=3, dtype="i8", fill_value=-1)
            assert created[:].tolist() == [-1] * 8


def test_delete_in_one_step_writes_no_mark(tmp_path: Path) -> None:
    """A folder, memory and SQLite delete a group in one step."""
    stores: list[Store] = [
        MemoryStore(),
        LocalStore(tmp_path / "folder"),
        SQLiteStore(tmp_path / "file.sqlite"),
    ]
    for store in stores:
        assert store.deletes_at_once("x/")
        root = hierarchy(store, 3)
        del root["x"]
        assert sorted(store.list("")) == ["kept/c/0", "kept/c/1", "kept/zarr.json", "zarr.json"]


def test_delete_in_one_step_removes_no_document_before() -> None:
    """If a store deletes a group in one step, no other change precedes that step."""
    steps = deletion.delete_all("x")
    assert next(steps) == RemoveLink("x/")
    assert steps.send(False) == HasAtomicDelete("x/")
    assert steps.send(True) == DeletePrefix("x/")
    with pytest.raises(StopIteration):
        steps.send(None)


def test_create_group_keeps_arrays_below() -> None:
    """Arrays below a path without a group document remain, because no deletion is marked there."""
    items: dict[str, bytes] = {}
    tessarr.create_array(items, path="x/a", data=[1, 2])
    del items["x/zarr.json"]
    created: Any = tessarr.create_group(items, path="x")
    assert created["a"][:].tolist() == [1, 2]


def test_create_below_deleted_group_succeeds() -> None:
    """An array below a group whose deletion stopped is no node."""
    store = Stopping()
    root = hierarchy(store, 3)
    store.changes_left = 2  # the mark, and the document of the group
    with pytest.raises(OSError, match="stopped"):
        del root["x"]
    left = dict(store)
    assert "x/a/zarr.json" in left
    created = tessarr.create_array(left, path="x/a", shape=3, dtype="i2")
    assert created.shape == (3,)
    with pytest.raises(ExistsError):
        tessarr.create_array(left, path="x/a", shape=3, dtype="i2")


def test_delete_in_folder_removes_leftovers_of_killed_delete(tmp_path: Path) -> None:
    """The next deletion of a name removes the hidden folder of a killed process."""
    root = hierarchy(LocalStore(tmp_path), 3)
    hidden = tmp_path / "x.__deleted.__lock" / "left"
    hidden.mkdir(parents=True)
    (hidden / "zarr.json").write_bytes(b"{}")
    assert sorted(root) == ["kept", "x"]
    assert not any("__deleted" in key for key in root.store.list(""))
    del root["x"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept", "zarr.json"]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("path", ["", "x"])
def test_overwrite_of_chunks_without_array_shows_fill(path: str, zarr_format: Any) -> None:
    """A new array shows no stale chunks of another program; other keys remain."""
    items: dict[str, bytes] = {}
    settings: dict[str, Any] = {"path": path, "zarr_format": zarr_format}
    tessarr.create_array(items, data=[1, 2, 3, 4], chunks=2, **settings)
    prefix = f"{path}/" if path else ""
    del items[prefix + ("zarr.json" if zarr_format == 3 else ".zarray")]
    items[prefix + "notes.txt"] = b"mine"
    array = tessarr.create_array(items, shape=4, chunks=2, dtype="i8", overwrite=True, **settings)
    assert array[:].tolist() == [0] * 4
    assert items[prefix + "notes.txt"] == b"mine"
