"""Lazy views select the same elements as NumPy in chains of any length, and write them."""

from __future__ import annotations

import operator
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessarr
from tessarr.errors import ArgumentError, AxisError, SelectionError


def keys(draw: random.Random, shape: tuple[int, ...]) -> Any:
    """Draw a key of any NumPy form for an array of this shape."""
    meet = draw.choice([(2,), (3,), (2, 2), (1,)])
    items: list[Any] = []
    for size in shape[: draw.randint(0, len(shape))]:
        form = draw.random()
        if form < 0.2 and size:
            items.append(draw.randint(-size, size - 1))
        elif form < 0.7:
            ends = [draw.choice([None, draw.randint(-size - 1, size + 1)]) for _ in "ab"]
            items.append(slice(*ends, draw.choice([None, 1, 2, 3, -1, -2])))
        elif form < 0.9 and size:
            items.append(np.array([draw.randint(-size, size - 1) for _ in range(np.prod(meet))]))
            items[-1] = items[-1].reshape(meet)
        else:
            items.append(np.array([draw.random() < 0.5 for _ in range(size)], bool))
        if draw.random() < 0.1:
            items.append(None)
    if draw.random() < 0.3:
        items.insert(draw.randint(0, len(items)), ...)
        return tuple(items)
    return tuple(items) if len(items) != 1 or draw.random() < 0.5 else items[0]


@pytest.mark.parametrize("seed", range(8))
def test_chain_equals_numpy(seed: int) -> None:
    """A chain of up to four keys and transpositions reads and writes the same elements as NumPy."""
    draw = random.Random(seed)
    done = 0
    for _ in range(250):
        shape = tuple(draw.choice([1, 2, 3, 5, 8]) for _ in range(draw.randint(1, 4)))
        data = np.arange(np.prod(shape)).reshape(shape)
        array = tessarr.array(data, chunks=tuple(draw.randint(1, size) for size in shape))
        view, places = array.lazy, np.arange(data.size).reshape(shape)
        for _ in range(draw.randint(1, 4)):
            if draw.random() < 0.2:
                view, places = view.T, places.T
                continue
            key = keys(draw, places.shape)
            try:
                chosen = places[key]
            except IndexError:
                with pytest.raises(SelectionError):
                    view[key]
                continue
            if places.size == 0:  # where NumPy does not check masks
                continue
            view, places = view[key], np.asarray(chosen)
        assert view.shape == places.shape
        assert np.array_equal(view.read().result(), data.reshape(-1)[places])
        out = np.empty(view.shape, data.dtype)
        assert view.read(out).result() is out
        assert np.array_equal(out, data.reshape(-1)[places])
        if places.size == len(np.unique(places)):
            view[...] = np.asarray(places + 1000)
            expected = data.copy()
            expected.reshape(-1)[places] = places + 1000
            assert np.array_equal(array[...], expected)
            done += 1
    assert done > 100


def joint(draw: random.Random, shape: tuple[int, ...], *, outer: bool) -> tuple[Any, ...]:
    """Draw index arrays for the first axes, and slices for the others."""
    length = draw.randint(1, 4)
    result: list[Any] = []
    for size in shape[: draw.randint(1, len(shape))]:
        if draw.random() < 0.3:
            result.append(slice(draw.choice([None, 1, -2]), None, draw.choice([None, 2, -1])))
        else:
            count = draw.randint(0, 4) if outer else length
            result.append(np.array([draw.randint(-size, size - 1) for _ in range(count)], int))
    return tuple(result)


def chosen(data: np.ndarray, key: tuple[Any, ...], *, outer: bool) -> np.ndarray:
    """Return the result of `oindex` or `vindex`, computed by NumPy indexing."""
    if outer:
        for axis, part in enumerate(key):
            data = data[(slice(None),) * axis + (part,)]
        return data
    arrays = [axis for axis, part in enumerate(key) if isinstance(part, np.ndarray)]
    rest = [part for part in key if not isinstance(part, np.ndarray)]
    data = np.moveaxis(data, arrays, range(len(arrays)))
    return data[(*(key[axis] for axis in arrays), *rest)]


