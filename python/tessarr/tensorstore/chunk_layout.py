"""Constraints on the shapes of chunks, on their grid and on the order of elements in them.

TensorStore's ``ChunkLayout``. A constraint is *hard* (what is opened has to meet it) or *soft* (a
wish for what is created). Where constraints are merged, two different hard ones are an error,
a hard one replaces a soft one, and a soft one fills only what is open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any, Final, Literal, TypeAlias

from tessarr.errors import ArgumentError
from tessarr.space import INFINITE, Dim, IndexDomain, IndexTransform
from tessarr.tensorstore import through
from tessarr.tensorstore.reading import (
    as_float,
    as_integer,
    integer,
    items,
    lengths,
    members_of,
    nothing_else,
)
from tessarr.tensorstore.show import shown
from tessarr.types import JSONObject

__all__ = ["ChunkLayout", "GridConstraints", "Usage"]

Usage: TypeAlias = Literal["write", "read", "codec"]

_USAGES: Final[tuple[Usage, ...]] = ("write", "read", "codec")
_SOFT: Final = "_soft_constraint"
_PREFIXES: Final = ("chunk", *(f"{usage}_chunk" for usage in _USAGES))
_MEMBERS: Final = frozenset(
    {"rank", "inner_order", "inner_order" + _SOFT, "grid_origin", "grid_origin" + _SOFT, *_PREFIXES}
)
_LONGEST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Wish:
    """A value that is asked for, and whether it has to be."""

    value: Any
    hard: bool


Row: TypeAlias = "tuple[Wish | None, ...]"
"""What is asked for each dimension; empty while the rank is open."""


def merged(old: Wish | None, new: Wish | None, what: str) -> Wish | None:
    """Return what two wishes are together.

    Raises
    ------
    ArgumentError
        If both are hard and not the same.
    """
    if new is None or (old is not None and old.hard and not new.hard):
        return old
    if old is not None and old.hard and new.value != old.value:
        raise ArgumentError(
            f"{what}: the hard constraint {new.value} does not match the existing one, {old.value}"
        )
    return new if old is None or new.hard else old


def merged_rows(old: Row, new: Row, what: str) -> Row:
    """Return what two rows of wishes are together, dimension by dimension."""
    if not old or not new:
        return new or old
    return tuple(
        merged(one, other, f"{what} of dimension {k}")
        for k, (one, other) in enumerate(zip(old, new, strict=True))
    )


def _row(values: Any, hard: bool, check: Callable[[Any], Wish | None], what: str) -> Row:
    found = []
    for k, value in enumerate(items(values, what)):
        try:
            wish = None if value is None else check(value)
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ArgumentError(f"{what} of dimension {k}: {value!r} is not valid") from error
        found.append(None if wish is None else Wish(wish.value, wish.hard and hard))
    return tuple(found)


def _length(value: Any) -> Wish | None:
    """Read a chunk length: 0 leaves it open, -1 asks for the whole extent, which is never hard."""
    number = as_integer(value)
    if not -1 <= number <= _LONGEST:
        raise ValueError
    return None if number == 0 else Wish(number, number != -1)


def _origin(value: Any) -> Wish:
    number = as_integer(value)
    if not -INFINITE < number < INFINITE:
        raise ValueError
    return Wish(number, True)


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
            for key in (name, name + _SOFT):
                if key in members:
                    grid = grid.merged(_single(name, members.pop(key), key == name), key)
        nothing_else(members)
        if rank is not None and grid.rank not in {-1, rank}:
            raise ArgumentError(f"rank {grid.rank} does not match the rank {rank}")
        return grid

    def merged(self, other: GridConstraints, what: str = "chunk") -> GridConstraints:
        """Return both constraints together."""
        if -1 not in {self.rank, other.rank} and self.rank != other.rank:
            raise ArgumentError(f"{what}: rank {other.rank} does not match the rank {self.rank}")
        return GridConstraints(
            merged_rows(self.lengths, other.lengths, f"{what}: shape"),
            merged_rows(self.ratios, other.ratios, f"{what}: aspect_ratio"),
            merged(self.count, other.count, f"{what}: elements"),
        )

    @property
    def rank(self) -> int:
        """The number of dimensions; -1 while it is open."""
        return len(self.lengths) or len(self.ratios) or -1

    ndim = rank

    @property
    def shape(self) -> tuple[int | None, ...] | None:
        """Hard constraints on the shape."""
        return _values(self.lengths, True)

    @property
    def shape_soft_constraint(self) -> tuple[int | None, ...] | None:
        """Soft constraints on the shape."""
        return _values(self.lengths, False)

    @property
    def aspect_ratio(self) -> tuple[float | None, ...] | None:
        """Hard constraints on how lengths relate to each other."""
        return _values(self.ratios, True)

    @property
    def aspect_ratio_soft_constraint(self) -> tuple[float | None, ...] | None:
        """Soft constraints on how lengths relate to each other."""
        return _values(self.ratios, False)

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
        _rows_to_json(result, "shape", self.lengths)
        _rows_to_json(result, "aspect_ratio", self.ratios)
        if self.count is not None:
            result["elements" + ("" if self.count.hard else _SOFT)] = self.count.value
        return result

    def __repr__(self) -> str:
        return shown("ChunkLayout.Grid", self.to_json())


def _single(name: str, value: Any, hard: bool) -> GridConstraints:
    if value is None:
        return GridConstraints()
    if name == "shape":
        return GridConstraints(lengths=_row(value, hard, _length, name))
    if name == "aspect_ratio":
        return GridConstraints(ratios=_row(value, hard, _ratio, name))
    return GridConstraints(count=Wish(integer(0)(value, "elements"), hard))


def _values(row: Row, hard: bool) -> tuple[Any, ...] | None:
    if not row:
        return None
    return tuple(wish.value if wish is not None and wish.hard == hard else None for wish in row)


def _rows_to_json(result: JSONObject, name: str, row: Row) -> None:
    for hard in (True, False):
        values = _values(row, hard)
        if values is not None and any(value is not None for value in values):
            result[name + ("" if hard else _SOFT)] = list(values)


class ChunkLayout:
    """Constraints on chunks: their shapes, grid, and the order of their elements.

    Parameters
    ----------
    json : dict or ChunkLayout, optional
        All as JSON.
    **parts
        ``rank``, ``inner_order``, ``grid_origin``; ``chunk``, ``write_chunk``, ``read_chunk`` and
        ``codec_chunk`` as grids, or with ``_shape``, ``_aspect_ratio`` or ``_elements`` after it;
        all but ``rank`` and grids also with ``_soft_constraint`` after it.

    Raises
    ------
    ArgumentError
        If constraints contradict each other.

    Examples
    --------
    >>> ChunkLayout(chunk_shape=[3, 4], read_chunk_elements=6).to_json()["write_chunk"]
    {'shape': [3, 4]}
    """

    __slots__ = ("_grids", "_order", "_origin", "_rank")

    Grid = GridConstraints

    def __init__(self, json: Any = None, /, **parts: Any) -> None:
        self._rank = -1
        self._order: Wish | None = None
        self._origin: Row = ()
        self._grids: dict[Usage, GridConstraints] = dict.fromkeys(_USAGES, GridConstraints())
        if isinstance(json, ChunkLayout):
            self._merge(json)
        elif json is not None:
            members = members_of(json, "a chunk layout")
            nothing_else({name: 0 for name in members if name not in _MEMBERS})
            absent = [name for name, value in members.items() if value is None]
            if absent:
                raise ArgumentError(f"{absent[0]}: null is not a constraint")
            self._add(members)
        if parts:
            self.update(**parts)

    def update(self, *, finalize: bool = False, **parts: Any) -> None:
        """Add constraints; nothing is changed if one contradicts what is there.

        Raises
        ------
        ArgumentError
            If constraints contradict each other.
        """
        made = self.copy()
        given = {name: value for name, value in parts.items() if value is not None}
        made._add(given)
        if given:
            raise TypeError(f"unknown keywords {', '.join(map(repr, sorted(given)))}")
        if finalize:
            made._check_final()
        self._take(made)

    def _add(self, given: dict[str, Any]) -> None:
        """Add constraints, and take them out."""
        if "rank" in given:
            self._fix_rank(integer(0, 32)(given.pop("rank"), "rank"), "rank")
        for key in ("inner_order", "inner_order" + _SOFT):
            if key in given:
                self._add_order(given.pop(key), key == "inner_order")
        for key in ("grid_origin", "grid_origin" + _SOFT):
            if key in given:
                row = _row(given.pop(key), key == "grid_origin", _origin, key)
                self._fix_rank(len(row), key)
                self._origin = merged_rows(self._origin, row, key)
        for prefix in _PREFIXES:
            self._add_grids(prefix, given)

    def _add_grids(self, prefix: str, given: dict[str, Any]) -> None:
        if prefix in given:
            parts = given[prefix]
            if isinstance(parts, Mapping) and any(_is_flat(part) for part in parts.values()):
                self._fix_rank(0, prefix)
            self._add_grid(prefix, GridConstraints.of(given.pop(prefix)), prefix)
        for name in ("shape", "aspect_ratio", "elements"):
            for key in (f"{prefix}_{name}", f"{prefix}_{name}{_SOFT}"):
                if key in given:
                    value = given.pop(key)
                    if _is_flat(value):
                        self._fix_rank(0, key)
                    self._add_grid(prefix, _single(name, value, not key.endswith(_SOFT)), key)

    def _add_grid(self, prefix: str, grid: GridConstraints, what: str) -> None:
        if grid.rank >= 0:
            self._fix_rank(grid.rank, what)
        if prefix != "chunk":
            which: Usage = next(one for one in _USAGES if prefix.startswith(one))
            self._grids[which] = self._grids[which].merged(grid, what)
            return
        for usage in _USAGES:
            part = GridConstraints(ratios=grid.ratios) if usage == "codec" else grid
            self._grids[usage] = self._grids[usage].merged(part, what)

    def _add_order(self, order: Any, hard: bool) -> None:
        axes = lengths(0)(order, "inner_order")
        if sorted(axes) != list(range(len(axes))):
            raise ArgumentError(f"inner_order: {list(axes)} is not a permutation")
        self._fix_rank(len(axes), "inner_order")
        self._order = merged(self._order, Wish(axes, hard), "inner_order")

    def _fix_rank(self, rank: int, what: str) -> None:
        if not 0 <= rank <= 32:
            raise ArgumentError(f"{what}: the rank {rank} is outside of [0, 32]")
        if self._rank not in {-1, rank}:
            raise ArgumentError(f"{what}: rank {rank} does not match the rank {self._rank}")
        self._rank = rank

    def _merge(self, other: ChunkLayout) -> None:
        if other.rank >= 0:
            self._fix_rank(other.rank, "chunk_layout")
        self._order = merged(self._order, other._order, "inner_order")
        self._origin = merged_rows(self._origin, other._origin, "grid_origin")
        for usage in _USAGES:
            grid = self._grids[usage].merged(other._grids[usage], f"{usage}_chunk")
            self._grids[usage] = grid

    def merge(self, other: ChunkLayout) -> ChunkLayout:
        """Return these constraints and others together.

        Raises
        ------
        ArgumentError
            If they contradict each other.
        """
        made = self.copy()
        made._merge(other)
        return made

    def copy(self) -> ChunkLayout:
        """Return the same constraints, apart."""
        made = ChunkLayout.__new__(ChunkLayout)
        made._take(self)
        return made

    def _take(self, other: ChunkLayout) -> None:
        self._rank, self._order, self._origin = other._rank, other._order, other._origin
        self._grids = dict(other._grids)

    def hard(self) -> ChunkLayout:
        """Return the hard constraints alone."""
        made = self.copy()
        made._order = _if_hard(self._order)
        made._origin = tuple(_if_hard(wish) for wish in self._origin)
        for usage, grid in self._grids.items():
            rows = [tuple(_if_hard(wish) for wish in row) for row in (grid.lengths, grid.ratios)]
            made._grids[usage] = GridConstraints(rows[0], rows[1], _if_hard(grid.count))
        return made

    def through(self, transform: IndexTransform) -> ChunkLayout:
        """Return the constraints of a view of what these are of.

        Raises
        ------
        ArgumentError
            If the view does not fit, or an origin would be beyond the range of indices.
        """

        def row(wishes: Row, change: Callable[[Any, int, int], Any]) -> Row:
            if not wishes:
                return ()
            return through.carried(
                wishes, transform, lambda wish, *by: Wish(change(wish.value, *by), wish.hard)
            )

        return self._changed(
            transform.output_rank, transform.input_rank, row, transform, through.order_through
        )

    def before(self, transform: IndexTransform) -> ChunkLayout:
        """Return the constraints of what is viewed, where these are those of the view.

        Raises
        ------
        ArgumentError
            If the view does not fit, or a hard constraint cannot be told of what is viewed.
        """
        backwards: dict[Any, Callable[[Any, int, int], Any]] = {
            _origin_within: _origin_before,
            _length_within: _length_before,
            _ratio_within: _ratio_before,
        }

        def row(wishes: Row, change: Callable[[Any, int, int], Any]) -> Row:
            if not wishes:
                return ()
            return through.carried_back(
                wishes,
                transform,
                lambda wish, *by: Wish(backwards[change](wish.value, *by), wish.hard),
                _is_hard,
                "chunk_layout",
            )

        return self._changed(
            transform.input_rank, transform.output_rank, row, transform, through.order_before
        )

    def _changed(
        self,
        given: int,
        rank: int,
        row: Callable[[Row, Callable[[Any, int, int], Any]], Row],
        transform: IndexTransform,
        order: Callable[[tuple[int, ...], IndexTransform], tuple[int, ...]],
    ) -> ChunkLayout:
        if self._rank not in {-1, given}:
            raise ArgumentError(f"a chunk layout of rank {self._rank} for a view of rank {given}")
        made = self.copy()
        if self._rank <= 0:
            return made
        made._rank = rank
        if self._order is not None:
            made._order = Wish(order(self._order.value, transform), self._order.hard)
        made._origin = row(self._origin, _origin_within)
        for usage, grid in self._grids.items():
            lengths, ratios = row(grid.lengths, _length_within), row(grid.ratios, _ratio_within)
            made._grids[usage] = GridConstraints(lengths, ratios, grid.count)
        return made

    def leading(self, rank: int) -> ChunkLayout:
        """Return the constraints on the first dimensions alone."""
        if self._rank <= rank:
            return self
        made = self.copy()
        made._rank = rank
        if self._order is not None:
            kept = tuple(axis for axis in self._order.value if axis < rank)
            made._order = Wish(kept, self._order.hard)
        made._origin = self._origin[:rank]
        for usage, grid in self._grids.items():
            made._grids[usage] = GridConstraints(
                grid.lengths[:rank], grid.ratios[:rank], grid.count
            )
        return made

    def _check_final(self) -> None:
        if self._rank < 0:
            raise ArgumentError("a final chunk layout has a rank")
        for k in range(self._rank):
            if not self._origin or (wish := self._origin[k]) is None or not wish.hard:
                raise ArgumentError(f"no hard constraint on the grid_origin of dimension {k}")
        write, read = (self._lengths(usage) for usage in ("write", "read"))
        for k, (outer, inner) in enumerate(zip(write, read, strict=True)):
            if outer and inner and outer % inner:
                raise ArgumentError(
                    f"write_chunk {outer} is not a multiple of read_chunk {inner} in dimension {k}"
                )

    def _lengths(self, usage: Usage) -> list[int]:
        found = self._grids[usage].shape or (None,) * self._rank
        return [length or 0 for length in found]

    @property
    def rank(self) -> int:
        """The number of dimensions; -1 while it is open."""
        return self._rank

    ndim = rank

    @property
    def inner_order(self) -> tuple[int, ...] | None:
        """The hard constraint on the order of the elements of a chunk, slowest axis first."""
        return self._order.value if self._order is not None and self._order.hard else None

    @property
    def inner_order_soft_constraint(self) -> tuple[int, ...] | None:
        """The soft constraint on the order of elements."""
        return self._order.value if self._order is not None and not self._order.hard else None

    @property
    def order(self) -> Wish | None:
        """The wish for the order of elements, hard or soft."""
        return self._order

    @property
    def grid_origin(self) -> tuple[int | None, ...] | None:
        """Hard constraints on where the grid begins."""
        return _values(self._origin, True)

    @property
    def grid_origin_soft_constraint(self) -> tuple[int | None, ...] | None:
        """Soft constraints on where the grid begins."""
        return _values(self._origin, False)

    @property
    def write_chunk(self) -> GridConstraints:
        """Constraints on what is written at once."""
        return self._grids["write"]

    @property
    def read_chunk(self) -> GridConstraints:
        """Constraints on what is read at once."""
        return self._grids["read"]

    @property
    def codec_chunk(self) -> GridConstraints:
        """Constraints on what a codec sees at once."""
        return self._grids["codec"]

    @property
    def write_chunk_template(self) -> IndexDomain:
        """The domain of the write chunk that the grid begins with."""
        return self._template("write")

    @property
    def read_chunk_template(self) -> IndexDomain:
        """The domain of the read chunk that the grid begins with."""
        return self._template("read")

    def _template(self, usage: Usage) -> IndexDomain:
        if self._rank < 0:
            raise ArgumentError("a chunk layout without a rank has no template of chunks")
        origins = self.grid_origin or (None,) * self._rank
        dims = []
        for origin, length in zip(origins, self._lengths(usage), strict=True):
            known = origin is not None and length > 0
            begin = origin if origin is not None and known else -INFINITE
            dims.append(Dim.of(begin, begin + length if known else INFINITE + 1))
        return IndexDomain.of(tuple(dims))

    def to_json(self) -> JSONObject:
        """Return the constraints as JSON."""
        result: JSONObject = {}
        if self._order is not None and self._rank:
            name = "inner_order" + ("" if self._order.hard else _SOFT)
            result[name] = list(self._order.value)
        _rows_to_json(result, "grid_origin", self._origin)
        for usage in _USAGES:
            grid = self._grids[usage].to_json()
            if grid:
                result[f"{usage}_chunk"] = grid
        rows = [self._origin, *(row for g in self._grids.values() for row in (g.lengths, g.ratios))]
        told = any(wish is not None for row in rows for wish in row)
        told |= self._order is not None and self._rank > 0
        if self._rank >= 0 and not told:
            result["rank"] = self._rank
        return result

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChunkLayout):
            return NotImplemented
        return self._rank == other._rank and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return shown("ChunkLayout", self.to_json())

    def __reduce__(self) -> tuple[Any, ...]:
        return ChunkLayout, (self.to_json(),)


def _is_flat(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and not value


def _is_hard(wish: Wish | None) -> bool:
    return wish is not None and wish.hard


def _if_hard(wish: Wish | None) -> Wish | None:
    return wish if wish is not None and wish.hard else None


def _index(value: int) -> int:
    if not -INFINITE < value < INFINITE:
        raise ArgumentError(f"grid_origin: {value} is beyond the range of indices")
    return value


def _origin_within(value: int, offset: int, stride: int) -> int:
    moved = _index(value - offset)
    return -((moved if stride > 0 else moved - 1) // -stride)


def _origin_before(value: int, offset: int, stride: int) -> int:
    return _index(offset + stride * (value - 1 if stride < 0 else value))


def _length_within(value: int, _: int, stride: int) -> int:
    return value // gcd(stride, value)


def _length_before(value: int, _: int, stride: int) -> int:
    if value == -1:
        return value
    if value * abs(stride) > _LONGEST:
        raise ArgumentError(f"a chunk of {value} elements in steps of {stride} is too long")
    return value * abs(stride)


def _ratio_within(value: float, _: int, stride: int) -> float:
    return value / abs(stride)


def _ratio_before(value: float, _: int, stride: int) -> float:
    return value * abs(stride)
