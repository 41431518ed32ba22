"""Zip stores: interoperability, modes, concurrency and size."""

from __future__ import annotations

import io
import os
import pickle
import struct
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
import tessarr.tensorstore as ts
from stores.zips import METHODS, open_zip, read_zip, write_zip
from tessarr.cli import main
from tessarr.errors import (
    ArgumentError,
    DataError,
    ExistsError,
    NotFoundError,
    ReadOnlyError,
    StoreError,
)
from tessarr.store.zip.format import Entry, build_directory, build_local_header
from tessarr.stores import LocalStore, ZipStore

OURS = [93, 95]  # Zstandard and xz, which zipfile does not support before Python 3.14


# The purpose of the store


def test_zip_tutorial_example_runs(tmp_path: Path) -> None:
    """The file has the size of the example from 2016, except for the chunks."""
    path = tmp_path / "example.zip"
    store = ZipStore(path, mode="w")
    a = tessarr.create_array(
        store, shape=(1000, 1000), chunks=(100, 100), dtype="i4", zarr_format=2, fill_value=0
    )
    a[:] = 42
    chunks = sum(store.getsize(key) for key in store if not key.startswith("."))
    store.close()
    names = sum(len(f"{i}.{j}") for i in range(10) for j in range(10)) + len(".zarray.zattrs")
    expected = chunks + 319 + 102 * (30 + 46) + 2 * names + 22
    assert path.stat().st_size == expected
    again = ZipStore(path, mode="r")
    assert np.all(tessarr.open_array(again)[:] == 42)
    assert read_zip(path).keys() == set(again)


@pytest.mark.parametrize("method", METHODS)
def test_zipfile_reads_written_file(tmp_path: Path, method: int) -> None:
    """The file holds values of any size, under non-ASCII names, with every method."""
    path = tmp_path / "a.zip"
    values = {"a/b": b"1" * 5000, "é/ü": b"", "c": os.urandom(3000)}
    with ZipStore(path, method, mode="x") as store:
        store.update(values)
        assert dict(store) == values
    assert read_zip(path) == values
    with zipfile.ZipFile(path) as file:
        assert {info.compress_type for info in file.infolist()} == {method}
    assert dict(ZipStore(path, mode="r")) == values


@pytest.mark.covers("V3-ZIP-01")
@pytest.mark.parametrize("method", METHODS)
def test_zip_store_reads_file_of_zipfile(method: int) -> None:
    """The store reads stored and compressed values, and ignores folder entries."""
    values = {"a/b": b"1" * 5000, "é/ü": b"", "c": os.urandom(3000)}
    store = open_zip(write_zip(values | {"a/": b""}, method=method))
    assert dict(store) == values
    assert store.list_dir("") == (["c"], ["a/", "é/"])


@pytest.mark.parametrize("method", OURS)
def test_zstandard_and_xz(tmp_path: Path, method: int) -> None:
    """A reader unpacks no more bytes than an entry claims, and limits that claim."""
    path = tmp_path / "a.zip"
    values = {"a/b": bytes(1 << 20), "é/ü": b"", "c": os.urandom(3000)}
    with ZipStore(path, method, mode="x") as store:
        store.update(values)
    assert dict(ZipStore(path, mode="r")) == values
    assert path.stat().st_size < 6000
    with zipfile.ZipFile(path) as file:
        assert {info.compress_type for info in file.infolist()} == {method}
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, data.index(b"PK\1\2") + 24, 100)
    with pytest.raises(DataError, match=r"cannot be unpacked|it unpacks to more"):
        open_zip(bytes(data))["a/b"]
    struct.pack_into("<I", data, data.index(b"PK\1\2") + 24, 1 << 30)
    with pytest.raises(DataError, match=r"claims that .* bytes unpack to 1073741824"):
        open_zip(bytes(data))


@pytest.mark.slow
def test_maximum_compression_ratios_are_accepted() -> None:
    """The store reads the densest output of each method, which encodes zeros."""
    for method in METHODS[1:]:
        assert open_zip(write_zip({"a": bytes(1 << 25)}, method=method))["a"] == bytes(1 << 25)


