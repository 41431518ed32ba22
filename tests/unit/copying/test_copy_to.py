"""`copy_to`: all sources and targets, resumption, and no partial arrays."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tessarr
from tessarr.copying.journal import JOURNAL
from tessarr.errors import (
    ArgumentError,
    DataError,
    ExistsError,
    NotFoundError,
)
from tessarr.store import LocalStore, MemoryStore
from tessarr.store.wrappers.instrumented import CountingStore

VALUES = np.random.default_rng(3).integers(0, 99, (60, 70)).astype("i4")


@pytest.fixture
def rows(tmp_path) -> Path:
    """Return an array in a folder, in chunks of rows."""
    tessarr.create_array(
        tmp_path / "rows",
        data=VALUES,
        chunks=(1, 70),
        dimension_names=["y", "x"],
        attributes={"unit": "m"},
        fill_value=7,
    )
    return tmp_path / "rows"


def opened(path):
    return tessarr.open_array(path, "r")


def test_copy_to_rows_to_columns_keeps_other_settings(rows, tmp_path):
    report = tessarr.copy_to(rows, tmp_path / "new", chunks=(60, 1))
    new = opened(tmp_path / "new")
    np.testing.assert_array_equal(new[...], VALUES)
    assert new.chunks == (60, 1)
    assert (new.fill_value, dict(new.attrs), new.dimension_names) == (7, {"unit": "m"}, ("y", "x"))
    assert new.compressors == opened(rows).compressors
    assert report.size_bytes == VALUES.nbytes
    assert not report.nodes[0].as_stored
    assert not list((tmp_path / "new").rglob(f"*{JOURNAL}*"))


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize(
    "settings",
    [
        {"compressors": None},
        {"compressors": "zstd", "chunks": (16, 70)},
        {"dtype": "f8"},
        {"fill_value": 0},
        {"order": "F"},
        {"chunks": {"x": 9}},
        {"attributes": {}},
    ],
    ids=str,
)
def test_copy_to_settings_apply_in_both_formats(rows, tmp_path, zarr_format, settings):
    tessarr.copy_to(rows, tmp_path / "new", zarr_format=zarr_format, **settings)
    new = opened(tmp_path / "new")
    np.testing.assert_array_equal(new[...], VALUES)
    assert new.zarr_format == zarr_format
    if "dtype" in settings:
        assert new.dtype == "f8"
    if "chunks" in settings:
        assert new.chunks == ((1, 9) if isinstance(settings["chunks"], dict) else (16, 70))
    if "attributes" in settings:
        assert "unit" not in new.attrs


def test_copy_to_shards_stay_if_they_fit(rows, tmp_path):
    tessarr.copy_to(rows, tmp_path / "a", chunks=(5, 7), shards=(30, 35))
    assert opened(tmp_path / "a").shards == (30, 35)
    tessarr.copy_to(tmp_path / "a", tmp_path / "b", chunks=(15, 7))
    assert (opened(tmp_path / "b").chunks, opened(tmp_path / "b").shards) == ((15, 7), (30, 35))
    tessarr.copy_to(tmp_path / "a", tmp_path / "c", chunks=(11, 7))
    assert opened(tmp_path / "c").shards is None
    for name in "abc":
        np.testing.assert_array_equal(opened(tmp_path / name)[...], VALUES)


@pytest.mark.parametrize(
    "settings",
    [
        {"zarr_format": 2},
        {"zarr_format": 3},
        {"zarr_format": 3, "chunks": (5, 7), "shards": (10, 70)},
        {"zarr_format": 3, "chunks": [[10, 50], 7]},
        {"zarr_format": 2, "order": "F", "dtype": ">i2", "filters": [tessarr.Delta(dtype=">i2")]},
    ],
    ids=str,
)
def test_copy_to_unchanged_chunks_copies_raw_chunks(tmp_path, settings):
    settings = {"dtype": "i4", "chunks": (7, 70), **settings}
    source = tessarr.create_array(tmp_path / "old", shape=VALUES.shape, **settings)
    source[...] = VALUES
    report = tessarr.copy_to(source, tmp_path / "new")
    assert report.nodes[0].as_stored

    def files(name):
        folder = tmp_path / name
        return {
            path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }

    assert files("new") == files("old")


@pytest.mark.parametrize(("one", "other"), [(2, 3), (3, 2)])
def test_copy_to_other_format_renames_raw_chunks(tmp_path, one, other):
    source = tessarr.create_array(tmp_path / "old", data=VALUES, chunks=(20, 20), zarr_format=one)
    report = tessarr.copy_to(source, tmp_path / "new", zarr_format=other)
    assert report.nodes[0].as_stored
    np.testing.assert_array_equal(opened(tmp_path / "new")[...], VALUES)


def test_copy_to_format_2_replaces_unsupported_codecs(tmp_path):
    source = tessarr.create_array(tmp_path / "old", data=VALUES, chunks=(5, 7), shards=(30, 35))
    report = tessarr.copy_to(source, tmp_path / "new", zarr_format=2)
    assert not report.nodes[0].as_stored
    np.testing.assert_array_equal(opened(tmp_path / "new")[...], VALUES)


@pytest.mark.parametrize(
    "select",
    [(slice(10, 30),), (slice(None, None, -1), slice(5, 60, 3)), (..., slice(0, 0)), slice(3, 4)],
    ids=str,
)
def test_copy_to_select_copies_part(rows, tmp_path, select):
    for settings in ({}, {"chunks": (4, 9)}, {"zarr_format": 2}):
        tessarr.copy_to(rows, tmp_path / "new", select=select, overwrite=True, **settings)
        np.testing.assert_array_equal(opened(tmp_path / "new")[...], VALUES[select])


def test_copy_to_select_with_integer_raises(rows, tmp_path):
    with pytest.raises(ArgumentError, match="3:4"):
        tessarr.copy_to(rows, tmp_path / "new", select=(3,))


def test_copy_to_hierarchy_keeps_attributes_and_consolidated_metadata(tmp_path):
    group = tessarr.create_group(tmp_path / "old", attributes={"title": "t"})
    group.create_array("a/b", data=VALUES, dimension_names=["y", "x"])
    group.create_array("a/y", data=np.arange(60), dimension_names=["y"])
    group.create_group("c", attributes={"empty": True})
    tessarr.consolidate_metadata(tmp_path / "old")
    for form, name in ((3, "three"), (2, "two")):
        report = tessarr.copy_to(tmp_path / "old", tmp_path / name, zarr_format=form, chunks=(6, 7))
        assert [node.path for node in report.nodes] == ["", "a", "a/b", "a/y", "c"]
        new = tessarr.open_consolidated(tmp_path / name, "r")
        assert new.attrs["title"] == "t"
        assert new["c"].attrs["empty"]
        assert new["a/b"].chunks == (6, 7)  # of as many axes
        assert new["a/y"].chunks == (60,)
        np.testing.assert_array_equal(new["a/b"][...], VALUES)
        np.testing.assert_array_equal(new["a/y"][...], np.arange(60))


def test_copy_to_path_and_target_path(tmp_path):
    group = tessarr.create_group(tmp_path / "old")
    group.create_array("a/b", data=VALUES)
    tessarr.copy_to(tmp_path / "old", tmp_path / "new", path="a", target_path="x/y")
    np.testing.assert_array_equal(tessarr.open(tmp_path / "new")["x/y/b"][...], VALUES)
    tessarr.copy_to(tmp_path / "old", tmp_path / "new", path="a/b", target_path="x/z")
    np.testing.assert_array_equal(tessarr.open(tmp_path / "new")["x/z"][...], VALUES)


def test_copy_to_chunks_without_matching_array_raise(rows, tmp_path):
    report = {
        "chunks=(1, 2, 3) is for arrays of as many axes, and there are arrays of 2 axes": (1, 2, 3),
        "there is no axis 'time'; named axes are 'x', 'y'": {"time": 3},
    }
    for message, chunks in report.items():
        with pytest.raises(ArgumentError, match=re.escape(message)):
            tessarr.copy_to(rows, tmp_path / "new", chunks=chunks)
    with pytest.raises(ArgumentError, match="there is no axis 'y'; axes have no names"):
        tessarr.copy_to(VALUES, tmp_path / "new", chunks={"y": 3})
    assert not (tmp_path / "new").exists()


def test_copy_to_chunks_with_unknown_axis_raise(tmp_path):
    a = tessarr.create_array(None, data=VALUES, dimension_names=["y", "x"])
    with pytest.raises(ArgumentError, match="there is no axis 'z'; named axes are 'x', 'y'"):
        tessarr.copy_to(a, tmp_path / "new", chunks={"y": 3, "z": 4})
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("wrong", ["1G", 0, 1.5])
def test_copy_to_invalid_memory_bytes_raises(rows, tmp_path, wrong):
    with pytest.raises(ArgumentError, match=f"memory_bytes {wrong!r} is not a positive integer"):
        tessarr.copy_to(rows, tmp_path / "new", memory_bytes=wrong)
    assert not (tmp_path / "new").exists()


def test_copy_to_unknown_setting_raises_type_error(rows, tmp_path):
    with pytest.raises(TypeError, match="chnks"):
        tessarr.copy_to(rows, tmp_path / "new", chnks=3)
    assert not (tmp_path / "new").exists()


def test_copy_to_existing_target_needs_overwrite(rows, tmp_path):
    tessarr.create_array(tmp_path / "new", data=[1, 2])
    with pytest.raises(ExistsError) as caught:
        tessarr.copy_to(rows, tmp_path / "new")
    assert caught.value.kind == "node_exists"
    assert f"at the root of LocalStore('{tmp_path / 'new'}') already" in str(caught.value)
    assert opened(tmp_path / "new")[...].tolist() == [1, 2]
    tessarr.copy_to(rows, tmp_path / "new", overwrite=True)
    assert opened(tmp_path / "new").shape == VALUES.shape


def test_copy_to_overwrite_keeps_folder_without_node(rows, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    tessarr.copy_to(rows, tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


def test_copy_to_overlapping_source_and_target_raises(tmp_path):
    group = tessarr.create_group(tmp_path / "g")
    group.create_array("a", data=VALUES)
    for source, target, path in [
        (tmp_path / "g", tmp_path / "g", None),
        (tmp_path / "g", tmp_path / "g", "b"),
        (tmp_path / "g", tmp_path / "g" / "b", None),
        (tmp_path / "g" / "a", tmp_path / "g", None),
        (group["a"], tmp_path / "g", None),
    ]:
        with pytest.raises(ArgumentError, match="source and target overlap"):
            tessarr.copy_to(source, target, target_path=path, overwrite=True)
    np.testing.assert_array_equal(group["a"][...], VALUES)
    tessarr.copy_to(group["a"], tmp_path / "g", target_path="b")  # beside it


def test_copy_to_dry_run_stores_nothing(rows, tmp_path):
    report = tessarr.copy_to(rows, tmp_path / "new", chunks=(60, 1), dry_run=True)
    assert not report.done
    assert str(report) == "/: array, 16,800 bytes, chunks (60, 1), re-encoded"
    assert json.loads(json.dumps(report.asdict()))["nodes"][0]["chunks"] == [60, 1]
    assert not (tmp_path / "new").exists()
    assert str(tessarr.copy_to(rows, tmp_path / "new.zip", dry_run=True)).endswith("are stored")
    assert not (tmp_path / "new.zip").exists()


def test_copy_to_missing_source_raises(tmp_path):
    with pytest.raises(NotFoundError):
        tessarr.copy_to(tmp_path / "nothing", tmp_path / "new")


def test_copy_to_skips_missing_chunks(tmp_path):
    counted = CountingStore(LocalStore(tmp_path / "old"))
    source = tessarr.create_array(counted, shape=(100_000, 1000), dtype="f8", chunks=(100, 100))
    source[555, 55] = 5
    report = []
    tessarr.copy_to(
        source,
        tmp_path / "new",
        chunks=(50, 500),
        memory_bytes=1 << 20,
        progress=lambda done, total: report.append((done, total)),
    )
    new = opened(tmp_path / "new")
    assert new.nchunks_initialized == 1
    assert new[555, 55] == 5
    assert report[-1] == (source.nbytes, source.nbytes)
    assert counted.counts()["opens"] < 20


def test_progress_ends_at_total(rows, tmp_path):
    for name, settings in (("a", {}), ("b", {"chunks": (7, 7)})):
        calls = []
        tessarr.copy_to(
            rows,
            tmp_path / name,
            memory_bytes=2000,
            progress=lambda done, total, calls=calls: calls.append((done, total)),
            **settings,
        )
        assert calls[-1] == (VALUES.nbytes, VALUES.nbytes)
        assert [done for done, _ in calls] == sorted(done for done, _ in calls)
        assert len(calls) > 3


def test_copy_to_with_scratch_reads_rows_once(tmp_path):
    values = np.arange(400 * 500, dtype="i4").reshape(400, 500)
    counted = CountingStore(LocalStore(tmp_path / "old"))
    source = tessarr.create_array(counted, data=values, chunks=(1, 500))
    settings = {"chunks": (400, 1), "memory_bytes": 60_000}
    report = tessarr.copy_to(source, tmp_path / "a", dry_run=True, **settings)
    assert report.nodes[0].decodes > 10
    assert "read 1" in str(report)
    before = counted.counts()["opens"]
    (tmp_path / "disk").mkdir()
    report = tessarr.copy_to(source, tmp_path / "a", scratch=tmp_path / "disk", **settings)
    assert report.nodes[0].decodes == 1
    assert counted.counts()["opens"] - before < 2.2 * 400  # one for its size, one to read it
    np.testing.assert_array_equal(opened(tmp_path / "a")[...], values)
    assert not list((tmp_path / "disk").iterdir())


def test_copy_to_uses_separator_of_store(tmp_path):
    source = tessarr.create_array(tmp_path / "old", data=VALUES, chunks=(30, 70), zarr_format=2)
    target = tessarr.storage.NestedDirectoryStore(str(tmp_path / "new"))
    for settings in ({}, {"chunks": (30, 35)}):
        tessarr.copy_to(source, target, overwrite=True, **settings)
        assert (tmp_path / "new" / "1" / "0").exists()
        np.testing.assert_array_equal(opened(tmp_path / "new")[...], VALUES)


def test_copy_to_closes_files_that_it_opened(rows, tmp_path):
    """The copy closes and completes zip files that it opened, and leaves the user's store open."""
    tessarr.copy_to(rows, tmp_path / "a.zip", chunks=(60, 1))
    with zipfile.ZipFile(tmp_path / "a.zip") as file:
        names = file.namelist()
    assert len(names) == len(set(names)) == 71  # without a journal
    tessarr.copy_to(tmp_path / "a.zip", tmp_path / "back")
    np.testing.assert_array_equal(opened(tmp_path / "back")[...], VALUES)
    with tessarr.storage.ZipStore(str(tmp_path / "b.zip"), mode="w") as store:
        tessarr.copy_to(rows, store, target_path="x")
        tessarr.copy_to(rows, store, target_path="y")
        assert sorted(tessarr.open_group(store, "r")) == ["x", "y"]


