"""Views of views have the same index at every position as NumPy arrays of positions."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tessarr.errors import SelectionError
from tessarr.index_space import Dim, IndexTransform
from tessarr.index_space.index_domain import IndexDomain
from tessarr.index_space.indexing_terms import Mode
from tessarr.index_space.output_index_map import evaluate_map

SHAPES = [(2,), (3,), (2, 2), (1,), (), (2, 1), (0,)]


def a_view(draw: random.Random) -> IndexTransform:
    dims = [
        Dim(inclusive_min=draw.choice([0, -3, 5]), size=draw.choice([1, 2, 3, 5, 9]))
        for _ in range(draw.randint(1, 4))
    ]
    return IndexTransform(IndexDomain(dims))


def a_key(draw: random.Random, dims: tuple[Dim, ...]) -> tuple[Any, ...]:
    """Draw a key with few indices out of bounds."""
    shape = draw.choice(SHAPES)
    parts: list[Any] = []
    for dim in dims[: draw.randint(0, len(dims))]:
        least, most = dim.inclusive_min, max(dim.inclusive_min, dim.inclusive_max)
        indices = range(least - (draw.random() < 0.05), most + 1 + (draw.random() < 0.05))
        form = draw.random()
        if form < 0.3:
            parts.append(draw.choice(indices))
        elif form < 0.6:
            ends = sorted(draw.choices(indices, k=2))
            start, stop = (draw.choice([None, end]) for end in ends)
            parts.append(slice(start, stop, draw.choice([None, 1, 2, -1, 3])))
        elif form < 0.7 and least == 0:
            parts.append(np.array([draw.random() < 0.5 for _ in range(dim.size)]))
        else:
            count = int(np.prod(shape))
            parts.append(np.array(draw.choices(indices, k=count), np.int64).reshape(shape))
        if draw.random() < 0.15:
            parts.insert(draw.randint(0, len(parts)), None)
    if draw.random() < 0.3:
        parts.insert(draw.randint(0, len(parts)), Ellipsis)
    return tuple(parts)


def indices(view: IndexTransform) -> list[npt.NDArray[np.int64]]:
    """Return the index of each output index map at every position."""
    dims = view.domain._dims
    return [
        np.broadcast_to(evaluate_map(output_map, dims), view.shape) for output_map in view.output
    ]


def in_numpy(dims: tuple[Dim, ...], key: tuple[Any, ...], mode: Mode) -> Any:
    """Return the NumPy key for the same elements, or None if the key leaves the domain."""
    used = sum(1 for part in key if part is not None and part is not Ellipsis)
    whole = [slice(None)] * (len(dims) - used)
    position = next((k for k, part in enumerate(key) if part is Ellipsis), None)
    # An ellipsis for no dimension also separates index arrays.
    terms = (
        [*key, *whole]
        if position is None
        else [*key[:position], *(whole or [...]), *key[position + 1 :]]
    )
    result: list[Any] = []
    left = iter(dims)
    place: Any
    for term in terms:
        if term is None or term is Ellipsis:
            result.append(term)
            continue
        dim = next(left)
        if isinstance(term, slice):
            place = _slice(dim, term)
        else:
            is_mask = isinstance(term, np.ndarray) and term.dtype == bool
            place = np.asarray((np.nonzero(term)[0] if is_mask else term) - dim.inclusive_min)
            if place.size and not 0 <= place.min() <= place.max() < dim.size:
                return None
            place = int(place) if isinstance(term, int) else place
        if place is None:
            return None
        result.append(place)
    return result


def _slice(dim: Dim, term: slice) -> slice | None:
    step = term.step or 1
    first, last = (dim.inclusive_min, dim.inclusive_max)[:: 1 if step > 0 else -1]
    start = first if term.start is None else term.start
    stop = last + (1 if step > 0 else -1) if term.stop is None else term.stop
    if (stop - start) * step < 0:
        return None
    inside = range(dim.inclusive_min, dim.exclusive_max)
    if stop != start and not (start in inside and stop - (1 if step > 0 else -1) in inside):
        return None
    begin, end = start - dim.inclusive_min, stop - dim.inclusive_min
    return slice(begin, begin) if stop == start else slice(begin, end if end >= 0 else None, step)


def selected(array: npt.NDArray[Any], key: list[Any], mode: Mode) -> npt.NDArray[Any]:
    """Index an array by NumPy's rules, except for `oindex` and `vindex`.

    In the index space an integer is no index array and does not separate index arrays.
    """
    if mode != "default":
        key = [term for term in key if term is not Ellipsis]
    axes = [k for k, term in enumerate(key) if term is not None and term is not Ellipsis]
    for k in axes[::-1]:
        if isinstance(key[k], int):
            array = array.take(key[k], axis=axes.index(k))
    key = [term for term in key if not isinstance(term, int)]
    if mode == "default":
        return array[tuple(key)]
    if mode == "vindex":
        axes = [k for k, term in enumerate(key) if term is not None]
        joint = [k for k in axes if isinstance(key[k], np.ndarray)]
        array = np.moveaxis(array, [axes.index(k) for k in joint], range(len(joint)))
        rest = [term for k, term in enumerate(key) if k not in joint]
        return array[(*(key[k] for k in joint), *rest)]
    axis = 0
    for term in key:
        array = array[(slice(None),) * axis + (term,)]
        axis += term.ndim if isinstance(term, np.ndarray) else 1
    return array


def meet(key: list[Any]) -> bool:
    """Return whether the index arrays broadcast together."""
    try:
        np.broadcast_shapes(*(term.shape for term in key if isinstance(term, np.ndarray)))
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("mode", ["default", "oindex", "vindex"])
@pytest.mark.parametrize("seed", range(0, 3000, 1000))
def test_views_of_views_equal_numpy(seed: int, mode: Mode) -> None:
    compared = 0
    for case in range(seed, seed + 1000):
        draw = random.Random(case)
        view = a_view(draw)
        for _ in range(4):
            key = a_key(draw, view.domain._dims)
            expected = in_numpy(view.domain._dims, key, mode)
            if expected is not None and mode != "oindex" and not meet(expected):
                expected = None
            try:
                created = view._indexed(key, mode)
            except SelectionError:
                empty = expected is not None and any(
                    np.size(t) == 0 for t in expected if t is not None
                )
                assert expected is None or empty, (view, key, mode)
                break
            if expected is None:
                # An empty view has no index out of bounds. An invalid item of an index array may
                # raise an error later, or never.
                listed = any(isinstance(part, np.ndarray) for part in key)
                assert listed or not created.size, (view, key, mode)
                break
            if created.size:
                for actual, before in zip(indices(created), indices(view), strict=True):
                    assert np.array_equal(actual, selected(before, expected, mode)), (
                        view,
                        key,
                        mode,
                    )
            compared += 1
            view = created.mark_bounds_implicit[False]  # bounds of new axes
            if not view.size:
                break
    assert compared > 1000
