"""``tessarr-conformance`` with the interface of the suite of the Zarr developers."""

from __future__ import annotations

import json
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from interop.corpus import ROOT, digest, needs_corpus, table
from tessarr.cli.conformance import main

SUITE = [row for row in table("real/MANIFEST.tsv") if "zarr-conformance-tests" in row["path"]]


def printed(path: Any, capsys: pytest.CaptureFixture[str]) -> Any:
    assert main([f"--array_path={path}"]) == 0
    return json.loads(capsys.readouterr().out)


@needs_corpus
@pytest.mark.parametrize("row", SUITE, ids=lambda row: row["id"])
def test_arrays_of_suite(row: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """The output equals the recorded elements."""
    result = printed(ROOT / "real" / row["path"], capsys)
    values = np.array(result, row["dtype"]).reshape(json.loads(row["shape"]))
    assert digest(values) == row["sha256"]


CASES: list[tuple[str, Any, Any]] = [
    ("bool", [[True, False]], [True, False]),
    ("int64", [[-(2**63), 2**63 - 1]], [-(2**63), 2**63 - 1]),
    ("uint64", [2**64 - 1], [2**64 - 1]),
    ("float32", [0.1, -0.0], [0.10000000149011612, -0.0]),
    ("float64", [np.nan, np.inf, -np.inf], ["NaN", "Infinity", "-Infinity"]),
    ("complex64", [1 + 2j, complex(np.nan, -np.inf)], [[1.0, 2.0], ["NaN", "-Infinity"]]),
    ("V2", np.array([b"ab", b"\0\xff"], "V2"), [[97, 98], [0, 255]]),
    ("int8", np.zeros((0, 3)), []),
    ("int8", 5, [5]),
]


@pytest.mark.parametrize(("dtype", "values", "expected"), CASES)
def test_conformance_prints_elements_as_fill_values(
    dtype: str, values: Any, expected: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each data type has its format of output."""
    data = np.asarray(values, dtype)
    tessarr.create_array(tmp_path, shape=data.shape, dtype=dtype, data=data)
    result = printed(tmp_path, capsys)
    assert result == expected
    assert json.dumps(result) == json.dumps(expected)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("order", ["C", "F"])
def test_elements_are_in_c_order(
    zarr_format: Any, order: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output has C order for every format, memory order and chunk shape."""
    data = np.arange(30).reshape(5, 6)
    tessarr.create_array(
        tmp_path, data=data, chunks=(2, 4), order=order, zarr_format=zarr_format, dtype=">i4"
    )
    assert printed(tmp_path, capsys) == list(range(30))


def test_bits_of_nan_are_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A NaN with a payload is printed as its bits."""
    data = np.array([0x7FC00001, 0x7FC00000], "u4").view("f4")
    tessarr.create_array(tmp_path, data=data, shape=(2,), dtype="f4")
    assert printed(tmp_path, capsys) == ["0x7fc00001", "NaN"]


def test_conformance_of_unreadable_array_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason is one line on stderr."""
    assert main([f"--array_path={tmp_path}"]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("tessarr-conformance: there is no array")
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2


def test_conformance_is_installed_command() -> None:
    """The table of scripts in pyproject.toml names the function."""
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8")
    script = tomllib.loads(text)["project"]["scripts"]["tessarr-conformance"]
    assert EntryPoint("tessarr-conformance", script, "console_scripts").load() is main
