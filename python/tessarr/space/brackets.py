"""Index a view by what stands in brackets: integers, slices, index arrays, ``newaxis``.

In an index space there is no counting from the end, and a slice keeps its origin; for the
meaning of NumPy's keys on arrays see `tessarr.indexing.normalize`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from tessarr.errors import SelectionError
from tessarr.space.domain import INFINITE, Box, Dim, check_labels
from tessarr.space.maps import OutputIndexMap, Step, simplified
from tessarr.space.steps import SAME, Selected, interval

__all__ = ["Key", "Mode", "brackets", "parsed"]

Mode: TypeAlias = Literal["default", "oindex", "vindex"]

_KINDS: Final = (
    "only integers, slices, an ellipsis, newaxis (None) and arrays of integers or booleans "
    "are indices"
)


@dataclass(frozen=True, slots=True, eq=False)
class _Array:
    """An index array; one of a boolean array may stand for no dimension, or go on with the last."""

    values: Any
    dims: int = 1
    goes_on: bool = False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Array):
            return NotImplemented
        same = (self.dims, self.goes_on) == (other.dims, other.goes_on)
        return same and np.array_equal(self.values, other.values)

    __hash__ = None  # type: ignore[assignment]


class Key(NamedTuple):
    """What stood in brackets: its terms, and whether it was a single one."""

    terms: tuple[Any, ...]
    single: bool = False

    def __str__(self) -> str:
        text = ",".join(map(_shown, self.terms))
        return text if self.single or len(self.terms) > 1 else f"{text},"


def brackets(
    dims: Box, selected: Selected | None, key: Key, mode: Mode, *, may_add: bool = True
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
    terms = list(key.terms)
    if selected is None:
        terms = _padded(terms, len(dims))
        numbers = iter(range(len(dims)))
        old = [next(numbers) if _used(term) else None for term in terms]
        where = list(range(len(old)))
    else:
        if key.single:
            terms = terms * len(selected) if terms[0] is not Ellipsis else [Ellipsis]
        if any(isinstance(term, _Array) and term.dims == 0 for term in terms):
            raise SelectionError("a boolean without dimensions names none of the selected ones")
        terms = _filled(terms, len(selected))
        if any(term is None for term in terms) and not may_add:
            raise SelectionError("newaxis is not possible after another act of the expression")
        old, where = _inserted(len(dims), terms, selected)
    return _Plan(dims, old, where, terms, mode).run()


def brackets_of(dims: Box, terms: Sequence[Any], mode: Mode) -> Step:
    """Apply terms of which each takes one dimension, but for ``None``, to all dimensions."""
    return brackets(dims, None, parsed(tuple(terms)), mode)[0]


def parsed(key: Any) -> Key:
    """Return the terms of what stood in brackets.

    Raises
    ------
    SelectionError
        If something is no index.
    """
    terms = _terms(key)
    single = len(terms) == 1 and not isinstance(key, tuple) and not isinstance(terms[0], _Array)
    return Key(tuple(terms), single)


def _shown(term: Any) -> str:
    if isinstance(term, slice):
        parts = ["" if part is None else str(part) for part in (term.start, term.stop)]
        return ":".join(parts if term.step is None else [*parts, str(term.step)])
    if isinstance(term, _Array):
        return repr(term.values)
    return "..." if term is Ellipsis else repr(term)


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
    try:
        values = np.asarray(part)
    except ValueError as error:
        raise SelectionError(f"{_KINDS}: {error}") from None
    if values.dtype == bool:
        return _boolean(values)
    if values.size == 0:
        values = values.astype(np.int64)
    if not np.issubdtype(values.dtype, np.integer):
        raise SelectionError(f"{_KINDS}: not an array of {values.dtype}")
    if values.dtype == np.uint64 and values.size and values.max() > INFINITE:
        raise SelectionError(f"index {values.max()} is beyond the range of indices")
    return [_Array(values.astype(np.int64))]


def _boolean(values: Any) -> list[Any]:
    if values.ndim == 0:
        return [_Array(np.zeros(int(values), np.int64), dims=0)]
    found = np.nonzero(values)
    return [_Array(places.astype(np.int64), goes_on=k > 0) for k, places in enumerate(found)]


def _slices(part: slice) -> list[slice]:
    """Part a slice of tuples, such as ``(1, 2):(3, 4)``, into one for each dimension."""
    sides = (part.start, part.stop, part.step)
    counts = {len(side) for side in sides if _is_vector(side)}
    if not counts:
        return [slice(*map(_end, sides))]
    if len(counts) > 1:
        raise SelectionError(f"{part}: vectors of different lengths")
    count = counts.pop()
    columns = [list(side) if _is_vector(side) else [side] * count for side in sides]
    return [slice(*map(_end, row)) for row in zip(*columns, strict=True)]


def _is_vector(side: Any) -> bool:
    return isinstance(side, (list, tuple)) or (isinstance(side, np.ndarray) and side.ndim > 0)


def _end(value: Any) -> int | None:
    if value is None:
        return None
    try:
        return int(value.__index__())
    except AttributeError:
        raise TypeError(f"a slice is made of integers: not {value!r}") from None


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


_JOINT: Final = -1
"""Stands for the dimensions along which all index arrays run together."""


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
        self.order = where
        self.terms = dict(zip(where, terms, strict=True))
        self.arrays = [at for at in where if isinstance(self.terms[at], _Array)]
        self.groups = self._alone() if mode == "oindex" else dict.fromkeys(self.arrays, _JOINT)
        self.joint = () if mode == "oindex" else self._joint_shape()
        self.joint_first = mode == "vindex" or (mode == "default" and self._apart())
        self.new: list[Dim] = []
        self.places: dict[int, list[int]] = {}  # of a term, or of _JOINT: its new dimensions
        self.plain: dict[int, OutputIndexMap] = {}

    def _alone(self) -> dict[int, int]:
        """Give each index array dimensions of its own; those of one boolean array share them."""
        groups: dict[int, int] = {}
        group = _JOINT
        for at in self.arrays:
            group = group if self.terms[at].goes_on else at
            groups[at] = group
        return groups

    def _joint_shape(self) -> tuple[int, ...]:
        shapes = [self.terms[at].values.shape for at in self.arrays]
        try:
            return np.broadcast_shapes(*shapes)
        except ValueError:
            raise SelectionError(
                f"index arrays of shapes {', '.join(map(str, shapes))} do not meet"
            ) from None

    def _apart(self) -> bool:
        """Whether something stands between index arrays: NumPy's rule of adjacency."""
        if not self.arrays:
            return False
        first, last = (f(self.order.index(at) for at in self.arrays) for f in (min, max))
        between = (self.terms[at] for at in self.order[first : last + 1])
        return any(term is None or isinstance(term, slice) for term in between)

    def run(self) -> tuple[Step, Selected]:
        if self.joint_first:
            self._add(_JOINT, self.joint)
        for at, k in enumerate(self.old):
            if at in self.groups:
                self._add_arrays(at)
            else:
                self._add_plain(at, k)
        box = check_labels(self.new)
        if not any(dim.surely_empty for dim in box):  # where there is no position, none is outside
            self._check_integers()
        maps = (self._map(at, k, box) for at, k in enumerate(self.old) if k is not None)
        return Step(box, tuple(maps)), self._next()

    def _add(self, key: int, shape: tuple[int, ...]) -> None:
        start = len(self.new)
        self.new += [Dim.of(0, size) for size in shape]
        self.places[key] = list(range(start, len(self.new)))

    def _add_arrays(self, at: int) -> None:
        group = self.groups[at]
        if group == at:
            self._add(at, self.terms[at].values.shape)
        elif at == self.arrays[0] and not self.joint_first:
            self._add(_JOINT, self.joint)

    def _add_plain(self, at: int, k: int | None) -> None:
        term = self.terms.get(at, slice(None))
        if isinstance(term, int):
            self.plain[at] = OutputIndexMap.constant(term)
            return
        dim, (offset, stride) = (
            (Dim.of(0, 1, "", (True, True)), SAME) if k is None else interval(self.dims[k], term)
        )
        self.plain[at] = OutputIndexMap.along(len(self.new), offset, stride)
        self.places[at] = [len(self.new)]
        self.new.append(dim)

    def _check_integers(self) -> None:
        for at, k in enumerate(self.old):
            term = self.terms.get(at)
            if k is None or not isinstance(term, int):
                continue
            lower, upper = self.dims[k].reach
            if not lower <= term < upper:
                bounds = Dim.of(lower, upper, self.dims[k].label)
                raise SelectionError(f"index {term} is outside of {bounds}")

    def _map(self, at: int, k: int, box: Box) -> OutputIndexMap:
        if at not in self.groups:
            return self.plain[at]
        values = self.terms[at].values
        shape = [1] * len(box)
        axes = self.places[self.groups[at]]
        for axis, size in zip(reversed(axes), reversed(values.shape), strict=False):
            shape[axis] = size
        made = OutputIndexMap.by_array(values.reshape(shape), within=self.dims[k].reach)
        return simplified(made, box)

    def _next(self) -> Selected:
        """Give the new dimensions that came of the terms, in their order."""
        keys = [self.groups.get(at, at) for at in self.order]
        if self.joint_first:
            keys.insert(0, _JOINT)
        return [k for key in dict.fromkeys(keys) for k in self.places.get(key, ())]
