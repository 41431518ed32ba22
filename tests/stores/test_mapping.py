"""The mapping interface of stores, and its folder methods."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import numpy as np
import pytest

from tessarr.errors import ArgumentError, NotFoundError, ReadOnlyError
from tessarr.store import LocalStore, Store, StoreMapping

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def mapping(store: Store) -> StoreMapping:
    """Return each store."""
    assert isinstance(store, StoreMapping)
    return store


def test_store_is_mutable_mapping(mapping: StoreMapping) -> None:
    """A store has all methods of a dict for keys and bytes."""
    assert isinstance(mapping, MutableMapping)
    assert bool(mapping)
    assert len(mapping) == 0
    mapping["b"] = b"2"
    mapping["a/x"] = np.arange(3, dtype="u1")
    mapping.update({"c": b"3"}, d=b"4")
    assert list(mapping) == sorted(mapping.keys()) == ["a/x", "b", "c", "d"]
    assert dict(mapping.items()) == {"a/x": b"\0\1\2", "b": b"2", "c": b"3", "d": b"4"}
    assert ("b" in mapping, "a" in mapping, "z" in mapping) == (True, False, False)
    assert list(mapping.values()) == [b"\0\1\2", b"2", b"3", b"4"]
    assert (mapping.get("z"), mapping.get("z", b"0"), mapping.get("b", b"0")) == (None, b"0", b"2")
    assert mapping.setdefault("b", b"9") == b"2"
    assert mapping.pop("b") == b"2"
    assert mapping.pop("b", None) is None
    del mapping["c"]
    assert len(mapping) == 2
    mapping.clear()
    assert dict(mapping) == {}


def test_absent_keys_raise(mapping: StoreMapping) -> None:
    """An absent key raises `KeyError`; an invalid key raises an error, or is not in the store."""
    for action in (lambda: mapping["a"], lambda: mapping.__delitem__("a")):
        with pytest.raises(NotFoundError, match="there is no key 'a' in ") as caught:
            action()
        assert isinstance(caught.value, KeyError)
        assert caught.value.key == "a"
    not_keys: list[Any] = ["../a", "/a", "", "a//b", 1, None]
    assert not any(key in mapping for key in not_keys)
    with pytest.raises(ArgumentError, match="is not a key"):
        mapping["../a"] = b"1"
    with pytest.raises(TypeError):
        mapping["a"] = "text"


def test_folders(mapping: StoreMapping) -> None:
    """Names below a path, sizes, deletion and renaming."""
    mapping.update({"a/b/c": b"123", "a/d": b"4", "ab": b"56"})
    assert mapping.listdir() == ["a", "ab"]
    assert mapping.listdir("a") == mapping.listdir("/a/") == ["b", "d"]
    assert mapping.listdir("nothing") == []
    assert [mapping.getsize(path) for path in ("", "a", "a/d", "ab", "z")] == [6, 4, 1, 2, 0]
    mapping.rename("a", "z/y")
    assert dict(mapping) == {"ab": b"56", "z/y/b/c": b"123", "z/y/d": b"4"}
    mapping.rename("ab", "z/y/d")
    assert dict(mapping) == {"z/y/b/c": b"123", "z/y/d": b"56"}
    with pytest.raises(ArgumentError, match="one holds the other"):
        mapping.rename("z", "z/y")
    with pytest.raises(NotFoundError, match="there is nothing at 'ab'"):
        mapping.rename("ab", "c")
    mapping.rmdir("z/y")
    mapping.rmdir("z/y")
    assert len(mapping) == 0


def test_with_block_keeps_store_usable(mapping: StoreMapping) -> None:
    """A store without open resources stays usable after a ``with`` block."""
    with mapping as entered:
        assert entered is mapping
        entered["a"] = b"1"


def test_read_only_mapping_raises(tmp_path: Any) -> None:
    """Every change raises an error that is also a `PermissionError`."""
    LocalStore(tmp_path)["a/b"] = b"1"
    store = LocalStore(tmp_path, read_only=True)
    changes: list[Any] = [
        lambda: store.__setitem__("a/b", b""),
        lambda: store.__delitem__("a/b"),
        store.clear,
        lambda: store.rmdir("a"),
        lambda: store.rename("a", "c"),
    ]
    for change in changes:
        with pytest.raises(ReadOnlyError):
            change()
    assert dict(store) == {"a/b": b"1"}
