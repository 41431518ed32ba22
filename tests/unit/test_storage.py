"""zarr-python 2's functions in `tessarr.storage`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr import storage
from tessarr.errors import ArgumentError, ExistsError, NotFoundError
from tessarr.stores import LocalStore

DOCUMENT = """{
    "chunks": [
        1000000
    ],
    "compressor": {
        "clevel": 5,
        "cname": "lz4",
        "id": "blosc",
        "shuffle": 1
    },
    "dtype": "|i1",
    "fill_value": null,
    "filters": null,
    "order": "C",
    "shape": [
        100000000
    ],
    "zarr_format": 2
}"""


def test_init_array_writes_documented_metadata() -> None:
    """The document equals the one in the manual of 2.1.2."""
    store: dict[str, bytes] = {}
    storage.init_array(
        store, shape=100000000, chunks=1000000, dtype="i1", path="foo", zarr_format=2
    )
    assert sorted(store) == [".zattrs", ".zgroup", "foo/.zarray", "foo/.zattrs"]
    assert store["foo/.zarray"].decode() == DOCUMENT
    assert store["foo/.zattrs"] == b"{}"
    with pytest.raises(ExistsError):
        storage.init_array(store, 10, path="foo", zarr_format=2)
    storage.init_array(store, 10, None, "u1", None, 7, "F", True, "foo", zarr_format=2)
    array = tessarr.open_array(store, path="foo")
    assert (array.compressor, array.fill_value, array.order, array.dtype) == (None, 7, "F", "u1")


def test_format_3_has_fill_value() -> None:
    """zarr-python 2.1.2 leaves the value open by default; format 3 has zero."""
    store: dict[str, bytes] = {}
    chunks: dict[str, bytes] = {}
    storage.init_array(store, (4,), chunks=2, dtype="f4", chunk_store=chunks)
    array = tessarr.open_array(store, chunk_store=chunks)
    array[:2] = 1
    np.testing.assert_array_equal(array[:], [1, 1, 0, 0])
    assert (list(store), list(chunks)) == (["zarr.json"], ["c/0"])


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_contains_functions_match_nodes(zarr_format: Any, tmp_path: Path) -> None:
    """The functions recognise arrays and groups by path in every kind of store."""
    for store in ({}, LocalStore(tmp_path / "b"), str(tmp_path / "c")):
        storage.init_group(store, zarr_format=zarr_format)
        storage.init_array(store, 3, path="x/a", zarr_format=zarr_format)
        result = {
            path: (storage.contains_array(store, path), storage.contains_group(store, path))
            for path in (None, "", "x", "x/a", "y")
        }
        array, group, nothing = (True, False), (False, True), (False, False)
        assert result == {None: group, "": group, "x": group, "x/a": array, "y": nothing}
        with pytest.raises(ExistsError):
            storage.init_group(store, zarr_format=zarr_format)
        storage.init_group(store, True, zarr_format=zarr_format)
        assert not storage.contains_array(store, "x/a")


def test_storage_functions_accept_plain_dict() -> None:
    """The functions for stores also accept a plain dict."""
    store = {"a/b/c": b"123", "a/d": b"4", "e": b"56"}
    assert storage.listdir(store) == ["a", "e"]
    assert storage.listdir(store, "/a/") == ["b", "d"]
    assert (storage.getsize(store), storage.getsize(store, "a")) == (6, 4)
    storage.rename(store, "a", "f/g")
    assert sorted(store) == ["e", "f/g/b/c", "f/g/d"]
    storage.rmdir(store, "f/g/b")
    assert sorted(store) == ["e", "f/g/d"]
    with pytest.raises(NotFoundError):
        storage.rename(store, "a", "b")


def test_paths_are_normalised() -> None:
    """The rules are those of format 2; paths outside the store raise an error."""
    paths: list[Any] = [None, "", "/", "foo", "/foo/bar//", "foo\\bar", b"foo"]
    result = [storage.normalize_storage_path(path) for path in paths]
    assert result == ["", "", "", "foo", "foo/bar", "foo/bar", "foo"]
    for path in (".", "..", "foo/../bar"):
        with pytest.raises(ArgumentError):
            storage.normalize_storage_path(path)
