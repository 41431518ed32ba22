"""Replacements of nodes that stop: the old node remains until the new one is complete."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import tessarr
from fault.killing import forked
from stores.failing import StoppingStore
from tessarr.node import replace as replacement
from tessarr.stores import (
    ForeignStore,
    LocalStore,
    MemoryStore,
    PrefixStore,
    SQLiteStore,
    Store,
    ZipStore,
)

# Untyped, because the test knows the kind of each member.
open_group: Any = tessarr.open_group
load: Any = tessarr.load


OLD = np.arange(1, 11)
NEW = np.arange(100, 132)

KINDS: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "folder": lambda folder: LocalStore(folder / "a"),
    "sqlite": lambda folder: SQLiteStore(folder / "a.sqlite"),
    "zip": lambda folder: ZipStore(folder / "a.zip", mode="w"),
    "prefix": lambda folder: PrefixStore(LocalStore(folder / "a"), "below"),
}

ACTIONS: dict[str, Callable[[Any, Any], object]] = {
    "assign": lambda store, data: open_group(store).__setitem__("x", data),
    "create_array": lambda store, data: open_group(store).create_array(
        "x", data=data, chunks=3, overwrite=True
    ),
    "create_dataset": lambda store, data: open_group(store).create_dataset(
        "x", data=data, chunks=3, overwrite=True
    ),
    "save": lambda store, data: tessarr.save(store, data, path="x", zarr_format=form(store)),
    "save_array": lambda store, data: tessarr.save_array(
        store, data, path="x", chunks=3, zarr_format=form(store)
    ),
    "save_group": lambda store, data: tessarr.save_group(
        store, path="x", a=data, b=data, zarr_format=form(store)
    ),
    "copy": lambda store, data: tessarr.copy(
        tessarr.array(data, chunks=3), open_group(store), "x", if_exists="replace"
    ),
    "create_group": lambda store, _: open_group(store).create_group(
        "x", overwrite=True, attributes={"new": 1}
    ),
}


def form(store: Any) -> Any:
    return open_group(store, mode="r").zarr_format


class Raising:
    """Array-like object whose last elements raise an error."""

    shape, dtype, ndim, chunks = (32,), np.dtype("i8"), 1, (3,)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            (key,) = key
        if key.stop is None or key.stop > 20:
            raise OSError("cannot read")
        return NEW[key]


def state(store: Any) -> str:
    """Return whether "x" is the old array or the complete new node."""
    root = open_group(store, mode="r")
    assert set(root) <= {"x", "kept"}
    assert root["kept"][:].tolist() == [5]
    node = root["x"]
    if isinstance(node, tessarr.Array):
        values = node[:].tolist()
        assert values in (OLD.tolist(), NEW.tolist())
        return "old" if values == OLD.tolist() else "new"
    if "new" in node.attrs:
        assert list(node) == []
    else:
        assert node["a"][:].tolist() == node["b"][:].tolist() == NEW.tolist()
    return "new"


def prepare(store: Any, zarr_format: Any = 3) -> None:
    root = open_group(store, mode="a", zarr_format=zarr_format)
    root.create_array("kept", data=[5])
    root.create_array("x", data=OLD, chunks=3)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("action", ACTIONS)
def test_interrupted_replacement_leaves_old_or_new_node(action: str, zarr_format: Any) -> None:
    """After a stop at any change of a replacement, one node is complete."""
    for count in range(100):
        stopping = StoppingStore()
        store = ForeignStore(stopping)
        prepare(store, zarr_format)
        stopping.changes_left = count
        try:
            ACTIONS[action](store, NEW)
        except OSError:
            failed = True
        else:
            failed = False
        stopping.changes_left = 1 << 30
        assert state(store) in ({"old", "new"} if failed else {"new"})
        ACTIONS[action](store, NEW)
        assert state(store) == "new"
        assert not [key for key in stopping.items if "__" in key]
        if not failed:
            break
    assert count > 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("action", ["assign", "create_array", "save", "save_array"])
def test_replacement_with_unreadable_data_keeps_old_node(
    tmp_path: Path, kind: str, action: str
) -> None:
    """An error while the new values are stored leaves only the old array."""
    store = KINDS[kind](tmp_path)
    prepare(store)
    before = {key: store.get(key) for key in store.list("")}
    with pytest.raises(OSError, match="cannot read"):
        ACTIONS[action](store, Raising())
    assert {key: store.get(key) for key in store.list("")} == before
    assert not list(tmp_path.rglob("*__*"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("action", ACTIONS)
def test_replacement_leaves_only_new_node(tmp_path: Path, kind: str, action: str) -> None:
    """The new node may be of another kind, and no hidden key remains."""
    store = KINDS[kind](tmp_path)
    prepare(store, 2)
    ACTIONS[action](store, NEW)
    assert state(store) == "new"
    ACTIONS["save_group"](store, NEW)
    ACTIONS[action](store, NEW)
    assert state(store) == "new"
    assert not list(tmp_path.rglob("*__*"))
    assert not [key for key in store.list("") if "__" in key]


@pytest.mark.parametrize("kind", KINDS)
def test_replacements_by_several_threads_come_one_after_another(tmp_path: Path, kind: str) -> None:
    """Concurrent replacements of one node each store a complete node."""
    store = KINDS[kind](tmp_path)
    prepare(store)
    root = open_group(store)
    errors: list[Exception] = []

    def replace(number: int) -> None:
        try:
            for _ in range(5):
                root.create_array("x", data=np.full(20, number), chunks=3, overwrite=True)
        except Exception as error:
            errors.append(error)

    threads = [Thread(target=replace, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(np.unique(root["x"][:])) == 1
    assert sorted(root) == ["kept", "x"]
    assert not list(tmp_path.rglob("*__*"))


def test_replacement_of_folder_failure_keeps_old_node(tmp_path: Path) -> None:
    """The root of a folder store is replaced by a folder that is built beside it."""
    path = tmp_path / "a.zarr"
    tessarr.save(path, OLD)
    path.chmod(0o750)
    with pytest.raises(OSError, match="cannot read"):
        tessarr.save(path, Raising())
    assert load(path).tolist() == OLD.tolist()
    store = LocalStore(path)
    array = tessarr.open_array(store)
    tessarr.save(path, a=NEW)
    assert load(store, "a").tolist() == NEW.tolist()
    tessarr.create_group(path, overwrite=True)
    assert list(open_group(store)) == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.zarr"]
    assert path.stat().st_mode & 0o777 == 0o750
    assert array.shape == (10,)


def test_replacement_reads_old_node_as_data(tmp_path: Path) -> None:
    """The new array may read its data from the old one, part by part."""
    store = LocalStore(tmp_path)
    prepare(store)
    root = open_group(store)
    root["x"] = root["x"]
    assert root["x"][:].tolist() == OLD.tolist()
    root.create_array("x", data=root["x"], chunks=4, overwrite=True)
    assert root["x"][:].tolist() == OLD.tolist()
    assert root["x"].chunks == (4,)


def test_save_keeps_foreign_files(tmp_path: Path) -> None:
    """A folder with other files is not replaced, so the files remain."""
    (tmp_path / "notes.txt").write_text("mine")
    tessarr.save(tmp_path, OLD)
    tessarr.save(tmp_path / "new", OLD)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert load(tmp_path).tolist() == OLD.tolist()


def test_save_in_working_folder_keeps_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The working folder of the program keeps its inode."""
    monkeypatch.chdir(tmp_path)
    tessarr.save(".", OLD)
    inode = tmp_path.stat().st_ino
    tessarr.save(".", NEW)
    assert tmp_path.stat().st_ino == inode
    assert load(tmp_path).tolist() == NEW.tolist()


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_replacement_updates_consolidated_metadata_above(tmp_path: Path, zarr_format: Any) -> None:
    """Consolidated metadata above include the new node and no staging node."""
    store = LocalStore(tmp_path)
    prepare(store, zarr_format)
    tessarr.consolidate_metadata(store)
    for action in ("assign", "save_group", "create_group"):
        ACTIONS[action](store, NEW)
        assert tessarr.consolidated_differences(store) == {}
        assert state(store) == "new"


