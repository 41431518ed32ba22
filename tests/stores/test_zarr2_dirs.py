"""Folder stores with the names of zarr-python 2: nested keys, temporary folders."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import tessarr
from tessarr.errors import ArgumentError, ReadOnlyError, StoreError
from tessarr.stores import DirectoryStore, LocalStore, NestedDirectoryStore, TempStore


def test_directory_stores_are_equal_by_path(tmp_path: Path) -> None:
    """Stores of one folder are equal, whatever their class."""
    store = DirectoryStore(str(tmp_path))
    assert store == LocalStore(tmp_path) == NestedDirectoryStore(tmp_path)
    assert store != DirectoryStore(tmp_path / "other")
    assert (store.path, store.root, repr(store)) == (
        str(tmp_path),
        str(tmp_path),
        f"DirectoryStore({str(tmp_path)!r})",
    )


def test_directory_store_keys_are_files(tmp_path: Path) -> None:
    """An assigned value is a file, and `rmdir` removes a folder."""
    store = DirectoryStore(tmp_path / "root")
    store["foo"] = bytearray(b"bar")
    store["a/b/c"] = memoryview(b"xxx")
    assert (tmp_path / "root/foo").read_bytes() == b"bar"
    assert (tmp_path / "root/a/b/c").read_bytes() == b"xxx"
    assert (store.listdir(), store.listdir("/a/b/"), sorted(store.keys())) == (
        ["a", "foo"],
        ["c"],
        ["a/b/c", "foo"],
    )
    store.rmdir("a")
    assert not (tmp_path / "root/a").exists()


def test_nested_store_gives_new_arrays_nested_keys(tmp_path: Path) -> None:
    """An array of format 2 takes the separator of the store and records it in its metadata."""
    store = NestedDirectoryStore(tmp_path)
    a = tessarr.create_array(store, data=[[1, 2], [3, 4]], chunks=1, zarr_format=2)
    assert (tmp_path / "1/0").is_file()
    assert json.loads(store[".zarray"])["dimension_separator"] == "/"
    assert tessarr.open_array(tmp_path)[1].tolist() == [3, 4]
    assert a.store is store
    with pytest.raises(ArgumentError, match=r"dimension_separator '\.' is not that of the store"):
        tessarr.create_array(
            store, path="b", shape=2, dtype="i1", zarr_format=2, dimension_separator="."
        )
    with pytest.raises(ArgumentError, match="NestedDirectoryStore has the dimension_separator"):
        NestedDirectoryStore(tmp_path, dimension_separator=".")
    with pytest.raises(ArgumentError, match="must be"):
        DirectoryStore(tmp_path, dimension_separator="-")  # type: ignore[arg-type]


def test_nested_store_reads_arrays_without_separator(tmp_path: Path) -> None:
    """Old programs left the separator to the store; a separator in the metadata has priority."""
    plain = LocalStore(tmp_path)
    tessarr.create_array(plain, data=[[1, 2], [3, 4]], chunks=1, zarr_format=2)
    store = NestedDirectoryStore(tmp_path)
    with pytest.raises(StoreError, match="separator"):
        tessarr.open_array(store)[...]
    for cell in ("0.0", "0.1", "1.0", "1.1"):
        plain.rename(cell, cell.replace(".", "/"))
    a = tessarr.open_array(store)
    assert a[...].tolist() == [[1, 2], [3, 4]]
    assert a.nchunks_initialized == 4
    a.refresh()
    a.append([[5, 6]])
    assert (tmp_path / "2/1").is_file()
    a.resize(2, 2)
    assert a[...].tolist() == [[1, 2], [3, 4]]
    assert pickle.loads(pickle.dumps(a))[...].tolist() == [[1, 2], [3, 4]]
    with pytest.raises(StoreError, match="separator"):
        tessarr.open_array(plain)[...]
    document = json.loads(store[".zarray"])
    store[".zarray"] = json.dumps(document | {"dimension_separator": "."}).encode()
    with pytest.raises(StoreError, match="separator"):
        tessarr.open_array(store)[...]


def test_format_3_ignores_separator_of_store(tmp_path: Path) -> None:
    """Arrays of format 3 ignore the separator of the store."""
    store = DirectoryStore(tmp_path, dimension_separator=".")
    tessarr.create_array(store, data=[[1, 2], [3, 4]], chunks=1)
    assert "c/1/1" in store


def test_unpickled_directory_store_has_same_folder(tmp_path: Path) -> None:
    """A pickle holds class, path and separator; an unpickled temporary folder is permanent."""
    store = DirectoryStore(tmp_path, dimension_separator="/", read_only=True)
    again = pickle.loads(pickle.dumps(store))
    assert (type(again), again, again.dimension_separator) == (DirectoryStore, store, "/")
    with pytest.raises(ReadOnlyError):
        again["a"] = b""
    with TempStore(dimension_separator="/") as temporary:
        temporary["a"] = b"1"
        again = pickle.loads(pickle.dumps(temporary))
        assert (type(again), again["a"], again.dimension_separator) == (DirectoryStore, b"1", "/")
        again.close()
        assert os.path.exists(temporary.path)
    assert not os.path.exists(temporary.path)


@pytest.mark.slow
def test_temp_store_removes_folder_at_exit(tmp_path: Path) -> None:
    """The exit of the process removes the folder; the exit of a forked child does not."""
    code = """
import os, sys
from tessarr.stores import TempStore
store = TempStore("-end", "begin-", sys.argv[1])
store["a"] = b"1"
child = os.fork()
if not child:
    sys.exit()
os.waitpid(child, 0)
print(store["a"].decode(), os.path.basename(store.path))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    value, name = done.stdout.split()
    assert value == "1"
    assert name.startswith("begin-")
    assert name.endswith("-end")
    assert list(tmp_path.iterdir()) == []
