"""Tokens of arrays for Dask: equal for equal values, and different after every change."""

from __future__ import annotations

import pickle
from collections import UserDict
from typing import TYPE_CHECKING, Any

import pytest

import tessarr
from tessarr import stores

dask = pytest.importorskip("dask", reason="Dask computes the tokens")
pytest.importorskip("dask.array", reason="its dispatch of tokens")

from dask.base import tokenize  # noqa: E402 (after the package that needs it)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _deterministic() -> Iterator[None]:
    """Let Dask raise an error for every object without a deterministic token."""
    with dask.config.set({"tokenize.ensure-deterministic": True}):
        yield


def _create_store(kind: str, folder: Path) -> Any:
    """Return a store that several arrays can open; the folder is that of its files."""
    if kind == "obstore folder":
        return pytest.importorskip("obstore.store", reason="the store").LocalStore(folder)
    if kind == "zarr-python folder":
        zarr = pytest.importorskip("zarr", minversion="3", reason="the store")
        return zarr.storage.LocalStore(folder)
    if kind in {"fsspec memory", "fsspec file"}:
        fsspec = pytest.importorskip("fsspec", reason="the file system of this test")
        return stores.FsspecStore(fsspec.filesystem(kind.removeprefix("fsspec ")), str(folder))
    created: dict[str, Any] = {
        "folder": folder,
        "memory": stores.MemoryStore(),
        "named memory": stores.MemoryStore(name=str(folder)),
        "dictionary": {},
        "mapping": UserDict(),
        "zip": stores.ZipStore(folder / "a.zip", mode="w"),
        "sqlite": stores.SQLiteStore(folder / "a.sqlite"),
        "prefix": stores.PrefixStore(folder, "b/c"),
        "cache": stores.LRUStoreCache(folder, max_size=1000),
    }
    return created[kind]


STORES = [
    *("folder", "memory", "named memory", "dictionary", "mapping", "zip", "sqlite"),
    *("prefix", "cache", "fsspec memory", "fsspec file", "zarr-python folder", "obstore folder"),
]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A store of each kind."""
    return _create_store(request.param, tmp_path)


def _create(store: Any) -> tessarr.Array:
    array = tessarr.create_array(store, path="a", shape=(20,), chunks=5, dtype="i4")
    array[:10] = 1
    return array


def test_tokens_of_two_handles_are_equal(store: Any) -> None:
    array = _create(store)
    token = tokenize(array)
    assert tokenize(array) == token
    assert tokenize(tessarr.open_array(store, path="a")) == token
    assert tokenize(tessarr.open_array(store, path="a", mode="r")) == token
    assert tokenize(pickle.loads(pickle.dumps(array))) == token


def test_token_changes_with_values_shape_and_attributes(store: Any) -> None:
    array = _create(store)
    reader = tessarr.open_array(store, path="a", mode="r")
    seen = [tokenize(array)]
    for change in (
        lambda: array.__setitem__(0, 2),  # an existing chunk
        lambda: array.__setitem__(19, 2),  # a new chunk
        lambda: array.__setitem__(slice(15, 20), 0),  # deletes this chunk
        lambda: array.attrs.update(unit="m"),
        lambda: array.resize(30),
    ):
        change()
        seen.append(tokenize(array))
        if len(seen) < 5:  # an open array has its metadata of the time of opening
            assert tokenize(reader) == seen[-1]
    assert seen[3] == seen[1]  # the same elements in the same files
    assert len({*seen}) == len(seen) - 1


def test_quick_changes_have_different_tokens(tmp_path: Path) -> None:
    """Two writes within one tick of the file system's clock do not hide from a token."""
    array = _create(tmp_path)
    for number in range(20):
        token = tokenize(array)
        array[0] = 2 * number + 10
        array[0] = 2 * number + 11
        assert tokenize(array) != token


def test_change_of_a_neighbour_keeps_the_token(tmp_path: Path) -> None:
    root = tessarr.create_group(tmp_path)
    first, second = (root.create_array(name, data=[1, 2], chunks=1) for name in "ab")
    token = tokenize(first)
    second[0] = 5
    assert tokenize(first) == token
    assert tokenize(second) != token


def test_tokens_of_views_follow_their_array() -> None:
    array = tessarr.array([1, 2, 3, 4], chunks=2)
    views = (array.astype("f4"), array.lazy[::2], array.lazy[1:])
    before = [tokenize(view) for view in views]
    assert len({*before, tokenize(array)}) == 4
    assert [tokenize(view) for view in (array.astype("f4"), array.lazy[::2])] == before[:2]
    array[2] = 7
    assert {*before}.isdisjoint(tokenize(view) for view in views)


def test_pickle_of_an_array_is_small(tmp_path: Path) -> None:
    array = tessarr.create_array(
        tmp_path,
        shape=(10**6, 10**5, 1000),
        chunks=(100, 100, 100),
        shards=(1000, 1000, 1000),
        dtype="f4",
        dimension_names=("time", "y", "x"),
    )
    assert len(pickle.dumps(array)) < 2000
