"""What mostly stands in brackets, composed in one pass: integers, slices, arrays of integers.

What comes out is what `tessarr.space.brackets` and `tessarr.space.maps.compose` give, which are
for everything: the key is read, the bounds are checked and the maps are composed here without
values in between, and what stays as it is is kept.
"""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from tessarr.space.domain import MAX_RANK, Box, Dim
from tessarr.space.maps import OutputIndexMap, check_64_bits, simplified, strided
from tessarr.space.steps import interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tessarr.space.brackets import Mode

    Indices = npt.NDArray[np.int64]

__all__ = ["basic"]


class _Line(NamedTuple):
    """How the index along a dimension follows: from none (`at` -1), one, or an array's axes."""

    offset: int
    stride: int
    at: int
    indices: Indices | None = None


_NEW: Final = Dim.of(0, 1, "", (True, True))
_ALL: Final = slice(None)
_KNOWN: Final = frozenset({int, slice, EllipsisType, type(None), np.ndarray, list})


def basic(
    dims: Box, maps: Sequence[OutputIndexMap], key: Any, mode: Mode = "default"
) -> tuple[Box, tuple[OutputIndexMap, ...]] | None:
    """Return the dimensions and maps of a view after a key, if it is one of those for here.

    Parameters
    ----------
    dims, maps
        The view.
    key
        What stood in brackets.
    mode
        How index arrays meet.

    Returns
    -------
    tuple or None
        None where the key has something else, or may be wrong.

    Raises
    ------
    SelectionError
        If a slice does not fit.
    """
    terms, arrays = _terms(key, len(dims))
    if terms is None:
        return None
    joint = None
    if arrays > (mode == "default") and mode != "oindex":
        try:
            joint = _joined(terms, mode)
        except ValueError:  # their shapes do not meet
            return None
    new: list[Dim] = list(joint.dims) if joint is not None and joint.first else []
    lines: list[_Line] = []
    for place, term in enumerate(terms):
        if term is None:
            new.append(_NEW)
            continue
        line = _line(place, term, dims[len(lines)], new, joint)
        if line is None:
            return None
        lines.append(line)
    after = tuple(new)
    if len(after) > MAX_RANK:
        return None
    view = _View(dims, terms, lines, after, joint)
    made: list[OutputIndexMap] = []
    for one in maps:
        composed = _composed(one, view)
        if composed is None:
            return None
        made.append(composed)
    return after, tuple(made)


def _line(place: int, term: Any, dim: Dim, new: list[Dim], joint: _Joint | None) -> _Line | None:
    """Add the dimensions that come of a term, and tell how the index follows from them."""
    at = len(new)
    if term is _ALL:
        new.append(dim)
        return _Line(0, 1, at)
    if type(term) is int:
        lower, upper = dim.reach
        return _Line(term, 0, -1) if lower <= term < upper else None
    if type(term) is slice:
        taken, (offset, stride) = interval(dim, term)
        new.append(taken)
        return _Line(offset, stride, at)
    if term.size < 2 and not (term.size and dim.reach[0] <= term.item() < dim.reach[1]):
        return None
    if joint is None:
        new += [Dim.of(0, size) for size in term.shape]
        return _Line(0, 1, at, term)
    if place == joint.place:
        joint.at = at
        new += joint.dims
    return _Line(0, 1, joint.at, term)


class _Joint:
    """Where the dimensions are along which all index arrays run together."""

    __slots__ = ("at", "dims", "first", "place")

    def __init__(self, dims: list[Dim], first: bool, place: int) -> None:
        self.dims = dims
        self.first = first
        self.place = -1 if first else place  # the term before whose dimensions they are
        self.at = 0


class _View(NamedTuple):
    """The view before, what stands in brackets, what follows of it, and the view after."""

    dims: Box
    terms: list[Any]
    lines: list[_Line]
    after: Box
    joint: _Joint | None


def _joined(terms: list[Any], mode: Mode) -> _Joint:
    """Tell where index arrays meet."""
    places = [at for at, term in enumerate(terms) if type(term) is np.ndarray]
    first, last = places[0], places[-1]
    apart = any(type(term) is slice or term is None for term in terms[first : last + 1])
    shape = np.broadcast_shapes(*[terms[at].shape for at in places])
    for at in places:
        terms[at] = terms[at].reshape((1,) * (len(shape) - terms[at].ndim) + terms[at].shape)
    return _Joint([Dim.of(0, size) for size in shape], apart or mode == "vindex", first)


