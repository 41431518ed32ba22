"""Stores as Python values: equality, hashes, pickles and reprs."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tessarr.errors import ReadOnlyError, StoreError
from tessarr.store import ForeignStore, LocalStore, MemoryStore, Store

if TYPE_CHECKING:
    from pathlib import Path


def test_local_stores_are_equal_by_folder_and_options(tmp_path: Path) -> None:
    """Any spelling of a folder is an equal store; other options are another store."""
    store = LocalStore(tmp_path)
    assert store == LocalStore(str(tmp_path) + "/")
    assert hash(store) == hash(LocalStore(str(tmp_path)))
    assert store != LocalStore(tmp_path / "x")
    assert store != LocalStore(tmp_path, read_only=True)
    assert store != LocalStore(tmp_path, durable=True)
    assert store != "x"
    assert store.path == str(tmp_path)


def test_local_store_is_pickled(tmp_path: Path) -> None:
    """A pickle includes the folder and the options."""
    settings: list[dict[str, Any]] = [{}, {"read_only": True}, {"durable": True}]
    for options in settings:
        store = LocalStore(tmp_path, **options)
        copy = pickle.loads(pickle.dumps(store))
        assert copy == store
        assert (copy.read_only, copy.durable) == (store.read_only, store.durable)


def test_folder_with_non_utf8_name_is_opened(tmp_path: Path) -> None:
    """Any file name is a valid folder."""
    folder = str(tmp_path / "caf\udce9")
    store = LocalStore(folder)
    store.put("k", b"v")
    assert store.path == folder
    assert pickle.loads(pickle.dumps(store)).get("k") == b"v"
    assert "LocalStore(" in repr(store)


def test_pickled_memory_store_is_copy() -> None:
    """Unpickling creates an independent store with the same contents."""
    store = MemoryStore({"a/b": b"1", "c": bytearray(b"2")})
    copy = pickle.loads(pickle.dumps(store))
    assert copy != store
    assert [(key, copy.get(key)) for key in copy.list()] == [("a/b", b"1"), ("c", b"2")]
    copy.put("c", b"3")
    assert store.get("c") == b"2"


def test_named_memory_stores_share_and_pickle_by_name() -> None:
    """One name is one store, also through a pickle."""
    store = MemoryStore(name="test_values")
    store.put("k", b"v")
    assert MemoryStore(name="test_values") == store
    assert hash(MemoryStore(name="test_values")) == hash(store)
    assert MemoryStore(name="other") != store
    assert pickle.loads(pickle.dumps(store)) == store
    assert repr(store) == "MemoryStore(name='test_values')"


@pytest.mark.slow
def test_named_memory_store_in_other_process_raises() -> None:
    """Another process gets an error with the reason, not an empty store."""
    code = (
        "import pickle; from tessarr.store import MemoryStore;"
        "print(pickle.dumps(MemoryStore(name='n')).hex())"
    )
    pickled = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    with pytest.raises(StoreError, match="lives in process"):
        pickle.loads(bytes.fromhex(pickled.stdout))


def test_foreign_stores_are_equal_by_object() -> None:
    """Two wrappers of one dict are equal; wrappers of two equal dicts are not."""
    items: dict[str, bytes] = {}
    store = ForeignStore(items)
    assert store == ForeignStore(items)
    assert hash(store) == hash(ForeignStore(items))
    assert store != ForeignStore({})
    assert store.object is items
    store.put("k", b"v")
    copy = pickle.loads(pickle.dumps(store))
    assert copy.get("k") == b"v"
    assert repr(store) == "ForeignStore(<dict>)"


@pytest.mark.parametrize("kind", ["local", "foreign"])
def test_read_only(tmp_path: Path, kind: str) -> None:
    """A read-only store permits reads, and rejects every change with a PermissionError."""
    store: Store
    if kind == "local":
        LocalStore(tmp_path).put("k", b"v")
        store = LocalStore(tmp_path, read_only=True)
    else:
        store = ForeignStore({"k": b"v"}, read_only=True)
    assert store.read_only
    assert store.get("k") == b"v"
    for change in (
        lambda: store.put("k", b""),
        lambda: store.delete("k"),
        lambda: store.replace("k", b"", b"v"),
        lambda: store.delete_prefix(""),
    ):
        with pytest.raises(ReadOnlyError) as caught:
            change()
        assert isinstance(caught.value, PermissionError)
    assert store.get("k") == b"v"
