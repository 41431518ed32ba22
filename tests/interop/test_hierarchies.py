"""Hierarchies of other writers, and zarr-python's reads of Tessarr's hierarchies."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import tessarr
from interop.corpus import ROOT, digest, needs_corpus, table

TREES = [row for row in table("generated/MANIFEST.tsv") if row["canon"] != "raw"]
WHOLE = ("G2-T0", "G2-T1", "G3-T2", "G3-T3")
REAL = [
    row
    for row in table("real/MANIFEST.tsv")
    if row["kind"] == "hierarchy" and ".zip" not in row["path"] and row["expect"] == "read"
]


def expected(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((ROOT / f"generated/tree/{name}.json").read_text("utf-8"))
    return document


def path_of(name: str) -> Path:
    row = next(row for row in table("generated/MANIFEST.tsv") if row["id"] == name)
    return ROOT / "generated" / row["path"]


@needs_corpus
@pytest.mark.parametrize("use", [None, False])
@pytest.mark.parametrize("name", WHOLE)
def test_generated_hierarchy_is_read_as_recorded(name: str, use: bool | None) -> None:
    """Walks and consolidated metadata list every node with its attributes and contents."""
    root = tessarr.open_group(path_of(name), "r", use_consolidated=use)
    assert root.consolidated == (use is None and name in {"G2-T1", "G3-T3"})
    nodes = {"": root, **dict(root.members(None))}
    recorded = expected(name)
    assert nodes.keys() == recorded.keys()
    for path, node in nodes.items():
        want = recorded[path]
        assert node.attrs.asdict() == want["attributes"], path
        assert isinstance(node, tessarr.Array) == (want["type"] == "array")
        if isinstance(node, tessarr.Array):
            assert node.shape == tuple(want["shape"])
            assert node.dtype.newbyteorder("<").str == want["dtype"]
            assert digest(node[...]) == want["sha256"]


@pytest.mark.covers("V3-CONS-06")
@needs_corpus
def test_stale_consolidated_metadata_is_used_only_by_consolidated_group() -> None:
    """A node by its own path uses its own document; a consolidated group uses the copies."""
    path, want = path_of("G3-T4"), expected("G3-T4")["foo/arr"]
    own, copied = want["attributes_from_node"], want["attributes_from_consolidated"]
    assert tessarr.open_array(path, "r", path="foo/arr").attrs.asdict() == own
    assert tessarr.open_group(path, "r")["foo/arr"].attrs.asdict() == copied
    looked_up = tessarr.open_group(path, "r", use_consolidated=False)
    assert looked_up["foo/arr"].attrs.asdict() == own
    assert tessarr.consolidated_differences(path) == {"foo/arr": "changed"}


@pytest.mark.covers("V3-GRP-07")
@needs_corpus
def test_path_with_both_formats_opens_format_3() -> None:
    path, want = path_of("G3-T5"), expected("G3-T5")[""]
    group = tessarr.open_group(path, "r")
    assert group.zarr_format == 3
    assert group.attrs.asdict() == want["attributes"]
    with pytest.warns(tessarr.errors.TessarrWarning, match="both zarr.json and .zgroup"):
        set(group.keys())
    assert tessarr.open_group(path, "r", zarr_format=2).zarr_format == 2


@needs_corpus
def test_implicit_groups_are_absent() -> None:
    path = path_of("G3-T6")
    assert tessarr.open(path, "r", path="a/b/c").shape == (3,)
    for group in ("", "a", "a/b"):
        with pytest.raises(tessarr.errors.NotFoundError):
            tessarr.open(path, "r", path=group)


def stored(path: Path) -> dict[str, str]:
    """Return every node below the root with a document, by a plain walk."""
    nodes = {}
    for document in sorted(path.rglob("*")):
        path_ = document.parent.relative_to(path).as_posix()
        if document.name in {".zarray", ".zgroup"}:
            nodes[path_] = "array" if document.name == ".zarray" else "group"
        elif document.name == "zarr.json":
            nodes[path_] = json.loads(document.read_bytes())["node_type"]
    return {
        path_: kind
        for path_, kind in nodes.items()
        # All nodes above must be groups.
        if path_ != "." and all(nodes.get(str(above)) == "group" for above in Path(path_).parents)
    }


@needs_corpus
@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in REAL])
def test_real_hierarchy_is_read_as_recorded(row: dict[str, str]) -> None:
    path = ROOT / "real" / row["path"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tessarr.errors.TessarrWarning)
        root = tessarr.open_group(path, "r", use_consolidated=False)
        tree = root.tree().asdict()
        nodes = dict(root.members(None))
        kinds = {path_: node["kind"] for path_, node in tree.items()}
        expected = stored(path)
        readable = {
            path_: kind for path_, kind in expected.items() if kinds.get(path_) != "unreadable"
        }
        assert {path_: kind for path_, kind in kinds.items() if kind != "unreadable"} == readable
        assert kinds.keys() == expected.keys()
        by_copies = tessarr.open_group(path, "r")
        assert by_copies.consolidated == ("unconsolidated" not in row["exercises"])
        if by_copies.consolidated:
            differences = tessarr.consolidated_differences(path)
            same = [path_ for path_ in nodes if path_ not in differences]
            # Some of GDAL's fixtures have only consolidated metadata.
            assert same if nodes else "missing" not in differences.values()
            for path_ in same:
                if not isinstance(nodes[path_], tessarr.Unreadable):
                    assert by_copies[path_].metadata == nodes[path_].metadata


def test_corpus_has_enough_hierarchies() -> None:
    if ROOT.is_dir():
        assert len(REAL) >= 40
        assert {row["id"] for row in TREES} >= {*WHOLE, "G3-T4", "G3-T5", "G3-T6"}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_python_reads_our_consolidated_metadata(tmp_path: Path, zarr_format: Any) -> None:
    """zarr-python sees the same after edits that update the consolidated metadata."""
    root = tessarr.create_group(tmp_path / "s", zarr_format=zarr_format, attributes={"t": 1})
    root.create_array("foo/a", data=np.arange(6), chunks=4, attributes={"u": [1, None]})
    root.create_group("foo/bar")
    tessarr.consolidate_metadata(tmp_path / "s")
    root["foo/a"].attrs["more"] = True
    root.create_array("late/b", shape=2, dtype="u1")
    del root["foo/bar"]
    shutil.copytree(tmp_path / "s", tmp_path / "bare")
    for document in (tmp_path / "bare").rglob("*/*"):
        if document.name in {"zarr.json", ".zarray", ".zgroup", ".zattrs"}:
            document.unlink()  # so that a read can only use the copies
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = zarr.open_consolidated(str(tmp_path / "bare"), mode="r", zarr_format=zarr_format)
        assert sorted(path for path, _ in theirs.members(max_depth=None)) == [
            "foo", "foo/a", "late", "late/b",
        ]  # fmt: skip
        assert dict(theirs["foo/a"].attrs) == {"u": [1, None], "more": True}
        np.testing.assert_array_equal(theirs["foo/a"][:], np.arange(6))
        ours = zarr.open_group(str(tmp_path / "s"), mode="r+")
        ours["foo"].attrs["who"] = "zarr"
        zarr.consolidate_metadata(str(tmp_path / "s"))
    assert tessarr.consolidated_differences(tmp_path / "s") == {}
    assert tessarr.open_consolidated(tmp_path / "s")["foo"].attrs["who"] == "zarr"


CONVERTED: dict[str, dict[str, Any]] = {
    "default": {},
    "order F, big-endian": {"order": "F", "dtype": ">f8"},
    "zstd": {"compressors": {"id": "zstd", "level": 3}, "dtype": "u1"},
    "bool": {"dtype": "?", "fill_value": True},
    "NaN": {"dtype": "f4", "fill_value": np.nan, "compressors": None},
    "complex": {"dtype": ">c16"},
}


@pytest.mark.covers("ALL-10")
@pytest.mark.parametrize("name", CONVERTED)
@pytest.mark.parametrize("to", [2, 3])
def test_zarr_python_reads_converted_arrays(tmp_path: Path, name: str, to: Any) -> None:
    """zarr-python reads the same values from the same chunks in both formats."""
    settings: dict[str, Any] = {"dtype": "i4", **CONVERTED[name]}
    if to == 2:
        settings["chunk_key_encoding"] = "v2"
    path = tmp_path / "s"
    root = tessarr.create_group(path, zarr_format=5 - to, attributes={"t": [1, None]})
    a = root.create_array("g/a", shape=(5, 7), chunks=(2, 3), attributes={"u": "m"}, **settings)
    a[:4] = np.arange(28).reshape(4, 7) % 2
    expected = a[...]
    tessarr.convert(path, to=to)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = zarr.open_group(str(path), mode="r", zarr_format=to)
        assert dict(theirs.attrs) == {"t": [1, None]}
        array = theirs["g/a"]
        np.testing.assert_array_equal(array[:], expected)
        assert dict(array.attrs) == {"u": "m"}


@pytest.mark.covers("ALL-10")
def test_zarr_python_hierarchy_is_converted_and_read_by_it(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root = zarr.create_group(str(path), zarr_format=2, attributes={"t": 1})
        for name in ("x", "b/y"):
            array = root.create_array(name, shape=(5, 7), chunks=(2, 3), dtype="<i4")
            array[:] = np.arange(35).reshape(5, 7)
        zarr.consolidate_metadata(str(path))
    tessarr.convert(path, to=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = zarr.open_consolidated(str(path), mode="r")
        for name in ("x", "b/y"):
            np.testing.assert_array_equal(theirs[name][:], np.arange(35).reshape(5, 7))
        assert dict(theirs.attrs) == {"t": 1}


LACKING = (
    "the fields of a record have one byte order in format 3",
    "format 3 has no fields that are arrays",
)


@needs_corpus
@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row["id"])
        for row in table("generated/MANIFEST.tsv")
        if row["format"] == "2" and row["canon"] == "raw" and ".zip" not in row["path"]
    ],
)
def test_generated_arrays_of_format_2_are_converted(tmp_path: Path, row: dict[str, str]) -> None:
    """Each reads the same in format 3 and again in format 2, or the error names the obstacle."""
    path = tmp_path / "s"
    shutil.copytree(ROOT / "generated" / row["path"], path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            before = tessarr.open_array(path, "r")
            values = before[...]
        except (tessarr.errors.UnsupportedError, tessarr.errors.DataError):
            return  # the tests of the corpus report it
        documents = {f.name: f.read_bytes() for f in path.iterdir() if f.name.startswith(".z")}
        plan = tessarr.convert(path, to=3, dry_run=True)
        assert {
            f.name: f.read_bytes() for f in path.iterdir() if f.name.startswith(".z")
        } == documents
        if not plan.possible:
            assert any(reason in str(plan) for reason in LACKING), plan
            return
        tessarr.convert(path, to=3)
        after = tessarr.open_array(path, "r")
        assert (after.zarr_format, after.chunks) == (3, before.chunks)
        assert after.attrs.asdict() == before.attrs.asdict()
        assert after[...].tobytes() == values.astype(after.dtype).tobytes()
        tessarr.convert(path, to=2)
        assert tessarr.open_array(path, "r")[...].tobytes() == values.tobytes()