def test_replacement_of_link_leaves_its_target(tmp_path: Path) -> None:
    """If the node is a symbolic link, the link is replaced."""
    store = LocalStore(tmp_path / "a")
    prepare(store)
    tessarr.save(tmp_path / "other", OLD)
    (tmp_path / "a" / "y").symlink_to(tmp_path / "other")
    open_group(store)["y"] = NEW
    assert load(store, "y").tolist() == NEW.tolist()
    assert load(tmp_path / "other").tolist() == OLD.tolist()
    assert not (tmp_path / "a" / "y").is_symlink()


@pytest.mark.parametrize("action", ACTIONS)
def test_replacement_without_exchange_deletes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str
) -> None:
    """A folder that cannot be renamed, such as a mount point, is emptied before the write."""

    def refuse(_: Any) -> Any:
        yield from ()
        return False

    monkeypatch.setattr(replacement, "_exchange", refuse)
    store = LocalStore(tmp_path)
    prepare(store)
    ACTIONS[action](store, NEW)
    assert state(store) == "new"
    assert not list(tmp_path.rglob("*__*"))


def test_create_node_with_staging_name_raises() -> None:
    """Names of staging folders are invalid for nodes."""
    with pytest.raises(ValueError, match="reserved"):
        tessarr.create_group({}, path="x.__new.__lock")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("kind", ["folder", "whole folder"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_replacement_on_full_disk_keeps_old_node(
    tmp_path: Path, kind: str, zarr_format: Any
) -> None:
    """The write of a chunk exceeds a file size limit; the old array remains."""
    path = "x" if kind == "folder" else None
    old, large = np.arange(100), np.random.default_rng(1).bytes(1 << 16)
    tessarr.create_group(tmp_path / "a", zarr_format=zarr_format)
    tessarr.save_array(tmp_path / "a", old, path=path, zarr_format=zarr_format)

    def replace() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, 1 << 12))
        values = np.frombuffer(large, "u1")
        with pytest.raises(OSError, match="cannot write"):
            tessarr.save_array(
                tmp_path / "a", values, path=path, chunks=1 << 14, zarr_format=zarr_format
            )

    forked(replace, None)
    assert load(tmp_path / "a", path).tolist() == old.tolist()
    assert not list(tmp_path.rglob("*__*"))
