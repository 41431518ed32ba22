"""SIGKILL during replacements of nodes: the old node or the new node is complete."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from fault.killing import marks, rounds
from tessarr.stores import LocalStore, SQLiteStore

# Untyped, because the test knows the kind of each member.
open_group: Any = tessarr.open_group
load: Any = tessarr.load


pytestmark = marks

OLD = np.arange(1, 41)
NEW = np.arange(100, 164)

ACTIONS: dict[str, Callable[[Any, Any], object]] = {
    "assign": lambda store, _: open_group(store).__setitem__("x", NEW),
    "create_array": lambda store, _: open_group(store).create_array(
        "x", data=NEW, chunks=5, overwrite=True
    ),
    "save_array": lambda store, form: tessarr.save_array(
        store, NEW, path="x", chunks=5, zarr_format=form
    ),
    "save_group": lambda store, form: tessarr.save_group(store, path="x", a=NEW, zarr_format=form),
    "copy": lambda store, _: tessarr.copy(
        tessarr.array(NEW, chunks=5), open_group(store), "x", if_exists="replace"
    ),
    "create_group": lambda store, _: open_group(store).create_group("x", overwrite=True),
}

CASES = [
    *((action, "folder", 3) for action in ACTIONS),
    *((action, "folder", 2) for action in ("assign", "create_array", "save_array")),
    ("assign", "sqlite", 2),
    ("save_group", "sqlite", 3),
]


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[Any]:
    if kind == "sqlite":
        with SQLiteStore(folder / "a.sqlite") as store:
            yield store
    else:
        yield LocalStore(folder / "a")


def state(store: Any) -> str:
    root = open_group(store, mode="r")
    assert list(root) == ["x"]
    node = root["x"]
    if isinstance(node, tessarr.Array):
        values = node[:].tolist()
        assert values in (OLD.tolist(), NEW.tolist())
        return "old" if values == OLD.tolist() else "new"
    for name in node:
        assert node[name][:].tolist() == NEW.tolist()
    return "new"


@pytest.mark.parametrize(("action", "kind", "zarr_format"), CASES)
def test_killed_replacement_leaves_old_or_new_node(
    tmp_path: Path, action: str, kind: str, zarr_format: Any
) -> None:
    """After SIGKILL at any time, one node is complete; the next replacement removes leftovers."""

    def prepare(folder: Path) -> Callable[[], object]:
        with opened(kind, folder) as store:
            root = open_group(store, mode="a", zarr_format=zarr_format)
            root.create_array("x", data=OLD, chunks=6)

        def replace() -> None:
            with opened(kind, folder) as store:
                ACTIONS[action](store, zarr_format)

        return replace

    states = set()
    for folder in rounds(tmp_path, prepare):
        with opened(kind, folder) as store:
            states.add(state(store))
            ACTIONS[action](store, zarr_format)
            assert state(store) == "new"
            assert not [key for key in store.list("") if "__" in key]
        assert not list(folder.rglob("*__*"))
    assert states == {"old", "new"}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_killed_save_leaves_old_or_new_folder(tmp_path: Path, zarr_format: Any) -> None:
    """A whole store is replaced by a folder that is built beside it."""

    def prepare(folder: Path) -> Callable[[], object]:
        tessarr.save(folder / "a", OLD, zarr_format=zarr_format)
        return lambda: tessarr.save(folder / "a", NEW, zarr_format=zarr_format)

    states = set()
    for folder in rounds(tmp_path, prepare):
        values = load(folder / "a").tolist()
        assert values in (OLD.tolist(), NEW.tolist())
        states.add(len(values))
        tessarr.save(folder / "a", NEW, zarr_format=zarr_format)
        assert [path.name for path in folder.iterdir()] == ["a"]
    assert states == {len(OLD), len(NEW)}
