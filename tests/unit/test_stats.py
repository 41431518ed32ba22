"""`Array.stats`: extremes of the range, storage, selections, memory and errors."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.array import stats as stats_module
from tessarr.array.stats import compute_stats
from tessarr.errors import ArgumentError, SelectionError, UnsupportedError
from tessarr.store.wrappers.instrumented import CountingStore, LatencyStore
from tessarr.stores import MemoryStore


def stats_of(values: Any, dtype: str | None = None, **settings: Any) -> tessarr.ArrayStats:
    return tessarr.create_array(None, data=np.asarray(values, dtype), **settings).stats()


@pytest.mark.parametrize("size", [1.5e308, 1e200, 1e-200, 5e-324])
def test_stats_of_extreme_floats_do_not_overflow(size: float) -> None:
    """Sums and squares of very large and very small numbers keep their precision."""
    stats = stats_of([size, -size, size, size], chunks=1)
    assert stats.mean == pytest.approx(size / 2, rel=1e-12, abs=0)
    if size > 1e-300:
        assert stats.std == pytest.approx(size * (0.75**0.5), rel=1e-12, abs=0)


def test_stats_of_large_integers_are_exact() -> None:
    """A naive sum, and a sum of floats, would be wrong."""
    stats = stats_of([2**64 - 1, 2**64 - 1, 2**64 - 3], "u8", chunks=2)
    assert stats.sum == 3 * 2**64 - 5
    assert stats.std == pytest.approx((8 / 9) ** 0.5)
    stats = stats_of([-(2**63), 2**63 - 1], "i8")
    assert (stats.sum, stats.mean) == (-1, -0.5)
    assert stats.std == pytest.approx(2.0**63)


def test_stats_of_narrow_distribution_far_from_zero_are_precise() -> None:
    """The deviation does not suffer from cancellation."""
    values = 1e9 + np.arange(10000) % 7
    stats = stats_of(values, chunks=1000)
    assert stats.std == pytest.approx(values.std(), rel=1e-12)
    stats = stats_of(2**62 + np.arange(10000) % 7, "i8", chunks=1000)
    assert stats.std == pytest.approx(values.std(), rel=1e-12)


def test_stats_without_finite_elements_are_none() -> None:
    """NaN and infinities are counted, and nothing else exists."""
    stats = stats_of([nan, inf, -inf, nan])
    assert (stats.count, stats.nan_count, stats.inf_count) == (4, 2, 2)
    assert stats.min is stats.max is stats.mean is stats.std is stats.histogram is None
    assert stats_of(np.empty((0, 3))).count == 0


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e5m2", "int4", "uint4"])
def test_stats_of_small_types_are_those_of_their_numbers(dtype: str) -> None:
    """Types of ml_dtypes have statistics."""
    pytest.importorskip("ml_dtypes")
    array = tessarr.create_array(None, shape=4, dtype=dtype, zarr_format=3)
    array[...] = np.array([1, 2, 3, 6]).astype(array.dtype)
    stats = array.stats()
    assert (float(stats.min), float(stats.max), stats.mean) == (1, 6, 3)
    assert stats.asdict()["max"] == 6


def test_stats_of_booleans_have_the_share_of_true() -> None:
    """The minimum and the maximum are booleans."""
    stats = stats_of([True, False, True, True])
    assert stats.min is np.False_
    assert stats.max is np.True_
    assert (stats.mean, stats.sum) == (0.75, 3)
    assert stats.asdict()["min"] is False


def test_stats_histogram_has_at_most_the_requested_bins() -> None:
    """Widths are powers of two; 0 bins omit the histogram."""
    array = tessarr.create_array(None, data=np.arange(1000), chunks=100)
    for bins in (2, 10, 64, 1024):
        histogram = array.stats(bins=bins).histogram
        assert histogram is not None
        assert bins // 2 < len(histogram.counts) <= bins
        assert histogram.counts.sum() == 1000
    assert array.stats(bins=0).histogram is None


def test_stats_of_store_without_listings_reads_all_chunks() -> None:
    pytest.importorskip("uvicorn")
    a = tessarr.zeros((10, 10), chunks=(5, 5))
    a[:5] = 2
    with tessarr.serve(a) as server:
        assert tessarr.open(server.url).stats().asdict() == a.stats().asdict()


def test_stats_of_unstored_chunks_count_fill_values_without_reads() -> None:
    """Half a terabyte with one stored chunk takes about one request for each chunk."""
    store = CountingStore(MemoryStore())
    array = tessarr.create_array(
        store, shape=(1 << 17, 1 << 20), chunks=(1 << 11, 1 << 11), dtype="f4", fill_value=2
    )
    array[0, :3] = [5, nan, 2]
    stats = array.stats()
    assert store.counts()["opens"] < 1.1 * array.nchunks
    assert (stats.count, stats.nan_count) == (1 << 37, 1)
    assert (stats.min, stats.max) == (2, 5)
    assert stats.sum == 2 * ((1 << 37) - 2) + 5
    assert stats.histogram is not None
    assert stats.histogram.counts.sum() == (1 << 37) - 1


def test_stats_of_missing_chunks_respect_the_option() -> None:
    """With read_missing_chunks=False a missing chunk is an error."""
    array = tessarr.create_array({}, shape=8, chunks=4, dtype="i2")
    array[:4] = 1
    strict = array.with_config({"read_missing_chunks": False})
    with pytest.raises(tessarr.errors.NotFoundError):
        strict.stats()


def test_stats_contain_buffered_writes() -> None:
    """Elements that a block of buffered writes holds are not fill values."""
    array = tessarr.create_array({}, shape=8, chunks=4, dtype="i2")
    with array.buffered():
        array[1] = 9
        assert array.stats().max == 9


def test_stats_of_shards_and_nested_boxes() -> None:
    """Regions of shards are read by subchunks."""
    values = np.random.default_rng(1).normal(size=(50, 70))
    array = tessarr.create_array(
        None, data=values, chunks=(5, 7), shards=(20, 28), compressors="zstd", zarr_format=3
    )
    stats = array.stats()
    assert stats.mean == pytest.approx(values.mean())
    assert stats.std == pytest.approx(values.std())


def test_stats_of_selection_with_field_or_arrays() -> None:
    """Fields, index arrays and masks select as they do for reads."""
    values = np.array([(1, 2.5), (3, nan), (5, -1)], [("x", "i4"), ("y", "f8")])
    array = tessarr.create_array(None, data=values, chunks=2)
    assert array.stats("x").sum == 9
    assert array.stats(("y", slice(0, 2))).nan_count == 1
    plain = tessarr.create_array(None, data=np.arange(10), chunks=3)
    assert plain.stats(([1, 5],)).sum == 6
    assert plain.stats((np.arange(10) > 7,)).sum == 17
    assert plain.stats(slice(None, None, -3)).sum == 9 + 6 + 3
    assert plain.stats(-1).count == 1


def test_stats_read_in_bounded_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A region is at most as large as configured, also in one large uncompressed chunk."""
    sizes: list[int] = []
    original = stats_module._Reader.summarize

    def summarize(self: Any, key: Any) -> Any:
        sizes.append(np.asarray(self.array[key]).size)
        return original(self, key)

    monkeypatch.setattr(stats_module, "_LOCAL_BYTES", (40_000, 8000))
    monkeypatch.setattr(stats_module._Reader, "summarize", summarize)
    values = np.arange(60000.0).reshape(60, 1000)
    array = tessarr.create_array(None, data=values, chunks=(60, 1000), compressors=None)
    assert array.stats().mean == pytest.approx(values.mean())
    assert max(sizes) == 1000


