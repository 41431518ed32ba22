"""Copies of HDF5 files: types, links, attributes, and handmade netCDF conventions."""

from __future__ import annotations

import errno
import json
import sys
import warnings

import h5py
import numpy as np
import pytest

import tessarr
from tessarr.cli import main
from tessarr.copying import CopiedLink, Skipped
from tessarr.errors import (
    ArgumentError,
    DataError,
    NotFoundError,
    StoreError,
    TessarrWarning,
    UnsupportedError,
)

VALUES = np.arange(6000, dtype="i4").reshape(60, 100)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "f.h5"


def copied(path, zarr_format=3, **settings):
    """Copy a file without the warning about skipped items; return the result and the group."""
    target = path.with_suffix(f".zarr{zarr_format}")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "not copied: ", TessarrWarning)
        done = tessarr.copy_to(path, target, zarr_format=zarr_format, **settings)
    return done, tessarr.open_group(target, "r")


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_copy_of_hdf5_file_is_hierarchy(path, zarr_format):
    with h5py.File(path, "w") as file:
        file.attrs["title"] = "t"
        grid = file.create_dataset("g/v", data=VALUES, chunks=(7, 9), compression="gzip")
        grid.attrs["scale"] = np.float32(0.5)
        grid.attrs["names"] = np.array([b"a", b"b"])
        y = file.create_dataset("g/y", data=np.arange(60))
        y.make_scale()
        grid.dims[0].attach_scale(y)
        grid.dims[1].label = "x"
        file["text"] = ["ä", "b", ""]
        file["flag"] = np.array([True, False])
        file["one"] = 5.0
    done, new = copied(path, zarr_format)
    assert [node.path for node in done.nodes] == ["", "flag", "g", "g/v", "g/y", "one", "text"]
    assert not done.skipped
    assert not done.links
    assert new.attrs["title"] == "t"
    values = new["g/v"]
    np.testing.assert_array_equal(values[...], VALUES)
    assert values.chunks == (7, 9)
    assert values.attrs["scale"] == 0.5
    assert values.attrs["names"] == ["a", "b"]
    assert new["text"][...].tolist() == ["ä", "b", ""]
    assert new["flag"][...].tolist() == [True, False]
    assert new["one"][()] == 5
    if zarr_format == 3:
        assert values.dimension_names == ("y", "x")
        assert new["g/y"].dimension_names == ("y",)
    else:
        assert values.attrs["_ARRAY_DIMENSIONS"] == ["y", "x"]


