"""Constraints on one kind of chunk: its shape, how its lengths relate, its number of elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tessarr.errors import ArgumentError
from tessarr.tensorstore.reading import as_float, as_integer, integer, members_of, nothing_else
from tessarr.tensorstore.show import shown
from tessarr.tensorstore.wish import (
    SOFT,
    Row,
    Wish,
    hard_wishes,
    if_hard,
    merged,
    merged_rows,
    row_of,
    state,
    values_of,
)
from tessarr.types import JSONObject

__all__ = ["LONGEST", "NOTHING", "GridConstraints", "single"]

LONGEST: Final = 2**63 - 1
"""The longest chunk there is."""


def _length(value: Any) -> Wish | None:
    """Read a chunk length: 0 leaves it open, -1 asks for the whole extent, which is never hard."""
    number = as_integer(value)
    if not -1 <= number <= LONGEST:
        raise ValueError
    return None if number == 0 else Wish(number, number != -1)


def _ratio(value: Any) -> Wish | None:
    number = as_float(value)
    if not 0 <= number < float("inf"):
        raise ValueError
    return Wish(number, True) if number else None


@dataclass(frozen=True, slots=True, repr=False)
class GridConstraints:
    """Constraints on one kind of chunk.

    Parameters
    ----------
    rows : shape and aspect ratio
        Wishes per dimension.
    count : elements
        The number of elements of a chunk.
    """

    lengths: Row = ()
    ratios: Row = ()
    count: Wish | None = None

    @classmethod
    def of(cls, given: Any = None, /, **parts: Any) -> GridConstraints:
        """Return the constraints that JSON, or keywords, state."""
        if isinstance(given, GridConstraints):
            return given
        members = {} if given is None else members_of(given, "a grid")
        members.update({name: value for name, value in parts.items() if value is not None})
        rank = members.pop("rank", None)
        grid = cls()
        for name in ("shape", "aspect_ratio", "elements"):
            for key in (name, name + SOFT):
                if key in members:
                    grid = grid.merged(single(name, members.pop(key), key == name), key)
        nothing_else(members)
        if rank is not None and grid.rank not in {-1, rank}:
            raise ArgumentError(f"rank {grid.rank} does not match the rank {rank}")
        return grid

    def merged(self, other: GridConstraints, what: str = "chunk") -> GridConstraints:
        """Return both constraints together."""
        if other is NOTHING:
            return self
        if self is NOTHING:
            return other
        if -1 not in {self.rank, other.rank} and self.rank != other.rank:
            raise ArgumentError(f"{what}: rank {other.rank} does not match the rank {self.rank}")
        return GridConstraints(
            merged_rows(self.lengths, other.lengths, f"{what}: shape"),
            merged_rows(self.ratios, other.ratios, f"{what}: aspect_ratio"),
            merged(self.count, other.count, f"{what}: elements"),
        )

    def each(self, lengths: Callable[[Row], Row], ratios: Callable[[Row], Row]) -> GridConstraints:
        """Return the constraints with changed rows."""
        return GridConstraints(lengths(self.lengths), ratios(self.ratios), self.count)

    def hard(self) -> GridConstraints:
        """Return the hard constraints alone."""
        made = self.each(hard_wishes, hard_wishes)
        return GridConstraints(made.lengths, made.ratios, if_hard(self.count))

    @property
    def rank(self) -> int:
        """The number of dimensions; -1 while it is open."""
        return len(self.lengths) or len(self.ratios) or -1

    ndim = rank

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """Hard constraints on the shape."""
        return values_of(self.lengths, hard=True)

    @property
    def shape_soft_constraint(self) -> tuple[int | None, ...] | None:
        """Soft constraints on the shape."""
        return values_of(self.lengths, hard=False)

    @property
    def aspect_ratio(self) -> tuple[float | None, ...] | None:
        """Hard constraints on how lengths relate to each other."""
        return values_of(self.ratios, hard=True)

    @property
    def aspect_ratio_soft_constraint(self) -> tuple[float | None, ...] | None:
        """Soft constraints on how lengths relate to each other."""
        return values_of(self.ratios, hard=False)

    @property
    def elements(self) -> int | None:
        """The hard constraint on the number of elements."""
        return self.count.value if self.count is not None and self.count.hard else None

    @property
    def elements_soft_constraint(self) -> int | None:
        """The soft constraint on the number of elements."""
        return self.count.value if self.count is not None and not self.count.hard else None

    def to_json(self) -> JSONObject:
        """Return the constraints as JSON."""
        result: JSONObject = {}
        state(result, "shape", self.lengths)
        state(result, "aspect_ratio", self.ratios)
        if self.count is not None:
            result["elements" + ("" if self.count.hard else SOFT)] = self.count.value
        return result

    def __repr__(self) -> str:
        return shown("ChunkLayout.Grid", self.to_json())


NOTHING: Final = GridConstraints()
"""No constraint at all."""


def single(name: str, value: Any, hard: bool) -> GridConstraints:
    """Return the constraint that one member states.

    Raises
    ------
    ArgumentError
        If it is not valid.
    """
    if value is None:
        return NOTHING
    if name == "shape":
        return GridConstraints(lengths=row_of(value, hard, _length, name))
    if name == "aspect_ratio":
        return GridConstraints(ratios=row_of(value, hard, _ratio, name))
    return GridConstraints(count=Wish(integer(0)(value, "elements"), hard))
