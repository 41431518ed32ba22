"""Blocks of buffered writes, and other stores and processes at the location of the array."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr import tensorstore as ts
from tessarr._engine import count_chunk_cache
from tessarr.errors import ArgumentError, NotFoundError
from tessarr.stores import FsspecStore, MemoryStore, SQLiteStore, ZipStore


def created(path: Any, **settings: Any) -> tessarr.Array:
    """Return an array of two chunks."""
    array = tessarr.create_array(path, **{"shape": 4, "dtype": "i4", "chunks": 2, **settings})
    array[...] = 9
    return array


def documents(path: Path) -> dict[str, bytes]:
    """Return all files of an array."""
    files = [file for file in path.rglob("*") if file.is_file()]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def replace_folder(path: Path, **settings: Any) -> None:
    """Replace an array as another process does, of which this process knows nothing."""
    created(path.with_name("other"), **settings)
    shutil.rmtree(path)
    path.with_name("other").rename(path)


# Other store objects of this process


def by_path(path: Path) -> tessarr.Array:
    return tessarr.open_array(path, mode="r+")


def by_group(path: Path) -> tessarr.Array:
    tessarr.create_group(path.parent)
    return tessarr.open_group(path.parent, mode="r+")[path.name]


def by_link(path: Path) -> tessarr.Array:
    path.with_name("link").symlink_to(path)
    return tessarr.open_array(path.with_name("link"), mode="r+")


@pytest.mark.parametrize("opened", [by_path, by_group, by_link])
def test_other_store_objects_see_buffered_elements(
    tmp_path: Path, opened: Callable[[Path], tessarr.Array]
) -> None:
    """Array objects of other store objects read and write the elements in the right order."""
    array = created(tmp_path / "a")
    other = opened(tmp_path / "a")
    with array.buffered():
        array[0] = 1
        assert other[:2].tolist() == [1, 9]
        array[0] = 2
        other[0] = 3
        assert array[0] == 3
        array[1] = 4
        assert other.nchunks_initialized == 2
    assert by_path(tmp_path / "a")[...].tolist() == [3, 4, 9, 9]


def in_databases(path: Path) -> Iterator[Any]:
    path.with_name("link.sqlite").symlink_to(path.with_name("a.sqlite"))
    yield SQLiteStore(path.with_name("a.sqlite"))
    yield SQLiteStore(path.with_name("link.sqlite"))


def in_fsspec_urls(path: Path) -> Iterator[Any]:
    pytest.importorskip("fsspec")
    yield FsspecStore.from_url(f"memory://{path.parent.name}/a")
    folder = FsspecStore.from_url(f"memory://{path.parent.name}")
    yield tessarr.create_group(folder).store_path / "a"


@pytest.mark.parametrize("stores", [in_databases, in_fsspec_urls])
def test_stores_at_one_location_see_buffered_elements(
    tmp_path: Path, stores: Callable[[Path], Iterator[Any]]
) -> None:
    """A later write of another store object is not replaced by earlier buffered elements."""
    first, second = stores(tmp_path / "x")
    array = created(first)
    other = tessarr.open_array(second, mode="r+")
    with array.buffered():
        array[0] = 1
        assert other[:2].tolist() == [1, 9]
        array[0] = 2
        other[0] = 3
        assert array[0] == 3
    assert other[...].tolist() == [3, 9, 9, 9]


@pytest.mark.parametrize("kind", ["array", "group", "store"])
def test_close_in_a_block_stores_buffered_elements(tmp_path: Path, kind: str) -> None:
    store = ZipStore(tmp_path / "a.zip", mode="w")
    group = tessarr.create_group(store)
    array = group.create_array("a", shape=4, chunks=2, dtype="i4")
    with array.buffered():
        array[0] = 1
        {"array": array, "group": group, "store": store}[kind].close()
    assert tessarr.open_array(tmp_path / "a.zip", path="a")[...].tolist() == [1, 0, 0, 0]


def test_arrays_of_one_mapping_see_buffered_elements() -> None:
    items: dict[str, bytes] = {}
    array = created(items)
    with array.buffered():
        array[0] = 1
        other = tessarr.open_array(items)
        assert other[0] == 1
        other[0] = 2
    assert array[0] == 2


@pytest.mark.parametrize("dtype", ["i4", "u8"])
def test_array_overwritten_by_path_has_only_new_elements(tmp_path: Path, dtype: str) -> None:
    """The end of the block stores nothing in an array that replaces the old one."""
    array = created(tmp_path / "a")
    with array.buffered():
        array[0] = 1
        created(tmp_path / "a", dtype=dtype, overwrite=True)
        before = documents(tmp_path / "a")
    assert documents(tmp_path / "a") == before
    assert (tessarr.open_array(tmp_path / "a")[...] == 9).all()


def test_deletion_by_path_discards_buffered_elements(tmp_path: Path) -> None:
    array = created(tmp_path / "g" / "a")
    with array.buffered():
        array[0] = 1
        del tessarr.create_group(tmp_path / "g")["a"]
    assert not (tmp_path / "g" / "a").exists()


def in_transaction(path: Path, transaction: ts.Transaction) -> Any:
    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(path)}}
    return ts.open(spec, transaction=transaction).result()


@pytest.mark.parametrize("settings", [{}, {"atomic": True}, {"repeatable_read": True}])
def test_transaction_reads_and_replaces_buffered_elements(
    tmp_path: Path, settings: dict[str, bool]
) -> None:
    array = created(tmp_path / "a")
    with array.buffered():
        array[0] = 1
        with ts.Transaction(**settings) as transaction:
            other = in_transaction(tmp_path / "a", transaction)
            assert other.read().result().tolist() == [1, 9, 9, 9]
            other[0] = 3
            assert other.read().result().tolist() == [3, 9, 9, 9]
            assert array[0] == 1
        assert array[0] == 3
    assert by_path(tmp_path / "a")[...].tolist() == [3, 9, 9, 9]


def test_commit_replaces_elements_buffered_before(tmp_path: Path) -> None:
    array = created(tmp_path / "a")
    transaction = ts.Transaction()
    in_transaction(tmp_path / "a", transaction)[0] = 3
    with array.buffered():
        array[0] = 1
        transaction.commit_sync()
        assert array[0] == 3
    assert by_path(tmp_path / "a")[...].tolist() == [3, 9, 9, 9]


# Other processes


OTHERS: dict[str, dict[str, Any]] = {
    "dtype": {"dtype": "f4"},
    "codecs": {"compressors": None},
    "chunks": {"chunks": 4},
    "shards": {"chunks": 1, "shards": 2},
    "key encoding": {"chunk_key_encoding": {"name": "v2"}},
    "rank": {"shape": (4, 2), "chunks": (2, 2)},
}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("stores_early", [False, True])
def test_replaced_array_receives_no_old_chunks(
    tmp_path: Path, kind: str, stores_early: bool
) -> None:
    """If another process replaces the array, the block raises an error and stores nothing."""
    array = created(tmp_path / "a")
    with pytest.raises(ArgumentError, match="was replaced by another"), array.buffered() as same:
        block = same.buffered()
        with block:
            array[0] = 1
            if stores_early:
                block.flush()
                array[0] = 2
            replace_folder(tmp_path / "a", **OTHERS[kind])
            before = documents(tmp_path / "a")
    assert documents(tmp_path / "a") == before


def test_replaced_array_of_format_2_receives_no_old_chunks(tmp_path: Path) -> None:
    array = created(tmp_path / "a", zarr_format=2)
    with pytest.raises(ArgumentError, match="was replaced by another"), array.buffered():
        array[0] = 1
        replace_folder(tmp_path / "a", zarr_format=2, compressors=None)
        before = documents(tmp_path / "a")
    assert documents(tmp_path / "a") == before


def test_array_deleted_from_a_store_in_memory_raises() -> None:
    """A store without folders detects the deletion, too."""
    store = MemoryStore()
    array = created(store)
    keys = store.list()
    with pytest.raises(NotFoundError, match="deleted"), array.buffered():
        array[0] = 1
        for key in keys:
            store.delete(key)
    assert store.list() == []
    created(store)
    assert tessarr.open_array(store)[0] == 9


CHANGES: dict[str, Callable[[dict[str, Any]], None]] = {
    "attributes": lambda document: document.update(attributes={"a": 1}),
    "shape": lambda document: document.update(shape=[6]),
    "fill value": lambda document: document.update(fill_value=3),
    "names": lambda document: document.update(dimension_names=["x"]),
    "order of members": lambda document: document.update(sorted(document.items())),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_document_changed_by_another_process_does_not_prevent_storing(
    tmp_path: Path, kind: str
) -> None:
    """Changes that leave the encoding of chunks as it is are no replacement of the array."""
    array = created(tmp_path / "a")
    with array.buffered():
        array[0] = 1
        document = json.loads((tmp_path / "a" / "zarr.json").read_text())
        CHANGES[kind](document)
        (tmp_path / "a" / "zarr.json").write_text(json.dumps(document, indent=7))
    assert tessarr.open_array(tmp_path / "a")[:4].tolist() == [1, 9, 9, 9]


def test_rectilinear_array_resized_by_another_store_is_stored(tmp_path: Path) -> None:
    array = created(tmp_path / "a", chunks=[[1, 3]])
    with array.buffered():
        array[2] = 1
        array.append([5, 5])
        tessarr.open_array(tmp_path / "a").resize(9)
        array[3] = 2
    assert tessarr.open_array(tmp_path / "a")[...].tolist() == [9, 9, 1, 2, 5, 5, 0, 0, 0]


def test_views_of_an_array_are_stored(tmp_path: Path) -> None:
    """Chunks of a view belong to the array that the document describes."""
    array = created(tmp_path / "a")
    view = array.view(shape=8, chunks=4, dtype="i2")
    with view.buffered():
        view.view(dtype="u2")[1] = 1
        view[2] = 5
    assert tessarr.open_array(tmp_path / "a")[:2].tolist() == [9 + (1 << 16), 5]


# Deleted arrays


STEPS: dict[str, Callable[[tessarr.Array], object]] = {
    "append": lambda array: array.append([1]),
    "growth": lambda array: array.resize(6),
    "write": lambda array: array.__setitem__(0, 1),
}


@pytest.mark.parametrize("name", STEPS)
def test_deleted_array_does_not_return(tmp_path: Path, name: str) -> None:
    """Neither does an append that follows the deletion bring it back."""
    array = created(tmp_path / "a", shape=3)
    with pytest.raises(NotFoundError), array.buffered():
        array[0] = 2
        STEPS[name](array)
        shutil.rmtree(tmp_path / "a")
    assert not (tmp_path / "a").exists()
    with pytest.raises(NotFoundError), array.buffered():
        STEPS[name](array)
    assert not (tmp_path / "a").exists() or documents(tmp_path / "a") == {}


def test_appended_rows_of_a_deleted_array_raise(tmp_path: Path) -> None:
    array = created(tmp_path / "a", shape=3)
    with pytest.raises(NotFoundError), array.buffered():
        array.append([1])
        shutil.rmtree(tmp_path / "a")
    assert not (tmp_path / "a").exists()


# Caches


def test_storing_drops_decoded_chunks() -> None:
    """The cache does not keep the old content of chunks that a block stores."""
    array = tessarr.create_array(MemoryStore(), data=np.arange(40_000, dtype="i4"), chunks=10_000)
    before = count_chunk_cache()["bytes"]
    for _ in range(3):
        assert array[5] == 5
    assert count_chunk_cache()["bytes"] > before
    with array.buffered():
        array[6] = -1
    assert count_chunk_cache()["bytes"] == before
    assert array[5:8].tolist() == [5, -1, 7]


# Statistics and listings


def test_statistics_of_storage_include_buffered_chunks(tmp_path: Path) -> None:
    array = tessarr.create_array(tmp_path / "a", shape=4, dtype="i4", chunks=2)
    same = ts.open({"driver": "zarr3", "kvstore": f"file://{tmp_path / 'a'}/"}).result()
    with array.buffered():
        array[0] = 1
        found = same.storage_statistics(query_not_stored=True, query_fully_stored=True).result()
        assert (found.not_stored, found.fully_stored) == (False, False)
        array[2] = 1
        assert same.storage_statistics(query_fully_stored=True).result().fully_stored


def test_listings_include_buffered_chunks() -> None:
    """Listings inside an array store its chunks first; those of a group do not."""
    store = MemoryStore()
    group = tessarr.create_group(store)
    array = group.create_array("a", shape=8, dtype="i4", chunks=2)
    with (block := tessarr.buffered(group)):
        array[0] = 1
        assert store.list_dir("") == (["zarr.json"], ["a/"])
        assert block.nbytes > 0
        assert store.list_dir("a/c/") == (["a/c/0"], [])
        array[2] = 1
        assert store.list_range("a/c/") == [b"a/c/0", b"a/c/1"]
        array[4] = 1
        assert store.read_batch([("list_dir", "a/c/")], 1)[0] == (["a/c/0", "a/c/1", "a/c/2"], [])
        array[6] = 1
        assert array.nchunks_initialized == 4
