"""Lazy views select what NumPy selects, however long the chain, and write back to it."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import SelectionError


def keys(draw: random.Random, shape: tuple[int, ...]) -> Any:
    """Draw a key for an array of this shape, of every form that NumPy knows."""
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
    """A chain of up to four keys and transpositions reads and writes what NumPy's would."""
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
            if places.size == 0:  # where NumPy does not look at masks
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
    """Draw index arrays for some first axes, and slices for others."""
    length = draw.randint(1, 4)
    found: list[Any] = []
    for size in shape[: draw.randint(1, len(shape))]:
        if draw.random() < 0.3:
            found.append(slice(draw.choice([None, 1, -2]), None, draw.choice([None, 2, -1])))
        else:
            count = draw.randint(0, 4) if outer else length
            found.append(np.array([draw.randint(-size, size - 1) for _ in range(count)], int))
    return tuple(found)


@pytest.mark.parametrize("seed", range(4))
def test_outer_and_joint_arrays_equal_numpy(seed: int) -> None:
    """Views by `oindex` and `vindex`, of views by either, select what NumPy's loops would."""
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
            if outer:
                view = view.oindex[key]
                for axis, part in enumerate(key):
                    data = data[(slice(None),) * axis + (part,)]
            else:
                view = view.vindex[key]
                arrays = [axis for axis, part in enumerate(key) if isinstance(part, np.ndarray)]
                rest = [part for part in key if not isinstance(part, np.ndarray)]
                data = np.moveaxis(data, arrays, range(len(arrays)))
                data = data[(*(key[axis] for axis in arrays), *rest)]
        assert view.shape == data.shape
        assert np.array_equal(view.read().result(), data)
