"""Zip files as key-value stores, with other processes as writers."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tessarr.tensorstore as ts
from tessarr.errors import StoreError
from tessarr.store.zip.archive import Archive
from tessarr.stores import ZipStore


@pytest.mark.parametrize("below", ["file://{}/below/", "memory://", "file://{}/a.zip|zip:"])
def test_zip_file_is_not_created_without_changes(below: str, tmp_path: Path) -> None:
    context = ts.Context()
    url = below.format(tmp_path) + "b.zip|zip:"
    base = ts.KvStore.open(below.format(tmp_path), context=context).result()
    store = ts.KvStore.open(url, context=context).result()
    with pytest.raises(ValueError, match=r"zarr\.json"):
        ts.open(f"{url}|zarr3:", context=context).result()
    del store["a"]
    store.write("a", None).result()
    store.delete_range(ts.KvStore.KeyRange()).result()
    with ts.Transaction() as transaction:
        inside = store.with_transaction(transaction)
        assert "a" not in inside
        inside["a"] = b"1"
        del inside["a"]
    assert (store.list().result(), base.list().result(), os.listdir(tmp_path)) == ([], [], [])
    store["a"] = b"1"
    assert (store.list().result(), len(base.list().result())) == ([b"a"], 1)


def _in_another_process(path: Path, name: str) -> bytes:
    """Write a key to a Zip file in another process; return the error text or ""."""
    code = (
        "import sys; from tessarr.stores import ZipStore; ZipStore(sys.argv[1])[sys.argv[2]] = b'2'"
    )
    arguments = [sys.executable, "-c", code, str(path), name]
    return subprocess.run(arguments, capture_output=True, check=False, timeout=60).stderr


@pytest.mark.slow
def test_zip_kvstore_allows_other_writers_until_first_write(tmp_path: Path) -> None:
    """The store sees other writers' changes; from then on it is the only writer, without losses."""
    path = tmp_path / "a.zip"
    with ZipStore(path, mode="w") as writer:
        writer["a"] = b"1"
    store = ts.KvStore.open(f"file://{path}|zip:").result()
    assert store.list().result() == [b"a"]
    for name in ("b", "c"):
        assert _in_another_process(path, name) == b""
        assert store[name] == b"2"
    del store["absent"]
    assert _in_another_process(path, "a") == b""
    store["d"] = b"3"
    assert b"another store does" in _in_another_process(path, "e")
    del store
    gc.collect()
    assert dict(ZipStore(path, mode="r")) == {"a": b"2", "b": b"2", "c": b"2", "d": b"3"}


def test_zip_kvstore_with_other_writer_refuses_write(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with ZipStore(path, mode="w") as made:
        made["a"] = b"1"
    store = ts.KvStore.open(f"file://{path}|zip:").result()
    with ZipStore(path, mode="r+") as writer:
        with pytest.raises(OSError, match="another store does"):
            store["b"] = b"2"
        writer["c"] = b"3"
    store["b"] = b"2"
    assert store.list().result() == [b"a", b"b", b"c"]


def _meanwhile(monkeypatch: pytest.MonkeyPatch, name: str, work: Callable[[], object]) -> None:
    """Run `work` once, just before a Zip file is opened for writing."""
    real, left = getattr(Archive, name), [work]

    def late(archive: Archive, *arguments: Any) -> Any:
        if archive._shares and left:
            left.pop()()
        return real(archive, *arguments)

    monkeypatch.setattr(Archive, name, late)


@pytest.mark.parametrize("before", [b"1", None])
def test_zip_kvstore_write_compares_changed_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes | None
) -> None:
    path = tmp_path / "a.zip"
    with ZipStore(path, mode="w") as made:
        made["z"] = b"0"
        if before is not None:
            made["a"] = before
    store = ts.KvStore.open(f"file://{path}|zip:").result()
    known = store.read("a").result().stamp.generation

    def others() -> None:
        with ZipStore(path, mode="r+") as writer:
            writer["a"] = b"2"

    _meanwhile(monkeypatch, "lock_for_writing", others)
    done = store.write("a", b"3", if_equal=known).result()
    assert (done.generation, store["a"]) == (b"", b"2")


def test_zip_kvstore_keeps_chunk_parts_of_other_writers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"file://{tmp_path}/a.zip|zip:|zarr3:"
    array = ts.open(url, create=True, dtype=ts.uint8, shape=[4]).result()
    array[:] = 1
    del array
    gc.collect()
    array = ts.open(url).result()

    def others() -> None:
        with ZipStore(tmp_path / "a.zip", mode="r+") as writer:
            values = bytearray(writer["c/0"])
            values[3] = 7
            writer["c/0"] = bytes(values)

    _meanwhile(monkeypatch, "lock_for_writing", others)
    array[0] = 5
    assert array.read().result().tolist() == [5, 1, 1, 7]


def test_zip_kvstore_creation_conflict_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.zip"
    store = ts.KvStore.open(f"file://{path}|zip:").result()

    def others() -> None:
        with ZipStore(path, mode="w") as writer:
            writer["a"] = b"1"

    _meanwhile(monkeypatch, "_create_file", others)
    with pytest.raises(StoreError, match="try again") as raised:
        store["b"] = b"2"
    assert raised.value.retryable
    store["b"] = b"2"
    assert store.list().result() == [b"a", b"b"]


def test_zip_kvstore_reads_file_after_other_writer(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with ZipStore(path, mode="w") as made:
        made["a"] = b"1"
    store = ts.KvStore.open(f"file://{path}|zip:").result()
    with ZipStore(path, mode="r+") as writer:
        writer["a"] = b"22"
        with pytest.raises(StoreError, match="another store does") as raised:
            store.read("a").result()
        assert raised.value.retryable
    assert store["a"] == b"22"


def test_deleted_zip_file_has_no_keys(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    store = ts.KvStore.open(f"file://{path}|zip:").result()
    for value in (b"1", b"2"):
        with ZipStore(path, mode="w") as writer:
            writer["a"] = value
        assert store["a"] == value
        path.unlink()
        assert store.list().result() == []
    store["b"] = b"3"
    assert store.list().result() == [b"b"]
