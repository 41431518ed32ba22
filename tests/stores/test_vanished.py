"""Arrays in a folder that vanish while they are open, and chunks under the other separator."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr import stores
from tessarr.errors import NotFoundError, StoreError
from tessarr.types import ZarrFormat


@pytest.fixture(params=[2, 3])
def zarr_format(request: pytest.FixtureRequest) -> ZarrFormat:
    """Return a format."""
    form: ZarrFormat = request.param
    return form


def opened(folder: Path, zarr_format: ZarrFormat, way: str) -> Any:
    """Return an array of 4 by 4 elements in a folder, half of whose chunks are stored."""
    group = tessarr.create_group(folder, zarr_format=zarr_format)
    array = group.create_array("g/a", shape=(4, 4), chunks=2, dtype="i4", fill_value=7)
    array[:2] = 1
    if way == "created":
        return array
    if way == "opened":
        return tessarr.open_array(folder / "g" / "a", mode="r+")
    if way == "constructor":
        return tessarr.Array(folder, "g/a")
    if way == "pickled":
        return pickle.loads(pickle.dumps(group.get_array("g/a")))
    if way == "consolidated":
        tessarr.consolidate_metadata(folder)
        return tessarr.open_group(folder, use_consolidated=True).get_array("g/a")
    return group.get_array("g/a").with_config({})


WAYS = ["created", "opened", "constructor", "pickled", "consolidated", "configured"]


@pytest.mark.parametrize("way", WAYS)
def test_read_and_write_of_vanished_array_raise(
    tmp_path: Path, zarr_format: ZarrFormat, way: str
) -> None:
    """Nothing reads as the fill value, and no chunk is written to a folder that is gone."""
    array = opened(tmp_path / "store", zarr_format, way)
    assert array[3, 3] == 7  # a chunk that is not stored
    (tmp_path / "store" / "g" / "a").rename(tmp_path / "moved")
    reads: list[Any] = [lambda: array[:], lambda: array[3, 3], lambda: array.read(...).result()]
    for read in reads:
        with pytest.raises(NotFoundError, match="vanished") as caught:
            read()
        assert caught.value.kind == "array_not_found"
    for value in (2, 7):
        with pytest.raises(NotFoundError, match="vanished"):
            array[:] = value
        with pytest.raises(NotFoundError, match="vanished"):
            array[:1] = value
        with pytest.raises(NotFoundError, match="vanished"):
            array.write(..., value).result()
    assert not (tmp_path / "store" / "g" / "a").exists()
    (tmp_path / "moved").rename(tmp_path / "store" / "g" / "a")
    assert array[:2].tolist() == [[1] * 4] * 2
    assert array[3, 3] == 7


def test_read_of_empty_mount_point_raises(tmp_path: Path, zarr_format: ZarrFormat) -> None:
    """The folder is there, and holds nothing."""
    array = tessarr.create_array(
        tmp_path / "a", data=np.arange(6), chunks=2, zarr_format=zarr_format
    )
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "a").mkdir()
    with pytest.raises(NotFoundError, match="unmounted"):
        array[:]
    with pytest.raises(NotFoundError, match="unmounted"):
        array[0] = 1
    assert list((tmp_path / "a").iterdir()) == []


def test_read_of_array_that_was_deleted_raises(tmp_path: Path) -> None:
    """An array that a group deletes is gone for those who have it open."""
    group = tessarr.create_group(tmp_path)
    array = group.create_array("a", data=np.arange(6), chunks=2)
    del group["a"]
    with pytest.raises(NotFoundError, match="vanished"):
        array[:]


def test_read_of_array_with_other_chunk_store_needs_its_document(tmp_path: Path) -> None:
    """The store of the chunks need not exist, that of the metadata does."""
    array = tessarr.create_array(
        tmp_path / "a", shape=3, dtype="i1", chunk_store=stores.LocalStore(tmp_path / "chunks")
    )
    assert array[:].tolist() == [0, 0, 0]
    shutil.rmtree(tmp_path / "a")
    with pytest.raises(NotFoundError, match="vanished"):
        array[:]


def renamed(folder: Path, key: str, other: str) -> None:
    """Rename a chunk, and remove the folders that are empty then."""
    (folder / other).parent.mkdir(parents=True, exist_ok=True)
    (folder / key).rename(folder / other)


@pytest.mark.parametrize(
    ("zarr_format", "separator", "stored", "other"),
    [
        (2, ".", "1.1", "1/1"),
        (2, "/", "1/1", "1.1"),
        (3, "/", "c/1/1", "c.1.1"),
        (3, ".", "c.1.1", "c/1/1"),
    ],
)
def test_read_of_chunk_under_other_separator_raises(
    tmp_path: Path, zarr_format: ZarrFormat, separator: Any, stored: str, other: str
) -> None:
    """The error names both keys, also where the first missing chunks are not stored at all."""
    array = tessarr.create_array(
        tmp_path,
        shape=(4, 4),
        chunks=2,
        dtype="i4",
        zarr_format=zarr_format,
        dimension_separator=separator,
    )
    assert array[:].tolist() == [[0] * 4] * 4
    array[2:, 2:] = 5
    renamed(tmp_path, stored, other)
    array = tessarr.open_array(tmp_path, mode="r+")
    for access in (lambda: array[:], lambda: array.__setitem__((3, 3), 1)):
        with pytest.raises(StoreError, match="separator") as caught:
            access()
        assert f'"{stored}"' in str(caught.value)
        assert f'"{other}"' in str(caught.value)
    assert not (tmp_path / stored).exists()
    array[2:, 2:] = 6  # nothing is read
    assert array[3, 3] == 6


def test_read_of_many_missing_chunks_looks_for_few_under_other_separator(tmp_path: Path) -> None:
    """Later missing chunks of an open array cost nothing more."""
    array = tessarr.create_array(tmp_path, shape=(1, 100), chunks=1, dtype="i1")
    assert not array[:].any()
    (tmp_path / "c.0.99").write_bytes(b"")
    assert not array[:].any()
    with pytest.raises(StoreError, match="separator"):
        tessarr.open_array(tmp_path)[0, 99]


def test_folder_or_pipe_at_path_of_chunk_raises(tmp_path: Path) -> None:
    """What is no file at the path of a chunk is an error; an empty folder is nothing."""
    array = tessarr.create_array(tmp_path, shape=6, chunks=2, dtype="i1")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "c" / "0").mkdir(parents=True)
    (tmp_path / "c" / "1" / "deep").mkdir(parents=True)
    (tmp_path / "pipe").rename(tmp_path / "c" / "2")
    assert array[:2].tolist() == [0, 0]
    assert array[2:4].tolist() == [0, 0]
    (tmp_path / "c" / "1" / "deep" / "file").write_bytes(b"1")
    with pytest.raises(StoreError, match="folder with files"):
        array[2:4]
    with pytest.raises(StoreError, match="pipe"):
        array[4:]
    with pytest.raises(StoreError, match="pipe"):
        array[4] = 1


@pytest.mark.parametrize("settings", [{}, {"chunks": 4}, {"zarr_format": 3}])
def test_copy_of_array_with_chunks_under_other_separator_raises(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    """No copy is without the values, whether chunks are decoded or not, in any store."""
    source = tessarr.create_array(tmp_path / "a", data=np.ones((4, 4)), chunks=2, zarr_format=2)
    for cell in ("0.0", "0.1", "1.0", "1.1"):
        renamed(tmp_path / "a", cell, cell.replace(".", "/"))
    items = {key: source.store[key] for key in source.store}
    for name, array in (("folder", source), ("mapping", tessarr.open_array(items))):
        with pytest.raises(StoreError, match="separator"):
            tessarr.copy_to(array, tmp_path / name, **settings)
        assert not list((tmp_path / name).rglob("*.0"))
