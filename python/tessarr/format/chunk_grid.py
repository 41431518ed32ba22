"""Chunk grids, regular and rectilinear: an extension point of format 3.

Theory
------
A grid is the product of the `Cuts` of its axes, which are independent of each other. The cuts of
an axis are *runs* of chunks of one length; the last run never ends. A regular axis is a single
run, so its memory does not depend on the number of chunks. A chunk that reaches over the edge of
the array is stored whole. A chunk that starts beyond the edge does not exist.
"""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, ClassVar, Final

from tessarr.errors import ArgumentError
from tessarr.format.registry import Registry
from tessarr.format.validation import (
    ABSENT,
    INT64_MAX,
    Members,
    Problems,
    describe,
    is_integer,
    pointer,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tessarr.types import ChunkLengths, JSONObject, Shape

__all__ = [
    "ChunkGrid",
    "Cuts",
    "RectilinearGrid",
    "RegularGrid",
    "find_grid",
    "grid_from_lengths",
    "register",
]

Run = tuple[int, int]
"""The length of a chunk, and the number of consecutive chunks with this length."""

MAX_LISTED: Final = 1 << 24
"""The limit for chunks of different lengths along one axis; more are a mistake or an attack."""


@dataclass(frozen=True, slots=True)
class Cuts:
    """The cuts of one axis: runs of chunks of one length; the last run never ends.

    Parameters
    ----------
    runs : tuple of (int, int)
        Lengths of chunks, each with the number of chunks that have it; both at least 1.

    Examples
    --------
    >>> cuts = Cuts(((10, 3), (5, 1)))
    >>> cuts.count(33), cuts.lengths(33), cuts.start(4), cuts.length(4), cuts.cell(29)
    (4, (10, 10, 10, 3), 35, 5, 2)
    """

    runs: tuple[Run, ...]
    _starts: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _cells: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts, cells = [0], [0]
        for length, count in self.runs[:-1]:
            starts.append(starts[-1] + length * count)
            cells.append(cells[-1] + count)
        object.__setattr__(self, "_starts", tuple(starts))
        object.__setattr__(self, "_cells", tuple(cells))

    @property
    def even(self) -> bool:
        """Whether all chunks have one length."""
        return len(self.runs) == 1

    @property
    def longest(self) -> int:
        """The length of the longest chunk."""
        if len(self.runs) == 1:  # the common case
            return self.runs[0][0]
        return max(length for length, _ in self.runs)

    @property
    def distinct(self) -> tuple[int, ...]:
        """All lengths, the longest first."""
        return tuple(sorted({length for length, _ in self.runs}, reverse=True))

    def cell(self, index: int) -> int:
        """Return the number of the chunk that holds `index`."""
        if len(self.runs) == 1:  # the common case
            return index // self.runs[0][0]
        run = _find_run(self._starts, index)
        return self._cells[run] + (index - self._starts[run]) // self.runs[run][0]

    def start(self, cell: int) -> int:
        """Return the first index of chunk `cell`."""
        if len(self.runs) == 1:
            return cell * self.runs[0][0]
        run = _find_run(self._cells, cell)
        return self._starts[run] + (cell - self._cells[run]) * self.runs[run][0]

    def length(self, cell: int) -> int:
        """Return the length of chunk `cell`, also where it reaches over the edge."""
        return self.runs[_find_run(self._cells, cell)][0]

    def count(self, size: int) -> int:
        """Return the number of chunks of an axis of `size`."""
        return self.cell(size - 1) + 1 if size else 0

    def lengths(self, size: int) -> tuple[int, ...]:
        """Return the length of each chunk inside an axis of `size`; their sum is `size`."""
        whole: list[int] = []
        left = size
        for index, (length, count) in enumerate(self.runs):
            last = index == len(self.runs) - 1
            count_here = left // length if last else min(left // length, count)
            whole += repeat(length, count_here)
            left -= count_here * length
            if left and (last or count_here < count):
                return (*whole, left)
        return tuple(whole)


def _find_run(firsts: tuple[int, ...], value: int) -> int:
    """Return the number of the run that holds `value`; `firsts` has the start of each run."""
    from bisect import bisect_right

    return bisect_right(firsts, value) - 1


@dataclass(frozen=True, slots=True)
class ChunkGrid(ABC):
    """The base class of chunk grids.

    A subclass defines `name`, `from_json`, `to_json` and `cuts`; the other members have
    defaults.
    """

    name: ClassVar[str] = ""
    lengths_member: ClassVar[str] = ""
    """The member of the configuration to which errors about lengths refer."""

    @classmethod
    @abstractmethod
    def from_json(cls, configuration: Members) -> ChunkGrid | None:
        """Return the grid of a ``configuration``; for an invalid one, add problems, return None."""

    @abstractmethod
    def to_json(self) -> JSONObject:
        """Return the JSON of the grid in format 3."""

    @property
    @abstractmethod
    def cuts(self) -> tuple[Cuts, ...]:
        """The cuts of each axis."""

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.cuts)

    def fit(self, shape: Shape, loc: str, problems: Problems) -> ChunkGrid | None:
        """Return the grid for an array of `shape`; add problems if it does not fit."""
        rank = self.rank
        if rank != len(shape):
            message = f"{rank} chunk lengths for an array of {len(shape)} dimensions"
            problems.add(loc, message, "mismatch")
            return None
        if math.prod(self.grid_shape(shape)) > INT64_MAX:
            problems.add(loc, "more than 2**63 - 1 chunks", "too_large")
            return None
        return self

    def resized(self, shape: Shape, parts: Shape) -> ChunkGrid:
        """Return the grid for a new shape of the array; by default the same grid.

        Parameters
        ----------
        shape : tuple of int
            The new shape.
        parts : tuple of int
            The shape of a subchunk, or 1 along each axis: each chunk is a multiple of it.
        """
        return self

    def grid_shape(self, shape: Shape) -> Shape:
        """Return the number of chunks along each axis of an array of `shape`."""
        return tuple(c.count(size) for c, size in zip(self.cuts, shape, strict=True))

    def lengths(self, shape: Shape) -> ChunkLengths:
        """Return for each axis the length of all chunks, or a tuple of different lengths."""
        pairs = zip(self.cuts, shape, strict=True)
        return tuple(c.longest if c.even else c.lengths(size) for c, size in pairs)

    def regular(self) -> RegularGrid | None:
        """Return the equivalent regular grid, or None."""
        cuts = self.cuts
        return RegularGrid(tuple(c.longest for c in cuts)) if all(c.even for c in cuts) else None

    def shapes(self) -> Iterator[Shape]:
        """Yield shapes that represent the shapes of all chunks.

        The first shape has the longest length along each axis. Each further shape has one of
        the other lengths along one axis.
        """
        cuts = self.cuts
        longest = tuple(c.longest for c in cuts)
        yield longest
        for axis, c in enumerate(cuts):
            for length in c.distinct[1:]:
                yield (*longest[:axis], length, *longest[axis + 1 :])