def netcdf_by_hand(path):
    """Write a file like those of a netCDF library, with h5py."""
    with h5py.File(path, "w") as file:
        file.attrs["_NCProperties"] = np.bytes_(b"version=2,netcdf=4.9.2,hdf5=1.14.0")
        file.attrs["version"] = np.array([3])
        file.attrs["empty"] = h5py.Empty("S1")
        bare = file.create_dataset("x", (3,), ">f4")
        bare.make_scale("This is a netCDF dimension but not a netCDF variable.         3")
        time = file.create_dataset("time", data=np.arange(2), maxshape=(None,))
        time.make_scale("time")
        packed = file.create_dataset("packed", data=np.array([[1, -9, 3], [4, 5, -9]], "i2"))
        packed.attrs["scale_factor"] = np.array([0.5])
        packed.attrs["_FillValue"] = np.array([-9], "i2")
        packed.attrs["valid_range"] = np.array([0, 100], "i2")
        packed.attrs["_Netcdf4Coordinates"] = np.array([0, 1], "i4")
        floats = file.create_dataset("floats", data=np.ones((2, 3), "f4"), fillvalue=np.nan)
        floats.attrs["_FillValue"] = np.array([np.nan], "f4")
        for array in (packed, floats):
            array.dims[0].attach_scale(time)
            array.dims[1].attach_scale(bare)
        file["scalar"] = np.int32(4)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_netcdf_copy_has_attributes_of_xarray(path, zarr_format):
    netcdf_by_hand(path)
    _, new = copied(path, zarr_format)
    assert sorted(new) == ["floats", "packed", "scalar", "time"]
    assert new.attrs.asdict() == {"version": 3, "empty": ""}
    own = {"scale_factor": 0.5, "valid_range": [0, 100]}
    if zarr_format == 3:
        assert new["packed"].attrs.asdict() == {**own, "_FillValue": -9}
        assert new["floats"].attrs.asdict() == {"_FillValue": "AAAAAAAA+H8="}
        assert new["packed"].dimension_names == ("time", "x")
        assert new["time"].dimension_names == ("time",)
        assert new["scalar"].attrs.asdict() == {}
        assert new.metadata.consolidated is not None
    else:
        axes = {"_ARRAY_DIMENSIONS": ["time", "x"]}
        assert new["packed"].attrs.asdict() == {**own, **axes}
        assert new["floats"].attrs.asdict() == axes
        assert new["time"].fill_value is None
        assert new["scalar"].attrs.asdict() == {"_ARRAY_DIMENSIONS": []}
        assert (path.with_suffix(".zarr2") / ".zmetadata").exists()
    assert new["packed"].fill_value == -9
    assert np.isnan(new["floats"].fill_value)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_netcdf_copy_recognises_files_without_properties(path, zarr_format):
    """Before 2016, only dimension scales distinguish netCDF-4 from HDF5."""
    netcdf_by_hand(path)
    with h5py.File(path, "a") as file:
        del file.attrs["_NCProperties"]
        file["scalar"].attrs["one"] = np.array([5])
        file.create_group("g").attrs["one"] = np.array([5])
    _, new = copied(path, zarr_format)
    assert new.attrs["version"] == 3
    assert new["scalar"].attrs["one"] == 5
    assert new["g"].attrs["one"] == 5
    group = tessarr.open_group(path.with_suffix(".all"), mode="w", zarr_format=zarr_format)
    with h5py.File(path) as file:
        tessarr.copy_all(file, group)
        tessarr.copy(file["scalar"], group, name="alone")
    for name in ("scalar", "alone"):
        assert group[name].attrs["one"] == 5
        assert ("_ARRAY_DIMENSIONS" in group[name].attrs) == (zarr_format == 2)


def test_netcdf_copy_to_other_type_encodes_fill_value(path):
    netcdf_by_hand(path)
    tessarr.copy_to(path, path.with_suffix(".zarr"), path="packed", dtype="f8", zarr_format=3)
    new = tessarr.open_array(path.with_suffix(".zarr"), "r")
    assert new.attrs["_FillValue"] == "AAAAAAAAIsA="
    assert new.fill_value == -9


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_netcdf_copy_keeps_nan_attribute_with_warning(path, zarr_format):
    netcdf_by_hand(path)
    with h5py.File(path, "a") as file:
        file["floats"].attrs["missing_value"] = np.array([np.nan], "f4")
    with pytest.warns(TessarrWarning, match="NaN or infinity in attribute 'missing_value'"):
        _, new = copied(path, zarr_format)
    assert np.isnan(new["floats"].attrs["missing_value"])


FILLS = {
    "u1": (np.array([255], "u1"), 255, 255),
    "f8": (np.float64(-1), "AAAAAAAA8L8=", -1),
    "c8": (np.array([1 + 2j], "c8"), ["AAAAAAAA8D8=", "AAAAAAAAAEA="], 1 + 2j),
    "S1": (np.bytes_(b"x"), None, b"x"),
    "text": ("missing", None, "missing"),
}


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", FILLS)
def test_netcdf_copy_encodes_fill_value_like_xarray(path, kind, zarr_format):
    """Xarray encodes numbers in format 3, and uses the fill value of format 2."""
    value, encoded, fill_value = FILLS[kind]
    netcdf_by_hand(path)
    with h5py.File(path, "a") as file:
        dtype = h5py.string_dtype() if kind == "text" else kind
        file.create_dataset("v", (2,), dtype).attrs["_FillValue"] = value
    done, new = copied(path, zarr_format, include="v")
    assert not done.skipped
    assert new["v"].fill_value == fill_value
    assert new["v"].attrs.get("_FillValue") == (encoded if zarr_format == 3 else None)


