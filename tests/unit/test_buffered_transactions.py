"""Blocks of buffered writes, and transactions that change or delete the same chunks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tessarr
from tessarr import tensorstore as ts
from tessarr.errors import ConflictError, StoreError

MODES: dict[str, dict[str, bool]] = {
    "isolated": {},
    "repeatable": {"repeatable_read": True},
}


@pytest.fixture(params=MODES)
def transaction(request: pytest.FixtureRequest) -> ts.Transaction:
    return ts.Transaction(**MODES[request.param])


@pytest.fixture
def array(tmp_path: Path) -> tessarr.Array:
    """An array of two chunks in a folder."""
    array = tessarr.create_array(tmp_path / "g" / "a", shape=4, dtype="i4", chunks=2)
    array[...] = 9
    return array


def keys_of(path: Path, transaction: ts.Transaction) -> ts.KvStore:
    """Return the keys below a folder."""
    spec = {"driver": "file", "path": f"{path}/"}
    keys: ts.KvStore = ts.KvStore.open(spec, transaction=transaction).result()
    return keys


def opened(path: Path, transaction: ts.Transaction, **spec: Any) -> Any:
    spec |= {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
    return ts.open(spec, transaction=transaction).result()


def stored(path: Path) -> list[int]:
    values: list[int] = tessarr.open_array(path, mode="r")[...].tolist()
    return values


# Chunks


def delete_key(keys: ts.KvStore) -> None:
    del keys["c/0"]


def delete_range(keys: ts.KvStore) -> None:
    keys.delete_range(ts.KvStore.KeyRange("c/0", "c/1")).result()


@pytest.mark.parametrize("delete", [delete_key, delete_range])
def test_commit_deletes_chunk_with_buffered_elements(
    tmp_path: Path,
    array: tessarr.Array,
    transaction: ts.Transaction,
    delete: Callable[[ts.KvStore], None],
) -> None:
    """Elements from before the commit do not return; those of other chunks are stored."""
    with array.buffered():
        array[0] = 1
        delete(keys_of(tmp_path / "g" / "a", transaction))
        array[1] = array[2] = 2
        transaction.commit_sync()
        assert array[...].tolist() == [0, 0, 2, 9]
        array[1] = 3
    assert stored(tmp_path / "g" / "a") == [0, 3, 2, 9]


def test_commit_replaces_chunk_with_buffered_elements(
    tmp_path: Path, transaction: ts.Transaction
) -> None:
    """A chunk that a transaction writes as a key has the content of that key."""
    settings: Any = {"shape": 4, "dtype": "u1", "chunks": 2, "compressors": None}
    array = tessarr.create_array(tmp_path / "a", **settings)
    with array.buffered():
        array[0] = 1
        keys_of(tmp_path / "a", transaction)["c/0"] = b"\x05\x06"
        transaction.commit_sync()
        assert array[...].tolist() == [5, 6, 0, 0]
    assert stored(tmp_path / "a") == [5, 6, 0, 0]


def test_commit_of_resize_discards_buffered_elements_outside(
    tmp_path: Path, array: tessarr.Array, transaction: ts.Transaction
) -> None:
    with array.buffered():
        array[3] = 1
        array[0] = 2
        opened(tmp_path / "g" / "a", transaction).resize(exclusive_max=[2]).result()
        array[2] = 3
        transaction.commit_sync()
        same = tessarr.open_array(tmp_path / "g" / "a", mode="r+")
        same.resize(4)
        assert same[...].tolist() == [2, 9, 0, 0]
    assert stored(tmp_path / "g" / "a") == [2, 9, 0, 0]


# Arrays


@pytest.mark.parametrize("folder", ["g/a", "g"])
def test_commit_deletes_array_with_buffered_elements(
    tmp_path: Path, array: tessarr.Array, transaction: ts.Transaction, folder: str
) -> None:
    """The array does not return, and a later array at its location has only new elements."""
    with array.buffered():
        array[0] = 1
        keys_of(tmp_path / folder, transaction).delete_range(ts.KvStore.KeyRange()).result()
        array[1] = 2
        transaction.commit_sync()
        assert not (tmp_path / folder / "c").exists()
        tessarr.create_array(tmp_path / "g" / "a", shape=4, dtype="i4", chunks=2)
    assert stored(tmp_path / "g" / "a") == [0, 0, 0, 0]


def overwrite(path: Path, transaction: ts.Transaction) -> Any:
    """Replace an array by an equal one without elements."""
    document = json.loads((path / "zarr.json").read_text())
    names = ("shape", "data_type", "codecs", "chunk_grid")
    settings: Any = {"metadata": {name: document[name] for name in names}}
    return opened(path, transaction, create=True, delete_existing=True, **settings)


def test_commit_overwrites_array_with_buffered_elements(
    tmp_path: Path, array: tessarr.Array, transaction: ts.Transaction
) -> None:
    """The new array has the elements of the transaction only."""
    with array.buffered():
        array[0] = 1
        overwrite(tmp_path / "g" / "a", transaction)[3] = 5
        array[1] = 2
        transaction.commit_sync()
        assert array[...].tolist() == [0, 0, 0, 5]
    assert stored(tmp_path / "g" / "a") == [0, 0, 0, 5]


def test_commit_deletes_array_whose_buffered_chunks_cannot_be_stored(
    tmp_path: Path, array: tessarr.Array
) -> None:
    path = tmp_path / "g" / "a"
    (path / "c" / "0").unlink()
    (path / "c" / "0" / "x").mkdir(parents=True)
    transaction = ts.Transaction()
    with array.buffered():
        array[0] = 1
        overwrite(path, transaction)[3] = 5
        transaction.commit_sync()
    assert stored(path) == [0, 0, 0, 5]


def test_deletion_of_a_link_keeps_buffered_elements(tmp_path: Path, array: tessarr.Array) -> None:
    """The array at the target of a deleted symbolic link keeps the elements in memory."""
    (tmp_path / "link").symlink_to(tmp_path / "g")
    transaction = ts.Transaction()
    with array.buffered():
        array[0] = 1
        keys = keys_of(tmp_path / "link", transaction)
        keys.delete_range(ts.KvStore.KeyRange()).result()
        transaction.commit_sync()
    assert not (tmp_path / "link").exists()
    assert stored(tmp_path / "g" / "a") == [1, 9, 9, 9]


# Transactions without effect


def test_aborted_deletion_keeps_buffered_elements(
    tmp_path: Path, array: tessarr.Array, transaction: ts.Transaction
) -> None:
    with array.buffered():
        array[0] = 1
        keys_of(tmp_path / "g", transaction).delete_range(ts.KvStore.KeyRange()).result()
        transaction.abort()
        assert array[0] == 1
    assert stored(tmp_path / "g" / "a") == [1, 9, 9, 9]


def test_conflicting_deletion_keeps_buffered_elements(tmp_path: Path, array: tessarr.Array) -> None:
    """A commit that fails before the deletion discards nothing."""
    transaction = ts.Transaction(repeatable_read=True)
    with array.buffered():
        array[0] = 1
        keys = keys_of(tmp_path / "g", transaction)
        assert keys.read("b").result().state == "missing"
        keys.delete_range(ts.KvStore.KeyRange("a/")).result()
        (tmp_path / "g" / "b").write_bytes(b"other")
        with pytest.raises(ConflictError):
            transaction.commit_sync()
        assert array[0] == 1
    assert stored(tmp_path / "g" / "a") == [1, 9, 9, 9]


def test_commit_that_fails_after_a_deletion_discards_buffered_elements(
    tmp_path: Path, array: tessarr.Array
) -> None:
    (tmp_path / "b" / "x").mkdir(parents=True)
    (tmp_path / "b" / "x" / "y").touch()
    transaction = ts.Transaction()
    with array.buffered():
        array[0] = 1
        keys_of(tmp_path / "g", transaction).delete_range(ts.KvStore.KeyRange()).result()
        keys_of(tmp_path, transaction)["b"] = b"a folder has this name"
        with pytest.raises(StoreError):
            transaction.commit_sync()
        assert not (tmp_path / "g" / "a" / "c").exists()
        tessarr.create_array(tmp_path / "g" / "a", shape=4, dtype="i4", chunks=2)
    assert stored(tmp_path / "g" / "a") == [0, 0, 0, 0]


# Reads of transactions


def test_listing_in_a_transaction_includes_buffered_chunks(
    tmp_path: Path, transaction: ts.Transaction
) -> None:
    array = tessarr.create_array(tmp_path / "a", shape=4, dtype="i4", chunks=2)
    with array.buffered():
        array[0] = 1
        keys = keys_of(tmp_path / "a", transaction)
        assert keys.list().result() == [b"c/0", b"zarr.json"]
        transaction.abort()
