"""Hierarchies of other writers are walked as recorded, and ours by zarr-python."""

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
    found: dict[str, Any] = json.loads((ROOT / f"generated/tree/{name}.json").read_text("utf-8"))
    return found


def path_of(name: str) -> Path:
    row = next(row for row in table("generated/MANIFEST.tsv") if row["id"] == name)
    return ROOT / "generated" / row["path"]


@needs_corpus
@pytest.mark.parametrize("use", [None, False])
@pytest.mark.parametrize("name", WHOLE)
def test_generated_tree(name: str, use: bool | None) -> None:
    """Every node is found, with its attributes and contents, by copies and by looking."""
    root = tessarr.open_group(path_of(name), "r", use_consolidated=use)
    assert root.consolidated == (use is None and name in {"G2-T1", "G3-T3"})
    nodes = {"": root, **dict(root.members(None))}
    wanted = expected(name)
    assert nodes.keys() == wanted.keys()
    for path, node in nodes.items():
        want = wanted[path]
        assert node.attrs.asdict() == want["attributes"], path
        assert isinstance(node, tessarr.Array) == (want["type"] == "array")
        if isinstance(node, tessarr.Array):
            assert node.shape == tuple(want["shape"])
            assert node.dtype.newbyteorder("<").str == want["dtype"]
            assert digest(node[...]) == want["sha256"]


@pytest.mark.covers("V3-CONS-06")
@needs_corpus
def test_stale_copies() -> None:
    """A node by its own path is what its own document says; by copies, what they say."""
    path, want = path_of("G3-T4"), expected("G3-T4")["foo/arr"]
    own, copied = want["attributes_from_node"], want["attributes_from_consolidated"]
    assert tessarr.open_array(path, "r", path="foo/arr").attrs.asdict() == own
    assert tessarr.open_group(path, "r")["foo/arr"].attrs.asdict() == copied
    looked_up = tessarr.open_group(path, "r", use_consolidated=False)
    assert looked_up["foo/arr"].attrs.asdict() == own
    assert tessarr.consolidated_differences(path) == {"foo/arr": "changed"}


@pytest.mark.covers("V3-GRP-07")
@needs_corpus
def test_both_formats_at_one_path() -> None:
    path, want = path_of("G3-T5"), expected("G3-T5")[""]
    group = tessarr.open_group(path, "r")
    assert group.zarr_format == 3
    assert group.attrs.asdict() == want["attributes"]
    with pytest.warns(tessarr.errors.TessarrWarning, match="both zarr.json and .zgroup"):
        group.keys()
    assert tessarr.open_group(path, "r", zarr_format=2).zarr_format == 2


@needs_corpus
def test_no_implicit_groups() -> None:
    path = path_of("G3-T6")
    assert tessarr.open(path, "r", path="a/b/c").shape == (3,)
    for group in ("", "a", "a/b"):
        with pytest.raises(tessarr.errors.NotFoundError):
            tessarr.open(path, "r", path=group)


def stored(path: Path) -> dict[str, str]:
    """Every node that documents in a folder make, below the root, by plain looking."""
    found = {}
    for document in sorted(path.rglob("*")):
        at = document.parent.relative_to(path).as_posix()
        if document.name in {".zarray", ".zgroup"}:
            found[at] = "array" if document.name == ".zarray" else "group"
        elif document.name == "zarr.json":
            found[at] = json.loads(document.read_bytes())["node_type"]
    return {
        at: kind
        for at, kind in found.items()
        # Reached by groups only: all nodes above have to be such.
        if at != "." and all(found.get(str(above)) == "group" for above in Path(at).parents)
    }


@needs_corpus
@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in REAL])
def test_real_hierarchy(row: dict[str, str]) -> None:
    path = ROOT / "real" / row["path"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tessarr.errors.TessarrWarning)
        root = tessarr.open_group(path, "r", use_consolidated=False)
        found = root.tree().asdict()
        nodes = dict(root.members(None))
        kinds = {at: node["kind"] for at, node in found.items()}
        wanted = stored(path)
        readable = {at: kind for at, kind in wanted.items() if kinds.get(at) != "unreadable"}
        assert {at: kind for at, kind in kinds.items() if kind != "unreadable"} == readable
        assert kinds.keys() == wanted.keys()
        by_copies = tessarr.open_group(path, "r")
        assert by_copies.consolidated == ("unconsolidated" not in row["exercises"])
        if by_copies.consolidated:
            differences = tessarr.consolidated_differences(path)
            same = [at for at in nodes if at not in differences]
            # Some of GDAL's fixtures have the copies alone.
            assert same if nodes else "missing" not in differences.values()
            for at in same:
                if not isinstance(nodes[at], tessarr.Unreadable):
                    assert by_copies[at].metadata == nodes[at].metadata


def test_enough_hierarchies_are_in_scope() -> None:
    if ROOT.is_dir():
        assert len(REAL) >= 40
        assert {row["id"] for row in TREES} >= {*WHOLE, "G3-T4", "G3-T5", "G3-T6"}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_python_opens_ours_by_copies(tmp_path: Path, zarr_format: Any) -> None:
    """And sees the same after edits that kept the copies in step."""
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
            document.unlink()  # so that only the copies can be what is read
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