@pytest.mark.parametrize("wrong", ["none", np.array([1, 2])])
def test_netcdf_copy_reports_unrepresentable_fill_value(path, wrong):
    netcdf_by_hand(path)
    with h5py.File(path, "a") as file:
        file["scalar"].attrs["_FillValue"] = wrong
    done, new = copied(path, include="scalar")
    assert done.skipped == (
        Skipped("scalar", "its value is no element of the array", "_FillValue"),
    )
    assert new["scalar"].attrs.asdict() == {}
    assert new["scalar"][()] == 4


def test_hdf5_copy_keeps_one_element_attribute_as_list(path):
    with h5py.File(path, "w") as file:
        file["v"] = VALUES
        file["v"].attrs["one"] = np.array([5])
        file["v"].attrs["CLASS"] = "an attribute of PyTables"
    _, new = copied(path)
    assert new["v"].attrs.asdict() == {"one": [5], "CLASS": "an attribute of PyTables"}


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    "value",
    [b"\xb0C", np.bytes_(b"\xb0C"), np.array([b"m", b"\xb0C"])],
    ids=["variable length", "fixed length", "list"],
)
def test_hdf5_copy_skips_attribute_without_utf_8(path, value, zarr_format):
    """The encoding of such text is unknown; the copy continues with the rest."""
    with h5py.File(path, "w") as file:
        file["x"] = [1, 2]
        file["x"].attrs["unit"] = value
        file["x"].attrs["long_name"] = "temp\u00e9rature"
    done, group = copied(path, zarr_format)
    assert done.skipped == (Skipped("x", "its text is not UTF-8", "unit"),)
    assert group["x"][:].tolist() == [1, 2]
    assert dict(group["x"].attrs) == {"long_name": "temp\u00e9rature"}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_hdf5_copy_stores_enumeration_names_as_flags(path, zarr_format):
    with h5py.File(path, "w") as file:
        kind = h5py.enum_dtype({"GREEN": 2, "DARK RED": 1}, "u1")
        file.create_dataset("e", data=np.array([1, 2], "u1"), dtype=kind)
        own = file.create_dataset("own", data=np.array([1, 2], "u1"), dtype=kind)
        own.attrs["flag_meanings"] = "r g"
    _, new = copied(path, zarr_format)
    assert new["e"][...].tolist() == [1, 2]
    assert new["e"].attrs["flag_values"] == [1, 2]
    assert new["e"].attrs["flag_meanings"] == "DARK_RED GREEN"
    assert new["own"].attrs["flag_meanings"] == "r g"


def with_odd_members(path):
    """Write a file with members that have no form in Zarr, and one valid array."""
    with h5py.File(path, "w") as file:
        file["good"] = VALUES
        file.create_dataset("g/ref", data=file["good"].ref, dtype=h5py.ref_dtype)
        file.create_dataset("region", (3,), h5py.regionref_dtype)
        file.create_dataset("field", (2,), np.dtype([("a", "i4"), ("r", h5py.ref_dtype)]))
        file.create_dataset("text_field", (2,), np.dtype([("s", h5py.string_dtype())]))
        file["long"] = np.arange(3, dtype=np.longdouble)
        file["null"] = h5py.Empty("f4")
        file["zarr.json"] = 1
        space = h5py.h5s.create_simple((2,))
        h5py.h5d.create(file.id, b"time", h5py.h5t.UNIX_D32LE.copy(), space)
        file["type"] = np.dtype("i4")
        file["good"].attrs["unit"] = "m"
        file["good"].attrs["ref"] = file["good"].ref
        file["good"].attrs["complex"] = 1 + 2j


SKIPPED = {"g/ref", "region", "field", "text_field", "long", "null", "zarr.json", "time"}


