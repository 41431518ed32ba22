"""Retry of conditional updates that fail because of a stale cached value."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import pytest

import tessarr
from tessarr.errors import NotFoundError
from tessarr.stores import ForeignStore, LRUStoreCache


class Value(NamedTuple):
    """Value with a generation."""

    data: bytes

    @property
    def size(self) -> int:
        """Return the number of bytes of the value."""
        return len(self.data)

    @property
    def version(self) -> bytes:
        """Return the generation of the value."""
        return hashlib.sha256(self.data).digest()

    def read(self, offset: int, count: int) -> bytes:
        """Return a range of the value."""
        return self.data[offset : offset + count]


class Compares:
    """Store that compares generations before it changes a value."""

    def __init__(self) -> None:
        self.identity = f"compares {id(self)}"
        self.data: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.data.get(key)

    def open_value(self, key: str) -> Value | None:
        return Value(self.data[key]) if key in self.data else None

    def open_head(self, key: str, _: int | None) -> Value | None:
        return self.open_value(key)

    def put(self, key: str, data: bytes) -> bytes:
        self.data[key] = data
        return Value(data).version

    def delete(self, key: str) -> None:
        self.data.pop(key, None)

    def list(self, prefix: str) -> list[str]:
        return [key for key in self.data if key.startswith(prefix)]

    def replace_version(self, key: str, data: bytes | None, version: bytes | None) -> bytes | bool:
        result = self.open_value(key)
        if (result and result.version) != version:
            return False
        if data is None:
            self.delete(key)
            return True
        return self.put(key, data)


@pytest.fixture
def inner() -> Compares:
    return Compares()


@pytest.fixture
def cache(inner: Compares) -> LRUStoreCache:
    return LRUStoreCache(ForeignStore(inner), max_size=1 << 20)


def test_conflict_calls_function_again(cache: LRUStoreCache, inner: Compares) -> None:
    inner.data["k"] = b"old"
    assert cache.get("k") == b"old"
    inner.data["k"] = b"new"
    seen = []

    def update(now: bytes | None) -> bytes:
        seen.append(now)
        if now == b"old":
            raise ValueError("it is old")
        return b"newer"

    cache.change("k", update)
    assert (seen, inner.data["k"], cache.get("k")) == ([b"old", b"new"], b"newer", b"newer")


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_error_of_function_reaches_user(
    cache: LRUStoreCache, inner: Compares, kind: type[BaseException]
) -> None:
    """An error for the current value propagates; an exit exception propagates at once."""
    inner.data["k"] = b"old"
    cache.get("k")
    inner.data["k"] = b"new"
    seen = []

    def update(now: bytes | None) -> bytes:
        seen.append(now)
        raise kind

    with pytest.raises(kind):
        cache.change("k", update)
    assert seen == ([b"old", b"new"] if kind is ValueError else [b"old"])
    assert inner.data["k"] == b"new"


def test_attribute_set_by_other_process_is_removed(cache: LRUStoreCache, inner: Compares) -> None:
    array = tessarr.create_array(cache, shape=4, chunks=2, dtype="u1")
    others = tessarr.open_array(ForeignStore(inner))
    others.attrs["x"] = 1
    del array.attrs["x"]
    assert dict(tessarr.open_array(ForeignStore(inner)).attrs) == {}
    with pytest.raises((KeyError, NotFoundError)):
        del array.attrs["x"]
