"""New arrays from those of h5py, zarr-python and Dask: settings and values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.codecs import Blosc, Zstd

NUMBERS = np.arange(24.0).reshape(4, 6)


@pytest.fixture
def file(tmp_path: Path) -> Any:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "x.h5", "w") as opened:
        yield opened


def test_from_h5py_dataset_keeps_settings_and_values(file: Any) -> None:
    a = file.create_dataset("a", data=NUMBERS, chunks=(2, 3), compression="gzip", fillvalue=7)
    for b in (tessarr.from_array(data=a), tessarr.array(a), tessarr.create_array(data=a)):
        assert (b.dtype, b.compressors) == (a.dtype, (Blosc(),))
        assert np.array_equal(b[:], NUMBERS)
    assert tessarr.from_array(data=a).fill_value == 7
    assert tessarr.array(a).chunks == tessarr.zeros_like(a).chunks == (2, 3)
    again = tessarr.create_array(
        shape=a.shape,
        dtype=a.dtype,
        chunks=a.chunks,
        maxshape=a.maxshape,
        compression=a.compression,
        compression_opts=a.compression_opts,
        shuffle=a.shuffle,
        fletcher32=a.fletcher32,
        fillvalue=a.fillvalue,
    )
    assert again.compressors[0].get_config() == {"id": "gzip", "level": 4}


def test_from_h5py_text_is_string_array(file: Any) -> None:
    import h5py

    a = file.create_dataset("a", data=["a", "bcé"], dtype=h5py.string_dtype())
    for zarr_format in (2, 3):
        for b in (
            tessarr.from_array(data=a, zarr_format=zarr_format),
            tessarr.array(a, zarr_format=zarr_format),
        ):
            assert list(b[:]) == ["a", "bcé"]
            assert b.fill_value == ""
    assert tessarr.array(a, dtype="U3").dtype == "U3"
    assert list(tessarr.zeros_like(a)[:]) == ["", ""]


def test_from_h5py_variable_length_arrays(file: Any) -> None:
    import h5py

    a = file.create_dataset("a", (2,), dtype=h5py.vlen_dtype("i4"))
    a[0], a[1] = [1, 2], [3]
    b = tessarr.array(a, zarr_format=2)
    assert [list(item) for item in b[:]] == [[1, 2], [3]]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_from_zarr_python_array_keeps_settings_and_values(zarr_format: Any) -> None:
    zarr = pytest.importorskip("zarr")
    a = zarr.create_array(
        {},
        data=NUMBERS,
        chunks=(2, 3),
        zarr_format=zarr_format,
        attributes={"unit": "m"},
        fill_value=3,
        compressors=None if zarr_format == 2 else zarr.codecs.ZstdCodec(level=4),
    )
    b = tessarr.from_array(data=a)
    assert (b.zarr_format, b.chunks, b.fill_value) == (zarr_format, (2, 3), 3)
    assert b.compressors == (() if zarr_format == 2 else (Zstd(4),))
    assert dict(b.attrs) == {"unit": "m"}
    assert np.array_equal(b[:], NUMBERS)
    assert tessarr.ones_like(a).compressors == b.compressors
    other = tessarr.from_array(data=a, zarr_format=5 - zarr_format, compressors="auto")
    assert np.array_equal(other[:], NUMBERS)


def test_from_sharded_zarr_python_array_keeps_shards() -> None:
    zarr = pytest.importorskip("zarr")
    a = zarr.create_array(
        {},
        data=np.arange(64).reshape(8, 8),
        chunks=(2, 2),
        shards=(4, 4),
        dimension_names=["y", "x"],
    )
    b = tessarr.from_array(data=a)
    assert (b.chunks, b.shards, b.dimension_names) == ((2, 2), (4, 4), ("y", "x"))
    assert np.array_equal(b[:], a[:])
    c = tessarr.from_array(data=a, shards=None, chunks=(8, 1))
    assert (c.chunks, c.shards) == ((8, 1), None)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_from_zarr_python_text_is_string_array(zarr_format: Any) -> None:
    zarr = pytest.importorskip("zarr")
    a = zarr.create_array({}, shape=(3,), dtype=str, chunks=(2,), zarr_format=zarr_format)
    a[:] = np.array(["a", "bb", "c"], dtype=object)
    for goal in (2, 3):
        b = tessarr.from_array(data=a, zarr_format=goal)
        assert list(b[:]) == ["a", "bb", "c"]


def test_from_dask_array_keeps_chunks() -> None:
    array = pytest.importorskip("dask.array")
    a = array.arange(25, chunks=10)
    for b in (tessarr.from_array(data=a), tessarr.array(a)):
        assert b.chunks == (10,)
        assert np.array_equal(b[:], np.arange(25))
    assert tessarr.zeros_like(a).chunks == (10,)


def test_save_of_h5py_dataset_stores_values(file: Any, tmp_path: Path) -> None:
    a = file.create_dataset("a", data=NUMBERS)
    tessarr.save(tmp_path / "saved", a, b=a)
    loaded = tessarr.load(tmp_path / "saved")
    assert np.array_equal(loaded["arr_0"], NUMBERS)
    assert np.array_equal(loaded["b"], NUMBERS)
