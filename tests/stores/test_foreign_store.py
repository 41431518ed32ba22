"""Stores that users write in Python."""

from __future__ import annotations

import types
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tessarr import LRUStoreCache
from tessarr.errors import DataError, ReadOnlyError
from tessarr.store import ForeignStore
from tessarr.tensorstore.kvstore.values import read_versioned


class Rich:
    """Store with every optional method, which records its calls."""

    def __init__(self) -> None:
        self.items: dict[str, bytes] = {}
        self.calls: list[str] = []
        self.rival = 0

    def get(self, key: str) -> memoryview | None:
        self.calls.append("get")
        return memoryview(self.items[key])  # KeyError: absent

    def put(self, key: str, data: bytes) -> None:
        self.calls.append("put")
        self.items[key] = data

    def delete(self, key: str) -> None:
        self.calls.append("delete")
        del self.items[key]

    def list(self, prefix: str) -> Iterator[str]:
        self.calls.append("list")
        return (key for key in self.items)

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        self.calls.append("replace")
        if self.rival:
            self.rival -= 1
            self.items[key] = b"rival %d" % self.rival
        if self.items.get(key) != expected:
            return False
        if data is None:
            self.items.pop(key, None)
        else:
            self.items[key] = data
        return True

    def list_dir(self, prefix: str) -> tuple[Sequence[str], Sequence[str]]:
        self.calls.append("list_dir")
        return [f"{prefix}z", f"{prefix}a", "elsewhere", f"{prefix}a"], [
            f"{prefix}g/",
            f"{prefix}..//",
        ]

    def delete_prefix(self, prefix: str) -> None:
        self.calls.append("delete_prefix")
        for key in [key for key in self.items if key.startswith(prefix)]:
            del self.items[key]

    def open_value(self, key: str) -> Any:
        self.calls.append("open_value")
        value = self.items[key]
        return types.SimpleNamespace(
            size=len(value), read=lambda offset, count: value[offset : offset + count]
        )


def test_optional_methods_are_used() -> None:
    """Each call of Tessarr uses the cheapest method of the store."""
    rich = Rich()
    store = ForeignStore(rich)
    store.put("a/k", b"1")
    assert store.get("absent") is None
    assert store.size("a/k") == 1
    assert store.replace("a/k", b"2", b"1")
    assert store.list_dir("a/") == (["a/a", "a/z"], ["a/g/"])
    store.delete_prefix("a/")
    assert rich.items == {}
    assert rich.calls == ["put", "get", "open_value", "get", "replace", "list_dir", "delete_prefix"]


def test_failed_replace_reads_value_again() -> None:
    """The comparison uses the value that another writer stored in between."""
    rich = Rich()
    rich.items["k"] = b"1"
    rich.rival = 1
    store = ForeignStore(rich)
    assert not store.replace("k", b"2", b"1")
    assert rich.items["k"] == b"rival 0"
    rich.rival = 0
    assert store.replace("k", b"2", b"rival 0")


def test_exceptions_reach_user_with_note() -> None:
    """The exception of a store propagates unchanged, with a note that names the key."""

    class Broken(dict[str, bytes]):
        def __getitem__(self, key: str) -> bytes:
            raise ZeroDivisionError("broken")

    with pytest.raises(ZeroDivisionError) as caught:
        ForeignStore(Broken()).get("a/b")
    assert any("a/b" in note for note in caught.value.__notes__)


def test_non_bytes_value_error_names_key() -> None:
    """The first read of a mapping of strings to text raises an error."""
    with pytest.raises(TypeError, match=r'gave a str for the key "k"'):
        ForeignStore({"k": "text"}).get("k")


def test_invalid_foreign_keys_are_skipped() -> None:
    """Listings skip numbers, empty keys and keys that escape the root."""
    store = ForeignStore({"a/b": b"1", "../x": b"2", "": b"3", 7: b"4", "/abs": b"5"})
    assert store.list() == ["a/b"]
    store.delete_prefix("")
    assert store.object == {"../x": b"2", "": b"3", 7: b"4", "/abs": b"5"}


def test_immutable_mapping_is_read_only() -> None:
    """A mapping without item assignment rejects writes before any attempt."""
    store = ForeignStore(types.MappingProxyType({"k": b"v"}))
    assert store.read_only
    assert store.get("k") == b"v"
    with pytest.raises(ReadOnlyError):
        store.put("k", b"w")


@pytest.mark.parametrize("value", [1, object(), [b"x"], types.SimpleNamespace(get=print)])
def test_non_store_raises_type_error(value: object) -> None:
    """The message lists the methods that a store needs."""
    with pytest.raises(TypeError, match="is not a store"):
        ForeignStore(value)


