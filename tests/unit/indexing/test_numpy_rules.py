"""`select` matches NumPy: value, shape, type, and class of error."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from tessarr.errors import ArgumentError, SelectionError
from tessarr.indexing import select, select_basic
from tessarr.testing import keys, walk

SHAPES = [(), (1,), (7,), (0,), (3, 4), (2, 0, 3), (2, 3, 4), (5, 1, 2), (3, 2, 2, 3)]

ITEMS: list[Any] = [
    0,
    -1,
    np.int32(1),
    np.array(1),
    slice(None),
    slice(None, None, -1),
    slice(1, 0),
    slice(-2, None, 2),
    ...,
    None,
    True,
    np.False_,
    [0, 1],
    [1, -1, 0],
    [],
    [-1],
    np.array([[0, 1], [1, 1]]),
    np.array([[1], [0]]),
    np.zeros((0, 2), int),
    np.array([True, False]),
    [True, True, False],
    np.array([[True, False, True], [False, True, True]]),
]


def outcome(array: np.ndarray, key: object) -> tuple[Any, type[Exception] | None]:
    """Return NumPy's outcome for a key: a result or a class of error."""
    try:
        return array[key], None
    except DeprecationWarning:  # NumPy 1, out of bounds in an empty array
        return None, IndexError
    except (IndexError, ValueError, TypeError) as error:
        for kind in (IndexError, ValueError, TypeError):
            if isinstance(error, kind):
                return None, kind
        raise


def numbered_array(shape: tuple[int, ...]) -> np.ndarray:
    """Return an array in which each element is its own number."""
    return np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)


def assert_like_numpy(key: object, shape: tuple[int, ...]) -> bool:
    """Compare `select` with NumPy; return whether the key is valid."""
    array = numbered_array(shape)
    expected, error = outcome(array, key)
    if error is not None:
        with pytest.raises((SelectionError, ArgumentError, TypeError)) as caught:
            select(key, shape)
        # A ragged list is an invalid index in Tessarr; NumPy fails earlier, at the conversion.
        assert isinstance(caught.value, error) or error is ValueError
        return False
    selection = select(key, shape)
    walk.check_selection(selection, shape)
    result = walk.read_selection(array, selection)
    assert type(result) is type(expected)
    assert selection.shape == expected.shape == result.shape
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)
    return True


@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_all_short_keys(length: int) -> None:
    """Every key of up to three of the items has NumPy's outcome."""
    valid = sum(
        assert_like_numpy(key, (2, 3, 2)) for key in itertools.product(ITEMS, repeat=length)
    )
    assert valid >= (1, 19, 250, 2000)[length]


@pytest.mark.parametrize(
    "item", ITEMS, ids=[f"{n}-{type(i).__name__}" for n, i in enumerate(ITEMS)]
)
def test_bare_items(item: object) -> None:
    """A key need not be a tuple."""
    for shape in SHAPES:
        assert_like_numpy(item, shape)


@examples(600)
@given(st.data())
def test_advanced_keys(data: st.DataObject) -> None:
    """Index arrays and masks among slices, new axes and integers follow NumPy's order of axes."""
    shape = data.draw(st.sampled_from(SHAPES))
    assert_like_numpy(data.draw(keys.advanced_keys(shape)), shape)


@examples(300)
@given(st.data())
def test_basic_keys(data: st.DataObject) -> None:
    """Basic keys are valid, have only ranges, and are equal through `select_basic`."""
    shape = data.draw(st.sampled_from(SHAPES))
    key = data.draw(keys.basic_keys(shape))
    assert assert_like_numpy(key, shape)
    selection = select_basic(key, shape)
    assert all(isinstance(axis, tuple) and len(axis) == 3 for axis in selection.axes)
    assert selection.axes == select(key, shape).axes


@examples(300)
@given(st.data())
def test_wild_keys(data: st.DataObject) -> None:
    """Errors have the builtin class of NumPy's errors."""
    shape = data.draw(st.sampled_from(SHAPES))
    assert_like_numpy(data.draw(keys.wild_keys(shape)), shape)


