"""xarray's netCDF files, copied by the command and opened by xarray again."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import pytest

import tessarr
from tessarr.cli import main
from tessarr.copying import netcdf3
from tessarr.errors import DataError, NotFoundError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

ENGINES = ["netcdf4", "h5netcdf"]
MODULES = {"netcdf4": "netCDF4", "h5netcdf": "h5netcdf"}


@pytest.fixture(params=ENGINES)
def engine(request) -> str:
    pytest.importorskip(MODULES[request.param], reason="the engine of xarray that writes the file")
    return request.param


def xr():
    """Return xarray, which writes and compares the files; zarr-python reads the copies for it."""
    pytest.importorskip("zarr", reason="xarray reads Zarr through zarr-python")
    return pytest.importorskip("xarray", reason="the files are written and compared by xarray")


def opened(path: Path, **settings):
    """Open a copy through its consolidated metadata."""
    return xr().open_zarr(path, consolidated=True, chunks=None, **settings).load()


def loaded(path: Path, engine: str, **settings):
    with xr().open_dataset(path, engine=engine, **settings) as dataset:
        return dataset.load()


def check_same(dataset, folder: Path, engine: str, **written) -> None:
    """Write a dataset, copy the file to both formats, and compare the results of xarray."""
    source = folder / "source.nc"
    dataset.to_netcdf(source, engine=engine, **written)
    expected = loaded(source, engine)
    for zarr_format in (2, 3):
        target = folder / f"copy{zarr_format}.zarr"
        assert main(["copy", str(source), str(target), "--format", str(zarr_format)]) == 0
        actual = opened(target)
        assert actual.identical(expected), (actual, expected)


def default():
    """A dataset without any encoding: floats get `_FillValue = NaN`."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3, 4, 5)).astype("f4")
    values[0, 1] = np.nan
    return xr().Dataset(
        {
            "t2m": (("time", "lat", "lon"), values, {"units": "K", "levels": [1.5, 2.5]}),
            "count": (("lat", "lon"), np.arange(20, dtype="i2").reshape(4, 5), {"one": 1}),
            "mask": ("lat", [True, False, True, True]),
            "total": ((), 2.5),
            "number": ((), np.int32(7), {"many": np.arange(3), "empty": ""}),
        },
        coords={
            "time": np.array(["2000-01-01", "2000-01-02", "2000-01-05"], "M8[ns]"),
            "lat": np.linspace(-90, 90, 4),
            "lon": ("lon", np.linspace(0, 360, 5), {"units": "degrees_east"}),
            "area": (("lat", "lon"), np.ones((4, 5))),
        },
        attrs={"title": "Weather of ä", "version": 3, "bounds": [1, 2]},
    )


def packed():
    dataset = xr().Dataset(
        {
            "packed": ("x", np.array([1.5, np.nan, -3.25, 0.0])),
            "other": ("x", np.array([1.5, np.nan, 250.0, 0.0], "f4")),
            "filled": ("x", np.array([1.0, np.nan, 3.0, -1.0])),
            "missing": ("x", np.array([1.0, np.nan, 3.0, -1.0])),
        }
    )
    dataset.packed.encoding = {
        "dtype": "i2",
        "scale_factor": 0.25,
        "add_offset": 1.0,
        "_FillValue": -99,
    }
    dataset.other.encoding = {"dtype": "u1", "scale_factor": 2.0, "_FillValue": 255}
    dataset.filled.encoding = {"_FillValue": -1e30}
    dataset.missing.encoding = {"missing_value": -5.0, "_FillValue": -5.0}
    return dataset


def times():
    return xr().Dataset(
        {
            "start": ("x", np.array(["2001-02-03T04:05:06", "NaT", "1999-01-01"], "M8[ns]")),
            "length": ("x", np.array([1, 2, 3], "m8[h]").astype("m8[ns]")),
            "day": ("x", np.array(["2001-02-03", "2001-02-04", "2001-02-05"], "M8[ns]")),
        }
    )


def strings():
    return xr().Dataset(
        {
            "text": ("x", np.array(["a", "", "größer"], object)),
            "bytes": ("x", np.array([b"abc", b"de", b""])),
            "grid": (("y", "x"), np.array([["a", "bc", "d"], ["e", "f", "ghi"]])),
            "label": ((), "one"),
        },
        coords={"x": ["p", "q", "r"]},
        attrs={"names": ["a", "bc"]},
    )


