"""Zip stores: modes, paths and URLs, file objects, pickles and closing."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

import tessarr
import tessarr.tensorstore as ts
from stores.zips import open_zip, read_zip, write_zip
from tessarr.cli import main
from tessarr.errors import (
    ArgumentError,
    DataError,
    ExistsError,
    NotFoundError,
    ReadOnlyError,
    StoreError,
)
from tessarr.stores import LocalStore, ZipStore


def test_modes(tmp_path: Path) -> None:
    """The modes match those of `open`, and a missing file raises an error at once."""
    path = tmp_path / "below" / "a.zip"
    for mode in ("r", "r+"):
        with pytest.raises(NotFoundError, match="there is no file"):
            ZipStore(path, mode=mode)
    assert not path.parent.exists()
    with ZipStore(path, mode="x") as store:
        store["a"] = b"1"
    with pytest.raises(ExistsError, match="there is a file"):
        ZipStore(path, mode="x")
    with pytest.raises(ExistsError, match="there is a file"):
        ZipStore(path, mode="w-")
    with ZipStore(path) as store:
        store["b"] = b"2"
    with ZipStore(path, mode="r+") as store:
        store["c"] = b"3"
    for store in (ZipStore(path, mode="r"), ZipStore(path, read_only=True)):
        assert dict(store) == {"a": b"1", "b": b"2", "c": b"3"}
        with pytest.raises(ReadOnlyError):
            store["d"] = b""
        store.close()
    with ZipStore(path, mode="w") as store:
        assert len(store) == 0
    assert read_zip(path) == {}
    with pytest.raises(ArgumentError, match="mode 'rw' is not one of"):
        ZipStore(path, mode="rw")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="compression 99 is not one of 0, 8, 12, 14"):
        ZipStore(path, 99)
    with pytest.raises(TypeError, match="is neither a path nor a binary file"):
        ZipStore(3)  # type: ignore[arg-type]


def test_failed_creation_leaves_no_file(tmp_path: Path) -> None:
    """Opening for append creates no file."""
    ZipStore(tmp_path / "a.zip").close()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NotFoundError):
        tessarr.open_array(tmp_path / "b.zip")
    assert list(tmp_path.iterdir()) == []


def test_zip_mode_creates_file_at_first_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads, writes without effect and failed writes create neither a file nor a folder."""
    path = tmp_path / "below" / "a.zip"
    store = ZipStore(path)
    assert (dict(store), "a" in store) == ({}, False)
    store.rmdir()
    store.delete("a")
    with pytest.raises(NotFoundError):
        tessarr.open_array(path, "r")
    assert list(tmp_path.iterdir()) == []
    path.parent.mkdir()
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(os, "pwrite", _full)
        store["a"] = b"1"
    assert list(path.parent.iterdir()) == []
    store["a"] = b"1"
    assert path.exists()
    store.close()
    assert read_zip(path) == {"a": b"1"}


def _full(*_: object) -> int:
    raise OSError(28, "No space left on device")


def test_file_created_by_other_process_meanwhile_raises(tmp_path: Path) -> None:
    """The store reads and extends the new file; a file that is no Zip file raises an error."""
    path = tmp_path / "a.zip"
    store = ZipStore(path)
    assert list(store) == []
    path.write_bytes(b"none")
    for _ in range(2):
        with pytest.raises(DataError, match="cannot open"):
            store["b"] = b"2"
    assert path.read_bytes() == b"none"
    path.write_bytes(write_zip({"a": b"1"}))
    assert list(store) == ["a"]
    store["b"] = b"2"
    store.close()
    assert read_zip(path) == {"a": b"1", "b": b"2"}


def test_closed_zip_store_raises(tmp_path: Path) -> None:
    """After `close`, every operation raises an error, except a second `close`."""
    path = tmp_path / "a.zip"
    store = ZipStore(path)
    store["a"] = b"1"
    value = store.open_value("a")
    assert value is not None
    states = [store.closed]
    store.close()
    store.close()
    states.append(store.closed)
    assert states == [False, True]
    actions: list[Any] = [
        lambda: store["a"],
        lambda: store.__setitem__("a", b""),
        lambda: list(store),
        store.listdir,
        store.rmdir,
        lambda: value.read(0, 1),
        store.flush,
    ]
    for action in actions:
        with pytest.raises(StoreError, match="is closed"):
            action()