def _terms(key: Any, rank: int) -> tuple[list[Any] | None, int]:
    """Return a term for each dimension, and for each new one; and how many are index arrays."""
    if type(key) is not tuple:
        key = (key,)
    used = arrays = 0
    dots = -1
    for at, term in enumerate(key):
        kind = type(term)
        if kind not in _KNOWN or (kind is slice and not _integral(term)):
            return None, 0
        if kind is EllipsisType:
            if dots >= 0:
                return None, 0
            dots = at
        elif term is not None:
            used += 1
            arrays += kind is np.ndarray or kind is list
    missing = rank - used
    if missing < 0:
        return None, 0
    terms = [*key]
    if missing or dots >= 0:
        terms = [*key, *[_ALL] * missing]
        if dots >= 0:
            terms = [*key[:dots], *[_ALL] * missing, *key[dots + 1 :]]
    return (_with_arrays(terms) if arrays else terms), arrays


def _integral(term: slice) -> bool:
    return (
        (term.start is None or type(term.start) is int)
        and (term.stop is None or type(term.stop) is int)
        and (term.step is None or type(term.step) is int)
    )


_WHOLE_NUMBERS: Final = frozenset("iu")


def _with_arrays(terms: list[Any]) -> list[Any] | None:
    """Return the terms with copies of index arrays, or with the places where a mask is true."""
    for at, term in enumerate(terms):
        if type(term) is np.ndarray or type(term) is list:
            try:
                values = np.asarray(term)
            except ValueError:
                return None
            if values.dtype == bool and values.ndim == 1:
                (values,) = np.nonzero(values)
            elif values.dtype.kind not in _WHOLE_NUMBERS or values.dtype == np.uint64:
                return None
            terms[at] = values.astype(np.int64)
    return terms


def _composed(one: OutputIndexMap, view: _View) -> OutputIndexMap | None:
    k = one.input_dimension
    if k is not None:
        offset, stride, at, indices = view.lines[k]
        if indices is not None:
            shaped = _shaped(indices, at, len(view.after))
            made = OutputIndexMap.by_array(shaped, one.offset, one.factor, view.dims[k].reach)
            return simplified(made, view.after)
        if at == k and stride == 1 and offset == 0:
            return one
        offset = one.offset + one.factor * offset
        if at < 0:
            check_64_bits(offset, 0)
            return OutputIndexMap.constant(offset)
        stride *= one.factor
        check_64_bits(offset, stride)
        return OutputIndexMap.along(at, offset, stride)
    if one.index_array is None:
        return one
    taken = _piece(one.index_array, view)
    if taken is None:
        return None
    made = OutputIndexMap.by_array(taken, one.offset, one.factor, one.within)
    return simplified(made, view.after)


def _shaped(indices: Indices, at: int, rank: int) -> Indices:
    """Return an index array with an axis for each dimension."""
    if indices.ndim == rank:
        return indices
    return indices.reshape((1,) * at + indices.shape + (1,) * (rank - at - indices.ndim))


def _piece(array: Indices, view: _View) -> Indices | None:
    """Index an index array itself, by the places of the indices in it."""
    dims, terms, lines, after, joint = view
    key: list[Any] = [None] * len(joint.dims) if joint is not None and joint.first else []
    k = 0
    for place, term in enumerate(terms):
        if joint is not None and place == joint.place:
            key += [None] * len(joint.dims)
        if term is None:
            key.append(None)
            continue
        offset, stride, at, indices = lines[k]
        size = array.shape[k]
        if indices is not None:
            if size != 1:
                return _gathered(array, dims[k], indices, at, len(after))
            key.append(0)
            if joint is None:
                key += [None] * indices.ndim
        elif size == 1:
            key.append(0 if at < 0 else _ALL)
        elif at < 0:
            key.append(offset - dims[k].inclusive_min)
        elif stride == 1 and after[at] is dims[k]:
            key.append(_ALL)
        else:
            first = offset + stride * after[at].inclusive_min - dims[k].inclusive_min
            key.append(strided(first, stride, after[at].size))
        k += 1
    taken: Indices = array[tuple(key)]
    return taken


def _gathered(array: Indices, dim: Dim, indices: Indices, at: int, rank: int) -> Indices | None:
    """Index an array that varies along one dimension only by an index array."""
    if array.size != dim.size:
        return None
    if indices.size and not (dim.inclusive_min <= indices.min() <= indices.max() in dim):
        return None
    places = indices - dim.inclusive_min if dim.inclusive_min else indices
    return _shaped(array.reshape(-1).take(places), at, rank)
