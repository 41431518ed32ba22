"""Keys that are composed in one pass give what the general way gives."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tessarr.errors import SelectionError
from tessarr.space import Dim, IndexDomain, IndexTransform
from tessarr.space.basic import basic
from tessarr.space.brackets import Mode, brackets, parsed

SHAPES = [(2,), (3,), (2, 2), (1,), (), (2, 1), (0,)]


def a_view(draw: random.Random) -> IndexTransform:
    dims = [
        Dim(
            inclusive_min=draw.choice([0, -3, 5]),
            size=draw.choice([1, 2, 3, 5, 9]),
            implicit_lower=draw.random() < 0.2,
            implicit_upper=draw.random() < 0.2,
        )
        for _ in range(draw.randint(1, 4))
    ]
    return IndexTransform(IndexDomain(dims))


def a_key(draw: random.Random, dims: tuple[Dim, ...]) -> tuple[Any, ...]:
    """Draw a key, of which few indices are outside."""
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
        else:
            count = int(np.prod(shape))
            parts.append(np.array(draw.choices(indices, k=count), np.int64).reshape(shape))
        if draw.random() < 0.15:
            parts.insert(draw.randint(0, len(parts)), None)
    if draw.random() < 0.3:
        parts.insert(draw.randint(0, len(parts)), Ellipsis)
    return tuple(parts)


def in_general(view: IndexTransform, key: Any, mode: Mode) -> IndexTransform | None:
    try:
        return view._under(brackets(view.domain.dims, None, parsed(key), mode)[0])
    except SelectionError:
        return None


@pytest.mark.parametrize("seed", range(0, 4000, 1000))
def test_one_pass_equals_the_general_way(seed: int) -> None:
    compared = 0
    for case in range(seed, seed + 1000):
        draw = random.Random(case)
        view = a_view(draw)
        for _ in range(3):
            key = a_key(draw, view.domain.dims)
            mode: Mode = draw.choice(["default", "oindex", "vindex"])
            wanted = in_general(view, key, mode)
            try:
                made = basic(view.domain.dims, view.output, key, mode)
            except SelectionError:
                assert wanted is None, (view, key, mode)
                break
            if wanted is None:
                assert made is None, (view, key, mode)
                break
            if any(dim.empty for dim in wanted.domain):
                break  # without positions maps may be any
            if made is not None:
                got = IndexTransform.of(IndexDomain.of(made[0]), made[1])
                assert got.to_json() == wanted.to_json(), (view, key, mode)
                assert [one.within for one in got.output] == [one.within for one in wanted.output]
                compared += 1
            view = wanted
    assert compared > 1500