@pytest.mark.covers("V3-ZIP-01")
def test_zip_of_stream_is_read() -> None:
    """Sizes behind the data, zip64, comments and bytes before the first entry are valid."""

    class Stream(io.RawIOBase):
        def __init__(self) -> None:
            self.data = b""

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            self.data += bytes(data)
            return len(bytes(data))

    stream = Stream()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        with file.open("a", "w", force_zip64=True) as entry:
            entry.write(b"x" * 1000)
        file.comment = b"PK\5\6 is no end"
    for before in (b"", b"#!/bin/sh\n"):
        assert dict(open_zip(before + stream.data)) == {"a": b"x" * 1000}
        buffer = io.BytesIO(before + stream.data)
        with ZipStore(buffer, mode="a") as store:
            store["b"] = b"2"
        assert buffer.getvalue().startswith(before)
        assert read_zip(buffer) == {"a": b"x" * 1000, "b": b"2"}


@pytest.mark.covers("V3-ZIP-01")
def test_last_entry_of_name_counts() -> None:
    """A duplicate name has one value, and later writes store it once."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(buffer, "w") as file:
            for value in (b"1", b"22", b"333"):
                file.writestr("a", value)
    assert dict(open_zip(buffer.getvalue())) == {"a": b"333"}
    with ZipStore(buffer) as store:
        store["b"] = b"4"
    assert read_zip(buffer) == {"a": b"333", "b": b"4"}


@pytest.mark.parametrize("in_memory", [False, True])
def test_close_removes_garbage(tmp_path: Path, in_memory: bool) -> None:
    """The closed file has the size of a file whose values were written once."""
    place: Any = io.BytesIO() if in_memory else tmp_path / "a.zip"
    path = place if in_memory else str(place)
    with ZipStore(place, mode="w") as store:
        a = tessarr.create_array(store, shape=100, chunks=10, dtype="i4", compressors=None)
        for number in range(5):
            a[5:95] = number
            store.flush()
        store["b/c/0"] = b"1"
        store.rmdir("b")
        store["kept"] = b"x" * 100
    with ZipStore(place, mode="a") as store:
        tessarr.open_array(store)[:10] = 9
        del store["kept"]
    found = read_zip(path)
    assert set(found) == {"zarr.json", *(f"c/{i}" for i in range(10))}
    expected = sum(len(value) + 76 + 2 * len(name) for name, value in found.items()) + 22
    size = len(place.getvalue()) if in_memory else place.stat().st_size
    assert size == expected
    values = tessarr.open_array(ZipStore(place, mode="r"))[:]
    assert values.tolist() == [9] * 10 + [4] * 85 + [0] * 5


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


# Opening


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


def test_zip_mode_a_creates_file_at_first_write(
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
def test_zip_file_of_any_name_is_opened_by_its_path(
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


def test_empty_zip_file_of_any_name_is_a_zip_store(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    zipfile.ZipFile(path, "w").close()
    with pytest.raises(NotFoundError, match="at the root of ZipStore"):
        tessarr.open(path, "r")


def test_new_file_called_ozx_is_a_zip_file(tmp_path: Path) -> None:
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
def test_a_pickle_reads(tmp_path: Path) -> None:
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


# Concurrent use


@pytest.mark.slow
def test_one_writer_at_a_time(tmp_path: Path) -> None:
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
    with pytest.raises(DataError, match="open for writing has to be closed, or flushed, first"):
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

    class Watched(dict[str, Entry]):
        def __setitem__(self, key: str, entry: Entry) -> None:
            there.append(key in self)
            super().__setitem__(key, entry)

    with ZipStore(tmp_path / "a.zip", mode="w") as store:
        store["k"] = b"1"
        store._archive.entries = Watched(store._archive.entries)
        store["k"] = b"2"
        assert (store["k"], there) == (b"2", [True])


@pytest.mark.slow
def test_a_forked_child_reads_and_does_not_write(tmp_path: Path) -> None:
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


# Size


def test_zip_stored_values_allow_ranged_reads() -> None:
    """A part of a stored value, such as a subchunk, needs two small reads."""

    class Noting(io.BytesIO):
        reads: list[int]

        def read(self, size: int | None = -1, /) -> bytes:
            self.reads.append(size or 0)
            return super().read(size)

    file = Noting(write_zip({"a": bytes(range(256)) * 4000}))
    file.reads = []
    store = ZipStore(file, mode="r")
    file.reads.clear()
    value = store.open_value("a")
    assert value is not None
    assert value.size == 1024000
    assert value.read(256 * 100, 10) == bytes(range(10))
    assert value.read(5, 2) == b"\5\6"
    assert file.reads == [31, 10, 2]


@pytest.mark.slow
def test_zip_with_more_than_65535_values() -> None:
    """Only such a file has zip64 records."""
    data = bytearray()
    entries = []
    for number in range(0xFFFF):
        name = b"%d" % number
        entries.append(Entry(name, len(data), 0, 0, 0, 0, 0, 0, 0x21_0000, 0))
        data += build_local_header(entries[-1])
    assert b"PK\6\6" not in build_directory(entries[:-1], len(data))
    data += build_directory(entries, len(data))
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        assert len(file.namelist()) == 0xFFFF
    with ZipStore(io.BytesIO(data), allowZip64=False) as store:
        assert len(store) == 0xFFFF
        with pytest.raises(StoreError, match="allowZip64=False forbids"):
            store["more"] = b""


def test_zip_larger_than_4_gib(tmp_path: Path) -> None:
    """Offsets use zip64; a small unused range is not worth a copy of the file."""
    path = tmp_path / "a.zip"
    with ZipStore(path, mode="w") as store:
        store["a"] = b"1"
        hole = 5 << 30
        store._archive._file.truncate(hole)  # a sparse file
        store._archive._end = hole
        store["b"] = b"2"
    assert read_zip(path) == {"a": b"1", "b": b"2"}
    assert dict(ZipStore(path, mode="r")) == {"a": b"1", "b": b"2"}
    with ZipStore(path) as store, pytest.raises(StoreError, match="the file would need zip64"):
        store._archive._large = False
        store["more"] = b""


def test_urls(tmp_path: Path) -> None:
    """A URL names a file, with a path inside, in the syntax of fsspec."""
    path = tmp_path / "a.zip"
    tessarr.create_array(f"zip://{path}", path="x/y", data=[1, 2])
    for url in (f"zip://{path}", f"zip://::file://{path}", f"zip://::{path}"):
        assert tessarr.open_array(url, "r", path="x/y")[:].tolist() == [1, 2]
    array = tessarr.open_array(f"zip://x/y::file://{path}", "r")
    assert (array.path, array[:].tolist()) == ("x/y", [1, 2])
    assert isinstance(array.store, ZipStore)


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


def test_a_folder_is_no_zip_file_and_a_file_no_folder(tmp_path: Path) -> None:
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


def test_flush_while_node_is_replaced_keeps_the_old_node(tmp_path: Path) -> None:
    """The central directory lists the old values until the new node is complete."""
    path = str(tmp_path / "a.zip")
    store = ZipStore(path, mode="w")
    group = tessarr.create_group(store)
    group["x"] = np.arange(6)
    found: list[Any] = []

    class Flushing:
        shape, dtype, ndim, chunks = (6,), np.dtype("i8"), 1, (2,)

        def __getitem__(self, key: Any) -> Any:
            store.flush()
            with zipfile.ZipFile(path) as file:
                found.append((sorted(file.namelist()), tessarr.load(path, "x")))
            return np.full(6, 7)[key]

    group.create_array("x", data=Flushing(), chunks=2, overwrite=True)
    assert group.get_array("x")[:].tolist() == [7] * 6
    assert found
    for names, values in found:
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