def test_stats_of_remote_store_read_many_chunks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A region of a remote store has many chunks, whose requests run concurrently."""
    store = LatencyStore(MemoryStore(), read_s=0.0, concurrency=16)
    array = tessarr.create_array(store, shape=(4, 1 << 19), chunks=(1, 1 << 16), dtype="f4")
    array[...] = 1
    keys: list[Any] = []
    original = stats_module._Reader.summarize

    def summarize(self: Any, key: Any) -> Any:
        keys.append(key)
        return original(self, key)

    monkeypatch.setattr(stats_module._Reader, "summarize", summarize)
    assert array.stats().sum == array.size
    assert len(keys) == 1


def test_stats_progress_reports_all_bytes() -> None:
    """The last call reports the total."""
    calls: list[tuple[int, int]] = []
    array = tessarr.create_array(None, shape=(10, 10), chunks=(5, 5), dtype="i4")
    array[:5] = 1
    array.stats(progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (400, 400)


def test_stats_errors_name_the_cause() -> None:
    """Wrong arguments, and data types without statistics."""
    array = tessarr.create_array(None, data=np.arange(4))
    for bins in (1, -1, 1025, 2.5, True):
        with pytest.raises(ArgumentError, match="bins"):
            array.stats(bins=bins)  # type: ignore[arg-type]
    with pytest.raises(SelectionError):
        array.stats(7)
    records = tessarr.create_array(None, data=np.zeros(3, [("x", "i4"), ("y", "f8")]))
    with pytest.raises(ArgumentError, match=r"select one field .*'x', 'y'"):
        records.stats()
    with pytest.raises(UnsupportedError, match="V5"):
        tessarr.create_array(None, shape=3, dtype="V5").stats()


def test_stats_of_data_error_is_reported() -> None:
    """A damaged chunk is an error, as for a read."""
    items: dict[str, Any] = {}
    array = tessarr.create_array(items, data=np.arange(100), chunks=10, compressors="zstd")
    items["c/4"] = b"damaged"
    with pytest.raises(tessarr.errors.DataError):
        array.stats()


def test_compute_stats_is_deterministic() -> None:
    """Threads do not change the rounding."""
    values = np.random.default_rng(2).normal(size=100_000)
    array = tessarr.create_array(None, data=values, chunks=1000)
    results = {
        (stats.mean, stats.std)
        for stats in (compute_stats(array, ..., bins=0, progress=None) for _ in range(5))
    }
    assert len(results) == 1
