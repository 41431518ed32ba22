"""Large selections of points, lists and masks, compared with NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.indexing import select, select_outer
from tessarr.indexing.selection import find_touched_cells
from tessarr.testing.walk import check_selection, read_selection, write_selection

SHAPE = (120, 90)
LAYOUTS: dict[str, dict[str, Any]] = {
    "one chunk": {"chunks": SHAPE},
    "many chunks": {"chunks": (7, 16)},
    "more chunks than points": {"chunks": (1, 1)},
    "shards": {"chunks": (5, 10), "shards": (40, 30)},
    "rectilinear": {"chunks": ([100, 20], [3, 80, 7])},
}


def draw_points(count: int) -> np.ndarray:
    rng = np.random.default_rng(count)
    return np.stack([rng.integers(0, size, count) for size in SHAPE])


def in_chunk_order(points: np.ndarray) -> np.ndarray:
    return points[:, np.lexsort((points[1] // 16, points[0] // 7))]


ORDERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "random": lambda points: points,
    "sorted": lambda points: points[:, np.lexsort(points[::-1])],
    "grouped": in_chunk_order,
    "grouped backwards": lambda points: in_chunk_order(points)[:, ::-1],
    "repeated": lambda points: points // 30,
    "negative": lambda points: points - np.array(SHAPE)[:, None],
}


@pytest.fixture(params=LAYOUTS)
def array(request: pytest.FixtureRequest) -> tessarr.Array:
    a = tessarr.create_array(None, shape=SHAPE, dtype="i4", **LAYOUTS[request.param])
    a[...] = np.arange(np.prod(SHAPE)).reshape(SHAPE)
    return a


@pytest.mark.parametrize("count", [1, 300, 5000])
@pytest.mark.parametrize("order", ORDERS)
def test_points_match_numpy(array: tessarr.Array, order: str, count: int) -> None:
    """Reads in any order; of repeated points the last value is stored."""
    key = tuple(ORDERS[order](draw_points(count)))
    model = array[...]
    np.testing.assert_array_equal(array.vindex[key], model[key])
    array.vindex[key] = np.arange(count)
    model[key] = np.arange(count)
    np.testing.assert_array_equal(array[...], model)


@pytest.mark.parametrize("count", [0, 1, 300, 5000])
def test_outer_lists_match_numpy(array: tessarr.Array, count: int) -> None:
    """Random lists with repeated indices."""
    rows, columns = draw_points(count)
    model = array[...]
    key = np.ix_(rows, columns[:7])
    np.testing.assert_array_equal(array.oindex[rows, columns[:7]], model[key])
    values = np.arange(model[key].size).reshape(model[key].shape)
    array.oindex[rows, columns[:7]] = values
    model[key] = values
    np.testing.assert_array_equal(array[...], model)


@pytest.mark.parametrize("share", [0, 0.001, 0.3, 1])
def test_masks_match_numpy(array: tessarr.Array, share: float) -> None:
    """Masks in both memory orders."""
    mask = np.random.default_rng(5).random(SHAPE) < share
    model = array[...]
    for order in "CF":
        key = np.asarray(mask, order=order)
        np.testing.assert_array_equal(array[key], model[key])
        np.testing.assert_array_equal(array.get_mask_selection(key), model[key])
        array[key] = model[key][::-1]
        model[key] = model[key][::-1]
        np.testing.assert_array_equal(array[...], model)
    array[mask] = 7
    model[mask] = 7
    np.testing.assert_array_equal(array[...], model)


def test_masks_of_some_axes_match_numpy() -> None:
    """Masks of two of four axes, with integers, slices and new axes around them."""
    model = np.arange(6 * 20 * 15 * 4).reshape(6, 20, 15, 4)
    a = tessarr.array(model, chunks=(2, 7, 4, 3))
    mask = np.random.default_rng(1).random((20, 15)) < 0.2
    for key in [
        np.s_[:, mask],
        np.s_[2, mask],
        np.s_[::-2, mask, 1:3],
        np.s_[3, mask, 2],
        np.s_[1, None, mask, :2],
    ]:
        np.testing.assert_array_equal(a[key], model[key])
        a[key] = -model[key]
        model[key] = -model[key]
        np.testing.assert_array_equal(a[...], model)
    expected = model[[4, 1]][:, mask][..., [3, 0]]
    np.testing.assert_array_equal(a.oindex[[4, 1], mask, [3, 0]], expected)


def test_masks_stay_masks_until_they_reach_chunks() -> None:
    """No list of all points is in the selection, and the selection has its own mask."""
    mask = np.eye(30, 40, dtype=bool)
    model = np.arange(1200).reshape(30, 40)
    for selection in (select(mask, (30, 40)), select_outer(mask, (30, 40))):
        assert [number for _, number in selection.axes] == [0, 1]
        assert not np.shares_memory(selection.axes[0][0], mask)
        check_selection(selection, (30, 40))
        np.testing.assert_array_equal(read_selection(model, selection), model[mask])
        written = model.copy()
        write_selection(written, selection, np.zeros(30, int))
        np.testing.assert_array_equal(written, np.where(mask, 0, model))


def test_masks_touch_the_chunks_of_their_true_elements() -> None:
    """Locks of a synchronizer cover these chunks only."""
    mask = np.zeros((30, 40), bool)
    mask[3, 4] = mask[3, 5] = mask[29, 39] = True
    a = tessarr.zeros((30, 40), chunks=(10, 10))
    cells = find_touched_cells(select(mask, (30, 40)).axes, a.metadata.chunk_grid.cuts)
    assert list(cells) == [(0, 0), (2, 3)]


def test_points_in_a_huge_array_need_memory_for_points_only() -> None:
    """The array has 2^62 chunks, more than any table could hold."""
    shape = (1 << 31, 1 << 31)
    a = tessarr.create_array(None, shape=shape, chunks=(1, 1), dtype="i8")
    rng = np.random.default_rng(3)
    rows, columns = (rng.integers(0, 1 << 31, 3000) for _ in range(2))
    rows[1000:2000], columns[1000:2000] = rows[:1000], columns[:1000]
    a.vindex[rows, columns] = np.arange(3000)
    expected = np.arange(3000)
    expected[:1000] += 1000
    np.testing.assert_array_equal(a.vindex[rows, columns], expected)


def test_fields_of_points_and_masks() -> None:
    """Points and masks of one field leave the other field."""
    a = tessarr.zeros((50, 60), chunks=(20, 7), dtype=[("a", "i4"), ("b", "f8")])
    mask = np.random.default_rng(1).random((50, 60)) < 0.4
    model = a[...]
    a["b", mask] = np.arange(np.count_nonzero(mask))
    model["b"][mask] = np.arange(np.count_nonzero(mask))
    np.testing.assert_array_equal(a[...], model)
    np.testing.assert_array_equal(a["b", mask], model["b"][mask])


def test_variable_length_elements_of_masks() -> None:
    """Strings, which a chunk stores one after the other."""
    model = np.array([f"{n:b}" for n in range(600)], dtype=object).reshape(20, 30)
    a = tessarr.create_array(None, shape=(20, 30), chunks=(8, 9), dtype="string")
    a[...] = model
    mask = np.random.default_rng(1).random((20, 30)) < 0.5
    assert a[mask].tolist() == model[mask].tolist()
    a[mask] = "new"
    model[mask] = "new"
    assert a[...].tolist() == model.tolist()
