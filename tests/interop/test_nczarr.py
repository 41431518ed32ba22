"""Zarr files of the installed netCDF: every data type, filter and mode, read bit by bit.

Its own extensions to Zarr are attributes (mode ``nczarr``), or absent (mode ``zarr``).
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import TessarrWarning, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

netCDF4: Any = pytest.importorskip("netCDF4", reason="writes the files")  # noqa: N816 (its name)

pytestmark = pytest.mark.slow

MODES = ["zarr,file", "nczarr,file"]
TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "S1"]
FILTERS: dict[str, dict[str, Any]] = {
    "none": {},
    "contiguous": {"contiguous": True},
    "zlib": {"zlib": True},  # with shuffle, by default
    "zlib 9": {"zlib": True, "complevel": 9},
    "zlib without shuffle": {"zlib": True, "shuffle": False},
    "shuffle": {"zlib": False, "shuffle": True},
    "fletcher32": {"fletcher32": True},
    "zlib fletcher32": {"zlib": True, "fletcher32": True},
    **{
        f"{name}{' shuffle' if shuffle else ''}": {"compression": name, "shuffle": shuffle}
        for name in ("zstd", "bzip2")
        for shuffle in (False, True)
    },
    **{
        f"blosc_{name} {shuffle}": {"compression": f"blosc_{name}", "blosc_shuffle": shuffle}
        for name in ("lz", "lz4", "lz4hc", "zlib", "zstd")
        for shuffle in (0, 1, 2)
    },
    "big endian": {"endian": "big"},
    "big endian zlib": {"endian": "big", "zlib": True},
    "fill value": {"zlib": True, "fill_value": 7},
}
LACKS = ("Filter error", "filter not available", "NetCDF: Filter", "not turned on")
"""netCDF's error for a missing filter."""


@pytest.fixture(autouse=True)
def built_in(tmp_path: Path) -> None:
    try:
        netCDF4.Dataset(f"file://{tmp_path}/probe#mode=zarr,file", "w").close()
    except OSError as error:
        pytest.skip(f"the netCDF of this wheel was built without NCZarr: {error}")


def values_of(name: str) -> np.ndarray[Any, Any]:
    """Return values that compress well and use all bytes of their elements."""
    rows, columns = np.mgrid[1:41, 1:51]
    numbers = rows // 4 * 51 + columns // 5
    if name == "S1":
        return np.asarray(numbers % 26 + 65, "u1").view("S1")
    dtype = np.dtype(name)
    if dtype.kind == "f":
        return np.asarray(numbers / 3 - 1e5, dtype)
    return np.asarray(np.iinfo(dtype).max // 3 - numbers % 100, dtype)


def write(path: Path, mode: str, values: np.ndarray[Any, Any], **settings: Any) -> None:
    chunks = {} if settings.get("contiguous") else {"chunksizes": (16, 20)}
    with netCDF4.Dataset(f"file://{path}#mode={mode}", "w") as file:
        file.createDimension("y", values.shape[0])
        file.createDimension("x", values.shape[1])
        variable = file.createVariable("a", values.dtype, ("y", "x"), **chunks, **settings)
        variable[:] = values


@pytest.mark.parametrize("kind", FILTERS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.filterwarnings("ignore:endian-ness of dtype:UserWarning")
def test_nczarr_files_of_every_type_and_filter_are_read_bit_by_bit(
    tmp_path: Path, mode: str, kind: str
) -> None:
    """Only fill values of characters cause a warning; all others follow the specification."""
    for name in TYPES:
        values = values_of(name)
        settings = dict(FILTERS[kind])
        if name == "S1":
            if "endian" in settings:  # which netCDF refuses for characters
                continue
            if "fill_value" in settings:
                settings["fill_value"] = b"x"
        path = tmp_path / f"{name}.zarr"
        try:
            write(path, mode, values, **settings)
        except (RuntimeError, OSError) as error:
            assert any(words in str(error) for words in LACKS), error
            pytest.skip(f"this netCDF cannot write it: {error}")
        group = tessarr.open_group(path, "r")
        plain = name == "S1" and "fill_value" in settings
        with pytest.warns(TessarrWarning, match="no base64") if plain else nullcontext():
            array = group.get_array("a")
        big = settings.get("endian") == "big" and values.dtype.itemsize > 1
        assert array.dtype == values.dtype.newbyteorder(">" if big else "=")
        np.testing.assert_array_equal(
            np.ascontiguousarray(array[...].astype(values.dtype)).view(np.uint8),
            values.view(np.uint8),
        )


@pytest.mark.parametrize("mode", MODES)
def test_nczarr_default_shuffle_states_size_0(tmp_path: Path, mode: str) -> None:
    """The test needs this input: netCDF leaves the item size to readers."""
    write(tmp_path / "a", mode, values_of("i4"), zlib=True)
    text = (tmp_path / "a/a/.zarray").read_text()
    if '"elementsize": 0' not in text:
        pytest.skip("this netCDF states the size")
    (shuffle,) = tessarr.open_group(tmp_path / "a", "r").get_array("a").filters
    assert shuffle == tessarr.codecs.Shuffle(4)


@pytest.mark.parametrize("mode", MODES)
def test_nczarr_groups_attributes_and_unlimited_axes_are_read(tmp_path: Path, mode: str) -> None:
    with netCDF4.Dataset(f"file://{tmp_path}/a#mode={mode}", "w") as file:
        file.createDimension("t", None)
        file.createDimension("x", 3)
        # Mode "zarr" has no groups.
        owner = file.createGroup("g") if mode.startswith("nczarr") else file
        variable = owner.createVariable("v", "f4", ("t", "x"), zlib=True, fill_value=-9.5)
        variable[0:5] = np.arange(15).reshape(5, 3)
        variable.units = "m"
        scalar = file.createVariable("scalar", "i4", ())
        scalar[...] = 7
        file.createVariable("unwritten", "i2", ("x",), zlib=True)
        file.title = "test"
    group = tessarr.open_group(tmp_path / "a", "r")
    array = group.get_array("g/v" if mode.startswith("nczarr") else "v")
    np.testing.assert_array_equal(array[...], np.arange(15, dtype="f4").reshape(5, 3))
    assert (array.fill_value, array.attrs["units"]) == (-9.5, "m")
    assert group.get_array("scalar")[...].reshape(()) == 7
    assert group.get_array("unwritten")[...].tolist() == [netCDF4.default_fillvals["i2"]] * 3
    assert group.attrs["title"] == "test"


@pytest.mark.parametrize("mode", MODES)
def test_nczarr_strings_read_as_fixed_length_bytes(tmp_path: Path, mode: str) -> None:
    texts = np.array([["a", "bcd"], ["", "ä"]], object)
    with netCDF4.Dataset(f"file://{tmp_path}/a#mode={mode}", "w") as file:
        file.createDimension("x", 2)
        file.createVariable("a", str, ("x", "x"))[:] = texts
    group = tessarr.open_group(tmp_path / "a", "r").get_array("a")[...]
    assert group.dtype.kind == "S"
    assert [[item.decode() for item in row] for row in group] == texts.tolist()


def test_nczarr_szip_is_refused_by_its_name(tmp_path: Path) -> None:
    try:
        write(tmp_path / "a", "zarr,file", values_of("i4"), compression="szip")
    except (RuntimeError, OSError) as error:
        pytest.skip(f"this netCDF cannot write it: {error}")
    group = tessarr.open_group(tmp_path / "a", "r")
    with pytest.raises(UnsupportedError, match="codec 'szip' is not supported"):
        group["a"]
    assert list(group) == ["a"]
