"""Regular grids."""

from __future__ import annotations

import pytest

from tessarr.grid import RegularGrid
from tessarr.problems import Problems


def fit(chunk_shape, shape):
    problems = Problems()
    return RegularGrid(chunk_shape).fit(shape, "/chunks", problems), problems


@pytest.mark.parametrize(
    ("chunk_shape", "shape", "expected"),
    [((3,), (7,), (3,)), ((), (), ()), ((5, 5), (0, 10), (0, 2)), ((100,), (1,), (1,))],
)
def test_the_number_of_chunks(chunk_shape, shape, expected):
    grid, problems = fit(chunk_shape, shape)
    assert grid.grid_shape(shape) == expected
    assert not problems.found


def test_a_length_of_0_is_tolerated_where_there_is_nothing_to_hold():
    grid, problems = fit((0, 5), (0, 10))
    assert grid == RegularGrid((1, 5))
    assert len(problems.defects) == 1
    grid, problems = fit((0, 5), (1, 10))
    assert grid is None
    assert problems.found[0].loc == "/chunks/0"


def test_too_many_chunks_are_refused():
    grid, problems = fit((1, 1), (2**62, 2**62))
    assert grid is None
    assert problems.found[0].kind == "too_large"
