"""Constraints on one kind of chunk: shape, aspect ratio and number of elements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypedDict, Unpack

from tessarr.errors import ArgumentError
from tessarr.format.registry import with_keywords
from tessarr.tensorstore.json.format_json import format_repr, sort_members
from tessarr.tensorstore.json.parse import (
    check_integers,
    drop_absent,
    integer,
    json_conflict,
    read_object,
    refuse_unknown,
)
from tessarr.tensorstore.json.pickling import Picklable
from tessarr.tensorstore.schema.layout_constraints import (
    NOTHING,
    SOFT,
    GridConstraints,
    check_keywords,
    get_value,
    get_values,
    parse_grid_member,
)
from tessarr.types import JSONObject

__all__ = ["Grid"]

_new: Final = object.__new__


class GridMembers(TypedDict, total=False):
    """The JSON members of a grid."""

    shape: Iterable[int | None] | None
    shape_soft_constraint: Iterable[int | None] | None
    aspect_ratio: Iterable[float | None] | None
    aspect_ratio_soft_constraint: Iterable[float | None] | None
    elements: int | None
    elements_soft_constraint: int | None


class GridKeywords(GridMembers, total=False):
    """The keywords of a grid, in the order of their evaluation."""

    rank: int | None
    grid: Grid | Mapping[str, Any] | None
    grid_soft_constraint: Grid | Mapping[str, Any] | None


class Grid(Picklable):
    """Constraints on one kind of chunk.

    Parameters
    ----------
    json : dict or Grid, optional
        All constraints as JSON.
    **parts
        ``rank``, ``shape``, ``aspect_ratio`` and ``elements``; ``grid`` adds the constraints of
        another grid. The suffix ``_soft_constraint`` makes a constraint other than ``rank`` soft.

    Raises
    ------
    ArgumentError
        If constraints contradict each other.

    Examples
    --------
    >>> import tessarr.tensorstore as ts
    >>> grid = ts.ChunkLayout.Grid(shape=[10, None], elements_soft_constraint=1000)
    >>> grid.update(shape=[None, 20])
    >>> grid, grid.rank
    (ChunkLayout.Grid({'elements_soft_constraint': 1000, 'shape': [10, 20]}), 2)
    """

    __slots__ = ("__weakref__", "_constraints", "_rank")
    __hash__ = None  # type: ignore[assignment]  # a mutable object

    _constraints: GridConstraints
    _rank: int

    @with_keywords(__name__)
    def __init__(self, json: Any = ..., **parts: Unpack[GridKeywords]) -> None:
        self._constraints, self._rank = NOTHING, -1
        if json is ...:
            self.update(**parts)
        elif parts:
            raise json_conflict(parts)
        elif isinstance(json, Grid):
            self._assign(json)
        else:
            check_integers(json)
            members = read_object(json, "a grid")
            refuse_unknown({name: 0 for name in members if name not in GridMembers.__annotations__})
            self._add({name: value for name, value in members.items() if value is not None})

    @classmethod
    def _of(cls, constraints: GridConstraints, rank: int = -1) -> Grid:
        """Return a grid from constraints and a rank, which may be unknown."""
        new = _new(cls)
        new._constraints = constraints
        new._rank = constraints.rank if rank < 0 else rank
        return new

    @with_keywords(__name__)
    def update(self, **parts: Unpack[GridKeywords]) -> None:
        """Add constraints; after an error, the grid is unchanged.

        Parameters
        ----------
        **parts
            The keywords of the class.

        Raises
        ------
        ArgumentError
            If constraints contradict each other.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> grid = ts.ChunkLayout.Grid(shape_soft_constraint=[10, 20])
        >>> grid.update(shape=[None, 5])
        >>> grid.shape, grid.shape_soft_constraint
        ((None, 5), (10, None))
        """
        keywords = drop_absent(parts, GridKeywords)
        check_keywords(keywords)
        if "rank" in keywords:
            keywords["rank"] = int(keywords["rank"])  # converts True, which is not a JSON integer
        self._add(keywords)

    def _add(self, keywords: dict[str, Any]) -> None:
        new = Grid._of(self._constraints, self._rank)
        if "rank" in keywords:
            new._fix_rank(integer(-1, 32)(keywords["rank"], "rank"))  # -1 is an unknown rank
        for name in (one for one in GridKeywords.__annotations__ if one in keywords):
            if name.startswith("grid"):
                other = Grid(keywords[name])
                new._fix_rank(other._rank)
                result = other._constraints if name == "grid" else other._constraints.soft()
            elif name != "rank":
                hard = not name.endswith(SOFT)
                result = parse_grid_member(name.removesuffix(SOFT), keywords[name], hard)
            else:
                continue
            new._fix_rank(result.rank)
            new._constraints = new._constraints.merge(result, name)
        self._assign(new)

    def _assign(self, other: Grid) -> None:
        self._constraints, self._rank = other._constraints, other._rank

    def _fix_rank(self, rank: int) -> None:
        if -1 not in {rank, self._rank} and rank != self._rank:
            raise ArgumentError(f"rank {rank} does not match the rank {self._rank}")
        self._rank = self._rank if rank < 0 else rank

    @property
    def rank(self) -> int | None:
        """The number of dimensions, or None if it is unknown.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.ChunkLayout.Grid(shape=[10, 20]).rank, ts.ChunkLayout.Grid(elements=9).rank
        (2, None)
        """
        return None if self._rank < 0 else self._rank

    ndim = rank

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """The hard constraints on the shape.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.ChunkLayout.Grid(shape=[10, None]).shape
        (10, None)
        """
        return get_values(self._constraints.lengths, self._rank, hard=True)

    @property
    def shape_soft_constraint(self) -> tuple[int | None, ...] | None:
        """The soft constraints on the shape.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.ChunkLayout.Grid(shape_soft_constraint=[10, None]).shape_soft_constraint
        (10, None)
        """
        return get_values(self._constraints.lengths, self._rank, hard=False)

    @property
    def aspect_ratio(self) -> tuple[float | None, ...] | None:
        """The hard constraints on the ratios between lengths.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.ChunkLayout.Grid(aspect_ratio=[1, 2]).aspect_ratio
        (1.0, 2.0)
        """
        return get_values(self._constraints.ratios, self._rank, hard=True)

    @property
    def aspect_ratio_soft_constraint(self) -> tuple[float | None, ...] | None:
        """The soft constraints on the ratios between lengths.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.ChunkLayout.Grid(aspect_ratio_soft_constraint=[1, 2]).aspect_ratio_soft_constraint
        (1.0, 2.0)
        """
        return get_values(self._constraints.ratios, self._rank, hard=False)

    @property
    def elements(self) -> int | None:
        """The hard constraint on the number of elements.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.ChunkLayout.Grid(elements=1000).elements
        1000
        """
        result: int | None = get_value(self._constraints.elements, hard=True)
        return result

    @property
    def elements_soft_constraint(self) -> int | None:
        """The soft constraint on the number of elements.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.ChunkLayout.Grid(elements_soft_constraint=1000).elements_soft_constraint
        1000
        """
        result: int | None = get_value(self._constraints.elements, hard=False)
        return result

    def to_json(self, include_defaults: bool = False) -> JSONObject:  # noqa: FBT002 (TensorStore API)
        """Return the constraints as JSON; `include_defaults` has no effect.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.ChunkLayout.Grid(shape=[10, None], elements_soft_constraint=1000).to_json()
        {'elements_soft_constraint': 1000, 'shape': [10, None]}
        """
        return sort_members(self._constraints.to_json())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Grid):
            return NotImplemented
        same = self._constraints.key() == other._constraints.key()
        return same and self._rank == other._rank

    def __repr__(self) -> str:
        return format_repr("ChunkLayout.Grid", self.to_json())

    def __reduce__(self) -> tuple[Any, ...]:
        new, arguments, *derived = super().__reduce__()
        return new, arguments, (self._rank, *derived)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        rank, *derived = state
        for subclass_state in derived:
            super().__setstate__(subclass_state)
        self._rank = rank
