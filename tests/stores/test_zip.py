"""Zip files: interoperability of the format, and large files."""

from __future__ import annotations

import io
import os
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from stores.zips import METHODS, open_zip, read_zip, write_zip
from tessarr.errors import DataError, StoreError
from tessarr.store.zip.directory import build_directory
from tessarr.store.zip.entries import EntryTable
from tessarr.store.zip.file import PathFile
from tessarr.store.zip.format import Entry, build_local_header
from tessarr.stores import ZipStore

OURS = [93, 95]  # Zstandard and xz, which zipfile does not support before Python 3.14


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


def test_zip_of_many_values_builds_and_reads_used_entries_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening builds no entry, and removal of garbage reads no local headers."""
    path = tmp_path / "a.zip"
    values = {f"{i:03}": b"%d" % i for i in range(500)}
    with ZipStore(path, mode="w") as store:
        store.update(values)
    built: list[int] = []
    reads: list[int] = []
    build, read = EntryTable.__getitem__, PathFile.read

    def note_build(self: EntryTable, row: int) -> Entry:
        built.append(row)
        return build(self, row)

    def note_read(self: PathFile, offset: int, count: int) -> bytes:
        reads.append(count)
        return read(self, offset, count)

    monkeypatch.setattr(EntryTable, "__getitem__", note_build)
    monkeypatch.setattr(PathFile, "read", note_read)
    with ZipStore(path, mode="r+") as store:
        assert not built
        assert store["250"] == b"250"
        assert len(built) <= 2
        store["100"] = b"new"
    assert len(built) <= 4
    assert len(reads) < 20
    monkeypatch.undo()
    assert read_zip(path) == {**values, "100": b"new"}
    assert path.stat().st_size == compute_size(read_zip(path))


def compute_size(values: dict[str, bytes]) -> int:
    """Return the size of a file without garbage."""
    return sum(len(value) + 76 + 2 * len(name) for name, value in values.items()) + 22


def test_mark_of_record_in_name_and_comment() -> None:
    """The lengths in a record, not the mark of the next one, separate records."""
    buffer = io.BytesIO()
    names = ["a", "PK\1\2", "b" * 50 + "PK\1\2" + "c" * 50]
    with zipfile.ZipFile(buffer, "w") as file:
        for name in names:
            info = zipfile.ZipInfo(name)
            info.comment = b"PK\1\2" * 20
            file.writestr(info, name)
    assert dict(open_zip(buffer.getvalue())) == {name: name.encode() for name in names}


@pytest.mark.slow
def test_zip_with_more_than_65535_values() -> None:
    """Only such a file has zip64 records."""
    data = bytearray()
    entries = []
    for number in range(0xFFFF):
        name = b"%d" % number
        entries.append(Entry(name, len(data), 0, 0, 0, 0, 0, 0, 0x21_0000, 0))
        data += build_local_header(entries[-1])
    assert b"PK\6\6" not in build_directory(EntryTable.from_entries(entries[:-1]), len(data))
    data += build_directory(EntryTable.from_entries(entries), len(data))
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
