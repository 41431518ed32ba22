"""``tessarr stats``: output, selections, groups, files of other formats, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import tessarr

if TYPE_CHECKING:
    from cli.conftest import Run


def create_weather(folder: Path) -> None:
    root = tessarr.open_group(folder / "w.zarr", mode="w", zarr_format=3)
    names = ("time", "lat")
    root.create_array("t", data=np.arange(24.0).reshape(4, 6), chunks=(2, 6), dimension_names=names)
    root.create_array("k", data=np.array([3, 1, 2], "u1"), attributes={"scale_factor": 0.5})
    root.create_array("records", data=np.zeros(2, [("x", "i4")]))
    root.create_array("raw", shape=2, dtype="V3")


def test_stats_of_array_prints_table_and_histogram(run: Run, here: Path) -> None:
    """Each line names a statistic; the histogram has one line for each bin."""
    create_weather(here)
    code, out, err = run("stats", "w.zarr/t", "--bins", 4)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["count", "24"]
    assert lines[1:4] == ["min    0", "max    23", "mean   11.5"]
    assert [line.split()[:2] for line in lines[-3:]] == [["0", "8"], ["8", "8"], ["16", "8"]]


def test_stats_json_has_all_statistics(run: Run, here: Path) -> None:
    """A program can read the edges and the counts."""
    create_weather(here)
    code, out, _ = run("stats", "w.zarr/t", "time=0,lat=::2", "--json", "--bins", 2)
    assert code == 0
    assert json.loads(out) == {
        "path": "/t",
        "data_type": "float64",
        "count": 3,
        "nan_count": 0,
        "inf_count": 0,
        "min": 0.0,
        "max": 4.0,
        "sum": 6.0,
        "mean": 2.0,
        "std": pytest.approx(1.632993161855452),
        "histogram": {"edges": [0.0, 4.0, 8.0], "counts": [2, 1]},
    }


def test_stats_of_packed_array_notes_attributes(run: Run, here: Path) -> None:
    """The statistics are those of the stored numbers."""
    create_weather(here)
    code, out, err = run("stats", "w.zarr/k", "--bins", 0)
    assert (code, out.splitlines()[2]) == (0, "max    3")
    assert "scale_factor" in err


def test_stats_of_group_lists_all_arrays(run: Run, here: Path) -> None:
    """Arrays without statistics have dashes."""
    create_weather(here)
    code, out, _ = run("stats", "w.zarr")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert code == 0
    assert rows["t"] == ["float64", "0", "0", "23", "11.5", "6.92218655"]
    assert rows["k"][:4] == ["uint8", "0", "1", "3"]
    assert rows["records"][-5:] == rows["raw"][-5:] == ["–"] * 5
    code, out, _ = run("stats", "w.zarr", "--json")
    listed = {item["path"]: item for item in json.loads(out)}
    assert listed["/t"]["histogram"]["counts"]
    assert "'x'" in listed["/records"]["message"]


def test_stats_of_group_with_damaged_chunk_shows_the_others(run: Run, here: Path) -> None:
    """The exit code is 1."""
    create_weather(here)
    (here / "w.zarr/t/c/0/0").write_bytes(b"damaged")
    code, out, err = run("stats", "w.zarr")
    assert code == 1
    assert "k" in out
    assert "cannot decode" in err


def test_stats_errors_are_one_line(run: Run, here: Path) -> None:
    """A group has no selection; bins have a range; dimensions have names."""
    create_weather(here)
    assert run("stats", "w.zarr", "0")[0] == 1
    assert "bins" in run("stats", "w.zarr/t", "--bins", 1)[2]
    code, _, err = run("stats", "w.zarr/t", "tim=0")
    assert code == 1
    assert "did you mean 'time'?" in err
    assert (
        "tessarr: select one field of array '/records' for statistics: 'x'"
        in (run("stats", "w.zarr/records")[2])
    )


def test_stats_histogram_fits_the_terminal(
    run: Run, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bars become shorter on a narrow terminal."""
    create_weather(here)
    monkeypatch.setattr("tessarr.cli.stats.get_width", lambda: 30)
    monkeypatch.setattr("tessarr.cli.tables.get_width", lambda: 30)
    _, out, _ = run("stats", "w.zarr/t")
    assert max(map(len, out.splitlines())) <= 30