DATASETS = {"default": default, "packed": packed, "times": times, "strings": strings}


@pytest.mark.parametrize("name", DATASETS)
def test_copy_of_netcdf_file_is_identical_in_xarray(tmp_path, engine, name):
    check_same(DATASETS[name](), tmp_path, engine)


def test_netcdf_copy_with_unlimited_dimension_is_identical(tmp_path, engine):
    encoding = {"t2m": {"zlib": True, "complevel": 1, "shuffle": True, "chunksizes": (1, 4, 5)}}
    check_same(default(), tmp_path, engine, encoding=encoding, unlimited_dims=["time"])
    copied = tessarr.open_group(tmp_path / "copy3.zarr", "r")["t2m"]
    assert copied.chunks == (1, 4, 5)
    assert copied.dimension_names == ("time", "lat", "lon")


@pytest.mark.filterwarnings("ignore:Creating variable with default fill_value 0")  # of h5netcdf
def test_netcdf_copy_of_enumeration_keeps_member_names(tmp_path, engine):
    members = {"clear": 0, "cloudy": 1, "unknown": 255}
    dataset = xr().Dataset({"sky": ("x", np.array([0, 1, 255], "u1"), {"units": "1"})})
    dataset.sky.encoding["dtype"] = np.dtype("u1", metadata={"enum": members, "enum_name": "sky_t"})
    check_same(dataset, tmp_path, engine)
    for zarr_format in (2, 3):
        group = tessarr.open_group(tmp_path / f"copy{zarr_format}.zarr", "r")
        assert group.attrs["_nc_enums"] == {"sky": members}
    tessarr.copy_to(tmp_path / "source.nc", tmp_path / "sky.zarr", path="sky")
    alone = tessarr.open_array(tmp_path / "sky.zarr", "r")
    assert alone.attrs["flag_values"] == [0, 1, 255]
    assert alone.attrs["flag_meanings"] == "clear cloudy unknown"


def test_copy_of_netcdf_groups_is_identical_in_xarray(tmp_path, engine):
    tree = xr().DataTree.from_dict(
        {
            "/": default(),
            "/model": packed(),
            "/model/run": strings().rename(x="station"),
            "/empty": xr().Dataset(),
            "/inherits": xr().Dataset({"p": (("lat", "lon"), np.ones((4, 5)))}),
        }
    )
    source = tmp_path / "source.nc"
    tree.to_netcdf(source, engine=engine)
    for zarr_format in (2, 3):
        target = tmp_path / f"copy{zarr_format}.zarr"
        assert main(["copy", str(source), str(target), "--format", str(zarr_format)]) == 0
        with (
            xr().open_datatree(source, engine=engine) as expected,
            xr().open_datatree(target, engine="zarr", consolidated=True) as result,
        ):
            assert result.identical(expected)
        for group in ("model", "model/run"):
            assert opened(target, group=group).identical(loaded(source, engine, group=group))


def test_copy_of_netcdf_group_from_h5py_object_is_identical(tmp_path, engine):
    import h5py

    source = tmp_path / "source.nc"
    default().to_netcdf(source, engine=engine)
    expected = loaded(source, engine)
    for zarr_format in (2, 3):
        target = tmp_path / f"all{zarr_format}.zarr"
        with h5py.File(source) as file:
            group = tessarr.open_group(target, mode="w", zarr_format=zarr_format)
            tessarr.copy_all(file, group)
            tessarr.copy(file, group, name="below")
        tessarr.consolidate_metadata(target)
        result = opened(target)
        assert result.identical(expected)
        assert opened(target, group="below").identical(expected)


