"""`Array.stats` on random arrays and selections, compared with exact arithmetic and NumPy."""

from __future__ import annotations

from fractions import Fraction
from math import floor, isfinite
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tessarr
from sampling import examples
from tessarr._engine import summarize

NUMBERS = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", ">i4", ">f8")
ARRAYS = st.sampled_from(NUMBERS).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0))
)


def check_numbers(stats: tessarr.ArrayStats, values: npt.NDArray[Any]) -> None:
    """Compare statistics with the exact ones of `values`."""
    items = [item for item in values.reshape(-1).tolist() if isfinite(item)]
    numbers = [Fraction(item) for item in items]
    assert stats.count == values.size
    assert stats.nan_count == int(np.isnan(values).sum())
    assert stats.inf_count == int(np.isinf(values).sum())
    if not numbers:
        assert stats.min is stats.max is stats.mean is stats.std is stats.histogram is None
        return
    assert (stats.min, stats.max) == (min(items), max(items))
    mean = sum(numbers) / len(numbers)
    scale = max(map(abs, numbers))
    if values.dtype.kind == "f":
        assert abs(Fraction(stats.mean) - mean) <= scale * Fraction(1, 2**50)
    else:
        assert stats.mean == float(mean)
        assert stats.sum == sum(numbers)
    variance = sum((number - mean) ** 2 for number in numbers) / len(numbers)
    # The distances from a rounded mean are rounded, too.
    error = variance * Fraction(1, 10**9) + (scale * Fraction(1, 2**48)) ** 2
    assert abs(Fraction(stats.std) ** 2 - variance) <= error
    check_histogram(stats, numbers)


def check_histogram(stats: tessarr.ArrayStats, numbers: list[Fraction]) -> None:
    """Check that each bin has the numbers between its edges, and the first and last have some."""
    assert stats.histogram is not None
    edges, counts = stats.histogram.edges.tolist(), stats.histogram.counts.tolist()
    assert len(edges) == len(counts) + 1
    assert counts[0]
    assert counts[-1]
    assert sum(counts) == len(numbers)
    if isfinite(edges[-1]) and len(counts) > 1:
        width = Fraction(edges[1]) - Fraction(edges[0])
        first = floor(Fraction(edges[0]) / width)
        expected = [0] * len(counts)
        for number in numbers:
            expected[floor(number / width) - first] += 1
        assert counts == expected


@given(ARRAYS, st.integers(1, 3), st.sampled_from([2, 3, 16, 64]), st.data())
@examples(300)
def test_stats_of_any_array_are_exact(
    values: npt.NDArray[Any], chunk: int, bins: int, data: st.DataObject
) -> None:
    """Counts, extremes, mean, deviation and histogram, for any chunks and basic selections."""
    array = tessarr.create_array(None, data=values, chunks=(chunk,) * values.ndim)
    check_numbers(array.stats(bins=bins), values)
    key = data.draw(hnp.basic_indices(values.shape, allow_newaxis=False))
    check_numbers(array.stats(key, bins=bins), np.asarray(values[key]))


@given(
    hnp.arrays("f8", st.integers(1, 60)) | hnp.arrays("i8", st.integers(1, 60)),
    st.lists(st.integers(0, 60), max_size=4),
)
@examples(300)
def test_summaries_of_parts_merge_to_the_summary_of_the_whole(
    values: npt.NDArray[Any], cuts: list[int]
) -> None:
    """Extremes, sums of integers and histograms do not depend on the parts or their order."""
    kind = values.dtype.str[1:]
    whole = summarize(values, kind, 8)
    parts = np.split(values, sorted(min(cut, values.size) for cut in cuts))
    merged = summarize(values[:0], kind, 8)
    for part in reversed(parts):
        merged = merged.merged(summarize(np.ascontiguousarray(part), kind, 8))
    assert merged.extremes == whole.extremes
    assert merged.bins == whole.bins
    assert (merged.count, merged.nan_count) == (whole.count, whole.nan_count)
    if kind == "i8":
        assert merged.sum == whole.sum


@given(hnp.arrays("c16", st.integers(0, 20)), st.integers(1, 5))
def test_stats_of_complex_numbers_match_numpy(values: npt.NDArray[Any], chunk: int) -> None:
    """A number is finite if both of its parts are."""
    stats = tessarr.create_array(None, data=values, chunks=chunk).stats()
    finite = values[np.isfinite(values)]
    assert stats.nan_count == int(np.isnan(values).sum())
    assert stats.inf_count == values.size - finite.size - stats.nan_count
    assert stats.min is stats.histogram is None
    if not finite.size:
        assert stats.mean is None
    elif 1e-100 < np.abs(finite).max() < 1e100:  # otherwise NumPy overflows or underflows
        error = 1e-9 * float(np.abs(finite).max())
        np.testing.assert_allclose(stats.mean, finite.mean(), atol=error)
        np.testing.assert_allclose(stats.std, finite.std(), atol=error)


@given(hnp.arrays("M8[s]", st.integers(0, 20)), st.integers(1, 5))
def test_stats_of_times_round_to_their_unit(values: npt.NDArray[Any], chunk: int) -> None:
    """NaT is only counted; the mean is a time, and the deviation a duration."""
    stats = tessarr.create_array(None, data=values, chunks=chunk).stats()
    numbers = [int(number) for number in values[~np.isnat(values)].view("i8")]
    assert stats.nan_count == values.size - len(numbers)
    if numbers:
        assert (stats.min, stats.max) == tuple(
            np.datetime64(number, "s") for number in (min(numbers), max(numbers))
        )
        mean = floor(Fraction(sum(numbers), len(numbers)) + Fraction(1, 2))
        assert stats.mean == np.datetime64(mean, "s")
        assert stats.std.dtype == "m8[s]"
        assert stats.sum is None


@given(st.lists(st.text("abcé", max_size=3), max_size=12), st.sampled_from(["U3", "str"]))
def test_stats_of_text_are_count_and_extremes(words: list[str], dtype: str) -> None:
    """Text has no other statistics."""
    values = np.array(words, "U3")
    array = tessarr.create_array(None, shape=len(words), dtype=dtype, chunks=4)
    array[...] = values
    stats = array.stats()
    assert stats.count == len(words)
    assert (stats.min, stats.max) == ((min(words), max(words)) if words else (None, None))
    assert stats.mean is stats.std is stats.histogram is None
