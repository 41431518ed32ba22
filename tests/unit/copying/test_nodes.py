"""zarr-python 2's `copy` and `copy_all`, also from and to h5py."""

from __future__ import annotations

import io

import h5py
import numpy as np
import pytest

import tessarr
from tessarr.errors import ArgumentError, ExistsError

VALUES = np.arange(1000).reshape(20, 50)


def source_group():
    group = tessarr.group(attributes={"title": "t"})
    group.create_array("foo/baz", data=VALUES, chunks=(3, 20), attributes={"unit": "m"})
    group["foo"].attrs["note"] = 1
    group.create_array("qux", data=VALUES[0], chunks=(7,))
    return group


def in_h5py(path):
    file = h5py.File(path / "f.h5", "w")
    file.attrs["title"] = "t"
    array = file.create_dataset("foo/baz", data=VALUES, chunks=(3, 20), compression="lzf")
    array.attrs["unit"] = "m"
    file["foo"].attrs["note"] = 1
    file.create_dataset("qux", data=VALUES[0], chunks=(7,), fillvalue=9)
    return file


def check(dest):
    np.testing.assert_array_equal(dest["foo/baz"][...], VALUES)
    np.testing.assert_array_equal(dest["qux"][...], VALUES[0])
    assert dest["foo/baz"].chunks == (3, 20)
    assert dest["foo/baz"].attrs["unit"] == "m"
    assert dest["foo"].attrs["note"] == 1


TARGETS = {
    "format 3": lambda path: tessarr.create_group(path / "d"),
    "format 2": lambda path: tessarr.create_group(path / "d", zarr_format=2),
    "h5py": lambda path: h5py.File(path / "d.h5", "w"),
}


@pytest.mark.parametrize("origin", ["tessarr", "h5py"])
@pytest.mark.parametrize("kind", TARGETS)
def test_groups_are_copied_between_libraries(tmp_path, origin, kind):
    source = source_group() if origin == "tessarr" else in_h5py(tmp_path)
    dest = TARGETS[kind](tmp_path)
    assert tessarr.copy_all(source, dest) == (3, 0, VALUES.nbytes + VALUES[0].nbytes)
    check(dest)
    assert dest.attrs["title"] == "t"
    if kind == "h5py":
        assert dest["foo/baz"].compression == ("gzip" if origin == "tessarr" else "lzf")
    elif origin == "h5py":
        assert dest["qux"].fill_value == 9


def test_copy_without_codec_settings_keeps_codecs():
    source, dest = tessarr.group(), tessarr.group(zarr_format=2)
    created = source.create_array("a", data=VALUES, compressors=tessarr.Zstd(3), order="F")
    tessarr.copy(created, dest)
    assert dest["a"].compressors == (tessarr.Zstd(3),)
    tessarr.copy(created, dest, name="b", compressor=None, chunks=(5, 5))
    assert dest["b"].compressors == ()
    assert dest["b"].chunks == (5, 5)
    np.testing.assert_array_equal(dest["b"][...], VALUES)


def test_copy_log_matches_zarr_python(tmp_path):
    """The log has the documented words, and goes to a function, a file object or a file."""
    source = tessarr.group()
    source.create_array("foo/bar/baz", data=np.arange(100))
    expected = ["copy /foo", "copy /foo/bar", "copy /foo/bar/baz (100,) int64"]
    lines = []
    assert tessarr.copy(source["foo"], tessarr.group(), log=lines.append) == (3, 0, 800)
    assert lines == [*expected, "all done: 3 copied, 0 skipped, 800 bytes copied"]
    lines.clear()
    assert tessarr.copy(source["foo"], None, log=lines.append, dry_run=True) == (3, 0, 0)
    assert lines == [*expected, "dry run: 3 copied, 0 skipped"]
    stream = io.StringIO()
    tessarr.copy(source["foo"], tessarr.group(), log=stream)
    tessarr.copy(source["foo"], tessarr.group(), log=tmp_path / "log")
    assert stream.getvalue() == (tmp_path / "log").read_text()
    assert stream.getvalue().splitlines()[:3] == expected
    with pytest.raises(ArgumentError, match="log"):
        tessarr.copy(source["foo"], tessarr.group(), log=3)


def test_copy_of_existing_member_raises_replaces_or_skips():
    source, dest = source_group(), tessarr.group()
    old = dest.create_array("qux", shape=(50,), dtype="i8", chunks=(7,))
    with pytest.raises(ExistsError) as caught:
        tessarr.copy_all(source, dest)
    assert caught.value.kind == "node_exists"
    assert tessarr.copy_all(source, dest, if_exists="skip") == (1, 2, 0)  # the copy above made foo
    assert not dest["qux"][...].any()
    assert tessarr.copy(source["qux"], dest, if_exists="skip_initialized") == (1, 0, 400)
    assert tessarr.copy(source["qux"], dest, if_exists="skip_initialized") == (0, 1, 0)
    old = dest["qux"]
    old[...] = 0
    assert tessarr.copy(source["qux"], dest, if_exists="replace") == (1, 0, 400)
    np.testing.assert_array_equal(dest["qux"][...], VALUES[0])
    with pytest.raises(ArgumentError, match="if_exists"):
        tessarr.copy(source["qux"], dest, if_exists="maybe")


def test_copy_of_group_onto_array_raises():
    source, dest = source_group(), tessarr.group()
    dest.create_array("foo", data=[1])
    with pytest.raises(ExistsError):
        tessarr.copy(source["foo"], dest)
    assert tessarr.copy(source["foo"], dest, if_exists="skip") == (0, 1, 0)
    assert tessarr.copy(source["foo"], dest, if_exists="replace")[0] == 2


def test_shallow_copies_leave_out_groups_and_without_attrs_attributes():
    source, dest = source_group(), tessarr.group()
    assert tessarr.copy_all(source, dest, shallow=True, without_attrs=True)[0] == 1
    assert list(dest) == ["qux"]
    assert "title" not in dest.attrs
    tessarr.copy(source["foo"], dest, shallow=True, without_attrs=True)
    assert list(dest["foo"]) == ["baz"]
    assert not dest["foo"].attrs
    assert not dest["foo/baz"].attrs


def test_root_needs_name_and_no_group_goes_into_itself():
    source = source_group()
    with pytest.raises(TypeError, match="name"):
        tessarr.copy(source, tessarr.group())
    tessarr.copy(source, dest := tessarr.group(), name="all")
    np.testing.assert_array_equal(dest["all/foo/baz"][...], VALUES)
    for target in (source, source["foo"]):
        with pytest.raises(ArgumentError, match="into itself"):
            tessarr.copy(source, target, name="x")
    tessarr.copy(source["foo"], source, name="copy")  # beside it
    np.testing.assert_array_equal(source["copy/baz"][...], VALUES)
    with pytest.raises(ArgumentError, match="dry run"):
        tessarr.copy(source["foo"], None)


def test_text_goes_to_h5py_and_comes_back(tmp_path):
    words = ["ä", "b", "", "long " * 100]
    for form in (2, 3):
        source = tessarr.group(zarr_format=form)
        source.create_array("text", data=words, dtype=str)
        file = h5py.File(tmp_path / f"f{form}.h5", "w")
        tessarr.copy(source["text"], file)
        assert file["text"].asstr()[...].tolist() == words
        tessarr.copy(file["text"], source, name="back")
        assert source["back"][...].tolist() == words
    with pytest.raises(ArgumentError, match="HDF5"):
        tessarr.copy(source["text"], file, if_exists="skip_initialized")
