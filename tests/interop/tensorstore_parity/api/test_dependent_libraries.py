"""Unchanged libraries of TensorStore's users on Tessarr's interface."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts

xr: Any = pytest.importorskip("xarray", reason="the package xarray is absent")
pytest.importorskip("xarray_tensorstore", reason="the package xarray-tensorstore is absent")


@pytest.fixture
def library() -> Iterator[Any]:
    """Import xarray-tensorstore with Tessarr as the module `tensorstore`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "tensorstore", ts)
        patch.delitem(sys.modules, "xarray_tensorstore", raising=False)
        yield importlib.import_module("xarray_tensorstore")
        del sys.modules["xarray_tensorstore"]


@pytest.fixture(params=[(2, True), (2, False), (3, True), (3, False)])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    zarr_format, consolidated = request.param
    values = np.arange(24, dtype="i8").reshape(4, 6)
    created = xr.Dataset(
        {"rain": (("time", "place"), values), "wind": (("time",), np.linspace(0, 1, 4))},
        coords={"time": np.arange(4) * 10},
    )
    created.to_zarr(str(tmp_path), zarr_format=zarr_format, consolidated=consolidated)
    return str(tmp_path)


@pytest.mark.filterwarnings("ignore")  # warnings of xarray and zarr-python about consolidation
def test_lazy_datasets_match_xarray(library: Any, path: str) -> None:
    opened = library.open_zarr(path)
    assert "tessarr" in type(opened.rain.variable._data.array).__module__
    whole = xr.open_zarr(path).load()
    location = xr.DataArray([5, 0, 3, 3], dims="at")
    for choose in (
        lambda of: of,
        lambda of: of.isel(time=-1),
        lambda of: of.isel(time=slice(None, None, -2), place=[4, 1]),
        lambda of: of.sel(time=20).transpose(),
        lambda of: of.rain.isel(time=xr.DataArray([0, 1, 3, 2], dims="at"), place=location),
        lambda of: of.sortby("time", ascending=False).isel(place=slice(1, 20)),
    ):
        xr.testing.assert_identical(choose(opened).compute(), choose(whole))
        xr.testing.assert_identical(library.read(choose(opened)).compute(), choose(whole))


@pytest.mark.filterwarnings("ignore")
def test_regions_are_written(library: Any, path: str) -> None:
    opened = library.open_zarr(path, write=True)
    opened.rain[1, 2:5] = 7
    opened.rain[[0, 3], [1, 2, 3]] = np.array([[1, 2, 3], [4, 5, 6]])
    expected = np.arange(24).reshape(4, 6)
    expected[1, 2:5] = 7
    expected[np.ix_([0, 3], [1, 2, 3])] = [[1, 2, 3], [4, 5, 6]]
    assert np.array_equal(xr.open_zarr(path).rain.to_numpy(), expected)
    with pytest.raises(ValueError, match=r"read-only|reading only"):
        library.open_zarr(path).rain[0, 0] = 1


@pytest.mark.filterwarnings("ignore")
def test_datasets_are_concatenated(library: Any, path: str) -> None:
    both = library.open_concatenated_zarrs([path, path], concat_dim="time")
    whole = xr.open_zarr(path).load()
    chosen = both.rain.isel(time=[6, 1, 4], place=slice(5, 1, -1))
    twice = np.concatenate([whole.rain, whole.rain])
    assert np.array_equal(chosen.to_numpy(), twice[[6, 1, 4], 5:1:-1])
