"""Chunk layout constraints as an immutable value."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from tessarr.errors import ArgumentError
from tessarr.tensorstore.schema.chunk_grid import NOTHING, GridConstraints
from tessarr.tensorstore.schema.constraint import (
    SOFT,
    Constraint,
    Row,
    add_row_json,
    drop_empty_row,
    hard_only,
    hard_only_row,
    merge_constraints,
    merge_rows,
    row_of_values,
)
from tessarr.types import JSONObject, Shape

__all__ = ["NO_GRIDS", "NO_LAYOUT", "USAGES", "Grids", "LayoutConstraints", "LayoutRows", "Usage"]

Usage: TypeAlias = Literal["write", "read", "codec"]
Grids: TypeAlias = tuple[GridConstraints, GridConstraints, GridConstraints]
LayoutRows: TypeAlias = tuple[Constraint | None, Row, Grids]

USAGES: Final[tuple[Usage, ...]] = ("write", "read", "codec")
"""The usages of chunks, in the order of `Grids`."""

NO_GRIDS: Final = (NOTHING, NOTHING, NOTHING)
"""Empty constraints on all usages of chunks."""

_new: Final = object.__new__


class LayoutConstraints:
    """Immutable constraints on chunks; a function may compute them on first access.

    Parameters
    ----------
    rank
        The number of dimensions, or -1 if it is unknown.
    order
        The constraint on the order of elements, slowest axis first.
    origin
        The constraints on the origin of the grid.
    grids
        The constraints on write chunks, read chunks and codec chunks.
    """

    __slots__ = ("_find", "grids", "order", "origin", "rank")

    rank: int
    order: Constraint | None
    origin: Row
    grids: Grids
    _find: Callable[[], LayoutRows] | None  # computes the rows

    def __init__(
        self,
        rank: int = -1,
        order: Constraint | None = None,
        origin: Row = (),
        grids: Grids = NO_GRIDS,
    ) -> None:
        self.rank, self.order, self.origin, self.grids = rank, order, origin, grids

    @classmethod
    def known(
        cls,
        rank: int,
        write: Sequence[int] | None,
        read: Sequence[int] | None,
        order: Sequence[int] | None,
    ) -> LayoutConstraints:
        """Return the constraints of an array whose chunk grid starts at the origin.

        Parameters
        ----------
        rank
            The number of dimensions.
        write, read
            The shapes of chunks; 0 leaves a length unconstrained, None all lengths.
        order
            The order of elements, slowest axis first; None is no constraint.
        """
        outer = NOTHING if write is None else GridConstraints(row_of_values(write))
        inner = NOTHING if read is None else GridConstraints(row_of_values(read))
        wish = None if order is None else Constraint(tuple(order), True)
        return cls(rank, wish, (Constraint(0, True),) * rank, (outer, inner, NOTHING))

    @classmethod
    def later(cls, rank: int, find: Callable[[], LayoutRows]) -> LayoutConstraints:
        """Return constraints that `find` computes on first access."""
        new = _new(cls)
        new.rank, new._find = rank, find
        return new

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Only constraints that are not computed yet are missing.
            if name == "_find" or name not in LayoutConstraints.__slots__:
                raise AttributeError(f"constraints on chunks have no {name!r}")
            find = self._find
            if find is not None:  # else another thread has computed them
                self.order, self.origin, self.grids = find()
                self._find = None
            return getattr(self, name)

    def resolve(self) -> LayoutRows:
        """Compute the constraints if needed, and return the order, the origin and the grids.

        Raises
        ------
        ArgumentError
            If the constraints contradict each other.
        """
        return self.order, self.origin, self.grids

    def merged(self, other: LayoutConstraints, what: str = "") -> LayoutConstraints:
        """Merge these constraints with others.

        Raises
        ------
        ArgumentError
            If the constraints contradict each other; the message starts with `what`.
        """
        if self is NO_LAYOUT:
            return other
        if other is NO_LAYOUT:
            return self
        if -1 not in {self.rank, other.rank} and self.rank != other.rank:
            raise ArgumentError(
                f"{what or 'chunk_layout'}: rank {other.rank} does not match the rank {self.rank}"
            )
        write, read, codec = (
            one.merged(new, what or f"{usage}_chunk")
            for usage, one, new in zip(USAGES, self.grids, other.grids, strict=True)
        )
        return LayoutConstraints(
            max(self.rank, other.rank),
            merge_constraints(self.order, other.order, "inner_order"),
            merge_rows(self.origin, other.origin, what or "grid_origin"),
            (write, read, codec),
        )

    def hard(self) -> LayoutConstraints:
        """Return only the hard constraints."""
        grids = self._grids(GridConstraints.hard)
        return LayoutConstraints(
            self.rank, hard_only(self.order), hard_only_row(self.origin), grids
        )

    def with_rows(
        self,
        rank: int,
        order: Callable[[Shape], Shape],
        row: Callable[[Row], Row],
        grid: Callable[[GridConstraints], GridConstraints],
    ) -> LayoutConstraints:
        """Return constraints of another rank; functions change the order, rows and grids."""
        wish = self.order
        if wish is not None:
            wish = Constraint(order(wish.value), wish.hard)
        return LayoutConstraints(rank, wish, row(self.origin), self._grids(grid))

    def _grids(self, change: Callable[[GridConstraints], GridConstraints]) -> Grids:
        write, read, codec = (one if one is NOTHING else change(one) for one in self.grids)
        return write, read, codec

    def leading(self, rank: int) -> LayoutConstraints:
        """Return only the constraints on the first `rank` dimensions."""
        if self.rank <= rank:
            return self
        return self.with_rows(
            rank,
            lambda order: tuple(axis for axis in order if axis < rank),
            lambda row: row[:rank],
            lambda grid: grid.each(lambda row: row[:rank], lambda row: row[:rank]),
        )

    @property
    def has_rank(self) -> bool:
        """Whether a constraint determines the rank."""
        if any(self.origin) or (self.order is not None and self.rank > 0):
            return True
        return any(any(grid.lengths) or any(grid.ratios) for grid in self.grids)

    @property
    def has_constraints(self) -> bool:
        """Whether any constraint other than the rank exists."""
        return self.has_rank or any(grid.elements is not None for grid in self.grids)

    def to_json(self) -> JSONObject:
        """Return the constraints as JSON, without the rank."""
        result: JSONObject = {}
        if self.order is not None and self.rank:
            result["inner_order" + ("" if self.order.hard else SOFT)] = list(self.order.value)
        add_row_json(result, "grid_origin", self.origin)
        for usage, grid in zip(USAGES, self.grids, strict=True):
            if grid is not NOTHING and (stated := grid.to_json()):
                result[f"{usage}_chunk"] = stated
        return result

    def values(self) -> Hashable:
        """Return a key that constraints of the same representation share."""
        return self.rank, self.order, self.origin, self.grids

    def key(self) -> tuple[Any, ...]:
        """Return a key that equal constraints share."""
        rows = [drop_empty_row(self.origin), *(one.key() for one in self.grids)]
        return self.rank, self.order if self.rank else None, *rows


NO_LAYOUT: Final = LayoutConstraints()
"""The empty constraints."""
