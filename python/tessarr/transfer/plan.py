"""Choose the regions for a copy between arrays with different chunks.

Theory
------
A region is read completely, stays in memory, and is written completely. If it is a union of
target chunks, each of these is encoded once. A source chunk is decoded once for every region
that it overlaps. So the cost of a plan is ::

    decodes = product over the axes of (chunks of the source + cuts of regions inside one)

The cost falls as regions grow, or as their cuts coincide with cuts of the source. Each axis has
some candidates, from one target chunk to the whole axis, which prefer cuts of both arrays. The
size of a region and its decodes are products over the axes. So the algorithm adds one axis at a
time and keeps only the Pareto-optimal combinations.

The result is the cheapest candidate that fits into memory. Among several, it is the smallest one
that is worth the overhead of a request: then many regions fit into memory, and some are read
while others are encoded.

Copies from rows to columns profit most: with regions of a single column, every column would
decode each row again. The plan makes regions as many columns wide as memory allows.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from tessarr.types import Shape

__all__ = ["Cut", "Plan", "Region", "cut_points", "make_plan"]

Region: TypeAlias = "tuple[tuple[int, int], ...]"
"""Start and stop along each axis."""

Cut: TypeAlias = "Sequence[int]"
"""The cut positions of an axis, ascending, without its two ends."""

_REGION_BYTES: Final = 8 << 20
"""A region of this size is worth the overhead of two requests and a thread switch."""

_MAX_CUTS: Final = 1 << 16
"""The maximum number of regions along one axis, if fewer fit into memory."""

_MAX_CANDIDATES: Final = 256
_MAX_PARTS: Final = 24


@dataclass(frozen=True)
class Plan:
    """The regions of a copy, in C order.

    Parameters
    ----------
    shape
        The shape of the copy.
    cuts
        The cut positions of each axis.
    concurrency
        The number of concurrent regions.
    decodes
        The average number of decodes of a source chunk.

    Examples
    --------
    >>> plan = Plan((4, 6), ((2,), (3,)), 1, 1.0)
    >>> plan.count, plan.region(1), plan.longest
    (4, ((0, 2), (3, 6)), (2, 3))
    """

    shape: Shape
    cuts: tuple[Cut, ...]
    concurrency: int
    decodes: float

    @cached_property
    def counts(self) -> Shape:
        """The number of regions along each axis."""
        pairs = zip(self.cuts, self.shape, strict=True)
        return tuple(len(cuts) + 1 if length else 0 for cuts, length in pairs)

    @cached_property
    def count(self) -> int:
        """The number of regions."""
        return prod(self.counts)

    @cached_property
    def longest(self) -> Shape:
        """The greatest length of a region along each axis."""
        pairs = zip(self.cuts, self.shape, strict=True)
        return tuple(_max_length(cuts, length) for cuts, length in pairs)

    def region(self, number: int) -> Region:
        """Return the bounds of a region."""
        bounds: list[tuple[int, int]] = []
        for cuts, length, count in zip(
            reversed(self.cuts), reversed(self.shape), reversed(self.counts), strict=True
        ):
            number, index = divmod(number, count)
            start = cuts[index - 1] if index else 0
            bounds.append((start, cuts[index] if index < len(cuts) else length))
        return tuple(reversed(bounds))

    def __iter__(self) -> Iterator[Region]:
        return map(self.region, range(self.count))


def cut_points(lengths: int | Sequence[int] | None, size: int) -> npt.NDArray[np.int64]:
    """Return the chunk borders of an axis of length `size`, for one length, several, or no chunks.

    Examples
    --------
    >>> cut_points(4, 10), cut_points((3, 7), 10), cut_points(None, 10)
    (array([4, 8]), array([3]), array([], dtype=int64))
    """
    if lengths is None:
        return np.empty(0, np.int64)
    if isinstance(lengths, int):
        return np.arange(lengths, size, lengths, dtype=np.int64)
    ends = np.fromiter(accumulate(lengths), np.int64)
    return ends[ends < size]


def make_plan(
    shape: Shape,
    source: Sequence[npt.NDArray[np.int64] | None],
    target: Sequence[npt.NDArray[np.int64]],
    *,
    item_bytes: int,
    memory_bytes: int,
    workers: int,
) -> Plan:
    """Return regions that are unions of target chunks.

    Parameters
    ----------
    shape
        The shape of the copy.
    source, target
        The chunk borders of each axis of source and target. None in the source means that any part
        can be read separately.
    item_bytes
        The bytes of an element in memory.
    memory_bytes
        The memory limit of all concurrent regions. A larger single chunk raises the limit to its
        size, because only whole chunks are decoded or encoded.
    workers
        The useful number of concurrent regions.

    Examples
    --------
    >>> rows, columns = cut_points(1, 1000), cut_points(None, 1000)
    >>> plan = make_plan((1000, 1000), (rows, columns), (columns, rows), item_bytes=8,
    ...                  memory_bytes=2_000_000, workers=1)
    >>> plan.longest, plan.decodes
    ((1000, 250), 4.0)
    """
    cells = [
        1 if cuts is None else _max_length(cuts, length)
        for cuts, length in zip(source, shape, strict=True)
    ]
    memory_bytes = max(memory_bytes, prod(cells) * item_bytes)
    frontiers = _Frontier(shape, source, target)
    best = frontiers.cheapest(memory_bytes // max(item_bytes, 1))
    concurrency = 1
    for count in range(workers, 1, -1):
        share = memory_bytes // count // max(item_bytes, 1)
        candidate = frontiers.cheapest(share)
        if candidate.size <= share and candidate.decodes <= best.decodes * 1.05:
            best, concurrency = candidate, count
            break
    limit = memory_bytes // concurrency
    region_size = min(limit, _REGION_BYTES) // max(item_bytes, 1)
    smallest = frontiers.smallest(best, region_size)
    plan = Plan(shape, smallest.cuts, concurrency, smallest.decodes)
    return Plan(shape, smallest.cuts, max(1, min(concurrency, plan.count)), smallest.decodes)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Cuts of some axes, the size of the largest region, and the decodes per chunk."""

    size: int
    decodes: float
    cuts: tuple[Cut, ...]


