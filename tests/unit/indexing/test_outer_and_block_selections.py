"""Outer, pointwise, mask and block selections against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from tessarr.errors import SelectionError
from tessarr.format.chunk_grid import RegularGrid
from tessarr.indexing import Selection, select_blocks, select_mask, select_outer, select_points
from tessarr.testing import keys, walk

SHAPES = [(), (1,), (7,), (0,), (3, 4), (2, 0, 3), (2, 3, 4), (5, 1, 2), (3, 2, 2, 3)]


def numbered_array(shape: tuple[int, ...]) -> np.ndarray:
    """Return an array in which each element is its own number."""
    return np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)


def assert_selection(selection: Selection, shape: tuple[int, ...], expected: Any) -> None:
    """Assert that a selection is well formed and reads the expected elements."""
    walk.check_selection(selection, shape)
    result = walk.read_selection(numbered_array(shape), selection)
    assert type(result) is type(expected)
    assert result.shape == selection.shape
    np.testing.assert_array_equal(result, expected)


def outer_by_numpy(array: np.ndarray, key: Any) -> Any:
    """Index one axis after the other, from the last to the first."""
    items = list(key) if isinstance(key, tuple) else [key]
    position = next((n for n, item in enumerate(items) if item is ...), len(items))
    spare = array.ndim - sum(item is not ... for item in items)
    items = [*items[:position], *[slice(None)] * spare, *items[position + 1 :]]
    for axis in reversed(range(array.ndim)):
        item = items[axis]
        item = np.array(item, np.int64) if isinstance(item, list) else item
        array = array[(slice(None),) * axis + (item,)]
    return array


@examples(600)
@given(st.data())
def test_outer(data: st.DataObject) -> None:
    """Each axis has its own index."""
    shape = data.draw(st.sampled_from(SHAPES))
    key = data.draw(keys.outer_keys(shape))
    expected = np.asarray(outer_by_numpy(numbered_array(shape), key))
    has_ellipsis = any(item is ... for item in (key if isinstance(key, tuple) else (key,)))
    assert_selection(
        select_outer(key, shape), shape, expected if expected.ndim or has_ellipsis else expected[()]
    )


@examples(300)
@given(st.data())
def test_points(data: st.DataObject) -> None:
    """With an index for every axis, `select_points` equals NumPy's indexing."""
    shape = data.draw(st.sampled_from(SHAPES))
    key = data.draw(keys.point_keys(shape))
    assert_selection(select_points(key, shape), shape, numbered_array(shape)[key])


@examples(300)
@given(st.data())
def test_points_beside_slices(data: st.DataObject) -> None:
    """The dimensions of the index arrays come first at any position of these arrays."""
    shape = data.draw(st.sampled_from([(3, 4, 2), (2, 2, 3, 2)]))
    sliced = data.draw(st.integers(0, len(shape) - 1))
    key = list(data.draw(keys.point_keys(shape)))
    key[sliced] = data.draw(keys.slices(shape[sliced]))
    moved = np.moveaxis(numbered_array(shape), sliced, -1)
    expected = moved[(*(item for n, item in enumerate(key) if n != sliced), key[sliced])]
    assert_selection(select_points(tuple(key), shape), shape, expected)


@examples(200)
@given(st.data())
def test_masks(data: st.DataObject) -> None:
    """A mask selects the same in `select_mask`, `select_points`, and NumPy."""
    shape = data.draw(st.sampled_from(SHAPES))
    chosen = data.draw(keys.masks(shape))
    for kind in (select_mask, select_points):
        assert_selection(kind(chosen, shape), shape, numbered_array(shape)[chosen])


