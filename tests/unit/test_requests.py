"""Numbers of requests of everyday operations: the necessary minimum."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.stores import MemoryStore


class Counted:
    """A store in Python that records its requests."""

    def __init__(self) -> None:
        self.inner = MemoryStore()
        self.log: list[str] = []

    def get(self, key: str) -> bytes | None:
        self.log.append(f"get {key}")
        return self.inner.get(key)

    def put(self, key: str, data: bytes) -> None:
        self.log.append(f"put {key}")
        self.inner.put(key, data)

    def delete(self, key: str) -> None:
        self.log.append(f"delete {key}")
        self.inner.delete(key)

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        self.log.append(f"replace {key}")
        return self.inner.replace(key, data, expected)

    def list(self, prefix: str) -> list[str]:
        self.log.append(f"list {prefix}")
        return self.inner.list(prefix)

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        self.log.append(f"list_dir {prefix}")
        return self.inner.list_dir(prefix)

    def delete_prefix(self, prefix: str) -> None:
        self.log.append(f"delete_prefix {prefix}")
        self.inner.delete_prefix(prefix)


@pytest.fixture
def counted() -> Counted:
    counted = Counted()
    g = tessarr.create_group(counted)
    g.create_array("a", shape=(4, 4), dtype="u1", chunks=(2, 2))[:] = 1
    g.create_array("sub/b", shape=4, dtype="u1")
    counted.log.clear()
    return counted


def requests(counted: Counted, action: Callable[[], Any]) -> list[str]:
    counted.log.clear()
    action()
    return list(counted.log)


def test_opening_format_3_is_one_get(counted: Counted) -> None:
    for opener in (tessarr.open, tessarr.open_array):
        assert requests(counted, partial(opener, counted, path="a")) == ["get a/zarr.json"]
    assert requests(counted, lambda: tessarr.open_group(counted)) == ["get zarr.json"]
    assert requests(counted, lambda: tessarr.open(counted)["sub/b"]) == [
        "get zarr.json",
        "get sub/b/zarr.json",
    ]


def test_opening_format_2_is_three_gets_or_two() -> None:
    other = Counted()
    tessarr.create_array(other, shape=1, zarr_format=2)
    assert requests(other, lambda: tessarr.open_array(other)) == [
        "get zarr.json",
        "get .zarray",
        "get .zattrs",
    ]
    assert len(requests(other, lambda: tessarr.open_array(other, zarr_format=2))) == 2


def test_attributes_and_repr_take_none(counted: Counted) -> None:
    a, g = tessarr.open_array(counted, path="a"), tessarr.open_group(counted)

    def look() -> Iterator[Any]:
        for node in (a, g):
            yield repr(node), dict(node.attrs), node.attrs.get("x"), node.path, node == node
        yield a.shape, a.chunks, a.codecs, a.fill_value, a.nbytes, len(a)

    assert requests(counted, lambda: list(look())) == []


def test_reading_takes_one_per_chunk(counted: Counted) -> None:
    a = tessarr.open_array(counted, path="a")
    assert requests(counted, lambda: a[0, 0]) == ["get a/c/0/0"]
    assert sorted(requests(counted, lambda: a[:])) == [
        f"get a/c/{i}/{j}" for i in range(2) for j in range(2)
    ]
    assert requests(counted, lambda: a[:0]) == []


def test_writing_whole_chunks_reads_nothing(counted: Counted) -> None:
    a = tessarr.open_array(counted, path="a")
    result = requests(counted, lambda: a.__setitem__(slice(2), np.ones((2, 4), "u1")))
    assert not any(request.startswith(("get", "list")) for request in result)
    assert len(result) == 2


def test_creating_in_group(counted: Counted) -> None:
    g = tessarr.open_group(counted)
    result = requests(counted, lambda: g.create_array("new", shape=1))
    assert [request for request in result if not request.startswith("get")] == [
        "replace new/zarr.json"
    ]
    # Read the node (4), its deletion record and the consolidated metadata, and write the new node.
    # The wrapper of stores in Python reads once more before a replacement.
    assert len(result) <= 8


def test_attribute_edit_is_one_get_and_one_replace(counted: Counted) -> None:
    a = tessarr.open_array(counted, path="a")
    result = requests(counted, lambda: a.attrs.update(x=1, y=2))
    assert [request for request in result if not request.startswith("get")] == [
        "replace a/zarr.json"
    ]
    # Read the consolidated metadata above and the old document, and write the new document. The
    # wrapper of stores in Python reads once more before a replacement.
    assert len(result) <= 4


def test_listing_never_looks_into_arrays(counted: Counted) -> None:
    g = tessarr.open_group(counted)
    assert requests(counted, lambda: set(g.keys())) == [
        "list_dir ",
        "get a/zarr.json",
        "get sub/zarr.json",
    ]
    result = requests(counted, g.tree)
    assert [request for request in result if request.startswith("list")] == [
        "list_dir ",
        "list_dir sub/",
    ]
    assert len(result) == 5
    a = tessarr.open_array(counted, path="a")
    result = requests(counted, lambda: a.nchunks_initialized)
    assert result == ["list a/"]


LISTINGS: dict[str, Callable[[tessarr.Group], Any]] = {
    "list": list,
    "len": len,
    "dir": dir,
    "keys": lambda g: list(g.keys()),
    "values": lambda g: list(g.values()),
    "items": lambda g: list(g.items()),
    "dict": lambda g: dict(g.items()),
    "repr": lambda g: repr(g.items()),
    "arrays": lambda g: list(g.arrays()),
    "array_keys": lambda g: list(g.array_keys()),
    "members": lambda g: g.members(),
    "nmembers": lambda g: g.nmembers(),
    "tree": lambda g: g.tree(level=1),
    "info": lambda g: g.info,
}


@pytest.mark.parametrize("name", LISTINGS)
def test_listing_a_group_requests_each_document_once(counted: Counted, name: str) -> None:
    g = tessarr.open_group(counted)
    assert requests(counted, lambda: LISTINGS[name](g)) == [
        "list_dir ",
        "get a/zarr.json",
        "get sub/zarr.json",
    ]
