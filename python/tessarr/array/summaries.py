"""Summaries of elements of each data type, and the statistics that follow from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from tessarr import _engine
from tessarr.errors import UnsupportedError
from tessarr.format.registry import set_public_module

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from tessarr.types import JSONObject

__all__ = ["ArrayStats", "Histogram", "Summary", "find_summarizer"]


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """The counts of elements in bins of equal width.

    Parameters
    ----------
    edges
        The edges of the bins, ascending: one more than bins. A bin contains its lower edge, and not
        its upper one.
    counts
        The number of elements in each bin.
    """

    edges: npt.NDArray[Any]
    counts: npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ArrayStats:
    """Statistics of the elements of an array.

    Minimum, maximum, sum, mean, standard deviation and histogram are those of the *finite*
    elements: all except NaN, NaT and infinities. They are None if there are none, or if the data
    type does not have them.

    Parameters
    ----------
    count
        The number of elements.
    nan_count
        The number of elements that are NaN or NaT.
    inf_count
        The number of infinities.
    min, max
        The extremes, as scalars of the data type. Text is ordered by its characters. Complex
        numbers have none.
    sum
        The sum: an int, which is exact, for integers and booleans. Times have none.
    mean
        The mean. Those of times are rounded to their unit.
    std
        The standard deviation: the root of the mean squared distance from the mean, as for
        `numpy.std`. Those of times are a timedelta, rounded to their unit.
    histogram
        The histogram. Its bins have a power of two as their width, and multiples of it as their
        edges.
    """

    count: int
    nan_count: int = 0
    inf_count: int = 0
    min: Any = None
    max: Any = None
    sum: Any = None
    mean: Any = None
    std: Any = None
    histogram: Histogram | None = None

    def asdict(self) -> JSONObject:
        """Return the statistics as plain JSON; times and complex numbers become text."""
        names = ("min", "max", "sum", "mean", "std")
        values = {name: _to_json(getattr(self, name)) for name in names}
        counts = {"count": self.count, "nan_count": self.nan_count, "inf_count": self.inf_count}
        histogram: JSONObject | None = None
        if self.histogram is not None:
            histogram = {
                "edges": [_to_json(edge) for edge in self.histogram.edges],
                "counts": self.histogram.counts.tolist(),
            }
        return {**counts, **values, "histogram": histogram}


def _to_json(value: Any) -> Any:
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, int | float | str | None) and not isinstance(value, np.generic):
        return value
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.floating) or type(value).__module__ == "ml_dtypes":
        return float(value)
    return str(value)


class Summary(Protocol):
    """The summary of some elements."""

    def merged(self, other: Any) -> Any:
        """Return the summary of the elements of both."""

    def repeated(self, count: int) -> Any:
        """Return the summary of `count` repetitions of the elements."""

    def to_stats(self) -> ArrayStats:
        """Return the statistics."""
        ...


def find_summarizer(
    dtype: np.dtype[Any], max_bins: int
) -> Callable[[npt.NDArray[Any]], Summary] | None:
    """Return the function that summarises arrays of a data type; None if there is none.

    Parameters
    ----------
    dtype
        The data type.
    max_bins
        The maximum number of bins of the histogram; 0 for no histogram.

    Examples
    --------
    >>> summarize = find_summarizer(np.dtype("i2"), 4)
    >>> both = summarize(np.array([1, 2], "i2")).merged(summarize(np.array([6], "i2")))
    >>> both.to_stats().mean, both.repeated(2).to_stats().sum
    (3.0, 18)
    """
    if dtype.kind == "c":
        return _ComplexSummary.of
    if dtype.kind in "SUTO":
        return _TextSummary.of
    form = _find_kernel(dtype)
    if form is None:
        return None
    kind, stored, is_view = form

    def summarize(values: npt.NDArray[Any]) -> _NumberSummary:
        if is_view:
            native = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
            numbers = native.reshape(-1).view(stored)
        else:
            numbers = np.ascontiguousarray(values, stored)
        return _NumberSummary(dtype, _engine.summarize(numbers, kind, max_bins))

    return summarize


_SMALL_TYPES: Final = {"float": ("f4", "f4"), "int": ("i1", "i1"), "uint": ("u1", "u1")}
"""The kernels for types of ml_dtypes by the beginning of their names."""


def _find_kernel(dtype: np.dtype[Any]) -> tuple[str, str, bool] | None:
    """Return the kind of a kernel, the data type of its elements, and whether it is a view."""
    if dtype.kind == "b":
        return "u1", "u1", True
    if dtype.kind in "mM":
        return "M8", "i8", True
    if dtype.kind in "iuf" and dtype.type.__module__ == "numpy" and dtype.itemsize <= 8:
        kind = f"{dtype.kind}{dtype.itemsize}"
        return kind, kind, False
    if dtype.name == "bfloat16":
        return "bfloat16", "u2", True
    if dtype.type.__module__ == "ml_dtypes":
        forms = [form for name, form in _SMALL_TYPES.items() if dtype.name.startswith(name)]
        return (*forms[0], False) if forms else None
    return None


@dataclass(frozen=True, slots=True)
class _NumberSummary:
    """The summary of real numbers, booleans or times."""

    dtype: np.dtype[Any]
    engine: _engine.Summary

    def merged(self, other: _NumberSummary) -> _NumberSummary:
        return _NumberSummary(self.dtype, self.engine.merged(other.engine))

    def repeated(self, count: int) -> _NumberSummary:
        return _NumberSummary(self.dtype, self.engine.repeated(count))

    def to_stats(self) -> ArrayStats:
        engine = self.engine
        infinities = sum(engine.infinity_counts)
        count = engine.count + engine.nan_count + infinities
        if engine.extremes is None:
            return ArrayStats(count, engine.nan_count, infinities)
        low, high = (self._to_element(number) for number in engine.extremes)
        total: Any = engine.sum
        mean: Any = total / engine.count if engine.mean is None else engine.mean
        std: Any = engine.standard_deviation
        if self.dtype.kind in "mM":
            mean = self._to_element((2 * total + engine.count) // (2 * engine.count))
            span = self.dtype.str.replace("M8", "m8") if self.dtype.kind == "M" else self.dtype
            std = np.array(round(std), "i8").view(np.dtype(span).newbyteorder("="))[()]
            total = None
        histogram = self._histogram(*engine.bins)
        return ArrayStats(
            count, engine.nan_count, infinities, low, high, total, mean, std, histogram
        )

    def _to_element(self, number: float) -> Any:
        if self.dtype.kind in "mM":
            return np.array(number, "i8").view(self.dtype.newbyteorder("="))[()]
        return self.dtype.type(number)

    def _histogram(self, exponent: int, first: int, counts: list[int]) -> Histogram | None:
        if not counts:
            return None
        numbers = range(first, first + len(counts) + 1)
        edges: npt.NDArray[Any]
        if self.dtype.kind in "mM":
            limits = np.iinfo("i8")
            inside = [min(max(bin_ << exponent, -limits.max), limits.max) for bin_ in numbers]
            edges = np.array(inside, "i8").view(self.dtype.newbyteorder("="))
        elif isinstance(self.engine.sum, int):
            edges = np.array([bin_ << exponent for bin_ in numbers])
            edges = edges.astype("f8") if edges.dtype.kind == "O" else edges
        else:
            edges = np.array([_scale(bin_, exponent) for bin_ in numbers])
        return Histogram(edges, np.array(counts, np.int64))


def _scale(number: int, exponent: int) -> float:
    try:
        return math.ldexp(number, exponent)
    except OverflowError:
        return math.inf


@dataclass(frozen=True, slots=True)
class _ComplexSummary:
    """The summary of complex numbers."""

    nan_count: int
    inf_count: int
    real: _engine.Summary
    imaginary: _engine.Summary

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> _ComplexSummary:
        flat = np.asarray(values, values.dtype.newbyteorder("=")).reshape(-1)
        finite: Any = flat[np.isfinite(flat)]
        nan_count = int(np.count_nonzero(np.isnan(flat)))
        kind = f"f{flat.dtype.itemsize // 2}"
        real, imaginary = (
            _engine.summarize(np.ascontiguousarray(part), kind, 0)
            for part in (finite.real, finite.imag)
        )
        return cls(nan_count, flat.size - finite.size - nan_count, real, imaginary)

    def merged(self, other: _ComplexSummary) -> _ComplexSummary:
        return _ComplexSummary(
            self.nan_count + other.nan_count,
            self.inf_count + other.inf_count,
            self.real.merged(other.real),
            self.imaginary.merged(other.imaginary),
        )

    def repeated(self, count: int) -> _ComplexSummary:
        return _ComplexSummary(
            self.nan_count * count,
            self.inf_count * count,
            self.real.repeated(count),
            self.imaginary.repeated(count),
        )

    def to_stats(self) -> ArrayStats:
        count = self.real.count + self.nan_count + self.inf_count
        if not self.real.count:
            return ArrayStats(count, self.nan_count, self.inf_count)
        mean = complex(self.real.mean or 0, self.imaginary.mean or 0)
        std = math.hypot(self.real.standard_deviation or 0, self.imaginary.standard_deviation or 0)
        total = complex(self.real.sum, self.imaginary.sum)
        return ArrayStats(count, self.nan_count, self.inf_count, sum=total, mean=mean, std=std)


@dataclass(frozen=True, slots=True)
class _TextSummary:
    """The summary of text or of bytes."""

    count: int
    extremes: tuple[Any, Any] | None

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> _TextSummary:
        items = values.reshape(-1).tolist()
        other = next((item for item in items if not isinstance(item, str | bytes)), None)
        if other is not None:
            raise UnsupportedError(
                f"elements of the type {type(other).__name__} have no statistics: only numbers, "
                "times and text have",
                kind="unsupported_data_type",
            )
        return cls(len(items), (min(items), max(items)) if items else None)

    def merged(self, other: _TextSummary) -> _TextSummary:
        both = [*(self.extremes or ()), *(other.extremes or ())]
        return _TextSummary(self.count + other.count, (min(both), max(both)) if both else None)

    def repeated(self, count: int) -> _TextSummary:
        return _TextSummary(self.count * count, self.extremes if count else None)

    def to_stats(self) -> ArrayStats:
        low, high = self.extremes or (None, None)
        return ArrayStats(self.count, min=low, max=high)


set_public_module("tessarr", ArrayStats, Histogram)
