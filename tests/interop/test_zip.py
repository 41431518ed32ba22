"""Zip files of zarr-python, and zarr-python's reads of Tessarr's files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
import tessarr.tensorstore as ours

zarr = pytest.importorskip("zarr", reason="zarr-python is not installed")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zip_file_is_read_by_zarr_python(tmp_path: Path, zarr_format: Any) -> None:
    path = tmp_path / "a.zip"
    values = np.arange(100).reshape(10, 10)
    with tessarr.open_group(path, "w", zarr_format=zarr_format) as group:
        a = group.create_array("x/a", data=values, chunks=(3, 4))
        a[0, 0] = 7
        group.attrs["title"] = "t"
    store = zarr.storage.ZipStore(path, mode="r")
    result = zarr.open_group(store, mode="r")
    values[0, 0] = 7
    np.testing.assert_array_equal(result["x/a"][:], values)
    assert dict(result.attrs) == {"title": "t"}
    store.close()


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zip_file_of_zarr_python_is_read_and_rewritten(tmp_path: Path, zarr_format: Any) -> None:
    """zarr-python's duplicate entries become one entry after the first change."""
    path = tmp_path / "a.zip"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about duplicate names
        store = zarr.storage.ZipStore(path, mode="w")
        a = zarr.create_array(store, shape=(10,), chunks=(5,), dtype="i4", zarr_format=zarr_format)
        a[:] = 3
        a[:] = 4
        store.close()
    size = path.stat().st_size
    assert tessarr.open_array(path, "r")[:].tolist() == [4] * 10
    with tessarr.open_array(path, "r+") as array:
        array[0] = 5
    assert path.stat().st_size < size
    store = zarr.storage.ZipStore(path, mode="r")
    assert zarr.open_array(store, mode="r")[:].tolist() == [5] + [4] * 9
    store.close()


@pytest.mark.parametrize("compression", ["store", "deflate", "zstd", "xz"])
def test_zip_files_are_exchanged_with_tensorstore(tmp_path: Path, compression: str) -> None:
    theirs = pytest.importorskip("tensorstore", reason="TensorStore is not installed")
    values = np.arange(100, dtype="i4")
    for number, (writes, reads) in enumerate([(theirs, ours), (ours, theirs)]):
        base = f"file://{tmp_path}/{number}.zip"
        kvstore = {"driver": "zip", "base": base, "compression": compression, "path": "x/"}
        spec = {"driver": "zarr3", "kvstore": kvstore}
        written = writes.open(spec, create=True, dtype=writes.int32, shape=[100]).result()
        written.write(values).result()
        del written  # closes the file
        assert (reads.open(spec).result().read().result() == values).all()
