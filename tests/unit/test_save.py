"""Saving and loading of whole arrays and groups."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import ArgumentError, NotFoundError, UnsupportedError

FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])


@FORMATS
def test_saved_array_loads_equal(store: Any, zarr_format: Any) -> None:
    data = np.arange(6, dtype="i2").reshape(2, 3)
    tessarr.save_array(store, data, zarr_format=zarr_format, path="a/b", chunks=(1, 3))
    assert tessarr.open_array(store, "r", path="a/b").chunks == (1, 3)
    loaded = tessarr.load(store, path="a/b")
    assert type(loaded) is np.ndarray
    assert loaded.dtype == data.dtype
    assert np.array_equal(loaded, data)


@FORMATS
def test_load_of_group_reads_members_lazily(store: Any, zarr_format: Any) -> None:
    tessarr.save(store, [1, 2], [3.5], zarr_format=zarr_format, height=np.float32([7]))
    loaded = tessarr.load(store)
    assert repr(loaded) == "<LazyLoader: arr_0, arr_1, height>"
    assert isinstance(loaded, tessarr.LazyLoader)
    assert (len(loaded), list(loaded)) == (3, ["arr_0", "arr_1", "height"])
    assert "height" in loaded
    assert "depth" not in loaded
    first = loaded["height"]
    assert first is loaded["height"]
    assert {name: list(values) for name, values in loaded.items()} == {
        "arr_0": [1, 2],
        "arr_1": [3.5],
        "height": [7],
    }
    with pytest.raises(KeyError):
        loaded["depth"]


def test_groups_below_are_loaded_too(store: Any) -> None:
    tessarr.save_group(store, path="one/two", a=[1])
    loaded = tessarr.load(store)
    assert isinstance(loaded, tessarr.LazyLoader)
    assert list(loaded["one"]["two"]["a"]) == list(loaded["one/two/a"]) == [1]


def test_names_may_be_paths(store: Any) -> None:
    tessarr.save_group(store, **{"x/y": [1]})
    assert list(tessarr.open(store)) == ["x"]


def test_save_replaces_existing_node(store: Any) -> None:
    tessarr.save(store, a=[1], b=[2])
    tessarr.save(store, c=[3])
    assert list(tessarr.open(store)) == ["c"]
    tessarr.save(store, [4])
    assert list(tessarr.load(store)) == [4]


def test_save_invalid_data_deletes_nothing(store: Any) -> None:
    tessarr.save(store, a=[1])
    with pytest.raises(ArgumentError, match="nothing to save"):
        tessarr.save(store)
    with pytest.raises((ArgumentError, UnsupportedError)):
        tessarr.save(store, a=[2], b=object())
    with pytest.raises(ArgumentError):
        tessarr.save(store, **{"..": [2]})
    with pytest.raises(ArgumentError, match="'arr_0' is the name of two"):
        tessarr.save(store, [1], arr_0=[2])
    with pytest.raises(ArgumentError):
        tessarr.save_array(store, [1, 2], chunks=(1, 1))
    assert list(tessarr.load(store)["a"]) == [1]


def test_save_of_array_in_same_store(store: Any) -> None:
    tessarr.save(store, a=[1, 2], b=[3])
    a = tessarr.open_array(store, path="a")
    tessarr.save(store, a, c=a)
    assert {name: list(values) for name, values in tessarr.load(store).items()} == {
        "arr_0": [1, 2],
        "c": [1, 2],
    }
    tessarr.save(store, tessarr.open_array(store, path="c"))
    assert list(tessarr.load(store)) == [1, 2]


def test_load_missing_node_raises(store: Any) -> None:
    with pytest.raises(NotFoundError):
        tessarr.load(store)


def test_zip_file_is_whole_after_saving(tmp_path: Path) -> None:
    name = tmp_path / "saved.zip"
    for data in (np.arange(5), np.arange(3)):
        tessarr.save(str(name), data)
        assert zipfile.ZipFile(name).namelist() == ["zarr.json", "c/0"]
        assert np.array_equal(tessarr.load(name), data)
    with pytest.raises(ArgumentError):
        tessarr.save_array(name, [1, 2], chunks=(1, 1))
    tessarr.save(name, a=[1], b=tessarr.open_array(str(name)))
    loaded = tessarr.load(str(name))
    assert {key: list(values) for key, values in loaded.items()} == {"a": [1], "b": [0, 1, 2]}
