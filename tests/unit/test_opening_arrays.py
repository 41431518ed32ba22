"""Arrays by direct construction, and arrays that follow other writers' changes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import ArgumentError, NotFoundError, ReadOnlyError
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.stores import MemoryStore


def make(zarr_format: Any, store: Any = None, **settings: Any) -> Any:
    settings = {"shape": (4, 4), "chunks": (2, 2), "dtype": "i4", **settings}
    return tessarr.create_array(store, path="x/a", zarr_format=zarr_format, **settings)


def test_array_constructor_opens_store(zarr_format: Any, tmp_path: Any) -> None:
    a = make(zarr_format, tmp_path)
    a[:] = 7
    for store in (tmp_path, str(tmp_path), a.store):
        b = tessarr.Array(store, "/x/a/")
        assert (b, b.path, b.name, b.basename, b.read_only) == (a, "x/a", "/x/a", "a", False)
        b[0] = 8
        assert a[0, 0] == 8
    c = tessarr.Array(str(tmp_path), path="x/a", read_only=True)
    assert c.read_only
    with pytest.raises(ReadOnlyError):
        c[0] = 1
    mapping: dict[str, bytes] = {}
    make(zarr_format, mapping)[0, 0] = 5
    assert tessarr.Array(mapping, "x/a")[0, 0] == 5


def test_chunk_store_holds_chunks(zarr_format: Any) -> None:
    documents: dict[str, bytes] = {}
    chunks: dict[str, bytes] = {}
    make(zarr_format, documents)
    a = tessarr.Array(documents, "x/a", chunk_store=chunks)
    a[:] = 1
    assert (a.store is documents, a.chunk_store is chunks) == (True, True)
    assert len(chunks) == 4
    assert not set(chunks) & set(documents)
    assert tessarr.Array(documents, "x/a")[0, 0] == 0
    assert tessarr.Array(documents, "x/a", False, chunks)[0, 0] == 1


def test_open_array_of_group_raises(tmp_path: Any) -> None:
    tessarr.create_group(tmp_path)
    for store, path in ((tmp_path, None), (tmp_path, "a"), (None, None)):
        with pytest.raises(NotFoundError) as caught:
            tessarr.Array(store, path)
        assert caught.value.kind == "array_not_found"
    with pytest.raises(NotFoundError):
        tessarr.Array(make(3).store, "x/a", zarr_format=2)
    with pytest.raises(TypeError, match="colour"):
        tessarr.Array(tmp_path, colour="blue")  # type: ignore[call-arg]


def test_refresh_shows_concurrent_changes(zarr_format: Any) -> None:
    a = make(zarr_format)
    b = tessarr.Array(a.store, "x/a")
    a.append(np.ones((2, 4)))
    a.attrs["x"] = 1
    assert (b.shape, dict(b.attrs)) == ((4, 4), {})
    b.refresh()
    assert (b.shape, dict(b.attrs)) == ((6, 4), {"x": 1})
    np.testing.assert_array_equal(b[...], a[...])


def test_uncached_metadata_follows_store(zarr_format: Any) -> None:
    """Every property, read and write of the array uses the current metadata."""
    a = make(zarr_format)
    b = tessarr.Array(a.store, "x/a", cache_metadata=False)
    for rows in range(5, 30):
        a.resize(rows, 4)
        requested: list[Any] = [
            lambda: b.shape[0],
            lambda: len(b),
            lambda: b[:].shape[0],
            lambda: b[::1, 0].size,
            lambda: b.oindex[:, 0].size,
            lambda: b.read(...).result().shape[0],
            lambda: len(list(b)),
            lambda: b.size // 4,
            lambda: b.nbytes // 16,
            lambda: np.asarray(b).shape[0],
        ]
        assert requested[rows % len(requested)]() == rows
        a.resize(rows + 1, 4)
        b[rows] = rows
        assert a[rows, 3] == rows
    a.attrs["x"] = 1
    assert b.attrs["x"] == 1
    a.resize(3, 4)
    assert b.append([[1, 2, 3, 4]]) == (4, 4)
    with pytest.raises(IndexError):
        b[4]


def test_cached_metadata_needs_no_request() -> None:
    store = CountingStore(make(3).store)
    a = tessarr.Array(store, "x/a")
    before = store.counts()
    assert (a.shape, a.ndim, a.size, a.dtype.str) == ((4, 4), 2, 16, "<i4")
    assert store.counts() == before
    assert a.cache_metadata


def test_recreated_array_raises(zarr_format: Any) -> None:
    a = make(zarr_format)
    for change in ({"shape": (4,), "chunks": (2,)}, {"dtype": "f4"}):
        b = tessarr.Array(a.store, "x/a", cache_metadata=False)
        make(zarr_format, a.store, overwrite=True, **change)
        with pytest.raises(ArgumentError, match="replaced by another"):
            b[0]
    tessarr.open_group(a.store).__delitem__("x")
    with pytest.raises(NotFoundError):
        b[0]


def test_format_1_refreshes() -> None:
    meta = {
        "zarr_format": 1,
        "shape": [3],
        "chunks": [2],
        "dtype": "<i2",
        "compression": None,
        "compression_opts": None,
        "fill_value": 7,
        "order": "C",
    }
    store = MemoryStore({"meta": json.dumps(meta).encode(), "attrs": b"{}"})
    a = tessarr.Array(store, cache_metadata=False)
    store.put("meta", json.dumps({**meta, "shape": [4]}).encode())
    assert (a[:].tolist(), a.zarr_format, a.read_only) == ([7] * 4, 1, True)


@pytest.mark.parametrize("kind", ["object", "string"])
def test_refresh_keeps_text_type(kind: Any) -> None:
    store = tessarr.array(["a", "b"], dtype=str).store
    with tessarr.options(text=kind):
        a = tessarr.Array(store)
    before = a[:].dtype
    tessarr.Array(store).append(["c"])
    a.refresh()
    assert (a[:].dtype, a[:].tolist()) == (before, ["a", "b", "c"])
