"""Stores that users pass, and pairs of stores for metadata and chunks."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

import tessarr
from tessarr.store import ForeignStore, LocalStore, MemoryStore
from tessarr.store.adapt import adapt_store, get_user_chunk_store, get_user_store, split_store


class Keyed:
    """Store in Python that equals other stores of the same name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.items: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.items.get(key)

    def put(self, key: str, data: bytes) -> None:
        self.items[key] = data

    def delete(self, key: str) -> None:
        self.items.pop(key, None)

    def list(self, prefix: str) -> list[str]:
        return [key for key in self.items if key.startswith(prefix)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyed) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


@pytest.mark.parametrize("store", [{}, Keyed("a"), MemoryStore(), ForeignStore({})])
def test_user_store_is_returned_unchanged(store: object) -> None:
    """Arrays, groups and their members return the user's object as `store`."""
    group = tessarr.create_group(store)  # type: ignore[arg-type]
    array = group.create_array("a", shape=(2,), dtype="i1")
    assert group.store is array.store is group["a"].store is store
    assert array.chunk_store is store
    assert tessarr.open_array(store, "r", path="a").store is store


def test_path_is_returned_as_local_store(tmp_path: Path) -> None:
    """A path is no store; `store` returns the store that Tessarr creates for it."""
    assert tessarr.create_group(tmp_path / "g").store == LocalStore(tmp_path / "g")


def test_equal_objects_make_equal_stores() -> None:
    """Objects compare by their own equality, except mappings, whose equality reads every value."""
    assert adapt_store(Keyed("a")) == adapt_store(Keyed("a")) != adapt_store(Keyed("b"))
    assert hash(adapt_store(Keyed("a"))) == hash(adapt_store(Keyed("a")))
    items: dict[str, bytes] = {}
    assert adapt_store(items) == adapt_store(items) != adapt_store({})
    assert adapt_store(items) != adapt_store(items, read_only=True)


def test_chunk_store_holds_chunks() -> None:
    """An array over two stores supports the same operations as over one."""
    documents: dict[str, bytes] = {}
    chunks: dict[str, bytes] = {}
    for form in (2, 3):
        documents.clear()
        chunks.clear()
        both = split_store(adapt_store(documents), adapt_store(chunks))
        group = tessarr.create_group(both, zarr_format=form)
        a = group.create_array("a", data=[1, 2, 3], chunks=(2,))
        a.attrs["x"] = 1
        a.resize(5)
        a.append([6, 7])
        assert a[:].tolist() == [1, 2, 3, 0, 0, 6, 7]
        names = {".zgroup", ".zattrs", ".zarray", "zarr.json"}
        assert {key.rpartition("/")[2] for key in documents} <= names
        assert len(chunks) == a.nchunks_initialized == 4
        assert not {key.rpartition("/")[2] for key in chunks} & names
        assert (a.store, a.chunk_store) == (documents, chunks)
        assert a.store is documents
        assert a.chunk_store is chunks
        del group["a"]
        assert chunks == {}


def test_split_store_is_pickled_and_compared(tmp_path: Path) -> None:
    """Equality and pickles include both stores."""
    metadata_store, chunk_store = LocalStore(tmp_path / "here"), LocalStore(tmp_path / "there")
    both = split_store(metadata_store, chunk_store)
    assert pickle.loads(pickle.dumps(both)) == both == split_store(metadata_store, chunk_store)
    assert hash(both) == hash(split_store(metadata_store, chunk_store))
    assert both != split_store(chunk_store, metadata_store)
    assert both != metadata_store
    again = pickle.loads(pickle.dumps(both))
    assert (get_user_store(again), get_user_chunk_store(again)) == (metadata_store, chunk_store)
    assert repr(both) == f"SplitStore({metadata_store!r}, {chunk_store!r})"


def test_read_only_part_makes_split_store_read_only(tmp_path: Path) -> None:
    """An array whose chunk store is read-only is read-only."""
    writable = LocalStore(tmp_path / "a")
    closed = LocalStore(tmp_path / "b", read_only=True)
    assert split_store(writable, closed).read_only
    assert split_store(closed, writable).read_only
    assert not split_store(writable, writable).read_only
