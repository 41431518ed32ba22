"""Damaged and hostile Zip files: a clear error, and no other effect."""

from __future__ import annotations

import io
import signal
import struct
import subprocess
import sys
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessarr
from calls import record_calls
from stores.zips import METHODS, open_zip, read_zip, write_zip
from tessarr.errors import DataError, UnsupportedError
from tessarr.format.node_path import STAGED
from tessarr.stores import ZipStore


@pytest.mark.slow
def test_zip_of_killed_writer_is_repaired(tmp_path: Path) -> None:
    """Repair recovers the values after the last complete directory."""
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
    assert read_zip(path) == {"a": b"new", "b": b"2"}
    path.write_bytes(whole)
    assert ZipStore.repair(path) == 3
    assert read_zip(path) == {"a": b"new", "b": b"2", "é": b"4"}
    before = path.read_bytes()
    assert ZipStore.repair(path) == 3
    assert path.read_bytes() == before
    path.write_bytes(b"something else")
    with pytest.raises(DataError, match="does not begin as a Zip file"):
        ZipStore.repair(path)
    assert path.read_bytes() == b"something else"


def test_truncated_anywhere() -> None:
    """Every truncated file raises an error that names it."""
    data = write_zip({"a/b": b"1" * 50, "c": b"22"}, method=zipfile.ZIP_DEFLATED)
    for size in range(len(data)):
        with pytest.raises(DataError, match=r"cannot open .* as a Zip file"):
            open_zip(data[:size])
    with pytest.raises(DataError):
        open_zip(data + b"\n")


WHOLE = write_zip({"a/b": bytes(range(256)) * 2, "c": b"22"}, method=zipfile.ZIP_DEFLATED)


@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=3))
def test_zip_damage_raises_data_error(changes: list[tuple[int, int]]) -> None:
    """A changed byte raises an error for the file or for a value, or changes no value."""
    data = bytearray(WHOLE)
    for offset, value in changes:
        data[offset] = value
    try:
        store = open_zip(bytes(data))
        for key in store:
            value_ = store[key]
            assert zlib.crc32(value_) in {zlib.crc32(b"22"), zlib.crc32(bytes(range(256)) * 2)}
    except (DataError, UnsupportedError):
        pass


def test_wrong_checksum(tmp_path: Path) -> None:
    """The error names the damaged value, and the others are readable."""
    data = bytearray(write_zip({"a": b"first", "b": b"second"}))
    offset = data.index(b"first")
    data[offset] ^= 1
    store = open_zip(bytes(data))
    assert store["b"] == b"second"
    with pytest.raises(DataError, match=r"cannot read 'a' in .*: its CRC-32 is") as caught:
        store["a"]
    assert (caught.value.kind, caught.value.key) == ("checksum_mismatch", "a")


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "a//x", "a/./x", "..", "../"])
def test_escaping_names_raise(name: str) -> None:
    """The store unpacks no files, but such names indicate an attack."""
    with pytest.raises(DataError, match="may lead out of the file's place"):
        open_zip(write_zip({"a": b"1", name: b"2"}))


def test_overlapping_entries_raise() -> None:
    """Overlapping entries, which zip bombs use, raise an error."""
    inner = write_zip({"b": b"x" * 10})
    outer = bytearray(write_zip({"a": inner, "b": b"x" * 10}))
    position = outer.rindex(b"PK\1\2")
    into = outer.index(b"PK\3\4", 4)
    for offset in (into, 0):
        struct.pack_into("<I", outer, position + 42, offset)
        with pytest.raises(DataError, match="overlaps what follows it"):
            open_zip(bytes(outer))


def test_impossible_sizes_raise() -> None:
    """An impossible size claim allocates no memory."""
    for method in METHODS:
        data = bytearray(write_zip({"a": b"x" * 100}, method=method))
        struct.pack_into("<I", data, data.rindex(b"PK\1\2") + 24, 1 << 30)
        with pytest.raises(DataError, match=r"claims that .* bytes unpack to 1073741824"):
            open_zip(bytes(data))
    for method in METHODS[1:]:  # the claim is smaller than the value: unpacking stops there
        data = bytearray(write_zip({"a": bytes(1 << 20)}, method=method))
        struct.pack_into("<I", data, data.rindex(b"PK\1\2") + 24, 100)
        with pytest.raises(DataError, match="it unpacks to more, not to 100 bytes"):
            open_zip(bytes(data))["a"]