@pytest.mark.parametrize(
    ("key", "kind", "text"),
    [
        (12, "out_of_bounds", "index 12 is out of bounds for axis 0 with size 4"),
        ((0, -6), "out_of_bounds", "index -6 is out of bounds for axis 1 with size 5"),
        (([0, 7, 9],), "out_of_bounds", "index 7 is out of bounds for axis 0 with size 4"),
        ((slice(None), [[0], [-9]]), "out_of_bounds", "index -9 .* axis 1 with size 5"),
        (([0, 4], [0, 1]), "out_of_bounds", "index 4 is out of bounds for axis 0 with size 4"),
        ((0, np.array([2**64 - 1], "u8")), "out_of_bounds", "index 18446744073709551615 .* 1"),
        (10**30, "out_of_bounds", "out of bounds"),
        ((0, 0, 0), "too_many_indices", "2 dimensions, but 3 were indexed"),
        ((0, np.ones((5, 1), bool)), "too_many_indices", "2 dimensions, but 3 were indexed"),
        ((..., 0, ...), "invalid_selection", "a single ellipsis"),
        ("x", "invalid_selection", "'x'"),
        (1.0, "invalid_selection", "1.0"),
        (np.array([1.0]), "invalid_selection", "an array of float64"),
        ([[1], [1, 2]], "invalid_selection", "inhomogeneous"),
        ([True, False], "invalid_selection", "axis 0 has size 4, the mask 2"),
        (([0, 1], [0, 1, 2]), "invalid_selection", r"\(2,\) \(3,\)"),
    ],
)
def test_messages(key: object, kind: str, text: str) -> None:
    """An error names the problem, its position and its kind."""
    with pytest.raises(SelectionError, match=text) as caught:
        select(key, (4, 5))
    assert caught.value.kind == kind


def test_zero_step_is_value_error() -> None:
    """As in NumPy, a step of 0 is a ValueError, and text in a slice is an error."""
    with pytest.raises(ArgumentError, match="step cannot be zero"):
        select(slice(None, None, 0), (4,))
    with pytest.raises(TypeError, match="slice indices"):
        select(slice("a", None), (4,))


def test_basic_refuses_arrays() -> None:
    """`select_basic` refuses index arrays and masks."""
    for key in ([0], np.ones(4, bool), True):
        with pytest.raises(SelectionError, match="basic"):
            select_basic(key, (4,))
    assert select_basic(np.int64(-1), (4,)).axes == ((3, 1, 1),)


@pytest.mark.parametrize(
    ("key", "axes", "out_axes"),
    [
        (([2, 3, 4], slice(None)), ((2, 1, 3), (0, 1, 6)), (0, 1)),
        (([5], [1, 3, 5]), ((5, 1, 1), (1, 2, 3)), (None, 0)),
        (np.ix_([0, 1], [5, 4]), ((0, 1, 2), (5, -1, 2)), (0, 1)),
        (([[0, 1]], [[5], [3]]), ((0, 1, 2), (5, -2, 2)), (1, 0)),
        ((np.arange(6) % 2 == 1,), ((1, 2, 3), (0, 1, 6)), (0, 1)),
        (([[3]], [[[2]]]), ((3, 1, 1), (2, 1, 1)), (None, None)),
        (([1, 3, 5],), ((1, 2, 3), (0, 1, 6)), (0, 1)),
    ],
)
def test_lists_become_ranges(key: object, axes: object, out_axes: object) -> None:
    """Lists become ranges too, and joint lists that do not step together become separate axes."""
    selection = select(key, (6, 6))
    assert (selection.axes, selection.out_axes) == (axes, out_axes)
    assert_like_numpy(key, (6, 6))


def test_lists_are_copied() -> None:
    """Changes of an index array after the call have no effect."""
    index = np.array([0, 3, 1])
    other = np.array([1, 1, 2])
    alone, joint = select(index, (5,)), select((index, other), (5, 5))
    index[:] = 1000
    other[:] = 1000
    walk.check_selection(alone, (5,))
    walk.check_selection(joint, (5, 5))


def test_scalars() -> None:
    """Integers for every axis select a scalar; with ``...`` NumPy returns an array without axes."""
    array = numbered_array((2, 3))
    assert select((1, np.int8(-1)), (2, 3)).scalar
    assert select((), ()).scalar
    for key in ((1, 2, ...), (1,), (1, 2, None), (1, 2, True)):
        selection = select(key, (2, 3))
        assert not selection.scalar
        assert isinstance(walk.read_selection(array, selection), np.ndarray)