def test_hdf5_copy_skips_and_reports_unsupported_members(path):
    with_odd_members(path)
    done, new = copied(path)
    assert {node.path for node in done.skipped if node.attribute is None} == SKIPPED
    assert {node.attribute for node in done.skipped if node.path == "good"} == {
        "ref",
        "complex",
    }
    assert Skipped("g/ref", "its elements are references to other objects of the file") in (
        done.skipped
    )
    assert sorted(new) == ["g", "good"]
    np.testing.assert_array_equal(new["good"][...], VALUES)
    assert new["good"].attrs.asdict() == {"unit": "m"}


def test_hdf5_copy_warns_at_line_of_caller(path, tmp_path):
    with_odd_members(path)
    with pytest.warns(TessarrWarning, match="not copied: .*/g/ref: its elements are ref") as caught:
        tessarr.copy_to(path, tmp_path / "new")
    assert caught[0].filename == __file__
    group = tessarr.open_group(tmp_path / "all", mode="w")
    with h5py.File(path) as file, pytest.warns(TessarrWarning, match="not copied: ") as caught:
        counts = tessarr.copy_all(file, group)
    assert counts[1] >= 6
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(group["good"][...], VALUES)


def test_hdf5_copy_command_lists_unsupported_members(path, capsys):
    with_odd_members(path)
    target = path.with_suffix(".zarr")
    assert main(["copy", str(path), str(target)]) == 1
    shown = capsys.readouterr()
    assert "copied 1 array of 23.4K\n" in shown.out
    assert "\nskipped /g/ref: its elements are references to other objects" in shown.out
    assert "\nskipped /good, attribute 'ref': a reference" in shown.out
    assert not shown.err
    np.testing.assert_array_equal(tessarr.open_group(target, "r")["good"][...], VALUES)


