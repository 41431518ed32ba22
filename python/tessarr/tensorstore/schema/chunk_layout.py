"""Chunk layouts: constraints on chunk shapes, grid origin and order of dimensions.

The equivalent of TensorStore's ``ChunkLayout``. A *hard* constraint must hold when an array is
opened or created. A *soft* constraint applies to a new array unless another constraint prevents
it. `constraint` defines how constraints merge.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Self, TypeAlias, Unpack

from tessarr.errors import ArgumentError
from tessarr.format.registry import set_public_module, with_keywords
from tessarr.index_space import INFINITE, Dim, IndexDomain
from tessarr.tensorstore.json.format_json import format_repr, sort_members
from tessarr.tensorstore.json.parse import (
    as_bool,
    as_integer,
    check_integers,
    drop_absent,
    integer,
    json_conflict,
    lengths,
    read_object,
    refuse_unknown,
)
from tessarr.tensorstore.json.pickling import Picklable
from tessarr.tensorstore.schema.chunk_grid import Grid
from tessarr.tensorstore.schema.chunk_keywords import LayoutKeywords, LayoutMembers
from tessarr.tensorstore.schema.layout_constraints import (
    NO_LAYOUT,
    NOTHING,
    SOFT,
    USAGES,
    Constraint,
    GridConstraints,
    Grids,
    LayoutConstraints,
    check_keywords,
    get_value,
    get_values,
    parse_grid_member,
    read_row,
    row_of_values,
)
from tessarr.types import JSONObject

__all__ = ["ChunkLayout"]

_WRITE, _READ, _CODEC = range(len(USAGES))
_MAX_RANK: Final = 32
_PREFIXES: Final = ("chunk", *(f"{usage}_chunk" for usage in USAGES))
_MEMBERS: Final = frozenset(LayoutMembers.__annotations__)
_KEYWORDS: Final = tuple(LayoutKeywords.__annotations__)
"""Keywords in the order of their evaluation."""
_new: Final = object.__new__


class ChunkLayout(Picklable):
    """Constraints on chunks: their shapes, their grid, and the order of their elements.

    Parameters
    ----------
    json : dict or ChunkLayout, optional
        All constraints as JSON.
    finalize
        Whether to remove soft constraints; see `update`.
    **parts
        ``rank``, ``inner_order`` and ``grid_origin``; the grids ``chunk``, ``write_chunk``,
        ``read_chunk`` and ``codec_chunk``. The suffixes ``_shape``, ``_aspect_ratio`` and
        ``_elements`` select one constraint of a grid. The suffix ``_soft_constraint`` makes a
        constraint other than ``rank`` or a grid soft.

    Raises
    ------
    ArgumentError
        If constraints contradict each other.

    Examples
    --------
    >>> ChunkLayout(chunk_shape=[3, 4], read_chunk_elements=6).to_json()["write_chunk"]
    {'shape': [3, 4]}
    """

    __slots__ = ("__weakref__", "_constraints")
    __hash__ = None  # type: ignore[assignment]  # a mutable object

    _constraints: LayoutConstraints

    Grid: TypeAlias = Grid

    @with_keywords(__name__)
    def __init__(
        self, json: Any = ..., *, finalize: bool | None = None, **parts: Unpack[LayoutKeywords]
    ) -> None:
        self._constraints = NO_LAYOUT
        if json is ...:
            if parts:
                ChunkLayout.update(self, **parts)
            if finalize is not None:
                self.update(finalize=finalize)
        elif parts or finalize is not None:
            raise json_conflict({**parts, "finalize": finalize})
        elif isinstance(json, ChunkLayout):
            self._constraints = json._constraints
        else:
            self._constraints = _parsed(json)

    @classmethod
    def _of(cls, constraints: LayoutConstraints) -> Self:
        """Return a layout for users from constraints."""
        new = _new(cls)
        new._constraints = constraints
        return new

    @with_keywords(__name__)
    def update(self, *, finalize: bool = False, **parts: Unpack[LayoutKeywords]) -> None:
        """Add constraints; after an error, the layout is unchanged.

        Parameters
        ----------
        finalize
            Whether to remove soft constraints. Each write chunk must then consist of whole read
            chunks.
        **parts
            The keywords of the class.

        Raises
        ------
        ArgumentError
            If constraints contradict each other.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> layout = ts.ChunkLayout(write_chunk_shape=[20, None])
        >>> layout.update(write_chunk_shape=[None, 30], read_chunk_elements=100)
        >>> layout
        ChunkLayout({'read_chunk': {'elements': 100}, 'write_chunk': {'shape': [20, 30]}})
        >>> layout.update(rank=3)
        Traceback (most recent call last):
            ...
        tessarr.errors.ArgumentError: rank: rank 3 does not match the rank 2
        """
        keywords = drop_absent(parts, LayoutKeywords)
        new = self._constraints
        for name in sorted(keywords, key=_KEYWORDS.index):
            check_keywords({name: keywords[name]})
            # `int` converts True, which is not a JSON integer.
            value = int(keywords[name]) if name == "rank" else keywords[name]
            if name != "rank" or value != -1:
                new = _add_member(new, name, value)
        self._constraints = _finalize(new) if as_bool(finalize, "finalize") else new

    @property
    def rank(self) -> int:
        """The number of dimensions, or -1 if it is unknown.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.ChunkLayout(chunk_shape=[3, 4]).rank, ts.ChunkLayout(chunk_elements=12).rank
        (2, -1)
        """
        return self._constraints.rank

    ndim = rank

    @property
    def inner_order(self) -> tuple[int, ...] | None:
        """The hard constraint on the order of the elements of a chunk, slowest axis first.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.ChunkLayout(inner_order=[1, 0]).inner_order
        (1, 0)
        """
        result: tuple[int, ...] | None = get_value(self._constraints.order, hard=True)
        return result

    @property
    def inner_order_soft_constraint(self) -> tuple[int, ...] | None:
        """The soft constraint on the order of the elements of a chunk.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.ChunkLayout(inner_order_soft_constraint=[1, 0]).inner_order_soft_constraint
        (1, 0)
        """
        result: tuple[int, ...] | None = get_value(self._constraints.order, hard=False)
        return result

    @property
    def grid_origin(self) -> tuple[int | None, ...] | None:
        """The hard constraints on the origin of the grid.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.ChunkLayout(grid_origin=[None, 5]).grid_origin
        (None, 5)
        """
        return get_values(self._constraints.origin, self._constraints.rank, hard=True)

    @property
    def grid_origin_soft_constraint(self) -> tuple[int | None, ...] | None:
        """The soft constraints on the origin of the grid.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.ChunkLayout(grid_origin_soft_constraint=[None, 5]).grid_origin_soft_constraint
        (None, 5)
        """
        return get_values(self._constraints.origin, self._constraints.rank, hard=False)

    @property
    def write_chunk(self) -> Grid:
        """The constraints on write chunks, the units of writing.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.ChunkLayout(write_chunk_shape=[20, None]).write_chunk.shape
        (20, None)
        """
        return self._grid(_WRITE)

    @property
    def read_chunk(self) -> Grid:
        """The constraints on read chunks, the units of reading.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.ChunkLayout(read_chunk_elements_soft_constraint=1000).read_chunk
        ChunkLayout.Grid({'elements_soft_constraint': 1000})
        """
        return self._grid(_READ)

    @property
    def codec_chunk(self) -> Grid:
        """The constraints on codec chunks, the units of encoding.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.ChunkLayout(codec_chunk_aspect_ratio=[1, 2]).codec_chunk.aspect_ratio
        (1.0, 2.0)
        """
        return self._grid(_CODEC)

    def _grid(self, usage: int) -> Grid:
        result = self._constraints
        return Grid._of(result.grids[usage], result.rank)

    @property
    def write_chunk_template(self) -> IndexDomain:
        """The domain of the first write chunk of the grid.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.ChunkLayout(grid_origin=[5, 0], write_chunk_shape=[10, None]).write_chunk_template
        { [5, 15), (-inf, +inf) }
        """
        return self._template(_WRITE)

    @property
    def read_chunk_template(self) -> IndexDomain:
        """The domain of the first read chunk of the grid.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.ChunkLayout(grid_origin=[5], read_chunk_shape=[3]).read_chunk_template
        { [5, 8) }
        """
        return self._template(_READ)

    def _template(self, usage: int) -> IndexDomain:
        rank = self.rank
        if rank < 0:
            raise ArgumentError("a chunk layout without a rank has no template of chunks")
        origins = self.grid_origin or (None,) * rank
        dims = []
        for origin, length in zip(origins, _lengths(self._constraints, usage), strict=True):
            known = origin is not None and length > 0
            begin = origin if origin is not None and known else -INFINITE
            dims.append(Dim._of(begin, begin + length if known else INFINITE + 1))
        return IndexDomain._of(tuple(dims))

    def to_json(self) -> JSONObject:
        """Return the constraints as JSON.

        Examples
        --------
        >>> import tessarr.tensorstore as ts
        >>> ts.ChunkLayout(rank=1, read_chunk_elements=9).to_json()
        {'rank': 1, 'read_chunk': {'elements': 9}}
        """
        constraints = self._constraints
        result = constraints.to_json()
        if constraints.rank >= 0 and not constraints.has_rank:
            result["rank"] = constraints.rank
        return sort_members(result)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChunkLayout):
            return NotImplemented
        return self._constraints.key() == other._constraints.key()

    def __repr__(self) -> str:
        return format_repr("ChunkLayout", self.to_json())


def _parsed(json: Any) -> LayoutConstraints:
    check_integers(json)
    members = read_object(json, "a chunk layout")
    refuse_unknown({name: 0 for name in members if name not in _MEMBERS})
    absent = [name for name, value in members.items() if value is None]
    if absent:
        raise ArgumentError(f"{absent[0]}: null is not a constraint")
    layout = NO_LAYOUT
    for name in _KEYWORDS:
        if name in members:
            layout = _add_member(layout, name, members[name])
    return layout


def _add_member(layout: LayoutConstraints, name: str, value: Any) -> LayoutConstraints:
    """Return a layout with the constraints of one more member or keyword."""
    for new in _parse_member(name, value):
        if new.rank > _MAX_RANK:
            raise ArgumentError(f"{name}: the rank {new.rank} is outside of [0, {_MAX_RANK}]")
        layout = layout.merge(new, name)
    return layout


def _parse_member(name: str, value: Any) -> Iterator[LayoutConstraints]:
    """Return the constraints of a member or a keyword; an empty list fixes the rank 0."""
    hard = not name.endswith(SOFT)
    bare = name.removesuffix(SOFT)
    if bare == "rank":
        yield LayoutConstraints(integer(0, _MAX_RANK)(value, bare))
    elif bare == "inner_order":
        axes = lengths(0)(value, bare)
        if sorted(axes) != list(range(len(axes))):
            raise ArgumentError(f"inner_order: {list(axes)} is not a permutation")
        yield LayoutConstraints(len(axes), Constraint(axes, hard))
    elif bare == "grid_origin":
        row = read_row(value, hard, _origin, name)
        yield LayoutConstraints(len(row), origin=row)
    elif bare in _PREFIXES:
        if isinstance(value, Mapping) and any(map(_is_empty_list, value.values())):
            yield LayoutConstraints(0)
        grid = Grid(value)
        rank = -1 if grid.rank is None else grid.rank
        yield LayoutConstraints(rank, grids=_grids(bare, grid._constraints))
    else:
        if _is_empty_list(value):
            yield LayoutConstraints(0)
        prefix, _, part = bare.rpartition("chunk_")
        constraints = parse_grid_member(part, value, hard)
        yield LayoutConstraints(constraints.rank, grids=_grids(f"{prefix}chunk", constraints))


def _grids(prefix: str, grid: GridConstraints) -> Grids:
    """Return constraints on each usage of chunks, from the grid of a prefix."""
    if prefix == "chunk":
        return grid, grid, GridConstraints(ratios=grid.ratios)
    write, read, codec = (grid if prefix == f"{usage}_chunk" else NOTHING for usage in USAGES)
    return write, read, codec


def _is_empty_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and not value


def _origin(value: Any) -> Constraint:
    number = as_integer(value)
    if not -INFINITE < number < INFINITE:
        raise ValueError
    return Constraint(number, True)


def _finalize(layout: LayoutConstraints) -> LayoutConstraints:
    """Return the final layout: hard shapes; open read lengths equal the write lengths."""
    if layout.rank < 0:
        raise ArgumentError("a final chunk layout has a rank")
    for k in range(layout.rank):
        if not layout.origin or not (origin := layout.origin[k]) or not origin.hard:
            raise ArgumentError(f"no hard constraint on the grid_origin of dimension {k}")
    write, codec = _lengths(layout, _WRITE), _lengths(layout, _CODEC)
    read = [inner or outer for inner, outer in zip(_lengths(layout, _READ), write, strict=True)]
    for k, (outer, inner) in enumerate(zip(write, read, strict=True)):
        if outer and outer % inner:
            raise ArgumentError(
                f"write_chunk {outer} is not a multiple of read_chunk {inner} in dimension {k}"
            )
    outers, inners, blocks = (
        GridConstraints(row_of_values(result)) for result in (write, read, codec)
    )
    return LayoutConstraints(layout.rank, layout.order, layout.origin, (outers, inners, blocks))


def _lengths(layout: LayoutConstraints, usage: int) -> list[int]:
    """Return the hard constraints on the chunk shape; 0 for an unconstrained dimension."""
    result = get_values(layout.grids[usage].lengths, layout.rank, hard=True) or ()
    return [length or 0 for length in result]


set_public_module("tessarr.tensorstore", ChunkLayout)
