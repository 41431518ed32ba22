"""SIGKILL during a resize: removed elements never reappear."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from fault.killing import marks, rounds
from tessarr.stores import SQLiteStore

pytestmark = marks

LAYOUTS: dict[str, dict[str, Any]] = {
    "v3": {"chunks": (7, 6)},
    "v3 shards": {"chunks": (2, 3), "shards": (8, 6)},
    "v2": {"chunks": (7, 6), "zarr_format": 2},
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_killed_shrink_reads_fill_after_growth(tmp_path: Path, layout: str) -> None:
    """After SIGKILL at any time, the array has the old or the smaller shape; growth shows fill."""
    values = np.arange(1, 32 * 30 + 1).reshape(32, 30)

    def prepare(folder: Path) -> Callable[[], object]:
        path = folder / "a.zarr"
        tessarr.create_array(path, data=values, fill_value=-1, **LAYOUTS[layout])
        return lambda: tessarr.open_array(path, mode="r+").resize(10, 9)

    shapes = set()
    for folder in rounds(tmp_path, prepare):
        array = tessarr.open_array(folder / "a.zarr", mode="r+")
        shapes.add(array.shape)
        shape = array.shape
        np.testing.assert_array_equal(array[:], values[: shape[0], : shape[1]])
        array.resize(37, 36)
        expected = np.full((37, 36), -1)
        expected[: shape[0], : shape[1]] = values[: shape[0], : shape[1]]
        np.testing.assert_array_equal(tessarr.open_array(folder / "a.zarr")[:], expected)
    assert shapes == {(32, 30), (10, 9)}


@pytest.mark.slow
def test_killed_growth_leaves_old_or_new_shape(tmp_path: Path) -> None:
    """After SIGKILL at any time of a growth, the old elements remain and the new ones are fill."""
    values = np.arange(1, 32 * 30 + 1).reshape(32, 30)

    def prepare(folder: Path) -> Callable[[], object]:
        path = folder / "a.zarr"
        array = tessarr.create_array(path, data=values, fill_value=-1, chunks=(7, 6))
        array.resize(10, 9, delete_outside_chunks=False)  # what a killed program may leave
        return lambda: tessarr.open_array(path, mode="r+").resize(32, 30)

    shapes = set()
    for folder in rounds(tmp_path, prepare):
        array = tessarr.open_array(folder / "a.zarr", mode="r+")
        shapes.add(array.shape)
        expected = np.full((32, 30), -1)
        expected[:10, :9] = values[:10, :9]
        np.testing.assert_array_equal(array[:], expected[: array.shape[0], : array.shape[1]])
        array.resize(32, 30)
        np.testing.assert_array_equal(tessarr.open_array(folder / "a.zarr")[:], expected)
    assert shapes == {(32, 30), (10, 9)}


def test_killed_shrink_in_sqlite_reads_fill_after_growth(tmp_path: Path) -> None:
    """The array is stored in a file of SQLite."""
    values = np.arange(1, 31)

    def prepare(folder: Path) -> Callable[[], object]:
        with SQLiteStore(folder / "a.sqlite") as store:
            tessarr.create_array(store, data=values, chunks=4)

        def shrink() -> None:
            with SQLiteStore(folder / "a.sqlite") as opened:
                tessarr.open_array(opened, mode="r+").resize(3)

        return shrink

    for folder in rounds(tmp_path, prepare):
        with SQLiteStore(folder / "a.sqlite") as store:
            array = tessarr.open_array(store, mode="r+")
            length = len(array)
            assert length in (30, 3)
            array.resize(40)
            np.testing.assert_array_equal(array[:length], values[:length])
            assert not array[length:].any()
