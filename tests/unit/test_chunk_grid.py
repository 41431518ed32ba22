"""Chunk grids: their boundaries, their arrays, and their metadata."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessarr.errors import ArgumentError
from tessarr.format.chunk_grid import Cuts, RectilinearGrid, RegularGrid, grid_from_lengths
from tessarr.format.validation import Members, Problems


def fit(grid, shape):
    problems = Problems()
    return grid.fit(shape, "/chunks", problems), problems


def read(**configuration):
    problems = Problems()
    grid = RectilinearGrid.from_json(Members(configuration, "", problems))
    return grid, [problem.loc for problem in problems.found]


@pytest.mark.parametrize(
    ("chunk_shape", "shape", "expected"),
    [((3,), (7,), (3,)), ((), (), ()), ((5, 5), (0, 10), (0, 2)), ((100,), (1,), (1,))],
)
def test_grid_shape_counts_chunks(chunk_shape, shape, expected):
    grid, problems = fit(RegularGrid(chunk_shape), shape)
    assert grid.grid_shape(shape) == expected
    assert not problems.found


def test_chunk_length_0_along_empty_axis_is_defect():
    grid, problems = fit(RegularGrid((0, 5)), (0, 10))
    assert grid == RegularGrid((1, 5))
    assert len(problems.defects) == 1
    grid, problems = fit(RegularGrid((0, 5)), (1, 10))
    assert grid is None
    assert problems.found[0].loc == "/chunks/0"


def test_too_many_chunks_is_problem():
    grid, problems = fit(RegularGrid((1, 1)), (2**62, 2**62))
    assert grid is None
    assert problems.found[0].kind == "too_large"
    grid, problems = fit(RectilinearGrid.of([[[1, 2**40], 2]]), (5,))
    assert grid is None
    assert problems.found[0].kind == "too_large"


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 4)), min_size=1), st.integers(0, 60))
def test_cuts_match_list_of_lengths(runs, size):
    cuts = Cuts(tuple(runs))
    lengths = [length for length, count in runs for _ in range(count)]
    lengths += [lengths[-1]] * 60
    starts = [sum(lengths[:n]) for n in range(len(lengths))]
    count = sum(start < size for start in starts)
    assert cuts.count(size) == count
    assert [cuts.start(n) for n in range(60)] == starts[:60]
    assert [cuts.length(n) for n in range(60)] == lengths[:60]
    clipped = tuple(min(lengths[n], size - starts[n]) for n in range(count))
    assert cuts.lengths(size) == clipped
    assert all(starts[n] <= i < starts[n + 1] for i in range(size) for n in [cuts.cell(i)])


def test_lists_and_runs_build_equal_grids():
    grid, faults = read(kind="inline", chunk_shapes=[[10, 10, 10, 5], [[10, 3], 5], 7, [[4, 2]]])
    assert not faults
    runs = ((10, 3), (5, 1))
    assert grid == RectilinearGrid((runs, runs, 7, ((4, 2),)))
    shapes = [[[10, 3], 5], [[10, 3], 5], 7, [[4, 2]]]
    assert grid.to_json() == {
        "name": "rectilinear",
        "configuration": {"kind": "inline", "chunk_shapes": shapes},
    }
    assert [*grid.shapes()] == [(10, 10, 7, 4), (5, 10, 7, 4), (10, 5, 7, 4)]


@pytest.mark.parametrize(
    ("configuration", "faults"),
    [
        ({"kind": "inline"}, [""]),
        ({"chunk_shapes": [[1]]}, [""]),
        ({"kind": "file", "chunk_shapes": [[1]]}, ["/kind"]),
        ({"kind": "inline", "chunk_shapes": 3}, ["/chunk_shapes"]),
        ({"kind": "inline", "chunk_shapes": None}, ["/chunk_shapes"]),
        ({"kind": "inline", "chunk_shapes": [[]]}, ["/chunk_shapes/0"]),
        (
            {"kind": "inline", "chunk_shapes": [0, [0], [[1, 0]]]},
            ["/chunk_shapes/0", "/chunk_shapes/1/0", "/chunk_shapes/2/0/1"],
        ),
        (
            {"kind": "inline", "chunk_shapes": [1.0, "2", True]},
            ["/chunk_shapes/0", "/chunk_shapes/1", "/chunk_shapes/2"],
        ),
        (
            {"kind": "inline", "chunk_shapes": [[[1, 2, 3]], [[1]]]},
            ["/chunk_shapes/0/0", "/chunk_shapes/1/0"],
        ),
        (
            {"kind": "inline", "chunk_shapes": [2**63, [[2, 2**63]]]},
            ["/chunk_shapes/0", "/chunk_shapes/1/0/1"],
        ),
        ({"kind": "inline", "chunk_shapes": [4], "other": 1}, ["/other"]),
    ],
)
def test_invalid_rectilinear_grid_error_has_json_path(configuration, faults):
    grid, result = read(**configuration)
    assert grid is None
    assert result == faults


@pytest.mark.parametrize(
    ("shape", "fault"),
    [((61, 5), "/chunks/0"), ((60,), "/chunks"), ((60, 5, 5), "/chunks")],
)
def test_chunks_cover_array(shape, fault):
    grid = RectilinearGrid.of([[10, 20, 30], 4])
    fitting, problems = fit(grid, shape)
    assert fitting is None
    assert [problem.loc for problem in problems.found] == [fault]
    assert fit(grid, (60, 5))[0] == grid


def test_rectilinear_chunks_may_exceed_shape():
    grid, problems = fit(RectilinearGrid.of([[10, 20, 30, 40]]), (35,))
    assert not problems.found
    assert grid.grid_shape((35,)) == (3,)
    assert grid.lengths((35,)) == ((10, 20, 5),)
    assert grid.grid_shape((0,)) == (0,)


def test_rectilinear_grid_growth_appends_one_chunk():
    grid = RectilinearGrid.of([[10, 20], 4])
    assert grid.resized((30, 99), (1, 1)) == grid
    assert grid.resized((5, 5), (1, 1)) == grid
    assert grid.resized((37, 9), (1, 1)) == RectilinearGrid.of([[10, 20, 7], 4])
    assert grid.resized((37, 9), (5, 2)) == RectilinearGrid.of([[10, 20, 10], 4])
    assert RegularGrid((4,)).resized((9,), (1,)) == RegularGrid((4,))


@pytest.mark.parametrize("lengths", [([1, "2"],), ([1.5],), ("ab",), ([],), ([-1],), ([True],)])
def test_invalid_user_lists_raise(lengths):
    with pytest.raises(ArgumentError):
        grid_from_lengths(lengths)
