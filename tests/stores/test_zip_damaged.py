"""Damaged and hostile zip files: an error says what is wrong, and nothing else happens."""

from __future__ import annotations

import signal
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessarr
from stores.zips import METHODS, contents, opened, zipped
from tessarr.errors import DataError, UnsupportedError
from tessarr.stores import ZipStore


@pytest.mark.slow
def test_a_killed_writer(tmp_path: Path) -> None:
    """What it wrote since the file was complete is found again."""
    path = tmp_path / "a.zip"
    with ZipStore(path, mode="w") as store:
        store.update({"a": b"1", "b": b"2", "gone": b"3"})
    code = """
import os, signal, sys
from tessarr.stores import ZipStore
store = ZipStore(sys.argv[1])
del store["gone"]
store["a"] = b"new"
store.flush()
store["é"] = b"4"
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    with pytest.raises(DataError, match=r"ZipStore\.repair finds what it had written"):
        ZipStore(path, mode="r")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])  # a torn write
    assert ZipStore.repair(path) == 2
    assert contents(path) == {"a": b"new", "b": b"2"}
    path.write_bytes(whole)
    assert ZipStore.repair(path) == 3
    assert contents(path) == {"a": b"new", "b": b"2", "é": b"4"}
    before = path.read_bytes()
    assert ZipStore.repair(path) == 3
    assert path.read_bytes() == before
    path.write_bytes(b"something else")
    with pytest.raises(DataError, match="does not begin as a Zip file"):
        ZipStore.repair(path)
    assert path.read_bytes() == b"something else"


def test_truncated_anywhere() -> None:
    """Every shorter file is refused, and says where it was."""
    data = zipped({"a/b": b"1" * 50, "c": b"22"}, method=zipfile.ZIP_DEFLATED)
    for size in range(len(data)):
        with pytest.raises(DataError, match=r"cannot open .* as a Zip file"):
            opened(data[:size])
    with pytest.raises(DataError):
        opened(data + b"\n")


WHOLE = zipped({"a/b": bytes(range(256)) * 2, "c": b"22"}, method=zipfile.ZIP_DEFLATED)


@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=3))
def test_damaged_anywhere(changes: list[tuple[int, int]]) -> None:
    """A damaged file is refused, or a value is, or values are what they were."""
    data = bytearray(WHOLE)
    for at, value in changes:
        data[at] = value
    try:
        store = opened(bytes(data))
        for key in store:
            value_ = store[key]
            assert zlib.crc32(value_) in {zlib.crc32(b"22"), zlib.crc32(bytes(range(256)) * 2)}
    except (DataError, UnsupportedError):
        pass


def test_a_wrong_checksum(tmp_path: Path) -> None:
    """A damaged value is named, and the others are read."""
    data = bytearray(zipped({"a": b"first", "b": b"second"}))
    at = data.index(b"first")
    data[at] ^= 1
    store = opened(bytes(data))
    assert store["b"] == b"second"
    with pytest.raises(DataError, match=r"cannot read 'a' in .*: its CRC-32 is") as caught:
        store["a"]
    assert (caught.value.kind, caught.value.key) == ("checksum_mismatch", "a")


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "a//x", "a/./x", "..", "../"])
def test_names_that_lead_elsewhere(name: str) -> None:
    """Nothing is unpacked, yet whoever makes such a name means harm."""
    with pytest.raises(DataError, match="may lead out of the file's place"):
        opened(zipped({"a": b"1", name: b"2"}))


def test_entries_that_overlap() -> None:
    """Two names of the same bytes, and one that lies in another: how bombs are made."""
    inner = zipped({"b": b"x" * 10})
    outer = bytearray(zipped({"a": inner, "b": b"x" * 10}))
    at = outer.rindex(b"PK\1\2")
    into = outer.index(b"PK\3\4", 4)
    for offset in (into, 0):
        struct.pack_into("<I", outer, at + 42, offset)
        with pytest.raises(DataError, match="overlaps what follows it"):
            opened(bytes(outer))


def test_sizes_that_cannot_be() -> None:
    """A value that claims to be larger than its bytes can make it takes no memory."""
    for method in METHODS:
        data = bytearray(zipped({"a": b"x" * 100}, method=method))
        struct.pack_into("<I", data, data.rindex(b"PK\1\2") + 24, 1 << 30)
        with pytest.raises(DataError, match=r"claims that .* bytes unpack to 1073741824"):
            opened(bytes(data))
    for method in METHODS[1:]:  # more than it says: no more than that is unpacked
        data = bytearray(zipped({"a": bytes(1 << 20)}, method=method))
        struct.pack_into("<I", data, data.rindex(b"PK\1\2") + 24, 100)
        with pytest.raises(DataError, match="it unpacks to more, not to 100 bytes"):
            opened(bytes(data))["a"]


def test_metadata_that_unpacks_to_more_than_is_allowed() -> None:
    """The size is known before anything is unpacked."""
    data = zipped({"zarr.json": b" " * (1 << 20)}, method=zipfile.ZIP_DEFLATED)
    with tessarr.options(metadata_bytes=1000), pytest.raises(tessarr.errors.MetadataError):
        tessarr.open(opened(data), "r")


def test_what_is_not_supported() -> None:
    """Encrypted values, unknown methods and volumes are named."""
    data = bytearray(zipped({"a": b"1"}))
    at = data.rindex(b"PK\1\2")
    data[at + 8] |= 1
    with pytest.raises(UnsupportedError, match="encrypted"):
        opened(bytes(data))["a"]
    data[at + 8] = 0
    data[at + 10] = 97
    with pytest.raises(UnsupportedError, match="compression method 97"):
        opened(bytes(data))["a"]
    data = bytearray(zipped({"a": b"1"}))
    data[data.rindex(b"PK\5\6") + 4] = 1
    with pytest.raises(UnsupportedError, match="several volumes"):
        opened(bytes(data))


def test_a_directory_that_is_elsewhere() -> None:
    """Counts and places that contradict each other are refused."""
    data = zipped({"a": b"1", "b": b"2"})
    end = data.rindex(b"PK\5\6")
    for at, form, value in (
        (8, "<HH", (3, 3)),
        (8, "<HH", (1, 1)),
        (12, "<I", (9,)),
        (16, "<I", (500,)),
    ):
        damaged = bytearray(data)
        struct.pack_into(form, damaged, end + at, *value)
        with pytest.raises(DataError):
            opened(bytes(damaged))
