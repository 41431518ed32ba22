"""xarray with the engine "tessarr" and `tessarr.xarray.to_zarr`, beside xarray's own engine."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("zarr", minversion="3.1", reason="xarray's own engine")
xarray = pytest.importorskip("xarray", reason="the engine runs in xarray")

from tessarr.errors import TessarrError  # noqa: E402 (after the packages)
from tessarr.xarray import TessarrBackend, to_zarr  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.filterwarnings("ignore:Consolidated metadata is currently not part"),
    pytest.mark.filterwarnings("ignore:Failed to open Zarr store with consolidated metadata"),
    pytest.mark.filterwarnings("ignore:creating '__xarray_dataarray_variable__'"),
]


@pytest.fixture(params=[2, 3])
def zarr_format(request: pytest.FixtureRequest) -> Any:
    """The format of a store."""
    return request.param


@pytest.fixture
def dataset() -> Any:
    """A dataset with floats, times and texts."""
    random = np.random.default_rng(0)
    packed = {"scale_factor": 0.5, "dtype": "i2", "_FillValue": -1}
    return xarray.Dataset(
        {
            "t": (("time", "y"), random.random((10, 4)), {"units": "K"}),
            "packed": ("time", np.arange(10.0), {}, packed),
            "text": ("y", np.array(list("abcd"), dtype=object)),
            "fixed": ("y", np.array(["a", "bb", "c", "d"])),
        },
        coords={"time": pd.date_range("2020", periods=10), "y": np.arange(4)},
        attrs={"title": "example"},
    )


def _open(path: Path, **settings: Any) -> Any:
    return xarray.open_dataset(path, engine="tessarr", **settings)


@pytest.mark.parametrize("consolidated", [True, False])
def test_dataset_of_xarray_is_identical(
    tmp_path: Path, dataset: Any, zarr_format: Any, consolidated: bool
) -> None:
    path = tmp_path / "a.zarr"
    dataset.to_zarr(path, zarr_format=zarr_format, consolidated=consolidated)
    xarray.testing.assert_identical(_open(path).load(), dataset)
    xarray.testing.assert_identical(_open(path, chunks={}).load(), dataset)
    for settings in ({"mask_and_scale": False}, {"decode_times": False}, {"decode_cf": False}):
        xarray.testing.assert_identical(
            _open(path, **settings).load(),
            xarray.open_dataset(path, engine="zarr", **settings).load(),
        )


def test_dataset_of_tessarr_is_identical_in_xarray(
    tmp_path: Path, dataset: Any, zarr_format: Any
) -> None:
    to_zarr(dataset, tmp_path / "a.zarr", zarr_format=zarr_format)
    again = xarray.open_zarr(tmp_path / "a.zarr", consolidated=True)
    xarray.testing.assert_identical(again.load(), dataset)


def test_encoding_survives_both_writers(tmp_path: Path, dataset: Any, zarr_format: Any) -> None:
    dataset.t.encoding = {"chunks": (3, 4)}
    to_zarr(dataset, tmp_path / "a.zarr", zarr_format=zarr_format)
    opened = _open(tmp_path / "a.zarr")
    assert opened.t.encoding["chunks"] == (3, 4)
    to_zarr(opened, tmp_path / "b.zarr", zarr_format=zarr_format)
    opened.to_zarr(tmp_path / "c.zarr", zarr_format=zarr_format)
    for name in ("b.zarr", "c.zarr"):
        again = _open(tmp_path / name)
        assert again.t.encoding["chunks"] == (3, 4)
        xarray.testing.assert_identical(again.load(), dataset)


def test_append_dim_and_regions_extend_and_replace(
    tmp_path: Path, dataset: Any, zarr_format: Any
) -> None:
    path = tmp_path / "a.zarr"
    part = dataset[["t"]].drop_vars("y")
    to_zarr(part, path, zarr_format=zarr_format)
    to_zarr(part, path, append_dim="time")
    assert _open(path).sizes["time"] == 20
    to_zarr(part.isel(time=slice(2, 4)) * 0, path, region={"time": slice(12, 14)})
    assert float(_open(path).t[12:14].sum()) == 0
    single = tmp_path / "b.zarr"
    to_zarr(dataset, single, zarr_format=zarr_format)
    to_zarr(dataset[["t"]].isel(time=slice(3, 5)) * 0, single, region="auto")
    assert float(_open(single).t[3:5].sum()) == 0
    assert float(_open(single).t[2:3].sum()) > 0


@pytest.mark.parametrize("mode", ["w", "w-", "a", "a-", "r+"])
def test_modes_match_xarray(tmp_path: Path, dataset: Any, zarr_format: Any, mode: Any) -> None:
    results = []
    for name, write in (("own", lambda d, p, **k: d.to_zarr(p, **k)), ("ours", to_zarr)):
        path = tmp_path / name
        write(dataset, path, zarr_format=zarr_format)
        try:
            write(dataset.assign(t=dataset.t * 2) if mode == "w" else dataset, path, mode=mode)
        except (OSError, ValueError, TessarrError) as error:
            results.append(isinstance(error, OSError))
        else:
            results.append(float(_open(path).t.sum()))
    assert results[0] == results[1]


def test_delayed_write_writes_on_compute(tmp_path: Path, dataset: Any, zarr_format: Any) -> None:
    path = tmp_path / "a.zarr"
    dataset = dataset[["t"]]
    delayed = to_zarr(dataset.chunk({"time": 3}), path, zarr_format=zarr_format, compute=False)
    assert np.isnan(_open(path).t).all() or float(_open(path).t.sum()) == 0
    delayed.compute()
    xarray.testing.assert_identical(_open(path).load(), dataset)


def test_unaligned_blocks_lose_nothing(tmp_path: Path, zarr_format: Any) -> None:
    values = np.arange(10_000.0).reshape(100, 100)
    dataset = xarray.Dataset({"a": (("x", "y"), values)}).chunk({"x": 7, "y": 7})
    to_zarr(
        dataset,
        tmp_path / "a.zarr",
        zarr_format=zarr_format,
        encoding={"a": {"chunks": (30, 30)}},
        safe_chunks=False,
    )
    np.testing.assert_array_equal(_open(tmp_path / "a.zarr").a.values, values)


def test_trees_and_groups_open(tmp_path: Path, dataset: Any, zarr_format: Any) -> None:
    tree = xarray.DataTree.from_dict({"/": dataset, "/a/b": dataset})
    tree.to_zarr(tmp_path / "a.zarr", zarr_format=zarr_format, write_inherited_coords=True)
    opened = xarray.open_datatree(tmp_path / "a.zarr", engine="tessarr")
    xarray.testing.assert_identical(opened.load(), tree)
    xarray.testing.assert_identical(_open(tmp_path / "a.zarr", group="a/b").load(), dataset)


def test_several_files_open_as_one(tmp_path: Path, dataset: Any, zarr_format: Any) -> None:
    paths = [tmp_path / "a.zarr", tmp_path / "b.zarr"]
    for path, part in zip(paths, (slice(0, 4), slice(4, 10)), strict=True):
        to_zarr(dataset[["t"]].isel(time=part), path, zarr_format=zarr_format)
    opened = xarray.open_mfdataset(paths, engine="tessarr")
    xarray.testing.assert_identical(opened.load(), dataset[["t"]])


def test_lazy_indexing_equals_indexing_in_memory(
    tmp_path: Path, dataset: Any, zarr_format: Any
) -> None:
    to_zarr(dataset, tmp_path / "a.zarr", zarr_format=zarr_format)
    points = xarray.DataArray([1, 5, 7], dims="p")
    for select in (
        lambda d: d.isel(time=3),
        lambda d: d.isel(time=slice(8, 1, -2), y=[3, 0]),
        lambda d: d.isel(time=points, y=points % 4),
        lambda d: d.isel(time=[0, 4]).isel(time=1),
        lambda d: d.sel(time="2020-01-04"),
    ):
        xarray.testing.assert_identical(select(_open(tmp_path / "a.zarr")).load(), select(dataset))


def test_async_load_equals_load(tmp_path: Path, dataset: Any, zarr_format: Any) -> None:
    to_zarr(dataset, tmp_path / "a.zarr", zarr_format=zarr_format)
    loaded = asyncio.run(_open(tmp_path / "a.zarr").load_async())
    xarray.testing.assert_identical(loaded, dataset)


def test_unnamed_array_round_trips(tmp_path: Path, zarr_format: Any) -> None:
    array = xarray.DataArray(np.arange(3.0), dims="x")
    to_zarr(array, tmp_path / "ours.zarr", zarr_format=zarr_format)
    array.to_zarr(tmp_path / "own.zarr", zarr_format=zarr_format)
    for name in ("ours.zarr", "own.zarr"):
        opened = _open(tmp_path / name)
        assert list(opened) == ["__xarray_dataarray_variable__"]
        np.testing.assert_array_equal(opened["__xarray_dataarray_variable__"], array)


def test_missing_store_raises_file_not_found_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        _open(tmp_path / "absent.zarr")


def test_array_without_dimension_names_names_the_array(tmp_path: Path, zarr_format: Any) -> None:
    import tessarr

    group = tessarr.create_group(tmp_path / "a.zarr", zarr_format=zarr_format)
    group.create_array("x", shape=3, dtype="i4")
    with pytest.raises(KeyError, match="'x' has no dimension names"):
        _open(tmp_path / "a.zarr")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.zarr", True),
        ("a.zarr/", True),
        ("s3://b/a.zarr", True),
        ("a.ozx", True),
        ("a.nc", False),
    ],
)
def test_engine_guesses_names(name: str, expected: bool) -> None:
    assert TessarrBackend().guess_can_open(name) is expected


def test_reading_imports_no_zarr_python(tmp_path: Path, dataset: Any) -> None:
    to_zarr(dataset, tmp_path / "a.zarr")
    program = (
        "import sys, xarray; from tessarr.xarray import TessarrBackend; "
        f"xarray.open_dataset({str(tmp_path / 'a.zarr')!r}, engine=TessarrBackend).load(); "
        "print('zarr' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"