class _Frontier:
    """The Pareto-optimal regions: no other region is both as small and as cheap."""

    def __init__(
        self,
        shape: Shape,
        source: Sequence[npt.NDArray[np.int64] | None],
        target: Sequence[npt.NDArray[np.int64]],
    ) -> None:
        candidates = [_Candidate(1, 1.0, ())]
        for length, source_cuts, target_cuts in zip(shape, source, target, strict=True):
            axis = _candidates(length, source_cuts, target_cuts)
            candidates = _prune(
                _Candidate(
                    first.size * second.size,
                    first.decodes * second.decodes,
                    first.cuts + second.cuts,
                )
                for first in candidates
                for second in axis
            )
        self._choices = candidates

    def cheapest(self, room: int) -> _Candidate:
        """Return the cheapest candidate of at most `room` elements, else the smallest."""
        # Candidates are sorted: a larger one is cheaper.
        fitting = [choice for choice in self._choices if choice.size <= room]
        return fitting[-1] if fitting else self._choices[0]

    def smallest(self, best: _Candidate, worth: int) -> _Candidate:
        """Return the smallest candidate of `worth` elements or more at about the cost of `best`."""
        for choice in self._choices:
            if choice.decodes <= best.decodes * 1.02 and choice.size >= min(worth, best.size):
                return choice
        return best


def _prune(choices: Iterator[_Candidate]) -> list[_Candidate]:
    """Return the Pareto-optimal candidates, the smallest and most expensive first."""
    frontier: list[_Candidate] = []
    for choice in sorted(choices, key=lambda candidate: (candidate.size, candidate.decodes)):
        # Keep larger candidates of equal cost, too: they need fewer requests.
        if (
            not frontier
            or choice.decodes < frontier[-1].decodes
            or (choice.decodes == frontier[-1].decodes and choice.size >= 2 * frontier[-1].size)
        ):
            frontier.append(choice)
    if len(frontier) <= _MAX_CANDIDATES:
        return frontier
    positions = np.linspace(0, len(frontier) - 1, _MAX_CANDIDATES).astype(int)
    return [frontier[position] for position in positions]


def _candidates(
    length: int, source: npt.NDArray[np.int64] | None, target: npt.NDArray[np.int64]
) -> list[_Candidate]:
    """Return the candidates for the cuts of one axis."""
    source = target if source is None else source
    shortest = max(_max_length(target, length), -(-length // _MAX_CUTS), 1)
    shared_cuts = _thin_cuts(np.intersect1d(source, target, assume_unique=True), shortest, length)
    target_cuts: list[int] = np.union1d(_thin_cuts(target, shortest, length), shared_cuts).tolist()
    shared: list[int] = shared_cuts.tolist()
    lengths = {_max_length(shared, length)}
    # A few equal parts, since each part costs another pass over the source.
    lengths |= {-(-length // parts) for parts in range(1, _MAX_PARTS + 1)}
    part_length = float(shortest)
    while part_length < length:
        lengths.add(int(part_length))
        part_length *= 1.5
    candidates = []
    for limit in sorted(lengths):
        cuts = _cut_axis(length, max(limit, shortest), target_cuts, shared)
        inside = len(cuts) - _count_common(np.asarray(cuts, np.int64), source)
        decodes = (len(source) + 1 + inside) / (len(source) + 1)
        candidates.append(_Candidate(max(_max_length(cuts, length), 1), decodes, (cuts,)))
    return candidates


def _count_common(points: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> int:
    """Return how many of some ascending numbers occur in others."""
    if not len(others):
        return 0
    positions = np.minimum(np.searchsorted(others, points), len(others) - 1)
    return int((others[positions] == points).sum())


def _thin_cuts(points: npt.NDArray[np.int64], every: int, length: int) -> npt.NDArray[np.int64]:
    """Return a subset of the cuts that leaves parts of length `every` or more."""
    if len(points) <= _MAX_CUTS:
        return points
    positions = np.searchsorted(points, np.arange(every, length, every), side="right") - 1
    return np.unique(points[positions[positions >= 0]])


def _cut_axis(length: int, limit: int, cuts: Sequence[int], shared: Sequence[int]) -> Cut:
    """Cut an axis into parts of at most `limit` at `cuts`, preferably at `shared` cuts."""
    chosen_cuts: list[int] = []
    start = 0
    while length - start > limit:
        index = bisect_right(shared, start + limit) - 1
        if index >= 0 and shared[index] > start + limit // 2:
            start = shared[index]
        else:
            index = bisect_right(cuts, start + limit) - 1
            if index < 0 or cuts[index] <= start:  # a single chunk exceeds the limit
                index += 1
            if index >= len(cuts):
                break
            start = cuts[index]
        chosen_cuts.append(start)
    return tuple(chosen_cuts)


def _max_length(cuts: Sequence[int] | npt.NDArray[np.int64], length: int) -> int:
    if not len(cuts):
        return length
    ends = np.concatenate(([0], cuts, [length]))
    return int(np.diff(ends).max())