@pytest.mark.parametrize("seed", range(4))
def test_outer_and_joint_arrays_equal_numpy(seed: int) -> None:
    """Views by `oindex` and `vindex`, of views by either, select the same elements as NumPy."""
    draw = random.Random(seed)
    for _ in range(250):
        shape = tuple(draw.choice([1, 2, 3, 5]) for _ in range(draw.randint(1, 3)))
        data = np.arange(np.prod(shape)).reshape(shape)
        view = tessarr.array(data, chunks=tuple(draw.randint(1, n) for n in shape)).lazy
        for _ in range(draw.randint(1, 3)):
            if not data.size or data.ndim > 5:
                break
            outer = draw.random() < 0.5
            key = joint(draw, data.shape, outer=outer)
            view = view.oindex[key] if outer else view.vindex[key]
            data = chosen(data, key, outer=outer)
        assert view.shape == data.shape
        assert np.array_equal(view.read().result(), data)


@given(st.randoms(use_true_random=False), st.booleans())
def test_lazy_assignment_by_index_arrays_matches_numpy(draw: random.Random, outer: bool) -> None:
    shape = tuple(draw.choice([1, 2, 3, 5]) for _ in range(draw.randint(1, 3)))
    data = np.arange(np.prod(shape)).reshape(shape)
    array = tessarr.array(data, chunks=tuple(draw.randint(1, n) for n in shape))
    view, turned = (array.lazy.T, data.T) if draw.random() < 0.5 else (array.lazy, data)
    key = joint(draw, turned.shape, outer=outer)
    places = chosen(turned, key, outer=outer)  # each element is its own index
    value = 100 if len(np.unique(places)) < places.size else places + 100
    (view.oindex if outer else view.vindex)[key] = value
    data.reshape(-1)[places] = value
    assert np.array_equal(array[...], data)


AXES = st.one_of(st.integers(-4, 3), st.sampled_from([1.9, "0", None, True, np.int8(1)]))


@given(
    st.integers(0, 3).flatmap(
        lambda rank: st.tuples(
            st.just(rank), st.permutations(range(rank)) | st.lists(AXES, max_size=4)
        )
    ),
    st.sampled_from(["each", "tuple", "list", "array", "none"]),
)
def test_transpose_axes_match_numpy(drawn: tuple[int, list[Any]], form: str) -> None:
    rank, axes = drawn
    shape = (4, 3, 2)[:rank]
    data = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    arguments = {"each": axes, "tuple": [tuple(axes)], "list": [axes], "none": [None]}
    arguments["array"] = [np.array([axis for axis in axes if type(axis) is int], int)]
    view = tessarr.array(data).lazy
    try:
        expected = data.transpose(*arguments[form])
    except np.exceptions.AxisError:
        with pytest.raises(AxisError):
            view.transpose(*arguments[form])
    except ValueError:
        with pytest.raises(ArgumentError) as caught:
            view.transpose(*arguments[form])
        assert not isinstance(caught.value, IndexError)
    except TypeError:
        if True not in axes:  # Tessarr treats True as an integer
            with pytest.raises(TypeError):
                view.transpose(*arguments[form])
    else:
        assert np.array_equal(view.transpose(*arguments[form]), expected)


@given(
    st.sampled_from([(), (1,), (1, 1), (0,), (2,), (1, 2)]),
    st.sampled_from(["i2", "f8", "?", "u8"]),
    st.integers(0, 3),
    st.sampled_from([bool, int, float, complex, operator.index]),
)
def test_lazy_view_of_one_element_converts_to_number(
    shape: tuple[int, ...], data_type: str, value: int, number: Any
) -> None:
    data = np.full(shape, value, data_type)
    view = tessarr.array(data).lazy
    try:  # future NumPy versions reject axes that a Tessarr view accepts
        expected = number(data[(0,) * data.ndim] if data.size == 1 else data)
        if number is operator.index:
            operator.index(data)
    except (TypeError, ValueError) as error:
        with pytest.raises(type(error)):
            number(view)
    else:
        assert number(view) == expected
        assert type(number(view)) is type(expected)