def test_mutable_mapping_is_store() -> None:
    """The abstract methods of `MutableMapping` are enough."""

    class Upper(MutableMapping[str, bytes]):
        def __init__(self) -> None:
            self.items_: dict[str, bytes] = {}

        def __getitem__(self, key: str) -> bytes:
            return self.items_[key.upper()]

        def __setitem__(self, key: str, value: bytes) -> None:
            self.items_[key.upper()] = value

        def __delitem__(self, key: str) -> None:
            del self.items_[key.upper()]

        def __iter__(self) -> Iterator[str]:
            return iter([key.lower() for key in self.items_])

        def __len__(self) -> int:
            return len(self.items_)

    store = ForeignStore(Upper())
    store.put("a/b", b"1")
    assert store.list("a/") == ["a/b"]
    assert store.replace("a/b", None, b"1")
    assert store.list() == []


def test_hold_method_is_used() -> None:
    """The store holds the key during the function call, and releases it after an error."""
    notes: list[str] = []

    class Held(Rich):
        @contextmanager
        def hold(self, key: str) -> Iterator[None]:
            notes.append(f"enter {key}")
            yield
            notes.append("leave")

    store = ForeignStore(Held())

    def work() -> int:
        notes.append("work")
        return 3

    assert store.hold("k", work) == 3
    with pytest.raises(ZeroDivisionError):
        store.hold("j", lambda: 1 // 0)
    assert notes == ["enter k", "work", "leave", "enter j", "leave"]


def test_open_head_saves_request() -> None:
    """A small document needs one call; the head of a large one stays within the limit."""

    class First(Rich):
        def open_head(self, key: str, count: int | None) -> Any:
            self.calls.append(f"open_head {count}")
            value = self.items.get(key)
            return value and types.SimpleNamespace(size=len(value), read=self.read_head)

        def read_head(self, offset: int, count: int) -> bytes:
            return b"12345"[offset : offset + count]

    first = First()
    store = ForeignStore(first)
    first.items |= {"small": b"12345", "large": bytes(100)}
    assert store.get("small", limit=10) == b"12345"
    assert store.get("absent", limit=10) is None
    assert first.calls == ["open_head 11", "open_head 11"]
    with pytest.raises(DataError, match="has 100 bytes, at most 10 are allowed"):
        store.get("large", limit=10)
    assert first.calls[2:] == ["open_head 11"]


class Versioned(Rich):
    """Store whose generations are the first bytes of the values."""

    def open_head(self, key: str, count: int | None) -> Any:
        self.calls.append("open_head")
        value = self.items.get(key)
        if value is None:
            return None
        read = lambda offset, size: value[offset : offset + size]  # noqa: E731 (of this value)
        return types.SimpleNamespace(size=len(value), read=read, version=value[:1])

    def open_value(self, key: str) -> Any:
        return self.open_head(key, 1)

    def replace_version(self, key: str, data: bytes | None, version: bytes | None) -> Any:
        self.calls.append("replace_version")
        now = self.items.get(key)
        if (now is None) != (version is None) or (now or b"")[:1] != (version or b""):
            return False
        self.items[key] = data or b""
        return (data or b"")[:1] or True


def test_replace_version_is_used() -> None:
    """The write passes the known generation instead of the value, and returns the new one."""
    versioned = Versioned()
    store = ForeignStore(versioned)
    assert store.replace("k", b"1 one", None)
    assert versioned.calls == ["open_head", "replace_version"]
    versioned.calls.clear()
    known = read_versioned(store, "k").stamp.generation
    versioned.calls.clear()
    written, _ = store.write_versioned("k", b"2 two", known)
    assert written not in {b"", known}
    assert versioned.calls == ["replace_version"]  # the store opens nothing
    assert not store.write_versioned("k", b"3", known)[0]
    absent = read_versioned(store, "absent").stamp.generation
    assert not store.write_versioned("k", b"3", absent)[0]
    assert store.get("k") == b"2 two"
    assert not store.is_exclusive


@pytest.mark.parametrize("before", [b"1 one", None])
def test_cached_value_is_not_precondition(before: bytes | None) -> None:
    """Only the store can compare the expected value, because another writer may have changed it."""
    versioned = Versioned()
    store = LRUStoreCache(ForeignStore(versioned), max_size=None)
    if before is not None:
        versioned.items["k"] = before
    assert store.get("k") == before
    versioned.items["k"] = b"2 two"
    assert not store.replace("k", b"3 three", before)
    assert versioned.items["k"] == store.get("k") == b"2 two"
    versioned.items["k"] = b"4 four"
    assert store.replace("k", b"5 five", b"4 four")
    assert versioned.items["k"] == store.get("k") == b"5 five"


class Uncounted(dict[str, bytes]):
    """Mapping without a length."""

    def __len__(self) -> int:
        raise NotImplementedError


def test_listing_does_not_count_keys() -> None:
    assert list(ForeignStore(Uncounted(b=b"", a=b"")).list("")) == ["a", "b"]
