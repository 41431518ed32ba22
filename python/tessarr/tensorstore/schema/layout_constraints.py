"""Constraints on chunk layouts as immutable values: how they merge and propagate through views.

Two different hard constraints on one value raise an error. A hard constraint replaces a soft one;
a soft constraint applies only to an unconstrained value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import gcd
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    NamedTuple,
    NoReturn,
    TypeAlias,
)

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError, TooLargeError
from tessarr.index_space import INFINITE, IndexTransform
from tessarr.index_space.dimension_names import as_integer as index64
from tessarr.tensorstore.json.parse import (
    as_float,
    as_integer,
    integer,
    read_items,
)
from tessarr.tensorstore.schema import propagate
from tessarr.types import JSONObject, Shape

__all__ = [
    "NOTHING",
    "NO_LAYOUT",
    "SOFT",
    "USAGES",
    "Constraint",
    "GridConstraints",
    "Grids",
    "LayoutConstraints",
    "check_keywords",
    "get_value",
    "get_values",
    "parse_grid_member",
    "propagate_layout",
    "propagate_layout_back",
    "read_row",
    "row_of_values",
]

SOFT: Final = "_soft_constraint"
"""The suffix of the JSON members of soft constraints."""


class Constraint(NamedTuple):
    """A required or preferred value."""

    value: Any
    hard: bool


Row: TypeAlias = "tuple[Constraint | None, ...]"
"""The constraint of each dimension; empty if the rank is unknown."""


def merge_constraints(
    old: Constraint | None, new: Constraint | None, what: str
) -> Constraint | None:
    """Merge two constraints.

    Raises
    ------
    ArgumentError
        If both constraints are hard and differ.
    """
    if new is None or (old is not None and old.hard and not new.hard):
        return old
    if old is not None and old.hard and new.value != old.value:
        raise ArgumentError(
            f"{what}: the hard constraint {new.value} does not match the existing one, {old.value}"
        )
    return new if old is None or new.hard else old


def merge_rows(old: Row, new: Row, what: str) -> Row:
    """Merge two rows of constraints, dimension by dimension."""
    if not old or not new:
        return new or old
    return tuple(
        merge_constraints(one, other, f"{what} of dimension {k}")
        for k, (one, other) in enumerate(zip(old, new, strict=True))
    )


def read_row(values: Any, hard: bool, check: Callable[[Any], Constraint | None], what: str) -> Row:
    """Return the constraints of a JSON list, one per dimension.

    Raises
    ------
    ArgumentError
        If `check` rejects a value.
    """
    result = []
    for k, value in enumerate(read_items(values, what)):
        try:
            item = None if value is None else check(value)
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ArgumentError(
                f"{what} of dimension {k}: {safe_repr(value)} is not valid"
            ) from error
        result.append(item and Constraint(item.value, item.hard and hard))
    return tuple(result)


def row_of_values(values: Sequence[Any]) -> Row:
    """Return hard constraints from valid values; 0 and None are no constraint."""
    return tuple([Constraint(value, True) if value else None for value in values])


def get_value(constraint: Constraint | None, *, hard: bool) -> Any:
    """Return the hard or the soft value of a constraint, or None."""
    return constraint.value if constraint is not None and constraint.hard == hard else None


def get_values(row: Row, rank: int, *, hard: bool) -> tuple[Any, ...] | None:
    """Return the hard or the soft values of a row; None if the rank is unknown."""
    if not row:
        return None if rank < 0 else (None,) * rank
    return tuple(get_value(constraint, hard=hard) for constraint in row)


def _non_empty(row: Row) -> Row:
    """Return a row, or an empty row if all its dimensions are unconstrained."""
    return row if any(row) else ()


def _add_row_json(result: JSONObject, name: str, row: Row) -> None:
    """Add the JSON members of a row."""
    for hard in {constraint.hard for constraint in row if constraint is not None}:
        values = [get_value(constraint, hard=hard) for constraint in row]
        result[name if hard else name + SOFT] = values


def check_keywords(keywords: Mapping[str, Any]) -> None:
    """Raise an error for a keyword whose value has the wrong type.

    Raises
    ------
    TypeError
        If a value has the wrong type.
    """
    for name, value in keywords.items():
        bare = name.removesuffix(SOFT)
        try:
            if bare.endswith(("shape", "order", "origin")):
                _ = [item is None or index64(item) for item in read_items(value, name)]
            elif bare.endswith("aspect_ratio"):
                _ = [item is None or as_float(item, name) for item in read_items(value, name)]
            elif bare.endswith(("rank", "elements")):
                index64(value)
        except TooLargeError:
            raise
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name}: {safe_repr(value)} is not of the right type") from error


LONGEST: Final = INFINITE - 1
"""The maximum length of a chunk."""


def _length(value: Any) -> Constraint | None:
    """Read a chunk length: 0 is no constraint; -1 is the whole extent as a soft constraint."""
    number = as_integer(value)
    if not -1 <= number <= LONGEST:
        raise ValueError
    return None if number == 0 else Constraint(number, number != -1)


def _ratio(value: Any) -> Constraint | None:
    if isinstance(value, bool):
        raise TypeError
    number = as_float(value, "aspect_ratio")
    if not 0 <= number < float("inf"):
        raise ValueError
    return Constraint(number, True) if number else None


class GridConstraints(NamedTuple):
    """Immutable constraints on one kind of chunk.

    Parameters
    ----------
    lengths
        The constraints on the shape.
    ratios
        The constraints on the aspect ratio.
    elements
        The constraint on the number of elements.
    """

    lengths: Row = ()
    ratios: Row = ()
    elements: Constraint | None = None

    @property
    def rank(self) -> int:
        """The number of dimensions, or -1 if it is unknown."""
        return len(self.lengths) or len(self.ratios) or -1

    def merge(self, other: GridConstraints, what: str = "chunk") -> GridConstraints:
        """Merge these constraints with others.

        Raises
        ------
        ArgumentError
            If the constraints contradict each other.
        """
        if other is NOTHING:
            return self
        if self is NOTHING:
            return other
        mine, others = self.rank, other.rank
        if mine != others and -1 not in {mine, others}:
            raise ArgumentError(f"{what}: rank {others} does not match the rank {mine}")
        return GridConstraints(
            merge_rows(self.lengths, other.lengths, f"{what}: shape"),
            merge_rows(self.ratios, other.ratios, f"{what}: aspect_ratio"),
            merge_constraints(self.elements, other.elements, f"{what}: elements"),
        )

    def each(self, lengths: Callable[[Row], Row], ratios: Callable[[Row], Row]) -> GridConstraints:
        """Return new constraints with the results of functions for both rows."""
        return GridConstraints(lengths(self.lengths), ratios(self.ratios), self.elements)

    def _map(self, change: Callable[[Constraint | None], Constraint | None]) -> GridConstraints:
        return GridConstraints(
            tuple(map(change, self.lengths)), tuple(map(change, self.ratios)), change(self.elements)
        )

    def hard(self) -> GridConstraints:
        """Return only the hard constraints."""
        return self._map(lambda item: item if item is not None and item.hard else None)

    def soft(self) -> GridConstraints:
        """Return all constraints as soft constraints."""
        return self._map(lambda item: item and Constraint(item.value, False))

    def key(self) -> tuple[Row, Row, Constraint | None]:
        """Return a key that equal constraints share."""
        return _non_empty(self.lengths), _non_empty(self.ratios), self.elements

    def to_json(self) -> JSONObject:
        """Return the constraints as JSON."""
        result: JSONObject = {}
        _add_row_json(result, "shape", self.lengths)
        _add_row_json(result, "aspect_ratio", self.ratios)
        if self.elements is not None:
            result["elements" + ("" if self.elements.hard else SOFT)] = self.elements.value
        return result


NOTHING: Final = GridConstraints()
"""The empty constraints."""


def parse_grid_member(name: str, value: Any, hard: bool) -> GridConstraints:
    """Return the constraint of one JSON member.

    Raises
    ------
    ArgumentError
        If the value is not valid.
    """
    if value is None:
        return NOTHING
    if name == "shape":
        return GridConstraints(lengths=read_row(value, hard, _length, name))
    if name == "aspect_ratio":
        return GridConstraints(ratios=read_row(value, hard, _ratio, name))
    return GridConstraints(elements=Constraint(integer(0, LONGEST)(value, "elements"), hard))


Grids: TypeAlias = tuple[GridConstraints, GridConstraints, GridConstraints]
LayoutRows: TypeAlias = tuple[Constraint | None, Row, Grids]

USAGES: Final = ("write", "read", "codec")
"""The usages of chunks, in the order of `Grids`."""

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
        grids: Grids = (NOTHING, NOTHING, NOTHING),
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
        constraint = None if order is None else Constraint(tuple(order), True)
        return cls(rank, constraint, (Constraint(0, True),) * rank, (outer, inner, NOTHING))

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

    def merge(self, other: LayoutConstraints, what: str = "") -> LayoutConstraints:
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
            old.merge(new, what or f"{usage}_chunk")
            for usage, old, new in zip(USAGES, self.grids, other.grids, strict=True)
        )
        return LayoutConstraints(
            max(self.rank, other.rank),
            merge_constraints(self.order, other.order, "inner_order"),
            merge_rows(self.origin, other.origin, what or "grid_origin"),
            (write, read, codec),
        )

    def with_rows(
        self,
        rank: int,
        order: Callable[[Shape], Shape],
        row: Callable[[Row], Row],
        grid: Callable[[GridConstraints], GridConstraints],
    ) -> LayoutConstraints:
        """Return constraints of another rank; functions change the order, rows and grids."""
        constraint = self.order
        if constraint is not None:
            constraint = Constraint(order(constraint.value), constraint.hard)
        return LayoutConstraints(rank, constraint, row(self.origin), self._grids(grid))

    def _grids(self, change: Callable[[GridConstraints], GridConstraints]) -> Grids:
        write, read, codec = (grid if grid is NOTHING else change(grid) for grid in self.grids)
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
        _add_row_json(result, "grid_origin", self.origin)
        for usage, grid in zip(USAGES, self.grids, strict=True):
            if grid is not NOTHING and (json := grid.to_json()):
                result[f"{usage}_chunk"] = json
        return result

    def key(self) -> tuple[Any, ...]:
        """Return a key that equal constraints share."""
        rows = [_non_empty(self.origin), *(grid.key() for grid in self.grids)]
        return self.rank, self.order if self.rank else None, *rows


NO_LAYOUT: Final = LayoutConstraints()
"""The empty constraints."""


Change = Callable[[Any, int, int], Any]


def propagate_layout(layout: LayoutConstraints, transform: IndexTransform) -> LayoutConstraints:
    """Return the constraints of a view, which are computed on first access.

    Raises
    ------
    ArgumentError
        If the ranks differ; on first access, if an origin exceeds the range of indices.
    """
    view, rank = transform._view, layout.rank
    if rank not in {-1, view.output_rank}:
        _refuse_rank(rank, view.output_rank)
    if rank < 0 or view.is_identity:
        return layout
    return LayoutConstraints.later(view.rank, partial(_propagate_rows, layout, transform))


def _propagate_rows(layout: LayoutConstraints, transform: IndexTransform) -> LayoutRows:
    rank, maps = transform.input_rank, transform._linear_maps()
    exclusive = transform._linear_maps(alone=True)

    def propagate_order(axes: Shape) -> Shape:
        moved = [maps[k][0] for k in axes if k < len(maps) and maps[k][0] >= 0]
        return tuple(dict.fromkeys([*moved, *range(rank)]))  # other dimensions come last

    def propagate_row(row: Row, change: Change) -> Row:
        if not any(row):
            return ()
        moved: list[Constraint | None] = [None] * rank
        for item, (dim, offset, stride) in zip(row, exclusive, strict=False):
            if item is not None and dim >= 0:
                moved[dim] = Constraint(change(item.value, offset, stride), item.hard)
        return tuple(moved)

    return layout.with_rows(
        rank,
        propagate_order,
        lambda row: propagate_row(row, _origin_after),
        lambda grid: grid.each(
            lambda row: propagate_row(row, lambda length, _, stride: length // gcd(length, stride)),
            lambda row: propagate_row(row, lambda ratio, _, stride: ratio / abs(stride)),
        ),
    ).resolve()


def propagate_layout_back(
    layout: LayoutConstraints, transform: IndexTransform
) -> LayoutConstraints:
    """Return the constraints of the base; `layout` constrains its view.

    Raises
    ------
    ArgumentError
        If the ranks differ, or a hard constraint does not propagate to the base.
    """
    if layout.rank not in {-1, transform.input_rank}:
        _refuse_rank(layout.rank, transform.input_rank)
    if layout.rank <= 0 or transform._is_identity:
        return layout

    def propagate_row(row: Row, change: Change) -> Row:
        if not row:
            return ()
        return propagate.propagate_values_back(
            row,
            transform,
            lambda item, *by: Constraint(change(item.value, *by), item.hard),
            lambda item: item.hard,
            "chunk_layout",
        )

    return layout.with_rows(
        transform.output_rank,
        lambda order: propagate.propagate_order_back(order, transform),
        lambda row: propagate_row(row, _origin_before),
        lambda grid: grid.each(
            lambda row: propagate_row(row, _length_before),
            lambda row: propagate_row(row, _ratio_before),
        ),
    )


def _refuse_rank(rank: int, other: int) -> NoReturn:
    raise ArgumentError(f"a chunk layout of rank {rank} for a view of rank {other}")


def _index(value: int) -> int:
    if not -INFINITE < value < INFINITE:
        raise ArgumentError(f"grid_origin: {value} is beyond the range of indices")
    return value


def _origin_after(value: int, offset: int, stride: int) -> int:
    if offset:
        value = _index(value - offset)
    return -(-(value if stride > 0 else 1 - value) // abs(stride))


def _origin_before(value: int, offset: int, stride: int) -> int:
    return _index(offset + stride * (value - 1 if stride < 0 else value))


def _length_before(value: int, _: int, stride: int) -> int:
    if value == -1:
        return value
    if value * abs(stride) > LONGEST:
        raise ArgumentError(f"a chunk of {value} elements in steps of {stride} is too long")
    return value * abs(stride)


def _ratio_before(value: float, _: int, stride: int) -> float:
    return value * abs(stride)
