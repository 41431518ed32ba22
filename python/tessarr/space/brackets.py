"""Index a view by what stands in brackets: integers, slices, index arrays, ``newaxis``.

In an index space there is no counting from the end, and a slice keeps its origin; for the
meaning of NumPy's keys on arrays see `tessarr.indexing.normalize`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from tessarr.errors import SelectionError
from tessarr.space.domain import Box, Dim, check_labels
from tessarr.space.maps import OutputIndexMap, Step, simplified
from tessarr.space.steps import Selected, interval

__all__ = ["Mode", "brackets"]

Mode: TypeAlias = Literal["default", "oindex", "vindex"]

_KINDS: Final = (
    "only integers, slices, an ellipsis, newaxis (None) and arrays of integers or booleans "
    "are indices"
)


@dataclass(frozen=True, slots=True, eq=False)
class _Array:
    """An index array; one of a boolean array may stand for no dimension at all."""

    values: Any
    dims: int = 1


def brackets(
    dims: Box, selected: Selected | None, key: Any, mode: Mode, *, may_add: bool = True
) -> tuple[Step, Selected]:
    """Apply a key to selected dimensions, or, where none are selected, to the first ones.

    Parameters
    ----------
    dims
        Dimensions of the view.
    selected
        Those that the key is for. None: all, as many as the key has terms; the rest is left.
    key
        What stood in the brackets.
    mode
        How index arrays meet: "default" as in NumPy, "oindex" each by itself, "vindex"
        together, and their dimensions come first.
    may_add
        Whether ``newaxis`` is possible: not where the selection comes of an act before.

    Returns
    -------
    step, selected
        The selection goes on with what came of the terms, in their order.

    Raises
    ------
    SelectionError
        If the key does not fit.
    """
    terms = _terms(key)
    if selected is None:
        terms = _padded(terms, len(dims))
        numbers = iter(range(len(dims)))
        old = [next(numbers) if _used(term) else None for term in terms]
        where = list(range(len(old)))
    else:
        if len(terms) == 1 and not isinstance(key, tuple) and not isinstance(terms[0], _Array):
            terms = terms * len(selected) if terms[0] is not Ellipsis else [Ellipsis]
        if any(isinstance(term, _Array) and term.dims == 0 for term in terms):
            raise SelectionError("a boolean without dimensions names none of the selected ones")
        terms = _filled(terms, len(selected))
        if any(term is None for term in terms) and not may_add:
            raise SelectionError("newaxis is not possible after another act of the expression")
        old, where = _inserted(len(dims), terms, selected)
    return _Plan(dims, old, where, terms, mode).run()


def _terms(key: Any) -> list[Any]:
    parts = key if isinstance(key, tuple) else (key,)
    terms: list[Any] = []
    for part in parts:
        terms += _term(part)
    if sum(1 for term in terms if term is Ellipsis) > 1:
        raise SelectionError("an index can have one ellipsis only")
    return terms


def _term(part: Any) -> list[Any]:
    if part is None or part is Ellipsis:
        return [part]
    if isinstance(part, slice):
        return _slices(part)
    if isinstance(part, (bool, np.bool_)):
        return _boolean(np.asarray(part))
    if isinstance(part, str):
        raise SelectionError(f"{_KINDS}: not {part!r}")
    if hasattr(part, "__index__") and not isinstance(part, np.ndarray):
        return [int(part.__index__())]
    if not isinstance(part, (np.ndarray, list, tuple)) and not hasattr(part, "__array__"):
        raise SelectionError(f"{_KINDS}: not {part!r}")
    values = np.asarray(part)
    if values.dtype == bool:
        return _boolean(values)
    if values.size == 0:
        values = values.astype(np.int64)
    if not np.issubdtype(values.dtype, np.integer):
        raise SelectionError(f"{_KINDS}: not an array of {values.dtype}")
    return [_Array(values.astype(np.int64))]


def _boolean(values: Any) -> list[Any]:
    if values.ndim == 0:
        return [_Array(np.zeros(int(values), np.int64), dims=0)]
    return [_Array(places.astype(np.int64)) for places in np.nonzero(values)]


def _slices(part: slice) -> list[slice]:
    """Part a slice of tuples, such as ``(1, 2):(3, 4)``, into one for each dimension."""
    sides = (part.start, part.stop, part.step)
    counts = {len(side) for side in sides if _is_vector(side)}
    if not counts:
        return [part]
    if len(counts) > 1:
        raise SelectionError(f"{part}: vectors of different lengths")
    count = counts.pop()
    columns = [list(side) if _is_vector(side) else [side] * count for side in sides]
    return [slice(*row) for row in zip(*columns, strict=True)]


def _is_vector(side: Any) -> bool:
    return side is not None and hasattr(side, "__len__")


def _used(term: Any) -> int:
    """How many dimensions of the view a term takes."""
    if term is None:
        return 0
    return term.dims if isinstance(term, _Array) else 1


def _filled(terms: list[Any], count: int, used: Any = None) -> list[Any]:
    """Put a whole slice for each dimension that an ellipsis stands for."""
    sizes = [0 if term is Ellipsis else 1 if used is None else used(term) for term in terms]
    missing = count - sum(sizes)
    if Ellipsis not in [term for term in terms if not isinstance(term, _Array)]:
        if missing:
            raise SelectionError(
                f"the index has {sum(sizes)} terms, the selection {count} dimensions"
            )
        return terms
    if missing < 0:
        raise SelectionError(f"the index has {sum(sizes)} terms, there are {count} dimensions")
    at = next(i for i, term in enumerate(terms) if term is Ellipsis)
    return [*terms[:at], *[slice(None)] * missing, *terms[at + 1 :]]


def _padded(terms: list[Any], rank: int) -> list[Any]:
    if not any(term is Ellipsis for term in terms if not isinstance(term, _Array)):
        needed = sum(_used(term) for term in terms)
        if needed > rank:
            raise SelectionError(f"the index has {needed} terms, there are {rank} dimensions")
        terms = [*terms, Ellipsis]
    return _filled(terms, rank, _used)


def _inserted(
    rank: int, terms: Sequence[Any], selected: Selected
) -> tuple[list[int | None], list[int]]:
    """Give the dimensions with those that ``newaxis`` adds, and where the terms apply.

    What is selected for a ``newaxis`` are places among the dimensions with the new ones; the rest
    of a selection names dimensions of the view.
    """
    added = sum(1 for term in terms if term is None)
    if not added:
        return list(range(rank)), selected
    total = rank + added
    places: set[int] = set()
    for term, k in zip(terms, selected, strict=True):
        if term is None:
            places.add(k if k >= 0 else k + total)
    numbers = iter(range(rank))
    old = [None if k in places else next(numbers) for k in range(total)]
    return old, list(selected)


class _Plan:
    """What the terms make of the dimensions.

    `old` are the dimensions of the view, None for one that is new; `where` the places in
    it that the terms are for.
    """

    def __init__(
        self, dims: Box, old: list[int | None], where: list[int], terms: list[Any], mode: Mode
    ) -> None:
        self.dims = dims
        self.old = old
        self.where = where
        self.terms = dict(zip(where, terms, strict=True))
        self.order = where
        self.arrays = [at for at in where if isinstance(self.terms[at], _Array)]
        self.mode: Mode = mode
        self.joint = self._joint()

    def _joint(self) -> tuple[int, ...]:
        """Give the shape in which all index arrays meet."""
        shapes = [self.terms[at].values.shape for at in self.arrays]
        if self.mode == "oindex":
            return ()
        try:
            return np.broadcast_shapes(*shapes)
        except ValueError:
            raise SelectionError(
                f"index arrays of shapes {', '.join(map(str, shapes))} do not meet"
            ) from None

    def _joint_first(self) -> bool:
        """Whether the dimensions of joint arrays come first: NumPy's rule of adjacency."""
        if self.mode == "vindex":
            return True
        first, last = (f(self.order.index(at) for at in self.arrays) for f in (min, max))
        between = (self.terms[at] for at in self.order[first : last + 1])
        return any(term is None or isinstance(term, slice) for term in between)

    def run(self) -> tuple[Step, Selected]:
        groups = self._groups()
        first = bool(self.arrays) and self.mode != "oindex" and self._joint_first()
        new: list[Dim] = []
        places: dict[int, list[int]] = {}  # of a group: its dimensions in the new view
        if first:
            places[-1] = self._append(new, self.joint)
        found: dict[int, tuple[Dim | None, OutputIndexMap]] = {}
        for at, k in enumerate(self.old):
            if at in groups:
                group = groups[at]
                if group not in places and (group == at or at == self.arrays[0]):
                    shape = self.joint if group == -1 else self.terms[at].values.shape
                    places[group] = self._append(new, shape)
                continue
            dim, made = self._plain(at, k)
            if dim is not None:
                made = OutputIndexMap(made.offset, made.stride, len(new))
                places[at] = [len(new)]
                new.append(dim)
            found[at] = (dim, made)
        box = check_labels(new)
        if not any(dim.surely_empty for dim in box):  # where there is no position, none is outside
            self._check_integers()
        maps = [
            self._map(at, k, groups, places, found, box)
            for at, k in enumerate(self.old)
            if k is not None
        ]
        ordered = [
            one
            for _, one in sorted(
                zip([k for k in self.old if k is not None], maps, strict=True),
                key=lambda pair: pair[0],
            )
        ]
        return Step(box, tuple(ordered)), self._next(groups, places)

    def _groups(self) -> dict[int, int]:
        """Give the places of index arrays, and the group whose dimensions they run along."""
        return {at: at if self.mode == "oindex" else -1 for at in self.arrays}

    @staticmethod
    def _append(new: list[Dim], shape: tuple[int, ...]) -> list[int]:
        start = len(new)
        new += [Dim.of(0, size) for size in shape]
        return list(range(start, len(new)))

    def _plain(self, at: int, k: int | None) -> tuple[Dim | None, OutputIndexMap]:
        term = self.terms.get(at, slice(None))
        if k is None:
            return Dim.of(0, 1, "", True, True), OutputIndexMap()
        if isinstance(term, slice):
            return interval(self.dims[k], term)
        return None, OutputIndexMap(offset=term, stride=0)

    def _check_integers(self) -> None:
        for at, k in enumerate(self.old):
            term = self.terms.get(at)
            if k is None or not isinstance(term, int):
                continue
            lower, upper = self.dims[k].reach
            if not lower <= term < upper:
                bounds = Dim.of(lower, upper, self.dims[k].label)
                raise SelectionError(f"index {term} is outside of {bounds}")

    def _map(
        self,
        at: int,
        k: int,
        groups: dict[int, int],
        places: dict[int, list[int]],
        found: dict[int, tuple[Dim | None, OutputIndexMap]],
        box: Box,
    ) -> OutputIndexMap:
        if at not in groups:
            return found[at][1]
        values = self.terms[at].values
        axes = places[groups[at]]
        shape = [1] * len(box)
        for axis, size in zip(reversed(axes), reversed(values.shape), strict=False):
            shape[axis] = size
        made = OutputIndexMap(index_array=values.reshape(shape), index_range=self.dims[k].reach)
        return simplified(made, box)

    def _next(self, groups: dict[int, int], places: dict[int, list[int]]) -> Selected:
        selected: Selected = []
        first = bool(self.arrays) and self.mode != "oindex" and self._joint_first()
        done = set()
        if first:
            selected += places[-1]
            done.add(-1)
        for at in self.order:
            key = groups.get(at, at)
            if key in places and key not in done:
                done.add(key)
                selected += places[key]
        return selected
