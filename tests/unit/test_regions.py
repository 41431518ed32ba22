"""Division of regions into boxes of whole chunks."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tessarr.array.regions import count_elements, split_region
from tessarr.format.chunk_grid import RectilinearGrid

AXIS = st.one_of(st.integers(1, 9), st.lists(st.integers(1, 5), min_size=8, max_size=12))


@given(st.lists(st.tuples(AXIS, st.integers(0, 8), st.integers(0, 8)), max_size=3), st.data())
def test_split_region_covers_region(
    axes: list[tuple[int | list[int], int, int]], data: st.DataObject
) -> None:
    """The boxes partition the region, respect the size limit, and divide no chunk."""
    cuts = RectilinearGrid.of([lengths for lengths, _, _ in axes]).cuts
    region = tuple(slice(min(a, b), max(a, b)) for _, a, b in axes)
    most = data.draw(st.integers(1, 100))
    seen = np.zeros((8,) * len(axes), int)
    for box in split_region(region, cuts, most):
        seen[box] += 1
        counts = []
        for part, axis, whole in zip(box, cuts, region, strict=True):
            if part.stop <= part.start:
                continue
            first, last = axis.cell(part.start), axis.cell(part.stop - 1)
            counts.append(last - first + 1)
            assert part.start in (axis.start(first), whole.start)
            assert part.stop in (axis.start(last) + axis.length(last), whole.stop)
        assert count_elements(box) <= most or prod(counts) == 1
    expected = np.zeros_like(seen)
    expected[region] = 1
    np.testing.assert_array_equal(seen, expected)