def test_copy_command_with_json_lists_skipped_nodes(path, capsys):
    with_odd_members(path)
    with h5py.File(path, "a") as file:
        file["link"] = h5py.SoftLink("/good")
    assert main(["copy", str(path), str(path.with_suffix(".zarr")), "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert {node["path"] for node in result["skipped"] if node["attribute"] is None} == SKIPPED
    assert result["links"] == [{"path": "link", "kind": "soft", "target": "/good"}]


def test_copy_dry_run_lists_skipped_nodes(path, capsys):
    with_odd_members(path)
    assert main(["copy", str(path), str(path.with_suffix(".zarr")), "--dry-run"]) == 1
    assert "\nskipped /g/ref: its elements are references" in capsys.readouterr().out
    assert not path.with_suffix(".zarr").exists()


@pytest.mark.parametrize("length", [10, 600])
def test_hdf5_copy_of_truncated_file_raises_data_error(path, length, capsys):
    """The error of h5py names no file; the command has exit code 1."""
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(100)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(DataError, match=r"cannot read '.*' as HDF5: "):
        copied(path)
    assert main(["copy", str(path), str(path.with_suffix(".zarr"))]) == 1
    assert "as HDF5" in capsys.readouterr().err


def test_hdf5_copy_of_locked_file_raises_store_error(path, monkeypatch):
    """A writer that holds HDF5's lock causes a system error."""

    def refuse(*_):
        raise BlockingIOError(errno.EAGAIN, "unable to lock file")

    path.write_bytes(b"\x89HDF\r\n\x1a\n")
    monkeypatch.setattr(h5py, "File", refuse)
    with pytest.raises(StoreError, match=r"cannot open .*: unable to lock file") as caught:
        copied(path)
    assert caught.value.errno == errno.EAGAIN


def test_hdf5_copy_of_selection_copies_selection(path):
    netcdf_by_hand(path)
    target = path.with_suffix(".zarr")
    tessarr.copy_to(path, target, path="packed", select=(slice(1, None), slice(0, 2)))
    assert tessarr.open_array(target, "r")[...].tolist() == [[4, 5]]


def test_hdf5_copy_resumes_after_interrupt(path):
    with h5py.File(path, "w") as file:
        for name in "abc":
            file.create_dataset(name, data=VALUES, chunks=(10, 100))
    target = path.with_suffix(".zarr")

    def stop(done, total):
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tessarr.copy_to(path, target, progress=stop)
    assert not tessarr.copy_to(path, target, resume=True).was_complete
    assert tessarr.copy_to(path, target, resume=True).was_complete
    for name in "abc":
        np.testing.assert_array_equal(tessarr.open_group(target, "r")[name][...], VALUES)


def test_hdf5_copy_of_reference_dataset_raises(path):
    with_odd_members(path)
    with pytest.raises(UnsupportedError, match="cannot copy '/g/ref': its elements are ref"):
        tessarr.copy_to(path, path.with_suffix(".zarr"), path="g/ref")
    assert not path.with_suffix(".zarr").exists()


@pytest.mark.parametrize("block", [512, 4096])
def test_copy_of_hdf5_after_user_block_is_hierarchy(path, block):
    """MATLAB writes its own header of 512 bytes before the hierarchy."""
    with h5py.File(path, "w", userblock_size=block) as file:
        file["v"] = VALUES
    content = path.read_bytes()
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(block) + content[block:])
    _, new = copied(path)
    np.testing.assert_array_equal(new["v"][...], VALUES)


def test_copy_of_hdf5_in_home_folder_expands_tilde(path, monkeypatch):
    with h5py.File(path, "w") as file:
        file["v"] = VALUES
    monkeypatch.setenv("HOME", str(path.parent))
    tessarr.copy_to(f"~/{path.name}", path.with_suffix(".zarr"))
    assert sorted(tessarr.open_group(path.with_suffix(".zarr"), "r")) == ["v"]


def test_hdf5_copy_keeps_opaque_bytes(path):
    with h5py.File(path, "w") as file:
        file["opaque"] = np.array([b"ab", b"cd"], "V2")
    done, new = copied(path)
    assert not done.skipped
    assert new["opaque"][...].tobytes() == b"abcd"


def test_hdf5_copy_follows_and_reports_links(path):
    with h5py.File(path.with_name("other.h5"), "w") as file:
        file["v"] = VALUES
    with h5py.File(path, "w") as file:
        file["a/b/v"] = VALUES
        file["a/hard"] = file["a/b/v"]
        file["c"] = h5py.SoftLink("/a/b")
        file["external"] = h5py.ExternalLink("other.h5", "/v")
    done, new = copied(path)
    assert done.links == (
        CopiedLink("a/hard", "hard", "/a/b/v"),
        CopiedLink("c", "soft", "/a/b"),
        CopiedLink("external", "external", "other.h5:/v"),
    )
    assert not done.skipped
    for name in ("a/b/v", "a/hard", "c/v", "external"):
        np.testing.assert_array_equal(new[name][...], VALUES)


def test_copy_command_reports_links_and_succeeds(path, capsys):
    with h5py.File(path, "w") as file:
        file["a"] = VALUES
        file["b"] = h5py.SoftLink("a")
    assert main(["copy", str(path), str(path.with_suffix(".zarr"))]) == 0
    assert capsys.readouterr().out == (
        "copied 2 arrays of 46.9K\nlink /b: a copy of a (soft link)\n"
    )


def test_hdf5_copy_ends_at_cyclic_and_dangling_links(path):
    with h5py.File(path, "w") as file:
        file["a/b/v"] = VALUES
        file["a/b/root"] = h5py.SoftLink("/")
        file["a/b/up"] = file["a"]
        file["c"] = h5py.SoftLink("/a/b")
        file["loop"] = h5py.SoftLink("/loop")
        file["nowhere"] = h5py.SoftLink("/none")
        file["far"] = h5py.ExternalLink("none.h5", "/v")
    done, new = copied(path)
    assert [node.path for node in done.nodes] == ["", "a", "a/b", "a/b/v", "c", "c/up", "c/v"]
    reasons = {node.path: node.reason for node in done.skipped}
    assert set(reasons) == {"a/b/root", "a/b/up", "c/root", "c/up/b", "far", "loop", "nowhere"}
    assert reasons["a/b/up"] == "a link to /a, a group that holds it"
    assert reasons["nowhere"] == "a soft link to /none, which does not exist"
    assert reasons["far"] == "an external link to none.h5:/v, which does not exist"
    assert sorted(new) == ["a", "c"]


def test_hdf5_copy_of_exponential_links_is_bounded(path, monkeypatch):
    """Each of 30 groups has two links to the next group: the links lead to 2**30 nodes."""
    monkeypatch.setattr("tessarr.copying.hdf5._MAX_LINKED", 20)
    with h5py.File(path, "w") as file:
        for level in range(30):
            group = file.create_group(f"g{level}")
            group["left"] = group["right"] = h5py.SoftLink(f"/g{level + 1}")
        file["g30"] = 1
    done, _ = copied(path)
    assert len(done.links) == 20
    assert "links lead to more than 20 nodes" in {node.reason for node in done.skipped}


def test_hdf5_copy_of_missing_name_raises(path, tmp_path):
    with h5py.File(path, "w") as file:
        file["a"] = VALUES
    with pytest.raises(NotFoundError, match="no array or group at path 'b' of <HDF5 file"):
        tessarr.copy_to(path, tmp_path / "new", path="b")


def test_hdf5_copy_skips_array_with_damaged_chunk(path):
    with h5py.File(path, "w") as file:
        file["a"] = VALUES
        bad = file.create_dataset("g/bad", data=VALUES, chunks=(10, 100), fletcher32=True)
        offset = bad.id.get_chunk_info(3).byte_offset
        file["z"] = VALUES
    damaged = bytearray(path.read_bytes())
    damaged[offset + 5] ^= 0xFF
    path.write_bytes(damaged)
    done, new = copied(path)
    assert [node.path for node in done.nodes] == ["", "a", "g", "z"]
    assert [node.path for node in done.skipped] == ["g/bad"]
    assert "cannot read dataset '/g/bad' of HDF5" in done.skipped[0].reason
    assert list(new["g"]) == []
    assert not (path.with_suffix(".zarr3") / "g" / "bad").exists()
    assert not (path.with_suffix(".zarr3") / ".tessarr-copy").exists()
    np.testing.assert_array_equal(new["z"][...], VALUES)
    group = tessarr.open_group(path.with_suffix(".all"), mode="w")
    with h5py.File(path) as file:
        with pytest.warns(TessarrWarning, match="not copied: /g/bad: cannot read dataset"):
            assert tessarr.copy_all(file, group) == (3, 1, 2 * VALUES.nbytes)
        with pytest.raises(DataError, match="cannot read dataset '/g/bad' of HDF5"):
            tessarr.copy(file["g/bad"], group)
    assert sorted(name for name, _ in group.members(max_depth=None)) == ["a", "g", "z"]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_hdf5_copy_skips_array_without_utf_8(path, zarr_format):
    with h5py.File(path, "w") as file:
        file.create_dataset("latin", (2,), h5py.string_dtype())[0] = "caf\xe9".encode("latin-1")
        file["z"] = VALUES
    done, new = copied(path, zarr_format)
    assert [node.path for node in done.skipped] == ["latin"]
    assert "cannot store text that is not Unicode" in done.skipped[0].reason
    assert list(new) == ["z"]


def test_hdf5_copy_skips_array_with_missing_filter(path, monkeypatch):
    with h5py.File(path, "w") as file:
        file["a"] = VALUES
        file.create_dataset("b", data=VALUES, chunks=(10, 100), compression="lzf")
    monkeypatch.setattr("h5py.h5z.filter_avail", lambda number: number != h5py.h5z.FILTER_LZF)
    done, new = copied(path)
    assert [node.path for node in done.skipped] == ["b"]
    assert done.skipped[0].reason == (
        "the HDF5 filter 32000 (lzf) is not installed: pip install hdf5plugin"
    )
    assert list(new) == ["a"]


# Included and excluded members


CHOICES = [
    ({"include": "run1"}, ["run1", "run1/raw", "run1/raw/x", "run1/t"]),
    ({"include": "raw"}, ["run1", "run1/raw", "run1/raw/x", "run2", "run2/raw"]),
    ({"include": ["x", "/run2/t"]}, ["run1", "run1/raw", "run1/raw/x", "run2", "run2/t"]),
    ({"exclude": "raw"}, ["run1", "run1/t", "run2", "run2/t", "t"]),
    ({"exclude": ("/t", "run?/raw")}, ["run1", "run1/t", "run2", "run2/t"]),
    ({"include": "run*", "exclude": "**/raw/**"}, ["run1", "run1/t", "run2", "run2/t"]),
    ({"include": "[!r]*", "exclude": "/run1/"}, ["run2", "run2/t", "t"]),
]


@pytest.mark.parametrize("kind", ["HDF5", "Zarr"])
@pytest.mark.parametrize(("choice", "expected"), CHOICES)
def test_copy_with_include_and_exclude_filters_members(tmp_path, kind, choice, expected):
    path = tmp_path / "source"
    with h5py.File(path, "w") if kind == "HDF5" else tessarr.open_group(path, "w") as source:
        for name in ("run1/raw/x", "run1/t", "run2/raw", "run2/t", "t"):
            source[name] = np.arange(3)
    done = tessarr.copy_to(path, tmp_path / "new", **choice)
    assert sorted(node.path for node in done.nodes) == ["", *expected]
    result = tessarr.open_group(tmp_path / "new", "r")
    assert sorted(name for name, _ in result.members(max_depth=None)) == expected


def test_hdf5_copy_does_not_report_excluded_nodes(path):
    with_odd_members(path)
    done, _ = copied(path, exclude=[name.rpartition("/")[2] for name in SKIPPED])
    assert {node.path for node in done.skipped} == {"good"}


def test_hdf5_copy_command_with_exclude_succeeds(path, capsys):
    with h5py.File(path, "w") as file:
        file["good"] = VALUES
        file.create_dataset("g/ref", data=file["good"].ref, dtype=h5py.ref_dtype)
    for options in (
        ["--exclude", "ref"],
        ["--include", "go*"],
        ["--include=good", "--exclude=g/*"],
    ):
        target = str(path.with_suffix(".zarr"))
        assert main(["copy", str(path), target, "--overwrite", *options]) == 0
        assert capsys.readouterr().out == "copied 1 array of 23.4K\n"


def test_copy_with_exclude_copies_zarr_beside_broken_array(tmp_path):
    group = tessarr.open_group(tmp_path / "old", "w")
    group["good"] = VALUES
    group["broken"] = VALUES
    (tmp_path / "old" / "broken" / "zarr.json").write_text("{")
    tessarr.copy_to(tmp_path / "old", tmp_path / "new", exclude="broken")
    np.testing.assert_array_equal(tessarr.open_group(tmp_path / "new", "r")["good"][...], VALUES)


@pytest.mark.parametrize("wrong", ["", "/", [""], [5], 5])
def test_copy_with_non_text_pattern_raises(path, wrong):
    with pytest.raises(ArgumentError, match="a pattern of paths is a text such as"):
        tessarr.copy_to(path, path.with_suffix(".zarr"), exclude=wrong)


def test_copy_with_unmatched_include_raises(path):
    with h5py.File(path, "w") as file:
        file["a"] = VALUES
    with pytest.raises(ArgumentError, match="include='b': no array or group of the source"):
        tessarr.copy_to(path, path.with_suffix(".zarr"), include="b")
    assert not path.with_suffix(".zarr").exists()


# netCDF-3


@pytest.mark.parametrize("version", [1, 2, 5])
def test_copy_of_netcdf_3_without_reader_package_names_package(tmp_path, monkeypatch, version):
    for name in ("netCDF4", "scipy", "scipy.io"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "old.nc").write_bytes(b"CDF" + bytes([version]) + bytes(28))
    with pytest.raises(UnsupportedError, match=r"without the package netCDF4.* nccopy -k nc4 old"):
        tessarr.copy_to(tmp_path / "old.nc", tmp_path / "new.zarr")
    with pytest.raises(ValueError, match=r"is a file of netCDF-3: tessarr.copy_to\('old.nc'"):
        tessarr.open(tmp_path / "old.nc", "r")
