"""Choose the regions in which an array is copied to one that is cut into other chunks.

Theory
------
A region is read as a whole, held in memory, and written as a whole. If it is a union of
chunks of the target, each of those is encoded once. A chunk of the source is decoded once for
every region that it reaches into, so what a plan costs is ::

    decodes = product over the axes of (chunks of the source + cuts of regions inside one)

which falls as regions grow, or as their cuts fall on cuts of the source. For each axis some
candidates are made, from one chunk of the target to the whole axis, each of which prefers cuts
that both arrays have. Both the size of a region and the decodes are products over the axes:
walking from axis to axis, only those combinations stay of which no other is as small and as
cheap. Of what fits into memory the cheapest is taken, and of several such the smallest that is
worth the overhead of a request: then many fit side by side, so that one is read while others
are encoded.

Rows to columns is where this matters most: with regions of a single column each row would be
decoded for every column. Here the buffer is as many columns wide as memory allows.
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
"""Where an axis is cut, ascending, without its two ends."""

_WORTH_BYTES: Final = 8 << 20
"""A region of so much is worth the overhead of two requests and a change of threads."""

_MOST_CUTS: Final = 1 << 16
"""More regions along one axis are not considered, where fewer fit into memory."""

_FRONTIER: Final = 256
_PARTS: Final = 24


@dataclass(frozen=True)
class Plan:
    """The regions of a copy, in C order.

    Parameters
    ----------
    shape
        Of what is copied.
    cuts
        Where each axis is cut into regions.
    at_once
        How many regions are under way at a time.
    decodes
        How often a chunk of the source is decoded, on average.

    Examples
    --------
    >>> plan = Plan((4, 6), ((2,), (3,)), 1, 1.0)
    >>> plan.count, plan.region(1), plan.longest
    (4, ((0, 2), (3, 6)), (2, 3))
    """

    shape: Shape
    cuts: tuple[Cut, ...]
    at_once: int
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
        return tuple(_longest(cuts, length) for cuts, length in pairs)

    def region(self, number: int) -> Region:
        """Return where a region is."""
        found: list[tuple[int, int]] = []
        for cuts, length, count in zip(
            reversed(self.cuts), reversed(self.shape), reversed(self.counts), strict=True
        ):
            number, at = divmod(number, count)
            start = cuts[at - 1] if at else 0
            found.append((start, cuts[at] if at < len(cuts) else length))
        return tuple(reversed(found))

    def __iter__(self) -> Iterator[Region]:
        return map(self.region, range(self.count))


def cut_points(lengths: int | Sequence[int] | None, size: int) -> npt.NDArray[np.int64]:
    """Return where an axis of `size` is cut into chunks: of one length, of several, or not.

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
    """Return regions that are unions of chunks of the target.

    Parameters
    ----------
    shape
        Of what is copied.
    source, target
        Where each axis is cut into chunks, that of the one and of the other. None in the
        source: any part can be read by itself.
    item_bytes
        The bytes of an element in memory.
    memory_bytes
        How much may be held in all regions that are under way at a time. Where a single chunk
        is larger, it is that chunk's size: without it whole nothing can be decoded or encoded.
    workers
        How many regions it is worth to have under way.

    Examples
    --------
    >>> rows, columns = cut_points(1, 1000), cut_points(None, 1000)
    >>> plan = make_plan((1000, 1000), (rows, columns), (columns, rows), item_bytes=8,
    ...                  memory_bytes=2_000_000, workers=1)
    >>> plan.longest, plan.decodes
    ((1000, 250), 4.0)
    """
    cells = [
        1 if cuts is None else _longest(cuts, length)
        for cuts, length in zip(source, shape, strict=True)
    ]
    memory_bytes = max(memory_bytes, prod(cells) * item_bytes)
    frontiers = _Frontier(shape, source, target)
    best = frontiers.cheapest(memory_bytes // max(item_bytes, 1))
    at_once = 1
    for wanted in range(workers, 1, -1):
        share = memory_bytes // wanted // max(item_bytes, 1)
        room = frontiers.cheapest(share)
        if room.size <= share and room.decodes <= best.decodes * 1.05:
            best, at_once = room, wanted
            break
    limit = memory_bytes // at_once
    worth = min(limit, _WORTH_BYTES) // max(item_bytes, 1)
    chosen = frontiers.smallest(best, worth)
    plan = Plan(shape, chosen.cuts, at_once, chosen.decodes)
    return Plan(shape, chosen.cuts, max(1, min(at_once, plan.count)), chosen.decodes)


@dataclass(frozen=True, slots=True)
class _Choice:
    """Cuts of some axes: the size of the largest region, and how often a chunk is decoded."""

    size: int
    decodes: float
    cuts: tuple[Cut, ...]


class _Frontier:
    """Which regions are possible: those of which no other is as small and as cheap."""

    def __init__(
        self,
        shape: Shape,
        source: Sequence[npt.NDArray[np.int64] | None],
        target: Sequence[npt.NDArray[np.int64]],
    ) -> None:
        found = [_Choice(1, 1.0, ())]
        for length, here, there in zip(shape, source, target, strict=True):
            axis = _candidates(length, here, there)
            found = _pruned(
                _Choice(one.size * more.size, one.decodes * more.decodes, one.cuts + more.cuts)
                for one in found
                for more in axis
            )
        self._choices = found

    def cheapest(self, room: int) -> _Choice:
        """Return the cheapest that has at most `room` elements, else the smallest."""
        # The larger, the cheaper.
        fitting = [choice for choice in self._choices if choice.size <= room]
        return fitting[-1] if fitting else self._choices[0]

    def smallest(self, best: _Choice, worth: int) -> _Choice:
        """Return the smallest that is nearly as cheap as `best`, of at least `worth` elements."""
        for choice in self._choices:
            if choice.decodes <= best.decodes * 1.02 and choice.size >= min(worth, best.size):
                return choice
        return best


def _pruned(choices: Iterator[_Choice]) -> list[_Choice]:
    """Return what is worth looking at, the smallest first, each cheaper than the one before."""
    kept: list[_Choice] = []
    for choice in sorted(choices, key=lambda one: (one.size, one.decodes)):
        # Of what costs the same the larger ones stay, too: fewer requests.
        if (
            not kept
            or choice.decodes < kept[-1].decodes
            or (choice.decodes == kept[-1].decodes and choice.size >= 2 * kept[-1].size)
        ):
            kept.append(choice)
    if len(kept) <= _FRONTIER:
        return kept
    places = np.linspace(0, len(kept) - 1, _FRONTIER).astype(int)
    return [kept[place] for place in places]


def _candidates(
    length: int, source: npt.NDArray[np.int64] | None, target: npt.NDArray[np.int64]
) -> list[_Choice]:
    """Return ways to cut one axis."""
    source = target if source is None else source
    shortest = max(_longest(target, length), -(-length // _MOST_CUTS), 1)
    both = _thinned(np.intersect1d(source, target, assume_unique=True), shortest, length)
    ours: list[int] = np.union1d(_thinned(target, shortest, length), both).tolist()
    shared: list[int] = both.tolist()
    lengths = {_longest(shared, length)}
    # Few equal parts, where each part costs another pass over the source.
    lengths |= {-(-length // parts) for parts in range(1, _PARTS + 1)}
    grown = float(shortest)
    while grown < length:
        lengths.add(int(grown))
        grown *= 1.5
    found = []
    for limit in sorted(lengths):
        cuts = _cut(length, max(limit, shortest), ours, shared)
        inside = len(cuts) - _common(np.asarray(cuts, np.int64), source)
        decodes = (len(source) + 1 + inside) / (len(source) + 1)
        found.append(_Choice(max(_longest(cuts, length), 1), decodes, (cuts,)))
    return found


def _common(some: npt.NDArray[np.int64], all_: npt.NDArray[np.int64]) -> int:
    """Return how many of some ascending numbers are among others."""
    if not len(all_):
        return 0
    places = np.minimum(np.searchsorted(all_, some), len(all_) - 1)
    return int((all_[places] == some).sum())


def _thinned(points: npt.NDArray[np.int64], every: int, length: int) -> npt.NDArray[np.int64]:
    """Return, of very many cuts, those that matter to parts of a length of at least `every`."""
    if len(points) <= _MOST_CUTS:
        return points
    places = np.searchsorted(points, np.arange(every, length, every), side="right") - 1
    return np.unique(points[places[places >= 0]])


def _cut(length: int, limit: int, cuts: Sequence[int], shared: Sequence[int]) -> Cut:
    """Cut an axis into parts of at most `limit`, as far as `cuts` allow, best where both are."""
    chosen: list[int] = []
    at = 0
    while length - at > limit:
        place = bisect_right(shared, at + limit) - 1
        if place >= 0 and shared[place] > at + limit // 2:
            at = shared[place]
        else:
            place = bisect_right(cuts, at + limit) - 1
            if place < 0 or cuts[place] <= at:  # a single chunk is longer
                place += 1
            if place >= len(cuts):
                break
            at = cuts[place]
        chosen.append(at)
    return tuple(chosen)


def _longest(cuts: Sequence[int] | npt.NDArray[np.int64], length: int) -> int:
    if not len(cuts):
        return length
    ends = np.concatenate(([0], cuts, [length]))
    return int(np.diff(ends).max())
