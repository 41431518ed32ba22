"""Stores in dicts: their contents and their equality."""

from __future__ import annotations

import pickle
from collections import OrderedDict

import pytest

import tessarr
from tessarr.errors import StoreError
from tessarr.stores import DictStore, KVStore, MemoryStore


def test_dict_store_nests_dicts() -> None:
    """Keys are nested dicts, and empty dicts are removed."""
    store = DictStore(cls=OrderedDict)
    store.update({"a/b/c": b"1", "a/d": b"2", "e": b"3"})
    assert store.root == {"a": {"b": {"c": b"1"}, "d": b"2"}, "e": b"3"}
    assert isinstance(store.root["a"]["b"], OrderedDict)
    assert ("a" in store, store.get("a/b"), store.get("e/f")) == (False, None, None)
    del store["a/b/c"]
    assert store.root == {"a": {"d": b"2"}, "e": b"3"}
    store.rmdir("a")
    store.rmdir("nothing/here")
    assert store.root == {"e": b"3"}
    store.clear()
    assert store.root == {}


def test_value_with_keys_below_it_raises() -> None:
    """As in a folder, the error names the conflicting key, and nothing changes."""
    store = DictStore({"a": {"b": b"1"}})
    with pytest.raises(StoreError, match="there are keys below it"):
        store["a"] = b"2"
    with pytest.raises(StoreError, match="'b' in it is a value"):
        store["a/b/c"] = b"2"
    assert store.root == {"a": {"b": b"1"}}


@pytest.mark.slow
def test_deeply_nested_keys_are_listed() -> None:
    """A key that a user stored is also listed and deleted."""
    store = DictStore()
    key = "a/" * 3000 + "b"
    store[key] = b"1"
    assert (list(store), store.getsize("a")) == ([key], 1)
    del store[key]
    assert store.root == {}


def test_stores_over_one_object_are_equal() -> None:
    """Stores compare the identity of the dict, not its contents."""
    items: dict[str, bytes] = {}
    assert DictStore(items) == DictStore(items) != DictStore({})
    assert KVStore(items) == KVStore(items) != KVStore({})
    assert KVStore(items) != DictStore(items)
    assert hash(KVStore(items)) == hash(KVStore(items))
    assert (repr(KVStore(items)), repr(DictStore())) == ("KVStore(<dict>)", "DictStore(<dict>)")


def test_pickle_contains_values() -> None:
    """A pickle includes the separator, which new arrays of format 2 use."""
    store = DictStore(dimension_separator="/")
    tessarr.create_array(store, data=[[1, 2]], chunks=1, zarr_format=2)
    assert store.root["0"].keys() == {"0", "1"}
    again = pickle.loads(pickle.dumps(store))
    assert (again.root, again.dimension_separator) == (store.root, "/")
    assert tessarr.open_array(again)[:].tolist() == [[1, 2]]
    original = KVStore({"a": b"1"})
    assert dict(pickle.loads(pickle.dumps(original))) == {"a": b"1"}


def test_names_are_public() -> None:
    """The names of zarr-python 2 are public, beside the functions."""
    assert (tessarr.DictStore, tessarr.KVStore) == (DictStore, KVStore)
    assert tessarr.MemoryStore is MemoryStore is tessarr.storage.MemoryStore
