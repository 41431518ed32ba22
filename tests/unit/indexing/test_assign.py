"""`broadcast_value` treats a value like NumPy does in ``a[key] = value``."""

from __future__ import annotations

import array
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampling import examples
from tessarr.errors import ArgumentError, CastError, TessarrWarning, TooLargeError
from tessarr.indexing import broadcast_value, select, select_points
from tessarr.testing import keys, walk

SHAPES = [(), (1,), (7,), (0,), (3, 4), (2, 0, 3), (2, 3, 4), (3, 2, 2, 3)]


@examples(600)
@given(st.data())
def test_assignments(data: st.DataObject) -> None:
    """An assignment changes the same elements as NumPy's, or raises an error if NumPy does."""
    shape = data.draw(st.sampled_from(SHAPES))
    key = data.draw(keys.basic_keys(shape) | keys.advanced_keys(shape))
    ours = np.zeros(shape, np.int32)
    theirs = ours.copy()
    try:
        target = theirs[key].shape
    except IndexError:
        return
    lengths = [data.draw(st.sampled_from((n, n, n, 1))) for n in target]
    lengths = (
        lengths[data.draw(st.integers(0, len(lengths))) :]
        if data.draw(st.booleans())
        else [1] * data.draw(st.integers(0, 2)) + lengths
    )
    if lengths and data.draw(st.integers(0, 9)) == 0:
        lengths[data.draw(st.integers(0, len(lengths) - 1))] += 1
    value = 1 + np.arange(int(np.prod(lengths)), dtype=np.int32).reshape(lengths)
    selection = select(key, shape)
    try:
        theirs[key] = value
    except ValueError:
        if selection.scalar and value.size == 1:
            return  # NumPy >= 2.4 takes no [1] for one element, although for a slice of one
        with pytest.raises(ArgumentError, match="cannot assign a value of shape") as caught:
            broadcast_value(value, selection, ours.dtype)
        assert caught.value.kind == "shape_mismatch"
        return
    except TypeError:  # NumPy allows no leading axes with a single mask
        assert value.ndim > 1
        return
    try:
        fitted = broadcast_value(value, selection, ours.dtype)
    except ArgumentError:
        assert selection.size == 0  # NumPy checks no shape if the selection is empty
    else:
        walk.write_selection(ours, selection, fitted)
        np.testing.assert_array_equal(ours, theirs)


VALUES: list[Any] = [
    0,
    -1,
    300,
    2**40,
    1.5,
    -1.5,
    float("nan"),
    1j,
    True,
    None,
    "3",
    "x",
    b"7",
    [1, 2],
    [1.5, True],
    [300, 1],
    [[1], [1, 2]],
    np.int64(300),
    np.float64(2.7),
    np.complex64(1j),
    np.array(300),
    np.array(np.nan),
    np.array([1.9, -2.9]),
    np.array([1j, 2]),
    np.array([5, 6], ">i8"),
    np.array(["1", "2"]),
    object(),
]


REFUSALS = {ValueError: ArgumentError, TypeError: CastError, OverflowError: TooLargeError}


def refusal(assign: Callable[[], None]) -> type[Exception] | None:
    """Return NumPy's class of error, or None."""
    try:
        assign()
    except (ValueError, TypeError, OverflowError) as error:
        return type(error)
    return None


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", ">i4", "u8", "f2", "<f8", ">c8"])
@pytest.mark.parametrize(
    "value", VALUES, ids=[f"{n}-{type(v).__name__}" for n, v in enumerate(VALUES)]
)
def test_casts(value: Any, dtype: str) -> None:
    """Values convert, or raise the same builtin error, as in NumPy."""
    theirs = np.zeros((3, 2), dtype)
    ours = theirs.copy()
    selection = select(slice(1, None), (3, 2))
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        expected = refusal(lambda: theirs.__setitem__(slice(1, None), value))
        if expected is not None:
            with pytest.raises((ValueError, TypeError, OverflowError)) as caught:
                broadcast_value(value, selection, theirs.dtype)
            assert type(caught.value) is REFUSALS[expected]
            return
        fitted = broadcast_value(value, selection, theirs.dtype)
    assert fitted.dtype == theirs.dtype
    walk.write_selection(ours, selection, fitted)
    assert ours.tobytes() == theirs.tobytes()


def test_same_type_is_not_copied() -> None:
    """A value of the same type passes through without a copy, with strides of 0 if broadcast."""
    value = np.arange(4.0)
    fitted = broadcast_value(value, select(slice(3), (5, 4)), value.dtype)
    assert np.shares_memory(fitted, value)
    assert fitted.strides == (0, 8)
    broadcast = broadcast_value(
        np.float64(1), select_points(([[0, 1], [2, 0]],), (5,)), value.dtype
    )
    assert (broadcast.shape, broadcast.strides) == ((4,), (0,))


def test_bytes_stay_unchanged() -> None:
    """NaN payloads and the sign of zero survive."""
    value = np.array([0x7FF8DEADBEEF0001, 1 << 63], "u8").view("f8")
    fitted = broadcast_value(value, select(..., (2,)), np.dtype("f8"))
    assert fitted.tobytes() == value.tobytes()


def test_shape_mismatch_message_has_both_shapes() -> None:
    """The error has the shape of the value and the shape of the selection."""
    text = r"shape \(2, 3\) to a selection of shape \(4, 2\)"
    with pytest.raises(ArgumentError, match=text):
        broadcast_value(np.ones((2, 3)), select(..., (4, 2)), np.dtype("f8"))


@pytest.mark.parametrize("value", [[7], [[7]], np.array([7]), np.ones((1, 1, 1), "i4") * 7])
def test_one_element_value_assigns_to_full_index(value: Any) -> None:
    ready = broadcast_value(value, select((1, 2), (3, 4)), np.dtype("i4"))
    assert isinstance(ready, np.ndarray)
    assert ready.shape == ()
    assert ready == 7


@pytest.mark.parametrize("wrap", [memoryview, lambda values: array.array("i", values.tolist())])
def test_buffers_warn_as_arrays_do(wrap: Callable[[Any], Any]) -> None:
    with pytest.warns(TessarrWarning, match="300"):
        broadcast_value(wrap(np.array([1, 300])), select((), (2,)), np.dtype("i1"))
