"""``tessarr diff``: every difference is reported, and no other."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import tessarr
from tessarr.cli import diff_nodes

if TYPE_CHECKING:
    from cli.conftest import Run

VALUES = np.arange(48.0).reshape(6, 8)


def make(name: str, values: Any, **settings: Any) -> None:
    tessarr.create_array(name, data=values, overwrite=True, **settings)


def differences(run: Run, *arguments: Any) -> list[dict[str, Any]]:
    code, out, _ = run("diff", *arguments, "--json")
    listed: list[dict[str, Any]] = json.loads(out)
    assert code == (1 if listed else 0)
    return listed


def test_no_difference(here: Path, run: Run) -> None:
    """The command prints nothing for equal nodes."""
    make("a", VALUES)
    shutil.copytree("a", "b")
    assert run("diff", "a", "b") == (0, "", "")
    assert differences(run, "a", "b") == []
    assert differences(run, "a", "a") == []


@pytest.mark.parametrize("settings", [{}, {"chunks": (4, 3)}, {"zarr_format": 2, "order": "F"}])
def test_values(here: Path, run: Run, settings: dict[str, Any]) -> None:
    """The report has the count, the largest difference and its first position, for any layout."""
    make("a", VALUES, chunks=(3, 4))
    other = VALUES.copy()
    other[1, 5] += 0.5
    other[4, 0] -= 2
    make("b", other, **({"chunks": (3, 4)} | settings))
    (difference,) = differences(run, "a", "b", "--only", "values")
    assert difference == {
        "path": "",
        "what": "values",
        "name": "",
        "first": 13.0,
        "second": 13.5,
        "count": 2,
        "size": 48,
        "largest": 2.0,
        "at": [1, 5],
    }
    code, out, _ = run("diff", "a", "b", "--only", "values")
    assert code == 1
    assert out == "/: 2 of 48 values differ by at most 2; first at [1, 5]: 13.0 ≠ 13.5\n"


def test_tolerance(here: Path, run: Run) -> None:
    """The tolerance is absolute, or relative to the second array."""
    make("a", np.array([1.0, 100.0, -5.0]))
    make("b", np.array([1.0, 101.0, -5.01]))
    assert differences(run, "a", "b")[0]["count"] == 2
    assert differences(run, "a", "b", "--atol", "0.02")[0]["at"] == [1]
    assert differences(run, "a", "b", "--atol", "1") == []
    assert differences(run, "a", "b", "--rtol", "0.01") == []
    assert differences(run, "a", "b", "--rtol", "0.0099")[0]["at"] == [1]
    assert run("diff", "a", "b", "--rtol", "-1")[0] == 2
    assert run("diff", "a", "b", "--atol", "nan")[0] == 2


@pytest.mark.parametrize("dtype", ["f4", "c8", "M8[s]", [("x", "i4"), ("y", "f8")]])
@pytest.mark.parametrize("chunks", [2, 3])
def test_diff_equal_nan_compares_nan(here: Path, run: Run, dtype: Any, chunks: int) -> None:
    """NaN equals NaN unless an option says otherwise, also for equal stored bytes."""
    values = np.zeros(4, dtype)
    part = values["y"] if values.dtype.names else values
    part[2] = "NaT" if values.dtype.kind == "M" else np.nan
    make("a", values, chunks=2)
    make("b", values, chunks=chunks)
    assert differences(run, "a", "b", "--only", "values") == []
    (difference,) = differences(run, "a", "b", "--only", "values", "--no-equal-nan")
    assert (difference["count"], difference["at"]) == (1, [2])
    part[2] = part[1]
    make("b", values, chunks=chunks)
    assert differences(run, "a", "b", "--only", "values")[0]["at"] == [2]


@pytest.mark.parametrize(
    ("values", "other", "largest"),
    [
        (np.array([0, 255], "u1"), np.array([255, 255], "u1"), 255),
        (np.array([2**63], "u8"), np.array([2**63 + 1], "u8"), 1),
        (np.array([1], "i4"), np.array([1.5]), 0.5),
        (np.array([True]), np.array([False]), 1),
        (np.array([1 + 1j]), np.array([1 - 2j]), 3),
        (np.array([np.inf]), np.array([1.0]), None),
        (np.array(["a", "b"], "U1"), np.array(["a", "c"], "U1"), None),
    ],
)
def test_differences_of_data_types(
    here: Path, run: Run, values: Any, other: Any, largest: float | None
) -> None:
    """Small integers do not wrap, large integers are exact, and data types may differ."""
    make("a", values)
    make("b", other)
    (difference,) = differences(run, "a", "b", "--only", "values")
    assert (difference["count"], difference["largest"]) == (1, largest)


def test_text_and_objects(here: Path, run: Run) -> None:
    """Elements have variable length."""
    make("a", np.array(["x", "yy", ""], object), dtype=str)
    make("b", np.array(["x", "y", ""], object), dtype=str, chunks=1)
    (difference,) = differences(run, "a", "b", "--only", "values")
    assert (difference["first"], difference["second"], difference["at"]) == ("yy", "y", [1])


def test_no_dimensions_and_no_elements(here: Path, run: Run) -> None:
    """A scalar has no position, and an empty array has no values."""
    make("a", np.array(1))
    make("b", np.array(2), compressors=None)
    assert differences(run, "a", "b", "--only", "values")[0]["at"] == []
    make("a", np.zeros((0, 3)))
    make("b", np.zeros((0, 3)), compressors=None)
    assert differences(run, "a", "b", "--only", "values") == []


def test_metadata_and_storage(here: Path, run: Run) -> None:
    """The report lists each property by name, for metadata and storage."""
    make("a", VALUES.astype(">f4"), chunks=(3, 4), dimension_names=("y", "x"), zarr_format=3)
    make("b", VALUES, chunks=(6, 8), fill_value=1, zarr_format=2, compressors=None)
    listed = {(d["what"], d["name"]): (d["first"], d["second"]) for d in differences(run, "a", "b")}
    assert listed["metadata", "data type"] == ("float32", "float64")
    assert listed["metadata", "fill value"] == (0.0, 1.0)
    assert listed["metadata", "dimension names"] == (["y", "x"], None)
    assert listed["storage", "format"] == (3, 2)
    assert listed["storage", "chunks"] == ([3, 4], [6, 8])
    assert {("storage", "codecs"), ("storage", "chunk keys")} <= set(listed)
    assert not any(kind == "values" for kind, _ in listed)
    only = {d["what"] for d in differences(run, "a", "b", "--only", "metadata")}
    assert only == {"metadata"}
    assert differences(run, "a", "b", "--ignore", "metadata,storage") == []


def test_shapes(here: Path, run: Run) -> None:
    """Arrays of different shapes do not compare values, and raise no error."""
    make("a", VALUES)
    make("b", VALUES[:5])
    (difference,) = differences(run, "a", "b", "--ignore", "storage")
    assert (difference["name"], difference["first"], difference["second"]) == (
        "shape",
        [6, 8],
        [5, 8],
    )
    assert differences(run, "a", "b", "--only", "values") == [difference]


def test_attributes(here: Path, run: Run) -> None:
    """Attributes are changed, added or removed; 1 does not equal true."""
    make("a", VALUES, attributes={"same": {"x": [1, None]}, "n": 1, "gone": 1})
    make("b", VALUES, attributes={"same": {"x": [1, None]}, "n": True, "new": [2]})
    listed = {d["name"]: (d["first"], d["second"]) for d in differences(run, "a", "b")}
    assert listed == {"n": (1, True), "gone": (1, None), "new": (None, [2])}
    _, out, _ = run("diff", "a", "b")
    assert out == (
        "/: attribute gone: 1 ≠ none\n/: attribute n: 1 ≠ true\n/: attribute new: none ≠ [2]\n"
    )


def test_hierarchies(here: Path, run: Run) -> None:
    """A group on one side is reported once, with its members."""
    for name in ("a", "b"):
        g = tessarr.create_group(name)
        g.create_array("same", data=VALUES)
        g.create_array("changed", data=VALUES + (name == "b"))
    tessarr.open_group("a").create_array("left/deep/x", data=VALUES)
    tessarr.open_group("a").create_group("kind")
    tessarr.open_group("b").create_array("kind", data=VALUES)
    tessarr.open_group("b").create_array("leftover", data=VALUES)
    code, out, _ = run("diff", "a", "b")
    assert code == 1
    assert out.splitlines() == [
        "/changed: 48 of 48 values differ by at most 1; first at [0, 0]: 0.0 ≠ 1.0",
        "/kind: group ≠ array",
        "/left: group only in a",
        "/leftover: array only in b",
    ]
    assert differences(run, "a/same", "b/same") == []
    assert differences(run, "a", "b/same")[-1]["what"] == "node"


def test_formats(here: Path, run: Run) -> None:
    """A converted hierarchy has equal values, attributes and metadata."""
    tessarr.create_group("a", zarr_format=2).create_array("x", data=VALUES, chunks=(2, 3))
    tessarr.convert("a", "b", to=3)
    assert differences(run, "a", "b", "--ignore", "storage") == []
    assert {d["path"] for d in differences(run, "a", "b")} == {"", "x"}


def test_diff_ignores_consolidated_metadata(here: Path, run: Run) -> None:
    """The command reads no consolidated metadata, which may be stale."""
    tessarr.create_group("a").create_array("x", data=VALUES)
    tessarr.consolidate_metadata("a")
    shutil.copytree("a", "b")
    document = here / "b/x/zarr.json"
    document.write_text(document.read_text().replace("float64", "float32"))
    assert "data type" in {d["name"] for d in differences(run, "a", "b", "--ignore", "values")}


def test_quiet(here: Path, run: Run) -> None:
    """Only the exit code reports the result."""
    make("a", VALUES)
    make("b", VALUES + 1)
    assert run("diff", "-q", "a", "b") == (1, "", "")
    assert run("diff", "-q", "a", "a") == (0, "", "")


def test_diff_of_absent_node_exits_2(here: Path, run: Run) -> None:
    """Absent, damaged and unreadable nodes lead to exit code 2, or to a reported difference."""
    make("a", VALUES, chunks=(3, 4))
    make("b", VALUES + 1, chunks=(3, 4))
    assert run("diff", "a", "nowhere")[0] == 2
    code, _, err = run("diff", "a", "b", "--only", "value")
    assert code == 2
    assert "there is no 'value'; did you mean 'values'?" in err
    (here / "b/c/1/1").write_bytes(b"bad")
    code, _, err = run("diff", "a", "b")
    assert code == 2
    assert "cannot decode chunk (1, 1)" in err
    tessarr.create_group("g").create_array("x", data=1)
    shutil.copytree("g", "h")
    (here / "h/x/zarr.json").write_text("{")
    assert differences(run, "g", "h")[0]["second"] == "unreadable"


def test_diff_compares_absent_chunks_as_fill(here: Path, run: Run) -> None:
    """Absent chunks are compared as the fill value."""
    make("a", np.zeros((6, 8)), chunks=(3, 4), write_empty_chunks=True)
    make("b", np.zeros((6, 8)), chunks=(3, 4))
    assert differences(run, "a", "b") == []
    tessarr.open_array("a")[5, 7] = 1
    assert differences(run, "a", "b")[0]["at"] == [5, 7]
    make("b", np.zeros((6, 8)), chunks=(6, 8), compressors=None)
    assert differences(run, "a", "b", "--only", "values")[0]["at"] == [5, 7]


def test_large_and_empty(here: Path, run: Run) -> None:
    """Arrays of petabytes without stored chunks are compared at once."""
    for name in ("a", "b"):
        tessarr.create_array(name, shape=(1 << 50,), chunks=(1 << 20,), dtype="u1")
    assert differences(run, "a", "b") == []
    tessarr.open_array("b")[1 << 49] = 1
    assert differences(run, "a", "b")[0]["at"] == [1 << 49]


@pytest.mark.parametrize("shards", [None, (4, 4)])
def test_diff_compares_region_by_region(
    here: Path, run: Run, shards: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small regions report the same differences as large ones."""
    random = np.random.default_rng(0)
    values = random.integers(0, 9, (13, 11))
    other = np.where(random.random((13, 11)) < 0.1, values + 1, values)
    make("a", values, chunks=(2, 2), shards=shards)
    make("b", other, chunks=(2, 2), shards=shards)
    make("c", other, chunks=(5, 3))
    for most in (1, 100, 1 << 20):
        monkeypatch.setattr(diff_nodes, "_REGION_BYTES", most)
        for name in ("b", "c"):
            (difference,) = differences(run, "a", name, "--only", "values")
            assert difference["count"] == np.count_nonzero(values != other)
            assert difference["at"] == np.argwhere(values != other)[0].tolist()