def test_by_its_path(tmp_path: Path) -> None:
    """A path that ends in .zip is a Zip file, and accepts several arrays."""
    path = tmp_path / "a.ZIP"
    a = tessarr.create_array(path, path="a", data=[1, 2, 3])
    b = tessarr.create_array(str(path), path="b", data=[4])
    assert a.store is b.store
    assert a.store.path == str(path)
    b.append([5])
    assert sorted(tessarr.open_group(f"file://{path}", "r")) == ["a", "b"]
    assert tessarr.open_array(path, "r", path="b")[:].tolist() == [4, 5]
    a[0] = 9
    a.close()
    assert b.store.closed
    assert tessarr.open_array(path, "r", path="a")[0] == 9
    with tessarr.open_group(path, "w") as group:
        group.attrs["x"] = 1
    assert set(read_zip(path)) == {"zarr.json"}
    folder = tmp_path / "folder.zip"
    folder.mkdir()
    assert isinstance(tessarr.create_group(folder).store, LocalStore)
    with pytest.raises(StoreError, match="is a folder, not a Zip file"):
        ZipStore(folder)


@pytest.mark.parametrize("name", ["a.zarr", "a.ozx", "a.OZX", "a"])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zip_file_of_any_name_is_detected(
    tmp_path: Path, name: str, method: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The signature of the file decides, in Python and in the command."""
    folder = LocalStore(tmp_path / "folder")
    tessarr.create_group(folder, attributes={"x": 1}).create_array("b", data=[1, 2])
    path = tmp_path / name
    with zipfile.ZipFile(path, "w", method) as file:
        for key, value in folder.items():
            file.writestr(key, value)
    for known_as in (path, str(path), f"file://{path}"):
        group = tessarr.open_group(known_as, "r")
        assert isinstance(group.store, ZipStore)
        assert group.get_array("b")[:].tolist() == [1, 2]
    assert tessarr.open_array(path, "r", path="b")[:].tolist() == [1, 2]
    with tessarr.open_group(path, "r+") as group:
        group.get_array("b")[0] = 7
    assert tessarr.open_array(path, path="b")[:].tolist() == [7, 2]
    tessarr.copy_to(path, tmp_path / "copy")
    assert tessarr.open_array(tmp_path / "copy", "r", path="b")[0] == 7
    assert main(["cat", f"{path}/b"]) == 0
    assert capsys.readouterr().out == "7\n2\n"
    with tessarr.open_group(path, "w") as group:
        group.attrs["new"] = True
    assert zipfile.is_zipfile(path)
    assert dict(tessarr.open_group(path, "r").attrs) == {"new": True}


def test_empty_zip_file_of_any_name_is_zip_store(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    zipfile.ZipFile(path, "w").close()
    with pytest.raises(NotFoundError, match="at the root of ZipStore"):
        tessarr.open(path, "r")


def test_new_file_called_ozx_is_zip_file(tmp_path: Path) -> None:
    """OME-Zarr uses this suffix for Zip files."""
    with tessarr.open_group(tmp_path / "a.ozx", "a") as group:
        group.create_array("b", data=[1])
    assert zipfile.is_zipfile(tmp_path / "a.ozx")


@pytest.mark.slow
def test_unreferenced_zip_store_is_closed(tmp_path: Path) -> None:
    """The garbage collector and the exit of Python complete the file."""
    path = tmp_path / "a.zip"
    tessarr.create_array(path, data=[1, 2])
    assert "zarr.json" in read_zip(path)
    code = "import sys, tessarr; a = tessarr.open_array(sys.argv[1]); a[0] = 5"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=60)
    assert tessarr.open_array(path, "r")[:].tolist() == [5, 2]


@pytest.mark.covers("V3-ZIP-01")
def test_zip_of_one_folder_opens_that_folder(tmp_path: Path) -> None:
    """If the only top-level folder holds a node, the path of the file opens that node."""
    folder = LocalStore(tmp_path / "data.zarr")
    tessarr.create_array(folder, data=[1, 2])
    values = {f"data.zarr/{key}": value for key, value in folder.items()}
    path = tmp_path / "data.zip"
    for more in ({}, {"data.zarr/": b""}, {"__MACOSX/._data.zarr": b"x"}):
        path.write_bytes(write_zip(more | values))
        array = tessarr.open_array(path, "r")
        assert (array.path, array[:].tolist()) == ("data.zarr", [1, 2])
        for named in ("data.zarr", "/data.zarr/"):
            assert tessarr.open_array(path, "r", path=named).path == "data.zarr"
    path.write_bytes(write_zip({f"./{key}": value for key, value in folder.items()}))
    assert tessarr.open(path, "r").path == ""
    path.write_bytes(write_zip(values | {"zarr.json": folder["zarr.json"]}))
    assert tessarr.open(path, "r").path == ""


def test_zip_of_one_folder_with_node_of_same_name(tmp_path: Path) -> None:
    """Paths resolve below the node first; new values go below the folder."""
    folder = LocalStore(tmp_path / "a")
    tessarr.create_group(folder).create_array("a", data=[1, 2])
    path = tmp_path / "a.zip"
    path.write_bytes(write_zip({f"a/{key}": value for key, value in folder.items()}))
    assert tessarr.open(path, "r", path="a").path == "a/a"
    with tessarr.open_group(path, "a", path="a/new") as new:
        assert new.path == "a/new"


def test_file_objects(tmp_path: Path) -> None:
    """File objects are read, written in order, and left open."""
    with (tmp_path / "a.zip").open("w+b") as file:
        with ZipStore(file, mode="w") as store:
            a = tessarr.create_array(store, data=[1, 2, 3])
        assert not file.closed
        assert a.store is store
        assert tessarr.open_array(ZipStore(file, mode="r"))[:].tolist() == [1, 2, 3]
        with pytest.raises(ExistsError):
            ZipStore(file, mode="x")

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def readable(self) -> bool:
            return False

    pipe = Pipe()
    with ZipStore(pipe, mode="w") as store:
        store["a"] = b"1"
        store["a"] = b"2"
    assert dict(open_zip(pipe.getvalue())) == {"a": b"2"}


@pytest.mark.slow
def test_pickle_reads(tmp_path: Path) -> None:
    """A pickle opens the stored values in another process; a file object is not picklable."""
    path = tmp_path / "a.zip"
    a = tessarr.create_array(ZipStore(path, mode="w"), data=[1, 2, 3])
    pickled = pickle.dumps(a)
    again = pickle.loads(pickled)
    assert (again[:].tolist(), again.read_only, again.store.mode) == ([1, 2, 3], True, "r")
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer)[:])"
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickled, capture_output=True, check=True, timeout=60
    )
    assert done.stdout == b"[1 2 3]\n"
    a[0] = 5
    assert again[0] == 1
    with pytest.raises(TypeError, match="it has a file object"):
        pickle.dumps(ZipStore(io.BytesIO()))


def test_equality_and_text(tmp_path: Path) -> None:
    """Stores are equal by path and mode."""
    path = str(tmp_path / "a.zip")
    ZipStore(path, mode="w").close()
    store = ZipStore(path, mode="r")
    assert store == ZipStore(Path(path), mode="r") != ZipStore(path)
    assert hash(store) == hash(ZipStore(path, mode="r"))
    assert repr(store) == f"ZipStore({path!r}, mode='r')"


def test_urls(tmp_path: Path) -> None:
    """A URL names a file, with a path inside, in the syntax of fsspec."""
    path = tmp_path / "a.zip"
    tessarr.create_array(f"zip://{path}", path="x/y", data=[1, 2])
    for url in (f"zip://{path}", f"zip://::file://{path}", f"zip://::{path}"):
        assert tessarr.open_array(url, "r", path="x/y")[:].tolist() == [1, 2]
    array = tessarr.open_array(f"zip://x/y::file://{path}", "r")
    assert (array.path, array[:].tolist()) == ("x/y", [1, 2])
    assert isinstance(array.store, ZipStore)


def test_folder_is_no_zip_file_and_file_no_folder(tmp_path: Path) -> None:
    for mode in ("r", "r+", "a"):
        with pytest.raises(StoreError, match="is a folder, not a Zip file"):
            ZipStore(tmp_path, mode=mode)
    with pytest.raises(StoreError, match="is a folder, not a Zip file"):
        ts.KvStore.open(f"file://{tmp_path}|zip:").result()
    (tmp_path / "file").touch()
    for path in ("file/a.zip", "file/b/a.zip"):
        store = ts.KvStore.open(f"file://{tmp_path / path}|zip:").result()
        assert store.list().result() == []
        with pytest.raises(StoreError, match="a folder of its path is a file"):
            store.write("a", b"1").result()
