"""Constraints on the shapes of chunks, on their grid and on the order of elements in them.

TensorStore's ``ChunkLayout``. A constraint is *hard* (what is opened has to meet it) or *soft* (a
wish for what is created); `wish` says how constraints are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from tessarr.errors import ArgumentError
from tessarr.space import INFINITE, Dim, IndexDomain, View
from tessarr.tensorstore.notation.reading import (
    as_integer,
    integer,
    lengths,
    members_of,
    nothing_else,
)
from tessarr.tensorstore.notation.recall import Recall, check_integers
from tessarr.tensorstore.notation.show import shown
from tessarr.tensorstore.schema.chunk_grid import NOTHING, Grid, GridConstraints, single
from tessarr.tensorstore.schema.wish import (
    SOFT,
    Row,
    Wish,
    check_keywords,
    hard_row,
    hard_wishes,
    if_hard,
    merged,
    merged_rows,
    row_of,
    state,
    told,
    values_of,
)
from tessarr.types import JSONObject, Shape

__all__ = ["ChunkLayout", "GridConstraints", "Usage"]

Usage: TypeAlias = Literal["write", "read", "codec"]
Grids: TypeAlias = tuple[GridConstraints, GridConstraints, GridConstraints]

_USAGES: Final[tuple[Usage, ...]] = ("write", "read", "codec")
_WRITE, _READ, _CODEC = range(3)
_NO_GRIDS: Final = (NOTHING, NOTHING, NOTHING)
_PREFIXES: Final = ("chunk", *(f"{usage}_chunk" for usage in _USAGES))
_MEMBERS: Final = frozenset(
    {"rank", "inner_order", "inner_order" + SOFT, "grid_origin", "grid_origin" + SOFT, *_PREFIXES}
)


def _origin(value: Any) -> Wish:
    number = as_integer(value)
    if not -INFINITE < number < INFINITE:
        raise ValueError
    return Wish(number, True)


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

    __slots__ = ("_grids", "_last", "_order", "_origin", "_rank", "_seen")

    _rank: int
    _order: Wish | None
    _origin: Row
    _grids: Grids
    _seen: tuple[ChunkLayout, View]  # what this is to be found of, along a view
    _last: tuple[View, ChunkLayout] | None  # what was found of this, along a view

    Grid: TypeAlias = Grid

    def __init__(self, json: Any = None, **parts: Any) -> None:
        self._rank, self._order, self._origin, self._grids = -1, None, (), _NO_GRIDS
        if json is not None:
            self._take(json if isinstance(json, ChunkLayout) else _read.made(json, self._parsed))
        if parts and json is None:
            self._take(_said.made(parts, self._of_parts))
        elif parts:
            self.update(**parts)

    @classmethod
    def _of_parts(cls, parts: dict[str, Any]) -> ChunkLayout:
        made = cls()
        made.update(**parts)
        return made

    @classmethod
    def _parsed(cls, json: Any) -> ChunkLayout:
        check_integers(json)
        members = members_of(json, "a chunk layout")
        nothing_else({name: 0 for name in members if name not in _MEMBERS})
        absent = [name for name, value in members.items() if value is None]
        if absent:
            raise ArgumentError(f"{absent[0]}: null is not a constraint")
        made = cls()
        made._add(members)
        return made

    @classmethod
    def known(
        cls,
        rank: int,
        write: Sequence[int] | None,
        read: Sequence[int] | None,
        order: Sequence[int] | None,
    ) -> ChunkLayout:
        """Return what is known of the chunks of an array whose grid begins at the origin.

        Parameters
        ----------
        rank
            The number of dimensions.
        write, read
            The shapes of chunks; 0 leaves one open, None all.
        order
            The order of elements, slowest axis first; None leaves it open.
        """
        made = cls.__new__(cls)
        made._rank = rank
        made._order = None if order is None else Wish(tuple(order), True)
        made._origin = (Wish(0, True),) * rank
        outer = NOTHING if write is None else GridConstraints(hard_row(write))
        inner = NOTHING if read is None else GridConstraints(hard_row(read))
        made._grids = (outer, inner, NOTHING)
        return made

    @classmethod
    def later(cls, layout: ChunkLayout, view: View) -> ChunkLayout:
        """Return the constraints through a view, which are found when they are looked at."""
        made = cls.__new__(cls)
        made._seen = layout, view
        return made

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            # Only what is yet to be found is absent.
            if name in {"_seen", "_last"} or name not in ChunkLayout.__slots__:
                raise AttributeError(f"a chunk layout has no {name!r}")
            self._see(*self._seen)
            return getattr(self, name)

    def update(self, *, finalize: bool = False, **parts: Any) -> None:
        """Add constraints; nothing is changed if one contradicts what is there.

        Raises
        ------
        ArgumentError
            If constraints contradict each other.
        """
        made = self.copy()
        given = {name: value for name, value in parts.items() if value is not None}
        check_keywords(given)
        if given.get("rank") == -1:
            del given["rank"]
        made._add(given)
        if given:
            raise TypeError(f"unknown keywords {', '.join(map(repr, sorted(given)))}")
        if finalize:
            made._finalize()
        self._take(made)
        self._last = None

    def _add(self, given: dict[str, Any]) -> None:
        """Add constraints, and take them out."""
        if "rank" in given:
            self._fix_rank(integer(0, 32)(given.pop("rank"), "rank"), "rank")
        for key in ("inner_order", "inner_order" + SOFT):
            if key in given:
                self._add_order(given.pop(key), key == "inner_order")
        for key in ("grid_origin", "grid_origin" + SOFT):
            if key in given:
                row = row_of(given.pop(key), key == "grid_origin", _origin, key)
                self._fix_rank(len(row), key)
                self._origin = merged_rows(self._origin, row, key)
        for prefix in _PREFIXES:
            self._add_grids(prefix, given)

    def _add_grids(self, prefix: str, given: dict[str, Any]) -> None:
        if prefix in given:
            parts = given[prefix]
            if isinstance(parts, Mapping) and any(_is_flat(part) for part in parts.values()):
                self._fix_rank(0, prefix)
            grid = Grid(given.pop(prefix))
            if grid.rank is not None:
                self._fix_rank(grid.rank, prefix)
            self._add_grid(prefix, grid.constraints, prefix)
        for name in ("shape", "aspect_ratio", "elements"):
            for key in (f"{prefix}_{name}", f"{prefix}_{name}{SOFT}"):
                if key in given:
                    value = given.pop(key)
                    if _is_flat(value):
                        self._fix_rank(0, key)
                    self._add_grid(prefix, single(name, value, not key.endswith(SOFT)), key)

    def _add_grid(self, prefix: str, grid: GridConstraints, what: str) -> None:
        if grid.rank >= 0:
            self._fix_rank(grid.rank, what)
        given = [NOTHING] * len(_USAGES)
        for k, usage in enumerate(_USAGES):
            if prefix == f"{usage}_chunk":
                given[k] = grid
            elif prefix == "chunk":
                given[k] = GridConstraints(ratios=grid.ratios) if usage == "codec" else grid
        self._grids = _merged_grids(self._grids, given, what)

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
        self._grids = _merged_grids(self._grids, other._grids)

    def merge(self, other: ChunkLayout) -> ChunkLayout:
        """Return these constraints and others together.

        Raises
        ------
        ArgumentError
            If they contradict each other.
        """
        if self._rank < 0 and self._grids is _NO_GRIDS:
            return other.copy()
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
        self._grids = other._grids

    def _see(self, layout: ChunkLayout, view: View) -> None:
        """Become the constraints of a layout along the dimensions of a view of what it is of.

        Raises
        ------
        ArgumentError
            If an origin would be beyond the range of indices.
        """
        last = getattr(layout, "_last", None)
        if last is not None and last[0] is view:
            self._take(last[1])
            return
        order = layout._order
        if order is not None and (moved := view.ordered(order.value)) != order.value:
            order = Wish(moved, order.hard)
        self._origin, self._grids = view.carried(layout._origin, layout._grids)
        self._rank, self._order = view.rank, order
        layout._last = view, self.copy()

    def hard(self) -> ChunkLayout:
        """Return the hard constraints alone."""
        made = self.with_rows(self._rank, tuple, hard_wishes, GridConstraints.hard)
        made._order = if_hard(self._order)
        return made

    def with_rows(
        self,
        rank: int,
        order: Callable[[Shape], Shape],
        origin: Callable[[Row], Row],
        grid: Callable[[GridConstraints], GridConstraints],
    ) -> ChunkLayout:
        """Return the constraints of a rank, each changed by a function."""
        made = self.copy()
        made._rank = rank
        if self._order is not None:
            made._order = Wish(order(self._order.value), self._order.hard)
        made._origin = origin(self._origin)
        write, read, codec = (one if one is NOTHING else grid(one) for one in self._grids)
        made._grids = (write, read, codec)
        return made

    def leading(self, rank: int) -> ChunkLayout:
        """Return the constraints on the first dimensions alone."""
        if self._rank <= rank:
            return self
        return self.with_rows(
            rank,
            lambda order: tuple(axis for axis in order if axis < rank),
            lambda row: row[:rank],
            lambda grid: grid.each(lambda row: row[:rank], lambda row: row[:rank]),
        )

    def _finalize(self) -> None:
        """Leave what is settled alone: hard shapes, where those of read chunks are complete."""
        if self._rank < 0:
            raise ArgumentError("a final chunk layout has a rank")
        for k in range(self._rank):
            if not self._origin or (wish := self._origin[k]) is None or not wish.hard:
                raise ArgumentError(f"no hard constraint on the grid_origin of dimension {k}")
        write, codec = self._lengths(_WRITE), self._lengths(_CODEC)
        read = [inner or outer for inner, outer in zip(self._lengths(_READ), write, strict=True)]
        for k, (outer, inner) in enumerate(zip(write, read, strict=True)):
            if outer and outer % inner:
                raise ArgumentError(
                    f"write_chunk {outer} is not a multiple of read_chunk {inner} in dimension {k}"
                )
        shapes = (GridConstraints(hard_row(lengths)) for lengths in (write, read, codec))
        outers, inners, blocks = shapes
        self._grids = outers, inners, blocks

    def _lengths(self, usage: int) -> list[int]:
        found = values_of(self._grids[usage].lengths, self._rank, hard=True) or ()
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
        return values_of(self._origin, self._rank, hard=True)

    @property
    def grid_origin_soft_constraint(self) -> tuple[int | None, ...] | None:
        """Soft constraints on where the grid begins."""
        return values_of(self._origin, self._rank, hard=False)

    @property
    def grids(self) -> Grids:
        """The constraints on chunks to be written, to be read, and of codecs, as values."""
        return self._grids

    @property
    def write_chunk(self) -> Grid:
        """Constraints on what is written at once."""
        return Grid.of(self._grids[_WRITE], self._rank)

    @property
    def read_chunk(self) -> Grid:
        """Constraints on what is read at once."""
        return Grid.of(self._grids[_READ], self._rank)

    @property
    def codec_chunk(self) -> Grid:
        """Constraints on what a codec sees at once."""
        return Grid.of(self._grids[_CODEC], self._rank)

    @property
    def write_chunk_template(self) -> IndexDomain:
        """The domain of the write chunk that the grid begins with."""
        return self._template(_WRITE)

    @property
    def read_chunk_template(self) -> IndexDomain:
        """The domain of the read chunk that the grid begins with."""
        return self._template(_READ)

    def _template(self, usage: int) -> IndexDomain:
        if self._rank < 0:
            raise ArgumentError("a chunk layout without a rank has no template of chunks")
        origins = self.grid_origin or (None,) * self._rank
        dims = []
        for origin, length in zip(origins, self._lengths(usage), strict=True):
            known = origin is not None and length > 0
            begin = origin if origin is not None and known else -INFINITE
            dims.append(Dim.of(begin, begin + length if known else INFINITE + 1))
        return IndexDomain.of(tuple(dims))

    def _values(self) -> Hashable:
        """Return what only equal constraints have."""
        return self._rank, self._order, self._origin, self._grids

    def to_json(self) -> JSONObject:
        """Return the constraints as JSON."""
        result: JSONObject = {}
        if self._order is not None and self._rank:
            name = "inner_order" + ("" if self._order.hard else SOFT)
            result[name] = list(self._order.value)
        state(result, "grid_origin", self._origin)
        for usage, grid in zip(_USAGES, self._grids, strict=True):
            if grid is not NOTHING and (stated := grid.to_json()):
                result[f"{usage}_chunk"] = stated
        if self._rank >= 0 and not self._tells_rank:
            result["rank"] = self._rank
        return result

    @property
    def _tells_rank(self) -> bool:
        """Whether something is asked for of which the rank follows."""
        if any(self._origin) or (self._order is not None and self._rank > 0):
            return True
        return any(any(grid.lengths) or any(grid.ratios) for grid in self._grids)

    @property
    def says_anything(self) -> bool:
        """Whether anything but the rank is asked for."""
        return self._tells_rank or any(grid.elements is not None for grid in self._grids)

    def _key(self) -> tuple[Any, ...]:
        """Return what is the same of layouts that are."""
        rows = [told(self._origin), *(one.key() for one in self._grids)]
        return self._rank, self._order if self._rank else None, *rows

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, ChunkLayout) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return shown("ChunkLayout", self.to_json())

    def __reduce__(self) -> tuple[Any, ...]:
        return ChunkLayout, (self.to_json(),)


_read: Final = Recall[ChunkLayout]()
"""Layouts that were read, by their JSON."""

_said: Final = Recall[ChunkLayout]()
"""Layouts that were made, by their keywords."""


def _is_flat(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and not value


def _merged_grids(old: Grids, new: Sequence[GridConstraints], what: str = "") -> Grids:
    write, read, codec = (
        one.merged(other, what or f"{usage}_chunk")
        for usage, one, other in zip(_USAGES, old, new, strict=True)
    )
    return write, read, codec