@pytest.mark.parametrize("value", [1 << 61, 1 << 63, (1 << 64) - 1])
@pytest.mark.parametrize("field", [20, 24, 42])
def test_zip64_fields_beyond_any_file_raise(field: int, value: int) -> None:
    """Sizes and offsets near the limits of 64-bit integers do not overflow the checks."""
    data = bytearray(write_zip({"a": b"x" * 100}))
    record, end = data.rindex(b"PK\1\2"), data.rindex(b"PK\5\6")
    struct.pack_into("<I", data, record + field, 0xFFFFFFFF)
    struct.pack_into("<H", data, record + 30, 12)
    struct.pack_into("<I", data, end + 12, end - record + 12)
    data[end:end] = struct.pack("<HHQ", 1, 8, value)
    with pytest.raises(DataError, match="more bytes than a file can have"):
        open_zip(bytes(data))


def test_too_large_metadata_raises() -> None:
    """The size limit applies before unpacking."""
    data = write_zip({"zarr.json": b" " * (1 << 20)}, method=zipfile.ZIP_DEFLATED)
    with tessarr.options(metadata_bytes=1000), pytest.raises(tessarr.errors.MetadataError):
        tessarr.open(open_zip(data), "r")


def test_unsupported_zip_features_raise() -> None:
    """The error names encryption, unknown methods and multiple volumes."""
    data = bytearray(write_zip({"a": b"1"}))
    offset = data.rindex(b"PK\1\2")
    data[offset + 8] |= 1
    with pytest.raises(UnsupportedError, match="encrypted"):
        open_zip(bytes(data))["a"]
    data[offset + 8] = 0
    data[offset + 10] = 97
    with pytest.raises(UnsupportedError, match="compression method 97"):
        open_zip(bytes(data))["a"]
    data = bytearray(write_zip({"a": b"1"}))
    data[data.rindex(b"PK\5\6") + 4] = 1
    with pytest.raises(UnsupportedError, match="several volumes"):
        open_zip(bytes(data))


def test_misplaced_directory_raises() -> None:
    """Contradictory counts and offsets raise an error."""
    data = write_zip({"a": b"1", "b": b"2"})
    end = data.rindex(b"PK\5\6")
    for offset, form, value in (
        (8, "<HH", (3, 3)),
        (8, "<HH", (1, 1)),
        (12, "<I", (9,)),
        (16, "<I", (500,)),
    ):
        damaged = bytearray(data)
        struct.pack_into(form, damaged, end + offset, *value)
        with pytest.raises(DataError):
            open_zip(bytes(damaged))


@pytest.mark.parametrize("count", [1, 100, 1000])
def test_directory_of_many_marks_needs_little_memory(count: int) -> None:
    """The reader builds at most as many records as the end record states."""
    directory = b"PK\1\2ab" * 50_000
    end = struct.pack("<4s4HIIH", b"PK\5\6", 0, 0, count, count, len(directory), 0, 0)
    file = io.BytesIO(directory + end)
    tracemalloc.start()
    try:
        with pytest.raises(DataError):
            ZipStore(file, mode="r")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(directory)


def test_names_with_marks_are_parsed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {f"a{i}PK\1\2": b"%d" % i for i in range(100)}
    data, calls = write_zip(values), list[int]()

    def count_calls(*arguments: Any) -> Any:
        calls.append(1)
        return np_frombuffer(*arguments)

    np_frombuffer = np.frombuffer
    monkeypatch.setattr(np, "frombuffer", count_calls)
    store = open_zip(data)
    assert len(calls) == 1
    assert dict(store) == values


def whole(path: Path) -> dict[str, Any]:
    """Return the arrays of a repaired file with their values, and check its values."""
    ZipStore.repair(path)
    with zipfile.ZipFile(path) as file:
        assert file.testzip() is None
        assert len(set(file.namelist())) == len(file.namelist())
    members = tessarr.open_group(str(path), mode="r").members(None)
    return {name: node[:].tolist() for name, node in members if isinstance(node, tessarr.Array)}


OLD, NEW, KEPT = [*range(6)], [*range(20, 28)], [5]

CHANGES: dict[str, tuple[Callable[[tessarr.Group], Any], dict[str, Any]]] = {
    "replace": (
        lambda group: group.create_array("x", data=NEW, chunks=3, overwrite=True),
        {"x": NEW, "kept": KEPT},
    ),
    "delete": (lambda group: group.__delitem__("x"), {"kept": KEPT}),
    "move": (lambda group: group.move("x", "y"), {"y": OLD, "kept": KEPT}),
    "move a group": (lambda group: group.move("g", "h"), {"x": OLD, "kept": KEPT, "h/a": OLD}),
}


@pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 71])
@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_zip_repair_after_any_stop_leaves_old_or_new_node(
    tmp_path: Path, change: str, flushed: bool, step: int
) -> None:
    """For each end of the file, its nodes are those before or after the change."""
    path, copy = tmp_path / "a.zip", tmp_path / "b.zip"
    store = ZipStore(path, mode="w")
    group = tessarr.create_group(store)
    group.create_array("x", data=OLD, chunks=2)
    group.create_array("kept", data=KEPT)
    if change == "move a group":
        group.create_array("g/a", data=OLD, chunks=2)
    if flushed:
        store.flush()
    begin = path.stat().st_size
    act, expected = CHANGES[change]
    before = {"x": OLD, "kept": KEPT}
    if change == "move a group":
        before["g/a"] = OLD
    act(group)
    after = path.stat().st_size
    store["last"] = b"1"  # a deletion is recorded before the next value
    content = path.read_bytes()
    seen = []
    for end in (*range(begin, len(content), step), len(content)):
        copy.write_bytes(content[:end])
        result = whole(copy)
        assert result in (before, expected, {**before, **expected}), end
        if change == "replace":
            assert result in (before, expected), end
        seen.append(result)
    assert seen[0] == before
    assert seen[-1] == expected
    assert after >= begin
    store.close()
    assert whole(path) == expected


def count_repair_calls(path: Path, count: int) -> int:
    """Return the calls of a repair of a file with `count` replaced, deleted and staged members."""
    store = ZipStore(path, mode="w")
    group = tessarr.create_group(store)
    for number in range(count):
        replaced, deleted = f"a{number:05}", f"b{number:05}"
        for _ in range(2):
            group.create_array(replaced, data=[1], overwrite=True)
        group.create_group(deleted)
        del group[deleted]
        store[f"c{number:05}{STAGED}/node/zarr.json"] = b"{}"
    copy = path.with_suffix(".copy.zip")
    copy.write_bytes(path.read_bytes())
    calls = record_calls(lambda: ZipStore.repair(copy))
    store.close()
    return len(calls.python) + len(calls.native)


def test_zip_repair_calls_are_linear_in_members(tmp_path: Path) -> None:
    """Each deleted, replaced or unfinished member adds the same number of calls."""
    counts = [count_repair_calls(tmp_path / "a.zip", count) for count in (20, 40, 60)]
    assert counts[2] - counts[1] == pytest.approx(counts[1] - counts[0], rel=0.02)


def test_zip_repair_drops_values_of_failed_replacement(tmp_path: Path) -> None:
    """Values of a failed replacement do not appear in the next one."""
    path = tmp_path / "a.zip"
    store = ZipStore(path, mode="w")
    group = tessarr.create_group(store)
    group.create_array("x", data=OLD, chunks=2)

    class Raising:
        shape, dtype, ndim, chunks = (40,), np.dtype("i8"), 1, (2,)

        def __getitem__(self, key: Any) -> Any:
            if isinstance(key, tuple):
                (key,) = key
            if key.stop is None or key.stop > 30:
                raise OSError("cannot read")
            return np.full(40, 9)[key]

    with tessarr.options(threads=1), pytest.raises(OSError, match="cannot read"):
        group.create_array("x", data=Raising(), chunks=2, overwrite=True)
    array = group.create_array("x", data=NEW, chunks=2, overwrite=True)
    array.resize(40)
    expected = NEW + [0] * 32
    assert array[:].tolist() == expected
    copy = tmp_path / "b.zip"
    copy.write_bytes(path.read_bytes())
    assert whole(copy) == {"x": expected}
    store.close()
    assert whole(path) == {"x": expected}


def test_zip_repair_after_close_restores_replaced_node(tmp_path: Path) -> None:
    """After closing, a replaced node is found even if a later writer is killed."""
    path = tmp_path / "a.zip"
    with tessarr.open_group(str(path), mode="w") as group:
        group["x"] = OLD
        group["x"] = NEW
    store = ZipStore(path, mode="r+")
    group = tessarr.open_group(store, mode="r+")
    group["y"] = KEPT
    copy = tmp_path / "b.zip"
    copy.write_bytes(path.read_bytes())
    assert whole(copy) == {"x": NEW, "y": KEPT}
    group["x"] = OLD
    copy.write_bytes(path.read_bytes())
    assert whole(copy) == {"x": OLD, "y": KEPT}
    store.close()
