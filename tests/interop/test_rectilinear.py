"""Rectilinear grids between Tessarr and zarr-python, which has them since 3.4 (Python 3.12)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr

zarr = pytest.importorskip("zarr", reason="zarr-python is not installed")

pytestmark = pytest.mark.skipif(
    "rectilinear_chunks" not in zarr.config.get("array", {}),
    reason="zarr-python before 3.4 has no rectilinear grids",
)

CASES: dict[str, dict[str, Any]] = {
    "lists": {"chunks": [[10, 20, 30], [5, 5, 7]]},
    "a list and a length": {"chunks": [[10, 20, 30], 4]},
    "runs": {"chunks": [[20, 20, 20], [1] * 17]},
    "over the edge": {"chunks": [[60], 100]},
    "shards": {"chunks": (5, 1), "shards": [[10, 20, 30], [4, 13]]},
    "shards of one length along an axis": {"chunks": (2, 5), "shards": [[10, 50], 10]},
}


@pytest.fixture(autouse=True)
def enabled() -> Any:
    with zarr.config.set({"array.rectilinear_chunks": True}):
        yield


def values() -> np.ndarray:
    return np.arange(60 * 17, dtype="i4").reshape(60, 17)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_zarr_reads_and_changes_what_tessarr_writes(tmp_path: Path, case: dict[str, Any]) -> None:
    ours = tessarr.create_array(tmp_path, shape=(60, 17), dtype="i4", compressors="zstd", **case)
    ours[:] = values()
    theirs = zarr.open_array(tmp_path, mode="r+")
    np.testing.assert_array_equal(theirs[:], values())
    assert theirs.read_chunk_sizes == ours.read_chunk_sizes
    assert theirs.write_chunk_sizes == ours.write_chunk_sizes
    theirs[9:11, 3:6] = -7
    np.testing.assert_array_equal(ours[:], theirs[:])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_tessarr_reads_what_zarr_writes(tmp_path: Path, case: dict[str, Any]) -> None:
    theirs = zarr.create_array(tmp_path, shape=(60, 17), dtype="i4", **case)
    theirs[:] = values()
    ours = tessarr.open_array(tmp_path)
    np.testing.assert_array_equal(ours[:], values())
    np.testing.assert_array_equal(ours[11:59:7, ::-3], values()[11:59:7, ::-3])
    document = json.loads((tmp_path / "zarr.json").read_bytes())["chunk_grid"]
    assert ours.metadata.chunk_grid.to_json() == json.loads(json.dumps(document))


def test_appends_by_both_libraries_are_read(tmp_path: Path) -> None:
    ours = tessarr.create_array(tmp_path, shape=(60, 17), dtype="i4", chunks=[[10, 20, 30], 4])
    ours[:] = values()
    zarr.open_array(tmp_path).append(values()[:3])
    ours.append(values()[:2])
    zarr.open_array(tmp_path).append(values()[:1])
    expected = np.concatenate([values(), values()[:3], values()[:2], values()[:1]])
    for array in (zarr.open_array(tmp_path), tessarr.open_array(tmp_path)):
        np.testing.assert_array_equal(array[:], expected)
    assert tessarr.open_array(tmp_path).chunks == ((10, 20, 30, 3, 2, 1), 4)


def test_shrunk_array_is_equal_in_both_libraries(tmp_path: Path) -> None:
    ours = tessarr.create_array(tmp_path, shape=(60, 17), dtype="i4", chunks=[[10, 20, 30], 4])
    ours[:] = values()
    ours.resize(25, 17)
    theirs = zarr.open_array(tmp_path)
    np.testing.assert_array_equal(theirs[:], values()[:25])
    theirs.resize((11, 17))
    np.testing.assert_array_equal(tessarr.open_array(tmp_path)[:], values()[:11])