@examples(300)
@given(st.data())
def test_blocks(data: st.DataObject) -> None:
    """A block is a slice as long as the chunk, clipped at the end."""
    shape = data.draw(st.sampled_from(SHAPES))
    chunk_shape = tuple(data.draw(st.integers(1, size + 2)) for size in shape)
    key = data.draw(keys.block_keys(RegularGrid(chunk_shape).grid_shape(shape)))
    grid = [-(-size // chunk) for size, chunk in zip(shape, chunk_shape, strict=True)]
    picked = outer_by_numpy_blocks(key, grid)
    indices = [
        [n for b in blocks for n in range(b * chunk, min((b + 1) * chunk, size))]
        for blocks, chunk, size in zip(picked, chunk_shape, shape, strict=True)
    ]
    expected = numbered_array(shape)[np.ix_(*indices)] if shape else np.array(0, np.int32)
    assert_selection(select_blocks(key, shape, RegularGrid(chunk_shape).cuts), shape, expected)


def outer_by_numpy_blocks(key: Any, grid: list[int]) -> list[list[int]]:
    """Return the chunks that a key selects along each axis."""
    items = list(key) if isinstance(key, tuple) else [key]
    position = next((n for n, item in enumerate(items) if item is ...), len(items))
    spare = len(grid) - sum(item is not ... for item in items)
    items = [*items[:position], *[slice(None)] * spare, *items[position + 1 :]]
    return [
        np.atleast_1d(np.arange(count)[item]).tolist()
        for item, count in zip(items, grid, strict=True)
    ]


def test_outer_of_several_dimensions() -> None:
    """An index array inserts all its dimensions in place, a mask the dimension of its points."""
    a = numbered_array((4, 3, 2))
    index = np.array([[0, 3], [1, 1]])
    assert_selection(
        select_outer((index, slice(None), [1, 0]), a.shape), a.shape, a[index][..., [1, 0]]
    )
    chosen = a[..., 0] % 4 == 0
    assert_selection(select_outer((chosen, [1]), a.shape), a.shape, a[chosen][:, [1]])
    assert_selection(
        select_outer((None, 0, None, [2, 0]), a.shape), a.shape, a[0][[2, 0]][None, None]
    )


def test_outer_lists_become_ranges() -> None:
    """An evenly spaced list, or a mask with even gaps, is a range in the engine."""
    selection = select_outer(([1, 3, 5], [True, False, True], 4), (6, 3, 5))
    assert selection.axes == ((1, 2, 3), (0, 2, 2), (4, 1, 1))
    assert selection.out_axes == (0, 1, None)


def test_scalars() -> None:
    """Integers for every axis also select a scalar here, but never in blocks."""
    assert select_outer((0, -1), (2, 3)).scalar
    assert select_points((0, -1), (2, 3)).scalar
    assert not select_blocks((0, -1), (2, 3), RegularGrid((1, 1)).cuts).scalar
    assert not select_points((0, [1]), (2, 3)).scalar


@pytest.mark.parametrize(
    ("kind", "key", "text"),
    [
        (select_outer, (0, 0, 0), "too many indices"),
        (select_outer, (0, [3]), "index 3 is out of bounds for axis 1 with size 3"),
        (select_outer, (True, 0), "masks of one axis"),
        (select_outer, ([True, False, True],), "axis 0 has size 2, the mask 3"),
        (select_points, ([0, 1], [0, 1, 2]), "broadcast together"),
        (select_points, ([0, 2], [0, 0]), "index 2 is out of bounds for axis 0 with size 2"),
        (select_mask, [True, False], "boolean and of shape"),
        (select_mask, [[1, 0, 1], [0, 0, 0]], "boolean and of shape"),
    ],
)
def test_errors(kind: Any, key: object, text: str) -> None:
    """Impossible keys raise an error that explains the reason."""
    with pytest.raises(SelectionError, match=text):
        kind(key, (2, 3))


def test_second_mask_of_several_axes_raises() -> None:
    """The engine supports one joint group."""
    both = np.ones((2, 2), bool)
    with pytest.raises(SelectionError, match="one of several"):
        select_outer((both, both), (2, 2, 2, 2))


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (3, "index 3 is out of bounds for axis 0 with size 3"),
        (slice(None, None, 2), "step 1"),
        ([0], "integers, slices and ellipsis"),
        (None, "integers, slices and ellipsis"),
        (np.ones(3, bool), "integers, slices and ellipsis"),
        ((0, 0, 0), "too many"),
    ],
)
def test_block_errors(key: object, text: str) -> None:
    """Block indices count whole chunks."""
    with pytest.raises(SelectionError, match=text):
        select_blocks(key, (5, 4), RegularGrid((2, 4)).cuts)


def test_evenly_spaced_lists_become_ranges() -> None:
    """A list becomes a range if and only if it has an even step."""
    for indices in itertools.chain(*(itertools.product(range(4), repeat=n) for n in range(5))):
        (walked,) = select_outer(list(indices), (4,)).axes
        even = len({b - a for a, b in itertools.pairwise(indices)} - {0}) <= 1
        even = even and not any(a == b for a, b in itertools.pairwise(indices))
        assert isinstance(walked, tuple) == even
        walk.check_selection(select_outer(list(indices), (4,)), (4,))
