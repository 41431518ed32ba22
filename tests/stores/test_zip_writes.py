"""Zip stores: concurrent writers and readers, failed writes, and removal of garbage."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from stores.zips import read_zip
from tessarr.errors import DataError, StoreError
from tessarr.store.zip.entries import Entries
from tessarr.store.zip.format import Entry
from tessarr.stores import ZipStore


@pytest.mark.parametrize("in_memory", [False, True])
def test_close_removes_garbage(tmp_path: Path, in_memory: bool) -> None:
    """The closed file has the size of a file whose values were written once."""
    location: Any = io.BytesIO() if in_memory else tmp_path / "a.zip"
    path = location if in_memory else str(location)
    with ZipStore(location, mode="w") as store:
        a = tessarr.create_array(store, shape=100, chunks=10, dtype="i4", compressors=None)
        for number in range(5):
            a[5:95] = number
            store.flush()
        store["b/c/0"] = b"1"
        store.rmdir("b")
        store["kept"] = b"x" * 100
    with ZipStore(location, mode="a") as store:
        tessarr.open_array(store)[:10] = 9
        del store["kept"]
    result = read_zip(path)
    assert set(result) == {"zarr.json", *(f"c/{i}" for i in range(10))}
    expected = sum(len(value) + 76 + 2 * len(name) for name, value in result.items()) + 22
    size = len(location.getvalue()) if in_memory else location.stat().st_size
    assert size == expected
    values = tessarr.open_array(ZipStore(location, mode="r"))[:]
    assert values.tolist() == [9] * 10 + [4] * 85 + [0] * 5


@pytest.mark.parametrize("in_memory", [False, True])
def test_close_after_deletion_of_all_values_leaves_empty_zip(
    tmp_path: Path, in_memory: bool
) -> None:
    location: Any = io.BytesIO() if in_memory else tmp_path / "a.zip"
    with ZipStore(location, mode="w") as store:
        store["a"] = b"1"
        store.flush()
        del store["a"]
    assert read_zip(location) == {}
    assert (len(location.getvalue()) if in_memory else location.stat().st_size) == 22


def test_little_garbage_in_large_file_stays(tmp_path: Path) -> None:
    """Closing copies a large file only if a fifth of it is unused."""
    path = tmp_path / "a.zip"
    large = bytes(1 << 22)
    with ZipStore(path, mode="w") as store:
        for key in "abcdef":
            store[key] = large
    inode = path.stat().st_ino
    with ZipStore(path) as store:
        store["g"] = b"1"
        store["g"] = b"2"
    assert path.stat().st_ino == inode
    assert read_zip(path)["g"] == b"2"
    with ZipStore(path) as store:
        del store["a"], store["b"]
    assert path.stat().st_size < 4 * len(large) + 2000
    assert read_zip(path) == {**dict.fromkeys("cdef", large), "g": b"2"}


@pytest.mark.slow
def test_zip_has_one_writer(tmp_path: Path) -> None:
    """A second writer in any process raises an error; readers wait for the end of a write."""
    path = tmp_path / "a.zip"
    store = ZipStore(path, mode="w")
    store["a"] = b"1"
    for mode in ("a", "w", "r+"):
        with pytest.raises(StoreError, match="another store does") as caught:
            ZipStore(path, mode=mode)
        assert caught.value.retryable
    code = "import sys; from tessarr.stores import ZipStore; ZipStore(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, check=False, timeout=60
    )
    assert b"another store does" in done.stderr
    with pytest.raises(DataError, match="first close or flush the store"):
        ZipStore(path, mode="r")
    store.flush()
    assert dict(ZipStore(path, mode="r")) == {"a": b"1"}
    store.close()
    ZipStore(path).close()


def test_zip_open_value_is_snapshot(tmp_path: Path) -> None:
    """Open values of readers survive replacements and compaction by a writer."""
    path = tmp_path / "a.zip"
    with ZipStore(path, mode="w") as store:
        store["a"] = b"1" * 1000
    reader = ZipStore(path, mode="r")
    with ZipStore(path) as store:
        value = store.open_value("a")
        assert value is not None
        store["a"] = b"2" * 10
        assert value.read(10, 5) == b"11111"
    assert reader["a"] == b"1" * 1000
    assert ZipStore(path, mode="r")["a"] == b"2" * 10


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_replaced_zip_value_is_never_absent(tmp_path: Path) -> None:
    """Readers do not wait for writers: they read the old value or the new one."""
    there: list[bool] = []

    class Watched(Entries):
        def __setitem__(self, key: str, entry: Entry) -> None:
            there.append(key in self)
            super().__setitem__(key, entry)

    with ZipStore(tmp_path / "a.zip", mode="w") as store:
        store._archive.entries = Watched()
        store["k"] = b"1"
        there.clear()
        store["k"] = b"2"
        assert (store["k"], there) == (b"2", [True])


@pytest.mark.slow
def test_forked_child_reads_and_does_not_write(tmp_path: Path) -> None:
    """Only the process that opened a file completes it."""
    path = tmp_path / "a.zip"
    store = ZipStore(path, mode="w")
    store["a"] = b"1"
    child = os.fork()
    if not child:
        code = 1
        try:
            assert store["a"] == b"1"
            with pytest.raises(StoreError, match="has forked"):
                store["b"] = b"2"
            store.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    store["c"] = b"3"
    store.close()
    assert read_zip(path) == {"a": b"1", "c": b"3"}


def test_failed_write_leaves_zip_unchanged() -> None:
    """After a full disk, the old value is readable, and the file accepts later writes."""

    class Full(io.BytesIO):
        room = 1 << 20

        def write(self, data: Any, /) -> int:
            if self.tell() + len(data) > self.room:
                super().write(bytes(data)[:3])
                raise OSError(28, "No space left on device")
            return super().write(data)

    file = Full()
    with ZipStore(file, mode="w") as store:
        store["a"] = b"1"
        store.flush()
        file.room = len(file.getvalue()) + 300
        with pytest.raises(OSError, match="No space left"):
            store["a"] = bytes(1000)
        assert read_zip(io.BytesIO(file.getvalue())) == {"a": b"1"}
        store["b"] = b"2"
    assert read_zip(file) == {"a": b"1", "b": b"2"}


def test_flush_while_node_is_replaced_keeps_old_node(tmp_path: Path) -> None:
    """The central directory lists the old values until the new node is complete."""
    path = str(tmp_path / "a.zip")
    store = ZipStore(path, mode="w")
    group = tessarr.create_group(store)
    group["x"] = np.arange(6)
    results: list[Any] = []

    class Flushing:
        shape, dtype, ndim, chunks = (6,), np.dtype("i8"), 1, (2,)

        def __getitem__(self, key: Any) -> Any:
            store.flush()
            with zipfile.ZipFile(path) as file:
                results.append((sorted(file.namelist()), tessarr.load(path, "x")))
            return np.full(6, 7)[key]

    group.create_array("x", data=Flushing(), chunks=2, overwrite=True)
    assert group.get_array("x")[:].tolist() == [7] * 6
    assert results
    for names, values in results:
        assert names == ["x/c/0", "x/zarr.json", "zarr.json"]
        assert values.tolist() == [*range(6)]
    store.close()
    with zipfile.ZipFile(path) as file:
        assert sorted(file.namelist()) == ["x/c/0", "x/c/1", "x/c/2", "x/zarr.json", "zarr.json"]
        assert file.testzip() is None
    assert tessarr.open_array(path, path="x")[:].tolist() == [7] * 6


def test_move_of_node_gives_values_other_names(tmp_path: Path) -> None:
    """Names are part of the file, so a move stores the values again."""
    path = str(tmp_path / "a.zip")
    with tessarr.open_group(path, mode="w") as group:
        group["x/y"] = np.arange(6)
        group.move("x", "z/x")
        assert group.get_array("z/x/y")[:].tolist() == [*range(6)]
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        assert all(name.startswith("z/") for name in file.namelist() if name != "zarr.json")
    group = tessarr.open_group(path, mode="r")
    assert list(group) == ["z"]
    assert group.get_array("z/x/y")[:].tolist() == [*range(6)]
