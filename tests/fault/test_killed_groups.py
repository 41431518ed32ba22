"""SIGKILL during deletions, moves and creations of groups: no deleted node reappears."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
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


pytestmark = marks


class Files(MutableMapping[str, bytes]):
    """Mapping of keys to files without renames, like a store of a third party."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def _file_of(self, key: str) -> Path:
        return self.folder / key.replace("/", "|")

    def __getitem__(self, key: str) -> bytes:
        try:
            return self._file_of(key).read_bytes()
        except FileNotFoundError:
            raise KeyError(key) from None

    def __setitem__(self, key: str, value: bytes) -> None:
        new = self.folder / ".new"
        new.write_bytes(value)
        new.replace(self._file_of(key))

    def __delitem__(self, key: str) -> None:
        try:
            self._file_of(key).unlink()
        except FileNotFoundError:
            raise KeyError(key) from None

    def __iter__(self) -> Iterator[str]:
        names = [path.name for path in self.folder.iterdir() if path.name != ".new"]
        return iter([name.replace("|", "/") for name in names])

    def __len__(self) -> int:
        return len(list(iter(self)))


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[Any]:
    if kind == "sqlite":
        with SQLiteStore(folder / "x.sqlite") as store:
            yield store
    else:
        yield LocalStore(folder / "x") if kind == "folder" else Files(folder / "x")


CASES = [(kind, form) for kind in ("folder", "sqlite", "mapping") for form in (2, 3)]


def hierarchy(store: Any, zarr_format: Any) -> None:
    group = tessarr.create_group(store, path="x", zarr_format=zarr_format)
    group.create_array("a", data=np.arange(1, 21), chunks=3)
    group.create_group("g").create_array("b", data=np.ones((4, 4)), chunks=2)


def check_whole(group: Any) -> None:
    assert group["a"][:].tolist() == list(range(1, 21))
    assert group["g/b"][:].sum() == 16


def check_empty_when_created(root: Any, name: str) -> None:
    created = root.create_group(name)
    assert not dict(created.members(max_depth=None))
    array = created.create_array("a", shape=20, chunks=3, dtype="i8", fill_value=-1)
    assert array[:].tolist() == [-1] * 20


@pytest.mark.parametrize(("kind", "zarr_format"), CASES)
def test_killed_delete_restores_no_nodes(tmp_path: Path, kind: str, zarr_format: Any) -> None:
    """After SIGKILL at any time, the group is whole, or a new group of its name is empty."""

    def prepare(folder: Path) -> Callable[[], object]:
        with opened(kind, folder) as store:
            hierarchy(store, zarr_format)

        def delete() -> None:
            with opened(kind, folder) as store:
                del open_group(store, mode="r+")["x"]

        return delete

    for folder in rounds(tmp_path, prepare):
        with opened(kind, folder) as store:
            root = open_group(store, mode="r+")
            if "x" in root:
                check_whole(root["x"])
                del root["x"]
            check_empty_when_created(root, "x")
            del root["x"]
            assert not [key for key in store if "x" in key]
            if kind == "folder":
                assert not list((folder / "x").glob("x*"))


@pytest.mark.parametrize(("kind", "zarr_format"), CASES)
def test_killed_move_leaves_complete_group(tmp_path: Path, kind: str, zarr_format: Any) -> None:
    """After SIGKILL at any time, the group is whole under one name, and the other name is free."""

    def prepare(folder: Path) -> Callable[[], object]:
        with opened(kind, folder) as store:
            hierarchy(store, zarr_format)

        def move() -> None:
            with opened(kind, folder) as store:
                open_group(store, mode="r+").move("x", "y")

        return move

    for folder in rounds(tmp_path, prepare):
        with opened(kind, folder) as store:
            root = open_group(store, mode="r+")
            whole = {"x", "y"} & set(root)
            assert whole
            for name in whole:
                check_whole(root[name])
            for name in {"x", "y"} - whole:
                check_empty_when_created(root, name)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_killed_hierarchy_creation_can_be_repeated(tmp_path: Path, zarr_format: Any) -> None:
    """After SIGKILL at any time, the hierarchy lists, and a second creation completes it."""

    def prepare(folder: Path) -> Callable[[], object]:
        path = folder / "x"
        tessarr.create_group(path, zarr_format=zarr_format)

        def create() -> None:
            root = open_group(path, mode="r+")
            for name in ("a/b/c", "a/d", "e"):
                root.require_group(name)

        return create

    for folder in rounds(tmp_path, prepare):
        root = open_group(folder / "x", mode="r+")
        dict(root.members(max_depth=None))
        for name in ("a/b/c", "a/d", "e"):
            root.require_group(name)
        assert sorted(dict(root.members(max_depth=None))) == ["a", "a/b", "a/b/c", "a/d", "e"]
