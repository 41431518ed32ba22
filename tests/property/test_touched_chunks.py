"""Chunks that a selection touches, compared with a count for each element."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tessarr.format.chunk_grid import grid_from_lengths
from tessarr.indexing import select, select_outer, select_points
from tessarr.indexing.selection import find_touched_cells


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], Any, Any, Any]:
    rank = draw(st.integers(1, 3))
    shape = tuple(draw(st.lists(st.integers(1, 12), min_size=rank, max_size=rank)))
    lengths = []
    for size in shape:
        parts = draw(st.lists(st.integers(1, 5), min_size=1, max_size=12))
        even = draw(st.booleans())
        covering = [*parts, size]  # long enough for every drawn selection
        lengths.append(parts[0] if even else covering)
    kind = draw(st.sampled_from([select, select_outer, select_points]))
    key: list[Any] = []
    count = draw(st.integers(1, 4))
    for size in shape:
        indices = st.lists(st.integers(0, size - 1), min_size=count, max_size=count)
        step = draw(st.sampled_from([1, 2, 5, -1, -3]))
        bound = st.none() | st.integers(-size, size)
        part = st.builds(slice, bound, bound, st.just(step))
        key.append(draw(indices if kind is select_points else part | indices))
    return shape, lengths, kind, tuple(key)


@given(cases())
def test_touched_cells_match_selected_elements(case: Any) -> None:
    shape, lengths, kind, key = case
    cuts = grid_from_lengths(lengths).cuts
    selection = kind(key, shape)
    if not selection.size:
        return
    where = np.zeros(shape, bool)
    if kind is select_outer:
        where[np.ix_(*(np.arange(n)[part] for n, part in zip(shape, key, strict=True)))] = True
    else:
        where[key] = True
    expected = {
        tuple(cut.cell(position) for cut, position in zip(cuts, index, strict=True))
        for index in np.argwhere(where).tolist()
    }
    result = list(find_touched_cells(selection.axes, cuts))
    assert len(result) == len(expected)
    assert set(result) == expected