@lru_cache(1024)
def _regular_cuts(length: int) -> Cuts:
    return Cuts(((length, 1),))


@dataclass(frozen=True, slots=True)
class RegularGrid(ChunkGrid):
    """Chunks of one shape; those at the upper edges reach over the edge (Zarr core 3.1).

    Parameters
    ----------
    chunk_shape : tuple of int
        Lengths of a chunk, at least 1 each.

    Examples
    --------
    >>> RegularGrid((4, 4)).grid_shape((10, 8))
    (3, 2)
    """

    name = "regular"
    lengths_member = "chunk_shape"
    chunk_shape: Shape

    @classmethod
    def from_json(cls, configuration: Members) -> ChunkGrid | None:
        value = configuration.get("chunk_shape")
        if isinstance(value, list) and any(isinstance(item, list) for item in value):
            # zarr-python 3.2 stored rectilinear grids under this name.
            before = len(configuration.problems)
            message = "lists of lengths, taken for the grid 'rectilinear'"
            configuration.problems.tolerate(configuration.at("chunk_shape"), message)
            axes = _read_axes(configuration, "chunk_shape")
            configuration.done()
            return None if len(configuration.problems) > before else RectilinearGrid(axes)
        chunk_shape = configuration.chunk_lengths("chunk_shape", 0)
        configuration.done()
        return None if chunk_shape is None else cls(chunk_shape)

    def to_json(self) -> JSONObject:
        return {"name": self.name, "configuration": {"chunk_shape": list(self.chunk_shape)}}

    @property
    def cuts(self) -> tuple[Cuts, ...]:
        return tuple(map(_regular_cuts, self.chunk_shape))

    def shapes(self) -> Iterator[Shape]:
        yield self.chunk_shape

    @property
    def rank(self) -> int:
        return len(self.chunk_shape)

    def regular(self) -> RegularGrid:
        return self

    def fit(self, shape: Shape, loc: str, problems: Problems) -> RegularGrid | None:
        grid = self
        if 0 in self.chunk_shape:
            lengths = list(self.chunk_shape)
            for axis, (length, chunk) in enumerate(zip(shape, self.chunk_shape, strict=False)):
                if chunk == 0 and length == 0:
                    problems.tolerate(pointer(loc, axis), "a chunk length of 0")
                    lengths[axis] = 1
                elif chunk == 0:
                    problems.add(pointer(loc, axis), "0 is less than 1")
                    return None
            grid = RegularGrid(tuple(lengths))
        return None if ChunkGrid.fit(grid, shape, loc, problems) is None else grid

    def grid_shape(self, shape: Shape) -> Shape:
        pairs = zip(shape, self.chunk_shape, strict=True)
        return tuple([-(-length // chunk) for length, chunk in pairs])

    def lengths(self, shape: Shape) -> Shape:
        return self.chunk_shape


@dataclass(frozen=True, slots=True)
class RectilinearGrid(ChunkGrid):
    """Chunks whose lengths are listed, axis by axis (zarr-extensions, chunk grid "rectilinear").

    Parameters
    ----------
    chunk_shapes : tuple of int or tuple of (int, int)
        For each axis the length of all chunks, or runs: lengths, each with its number of
        consecutive chunks. The runs cover at least the length of the array.

    Examples
    --------
    >>> grid = RectilinearGrid.of([[10, 20, 20, 5], 4])
    >>> grid
    RectilinearGrid(chunk_shapes=(((10, 1), (20, 2), (5, 1)), 4))
    >>> grid.grid_shape((52, 10)), grid.lengths((52, 10))
    ((4, 3), ((10, 20, 20, 2), 4))
    >>> grid.to_json()["configuration"]["chunk_shapes"]
    [[10, [20, 2], 5], 4]
    """

    name = "rectilinear"
    lengths_member = "chunk_shapes"
    chunk_shapes: tuple[int | tuple[Run, ...], ...]

    @classmethod
    def of(cls, chunk_shapes: Sequence[Any]) -> RectilinearGrid:
        """Return the grid of one entry per axis: a length, or a list of lengths.

        A list may contain pairs of a length and a number of chunks.

        Raises
        ------
        ArgumentError
            If an entry is invalid.
        """
        problems = Problems()
        plain = [_to_plain(axis) for axis in chunk_shapes]
        grid = cls.from_json(Members({"kind": "inline", "chunk_shapes": plain}, "", problems))
        if grid is None or problems.defects:  # only stored documents are read leniently
            faults = [*map(str, problems.found), *problems.defects]
            raise ArgumentError("; ".join(faults))
        return grid

    @classmethod
    def from_json(cls, configuration: Members) -> RectilinearGrid | None:
        before = len(configuration.problems)
        configuration.choice("kind", ("inline",))
        axes = _read_axes(configuration, "chunk_shapes")
        configuration.done()
        return None if len(configuration.problems) > before else cls(axes)

    def to_json(self) -> JSONObject:
        shapes = [_axis_to_json(axis) for axis in self.chunk_shapes]
        return {"name": self.name, "configuration": {"kind": "inline", "chunk_shapes": shapes}}

    @property
    def cuts(self) -> tuple[Cuts, ...]:
        return tuple(
            Cuts(((axis, 1),)) if isinstance(axis, int) else Cuts(axis)
            for axis in self.chunk_shapes
        )

    def fit(self, shape: Shape, loc: str, problems: Problems) -> ChunkGrid | None:
        before = len(problems)
        for axis, (length, runs) in enumerate(zip(shape, self.chunk_shapes, strict=False)):
            if isinstance(runs, int):
                continue
            covered, item_loc = _total_length(runs), pointer(loc, axis)
            if covered < length:
                message = (
                    f"chunks of {covered} in sum do not cover {length}, the length of the array"
                )
                problems.add(item_loc, message, "mismatch")
            elif covered > INT64_MAX:
                problems.add(item_loc, "chunks of more than 2**63 - 1 in sum", "too_large")
            elif len(runs) > 1 and sum(count for _, count in runs) > MAX_LISTED:
                message = f"more than {MAX_LISTED} chunks of different lengths"
                problems.add(item_loc, message, "too_large")
        if len(problems) > before:
            return None
        return ChunkGrid.fit(self, shape, loc, problems)

    def resized(self, shape: Shape, parts: Shape) -> RectilinearGrid:
        """Return the grid with one more chunk along each axis that outgrows its list.

        The new chunk covers the added length, rounded up to whole subchunks. If the array
        shrinks, the lists stay the same, because the array may grow again.
        """
        axes: list[int | tuple[Run, ...]] = []
        for length, part, runs in zip(shape, parts, self.chunk_shapes, strict=True):
            more = 0 if isinstance(runs, int) else length - _total_length(runs)
            if isinstance(runs, int) or more <= 0:
                axes.append(runs)
            else:
                axes.append(_merge_runs([*runs, (-(-more // part) * part, 1)]))
        return RectilinearGrid(tuple(axes))


def _read_axes(configuration: Members, name: str) -> tuple[int | tuple[Run, ...], ...]:
    """Return the entries of the member `name`; the result is undefined after a problem."""
    value = configuration.require(name)
    problems, loc = configuration.problems, configuration.at(name)
    if not isinstance(value, list):
        if value is not ABSENT:
            problems.add(loc, f"{describe(value)} is not a list of lengths", "wrong_type")
        return ()
    axes: list[int | tuple[Run, ...]] = []
    for position, axis in enumerate(value):
        item_loc = pointer(loc, position)
        if isinstance(axis, list):
            if not axis:
                problems.add(item_loc, "no chunks")
            axes.append(_merge_runs(_read_runs(axis, item_loc, problems)))
        elif _check_length(axis, item_loc, problems):
            axes.append(axis)
    return tuple(axes)


def _read_runs(axis: list[Any], loc: str, problems: Problems) -> Iterator[Run]:
    for position, item in enumerate(axis):
        item_loc = pointer(loc, position)
        if isinstance(item, list):
            if len(item) != 2:
                problems.add(item_loc, f"{describe(item)} is not a length and a number of chunks")
            else:
                length = _repair_length(item[0], pointer(item_loc, 0), problems)
                good = _check_length(length, pointer(item_loc, 0), problems)
                if _check_length(item[1], pointer(item_loc, 1), problems) and good:
                    yield length, item[1]
        else:
            length = _repair_length(item, item_loc, problems)
            if _check_length(length, item_loc, problems):
                yield length, 1


def _repair_length(value: Any, loc: str, problems: Problems) -> Any:
    """Return a length as an integer; zarr-python stored true and 4.0."""
    if value is True or (isinstance(value, float) and value >= 1 and value.is_integer()):
        problems.tolerate(loc, f"{describe(value)}, taken for {int(value)}")
        return int(value)
    return value


def _check_length(value: object, loc: str, problems: Problems) -> bool:
    if not is_integer(value):
        problems.add(loc, f"{describe(value)} is not an integer", "wrong_type")
    elif value < 1:
        problems.add(loc, f"{describe(value)} is less than 1")
    elif value > INT64_MAX:
        problems.add(loc, f"{describe(value)} is more than 2**63 - 1", "too_large")
    else:
        return True
    return False


def _merge_runs(runs: Iterator[Run] | Sequence[Run]) -> tuple[Run, ...]:
    """Merge consecutive runs of the same length."""
    joined: list[Run] = []
    for length, count in runs:
        if joined and joined[-1][0] == length:
            joined[-1] = length, joined[-1][1] + count
        else:
            joined.append((length, count))
    return tuple(joined)


def _total_length(runs: tuple[Run, ...]) -> int:
    return sum(length * count for length, count in runs)


def _axis_to_json(axis: int | tuple[Run, ...]) -> Any:
    if isinstance(axis, int):
        return axis
    return [length if count == 1 else [length, count] for length, count in axis]


def _to_plain(value: Any) -> Any:
    """Return integers and sequences as JSON integers and lists, and other values unchanged."""
    if isinstance(value, bool | str | bytes):
        return value
    try:
        return operator.index(value)
    except TypeError:
        return [_to_plain(item) for item in value] if isinstance(value, Iterable) else value


def grid_from_lengths(lengths: ChunkLengths) -> ChunkGrid:
    """Return the grid of chunk lengths: one length, or a list of lengths, per axis.

    Examples
    --------
    >>> grid_from_lengths((10, 5))
    RegularGrid(chunk_shape=(10, 5))
    """
    if all(isinstance(length, int) for length in lengths):
        return RegularGrid(tuple(lengths))
    return RectilinearGrid.of(lengths)


_grids: Registry[type[ChunkGrid]] = Registry("chunk grid", "tessarr.chunk_grids")


def register(grid: type[ChunkGrid]) -> type[ChunkGrid]:
    """Register a chunk grid by its name; a class decorator."""
    _grids[grid.name] = grid
    return grid


find_grid = _grids.find
"""Return the chunk grid with a name, or None."""


register(RegularGrid)
register(RectilinearGrid)