# From other libraries


@pytest.mark.parametrize("order", ["C", "F"])
def test_file_of_numpy_becomes_array(tmp_path, order):
    np.save(tmp_path / "v.npy", np.asarray(VALUES, order=order))
    tessarr.copy_to(tmp_path / "v.npy", tmp_path / "v.zarr", chunks=(20, 20))
    np.testing.assert_array_equal(tessarr.open_array(tmp_path / "v.zarr", "r")[...], VALUES)
    with pytest.raises(ArgumentError, match="an array has no node at path 'x'"):
        tessarr.copy_to(tmp_path / "v.npy", tmp_path / "x.zarr", path="x")


def test_damaged_or_pickled_numpy_file_is_refused(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object))
    (tmp_path / "short.npy").write_bytes(b"\x93NUMPY")
    for name in ("objects.npy", "short.npy"):
        with pytest.raises(DataError, match=rf"cannot read '.*{name}' as a file of NumPy: "):
            tessarr.copy_to(tmp_path / name, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_arrays_of_other_libraries_are_copied(tmp_path):
    import dask.array as da
    import zarr

    theirs = zarr.create_array(tmp_path / "z", shape=VALUES.shape, dtype="i4", chunks=(10, 10))
    theirs[...] = VALUES
    theirs.attrs["unit"] = "m"
    for i, source in enumerate((theirs, da.from_array(VALUES, chunks=20), VALUES)):
        tessarr.copy_to(source, tmp_path / f"new{i}", chunks=(6, 7))
        np.testing.assert_array_equal(opened(tmp_path / f"new{i}")[...], VALUES)
    assert opened(tmp_path / "new0").attrs["unit"] == "m"


# Interrupted


class StoppedError(Exception):
    """Replacement of KeyboardInterrupt."""


def interrupt(source, target, after, **settings):
    """Copy, and interrupt the copy at a number of bytes."""

    def progress(done, total):
        if done >= after * total:
            raise StoppedError

    with pytest.raises(StoppedError) as caught:
        tessarr.copy_to(source, target, progress=progress, **settings)
    assert "resume=True" in caught.value.__notes__[0]


SETTINGS = {
    "re-encoded": {"chunks": (60, 1), "memory_bytes": 1000},
    "as stored": {},
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_interrupted_copy_resumes(rows, tmp_path, kind):
    settings = SETTINGS[kind]
    target = tmp_path / "new"
    interrupt(rows, target, 0.5, **settings)
    with pytest.raises(NotFoundError):  # no incomplete node looks like an array
        opened(target)
    with pytest.raises(ExistsError, match="resume"):
        tessarr.copy_to(rows, target, **settings)
    counted = CountingStore(LocalStore(target))
    tessarr.copy_to(rows, counted, resume=True, **settings)
    np.testing.assert_array_equal(opened(target)[...], VALUES)
    assert counted.counts()["updates"] < 45  # out of 60 or 70 chunks
    assert not (target / JOURNAL).exists()


def test_resume_without_journal_starts_copy(rows, tmp_path):
    tessarr.copy_to(rows, tmp_path / "new", resume=True)
    np.testing.assert_array_equal(opened(tmp_path / "new")[...], VALUES)


def test_resume_with_changed_source_is_refused(rows, tmp_path):
    interrupt(rows, tmp_path / "new", 0.3)
    tessarr.open_array(rows)[0, 0] += 1
    with pytest.raises(ArgumentError, match="source has changed"):
        tessarr.copy_to(rows, tmp_path / "new", resume=True)
    tessarr.copy_to(rows, tmp_path / "new", overwrite=True)
    np.testing.assert_array_equal(opened(tmp_path / "new")[...], opened(rows)[...])


def test_other_settings_are_not_resumed(rows, tmp_path):
    interrupt(rows, tmp_path / "new", 0.3, chunks=(60, 1), memory_bytes=1000)
    for settings in ({"chunks": (60, 2)}, {}, {"chunks": (60, 1), "select": slice(0, 50)}):
        with pytest.raises(ArgumentError, match="other settings"):
            tessarr.copy_to(rows, tmp_path / "new", resume=True, **settings)


def test_resume_with_unversioned_source_is_refused(tmp_path):
    interrupt(VALUES, tmp_path / "new", 0.3, chunks=(60, 1), memory_bytes=1000)
    with pytest.raises(ArgumentError, match="source has changed"):
        tessarr.copy_to(VALUES, tmp_path / "new", resume=True, chunks=(60, 1), memory_bytes=1000)


def test_resuming_with_another_amount_of_memory_gives_same_array(rows, tmp_path):
    interrupt(rows, tmp_path / "new", 0.5, chunks=(60, 1), memory_bytes=1000)
    tessarr.copy_to(rows, tmp_path / "new", resume=True, chunks=(60, 1), memory_bytes=3000)
    np.testing.assert_array_equal(opened(tmp_path / "new")[...], VALUES)


@pytest.mark.parametrize("after", [0.1, 0.4, 0.7, 1])
def test_hierarchy_is_resumed_at_any_point(tmp_path, after):
    group = tessarr.create_group(tmp_path / "old")
    for name in "abc":
        group.create_array(f"g/{name}", data=VALUES, chunks=(10, 10))
    settings = {"chunks": (60, 1), "memory_bytes": 2000}
    interrupt(tmp_path / "old", tmp_path / "new", after, **settings)
    tessarr.copy_to(tmp_path / "old", tmp_path / "new", resume=True, **settings)
    new = tessarr.open_group(tmp_path / "new", "r")
    for name in "abc":
        np.testing.assert_array_equal(new[f"g/{name}"][...], VALUES)


@pytest.mark.parametrize("kind", ["folder", "zip", "memory"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_copy_to_resume_of_complete_copy_changes_nothing(tmp_path, kind, zarr_format):
    group = tessarr.create_group(tmp_path / "old", attributes={"title": "t"})
    group.create_array("g/a", data=VALUES, chunks=(20, 20), attributes={"u": [1.5]})
    group.create_array("text", data=["a", "b"], dtype=str)
    tessarr.consolidate_metadata(tmp_path / "old")
    target = {
        "folder": tmp_path / "new",
        "zip": tmp_path / "new.zip",
        "memory": MemoryStore(),
    }[kind]
    done = tessarr.copy_to(tmp_path / "old", target, zarr_format=zarr_format)
    assert not done.was_complete
    again = tessarr.copy_to(tmp_path / "old", target, zarr_format=zarr_format, resume=True)
    assert again.was_complete
    assert again.nodes == done.nodes
    np.testing.assert_array_equal(tessarr.open_group(target, "r")["g/a"][...], VALUES)


def test_resume_of_other_copy_raises(rows, tmp_path):
    tessarr.copy_to(rows, tmp_path / "new")
    for settings in ({"chunks": (5, 5)}, {"select": slice(0, 10)}):
        with pytest.raises(ExistsError, match="there is a node at the root of"):
            tessarr.copy_to(rows, tmp_path / "new", resume=True, **settings)
    group = tessarr.create_group(tmp_path / "group")
    group["a"] = VALUES
    tessarr.copy_to(tmp_path / "group", tmp_path / "part")
    group["b"] = VALUES
    with pytest.raises(ExistsError, match="there is a node at the root of"):
        tessarr.copy_to(tmp_path / "group", tmp_path / "part", resume=True)


def test_copy_to_foreign_journal_raises(rows, tmp_path):
    store = MemoryStore({JOURNAL: b"[]"})
    with pytest.raises(ValueError, match="no journal"):
        tessarr.copy_to(rows, store, resume=True)


def test_copy_of_unreadable_source_stores_nothing(tmp_path):
    group = tessarr.create_group(tmp_path / "old")
    group.create_array("a", data=VALUES)
    LocalStore(tmp_path / "old").put("b/zarr.json", b"{")
    with pytest.raises(ValueError, match=r"b/zarr\.json"):
        tessarr.copy_to(tmp_path / "old", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_array_of_format_1_is_copied_to_formats_2_and_3(tmp_path):
    old = tessarr.create_array(tmp_path / "old", data=VALUES, chunks=(20, 20), zarr_format=2)
    document = json.loads((tmp_path / "old" / ".zarray").read_text())
    document = {
        "zarr_format": 1,
        "shape": document["shape"],
        "chunks": document["chunks"],
        "dtype": document["dtype"],
        "fill_value": 0,
        "order": "C",
        "compression": "blosc",
        "compression_opts": {"cname": "lz4", "clevel": 5, "shuffle": 1},
    }
    (tmp_path / "old" / "meta").write_text(json.dumps(document))
    (tmp_path / "old" / "attrs").write_text("{}")
    (tmp_path / "old" / ".zarray").unlink()
    (tmp_path / "old" / ".zattrs").unlink()
    assert old.zarr_format == 2
    for form in (2, 3):
        tessarr.copy_to(tmp_path / "old", tmp_path / f"new{form}", zarr_format=form)
        new = opened(tmp_path / f"new{form}")
        assert new.zarr_format == form
        np.testing.assert_array_equal(new[...], VALUES)