def test_copy_of_netcdf_fill_values_is_stored_as_xarray_stores_them(tmp_path):
    pytest.importorskip("netCDF4", reason="the engine of xarray that writes the file")
    packed().to_netcdf(tmp_path / "source.nc", engine="netcdf4")
    for zarr_format in (2, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # xarray's warning about its own output in format 3
            packed().to_zarr(tmp_path / f"theirs{zarr_format}.zarr", zarr_format=zarr_format)
        target = tmp_path / f"ours{zarr_format}.zarr"
        tessarr.copy_to(tmp_path / "source.nc", target, zarr_format=zarr_format)
        theirs = tessarr.open_group(tmp_path / f"theirs{zarr_format}.zarr", "r")
        ours = tessarr.open_group(target, "r")
        for name in packed():
            assert ours[name].attrs.asdict() == theirs[name].attrs.asdict()
            if zarr_format == 2:
                np.testing.assert_equal(ours[name].fill_value, theirs[name].fill_value)


def test_netcdf_copy_fills_variable_to_unlimited_dimension(tmp_path):
    netcdf = pytest.importorskip("netCDF4", reason="xarray does not write such a file")
    with netcdf.Dataset(tmp_path / "source.nc", "w") as file:
        file.createDimension("time", None)
        file.createDimension("x", 2)
        file.createVariable("long", "i4", ("time", "x"))[:] = np.arange(10).reshape(5, 2)
        short = file.createVariable("short", "f4", ("time", "x"), fill_value=-1)
        short[:2] = 1
        file.createVariable("never", "i2", ("x", "time"), fill_value=7)
    expected = loaded(tmp_path / "source.nc", "netcdf4")
    for zarr_format in (2, 3):
        target = tmp_path / f"copy{zarr_format}.zarr"
        tessarr.copy_to(tmp_path / "source.nc", target, zarr_format=zarr_format)
        assert opened(target).identical(expected)


def with_bounds():
    edges = np.array([[0, 1], [1, 2]], "M8[D]").astype("M8[ns]")
    dataset = xr().Dataset(
        {"v": ("time", [1.0, 2.0])},
        coords={
            "time": ("time", edges[:, 0], {"bounds": "limits"}),
            "limits": (("time", "nv"), edges),
        },
    )
    dataset.time.encoding = {"units": "days since 1960-01-01"}
    return dataset


def encoded(values, **encoding):
    dataset = xr().Dataset({"v": ("x", np.array(values))})
    dataset.v.encoding = encoding
    return dataset


EDGES = {
    "empty": lambda: xr().Dataset({"v": (("x", "y"), np.zeros((0, 3)))}),
    "empty text": lambda: xr().Dataset({"v": ("x", np.zeros(0, object))}),
    "no coordinates": lambda: xr().Dataset({"v": (("x", "x2"), np.ones((3, 3)))}),
    "names": lambda: xr().Dataset({"a b": ("x y", [1]), "päth": ((), 1), "c": ((), 2)}),
    "calendar": lambda: xr().Dataset(
        coords={"time": xr().date_range("2000-02-27", periods=3, calendar="noleap")}
    ),
    "bounds": with_bounds,
    "unsigned": lambda: encoded([1, 200, np.nan], dtype="i1", _Unsigned="true", _FillValue=-1),
    "no fill value": lambda: encoded([1, np.nan], _FillValue=None),
    "other mark": lambda: encoded([1, np.nan], dtype="i2", missing_value=-5),
    "characters": lambda: encoded(["abc", "d"], dtype="S1", char_dim_name="length"),
}


@pytest.mark.parametrize("name", EDGES)
def test_copy_of_unusual_netcdf_file_is_identical_in_xarray(tmp_path, engine, name):
    check_same(EDGES[name](), tmp_path, engine)


def test_copy_of_unnamed_dataarray_is_identical_in_xarray(tmp_path, engine):
    """Xarray stores it under a name that format 3 reserves."""
    array = xr().DataArray(np.array([1.0, 2.0]), dims="x")
    array.to_netcdf(tmp_path / "array.nc", engine=engine)
    check_same(loaded(tmp_path / "array.nc", engine), tmp_path, engine)
    with xr().open_dataarray(tmp_path / "copy3.zarr", engine="zarr") as result:
        assert result.identical(array)


def test_copy_of_variables_named_like_dimensions_is_identical(tmp_path):
    """With 2 axes, `x` is a coordinate variable; `y` has the name of a missing dimension."""
    netcdf = pytest.importorskip("netCDF4", reason="xarray does not write such a file")
    with netcdf.Dataset(tmp_path / "source.nc", "w") as file:
        file.createDimension("x", 2)
        file.createDimension("y", 3)
        file.createDimension("z", 4)
        file.createVariable("x", "f4", ("x", "y"))[:] = np.arange(6).reshape(2, 3)
        file.createVariable("z", "f4", ("y",))[:] = np.arange(3)
        file.createVariable("v", "f4", ("y", "x", "z"))[:] = 1
    expected = loaded(tmp_path / "source.nc", "netcdf4")
    tessarr.copy_to(tmp_path / "source.nc", tmp_path / "copy.zarr")
    group = tessarr.open_group(tmp_path / "copy.zarr", "r")
    assert {name: group[name].dimension_names for name in group} == {
        name: expected[name].dims for name in expected.variables
    }
    np.testing.assert_array_equal(group["z"][...], [0, 1, 2])


# netCDF-3


@pytest.fixture(params=["netCDF4", "scipy"])
def reader(request, monkeypatch) -> str:
    """A package that reads netCDF-3, with the other one hidden."""
    pytest.importorskip("netCDF4", reason="the package that writes the files, and reads them")
    pytest.importorskip("scipy", reason="a package that reads netCDF-3")
    if request.param == "scipy":
        monkeypatch.setattr(netcdf3, "_NetCDF4Reader", absent)
    return request.param


def absent(path: str):
    raise ImportError(path)


@pytest.mark.parametrize("kind", ["NETCDF3_CLASSIC", "NETCDF3_64BIT"])
@pytest.mark.parametrize("name", DATASETS)
def test_copy_of_netcdf_3_file_is_identical_in_xarray(tmp_path, reader, kind, name):
    source = tmp_path / "source.nc"
    dataset = DATASETS[name]()
    dataset.attrs.pop("names", None)  # SciPy writes no lists of text,
    dataset = dataset.drop_vars("other", errors="ignore")  # nor unsigned integers
    dataset.to_netcdf(source, engine="scipy", format=kind)
    expected = loaded(source, "scipy")
    for zarr_format in (2, 3):
        target = tmp_path / f"copy{zarr_format}.zarr"
        assert main(["copy", str(source), str(target), "--format", str(zarr_format)]) == 0
        assert opened(target).identical(expected)


def test_copy_of_netcdf_3_file_with_unlimited_dimension_is_identical(tmp_path, reader):
    source = tmp_path / "source.nc"
    dataset = default()
    dataset.to_netcdf(source, "w", "NETCDF3_64BIT", engine="netcdf4", unlimited_dims=["time"])
    tessarr.copy_to(source, tmp_path / "copy.zarr", chunks={"time": 1})
    assert opened(tmp_path / "copy.zarr").identical(loaded(source, "scipy"))


def test_copy_of_cdf_5_file_is_identical_in_xarray(tmp_path):
    netcdf = pytest.importorskip("netCDF4", reason="the package that writes and reads CDF-5")
    source = tmp_path / "source.nc"
    with netcdf.Dataset(source, "w", format="NETCDF3_64BIT_DATA") as file:
        file.createDimension("x", 2)
        file.createVariable("v", "i8", ("x",))[:] = [1, 2**60]
    assert source.read_bytes()[:4] == b"CDF\x05"
    tessarr.copy_to(source, tmp_path / "copy.zarr")
    assert opened(tmp_path / "copy.zarr").identical(loaded(source, "netcdf4"))


def test_copy_of_damaged_netcdf_3_file_is_error(tmp_path, reader):
    source = tmp_path / "source.nc"
    default().to_netcdf(source, engine="scipy")
    source.write_bytes(source.read_bytes()[:100])
    with pytest.raises(DataError, match=r"cannot read .*source\.nc' as netCDF-3: "):
        tessarr.copy_to(source, tmp_path / "copy.zarr")
    assert not (tmp_path / "copy.zarr").exists()


def test_copy_of_one_netcdf_3_variable_is_that_array(tmp_path, reader):
    source = tmp_path / "source.nc"
    default().to_netcdf(source, engine="scipy")
    tessarr.copy_to(source, tmp_path / "lon.zarr", path="lon")
    copied = tessarr.open_array(tmp_path / "lon.zarr", "r")
    assert copied.attrs.asdict() == {"units": "degrees_east", "_FillValue": "AAAAAAAA+H8="}
    np.testing.assert_array_equal(copied[...], np.linspace(0, 360, 5))
    with pytest.raises(NotFoundError, match="no array or group at path 'none' of <netCDF-3 file"):
        tessarr.copy_to(source, tmp_path / "none.zarr", path="none")
