"""A view cut into parts, by boxes in what is viewed.

Theory
------
The positions of a view are a box. Those whose outputs are inside of another box are one again, as
long as no output is an index array: each output that follows a dimension bounds it. The
dimensions along which index arrays vary are taken together, flattened, and are a list of points. So
a part is a list of points (or none, where there are no index arrays) times a box of the
dimensions that remain, and what is left of a part without another one is few parts.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tessarr.space import Dim, IndexDomain, IndexTransform, OutputIndexMap
from tessarr.space.maps import position

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

__all__ = ["Cutter", "Interval", "Part"]

Interval = tuple[int, int]
"""Half open."""


class Part(NamedTuple):
    """Some positions of a view.

    Parameters
    ----------
    box
        The interval of each dimension; that of joint ones says nothing.
    points
        Which of the flattened positions of the joint dimensions, ascending; None for all.
    """

    box: tuple[Interval, ...]
    points: npt.NDArray[np.int64] | None = None


class Cutter:
    """Cuts a view into parts.

    Parameters
    ----------
    view
        A view, finite and not empty.
    """

    __slots__ = ("_flat", "_joint", "_plain", "_shape", "view")

    def __init__(self, view: IndexTransform) -> None:
        self.view = view
        dims = view.domain.dims
        along: set[int] = set()
        for one in view.output:
            if one.index_array is not None:
                along |= {k for k, size in enumerate(one.index_array.shape) if size != 1}
        self._joint = tuple(sorted(along))
        self._plain = tuple(k for k in range(len(dims)) if k not in along)
        self._shape = tuple(dims[k].size for k in self._joint)
        self._flat: dict[int, npt.NDArray[np.int64]] = {}
        for at, one in enumerate(view.output):
            if one.index_array is not None or one.input_dimension in along:
                found = position(one, dims)
                kept = found.reshape([found.shape[k] for k in self._joint])
                self._flat[at] = np.broadcast_to(kept, self._shape).reshape(-1)

    @property
    def whole(self) -> Part:
        """All positions."""
        return Part(tuple((dim.inclusive_min, dim.exclusive_max) for dim in self.view.domain.dims))

    def reach(self) -> list[Interval]:
        """Return the interval of each output, half open."""
        found: list[Interval] = []
        dims = self.view.domain.dims
        for at, one in enumerate(self.view.output):
            if at in self._flat:
                found.append((int(self._flat[at].min()), int(self._flat[at].max()) + 1))
                continue
            ends = [one.offset]
            if one.input_dimension is not None:
                along = dims[one.input_dimension]
                ends = [
                    one.offset + one.factor * end
                    for end in (along.inclusive_min, along.inclusive_max)
                ]
            found.append((min(ends), max(ends) + 1))
        return found

    def within(self, part: Part, box: Sequence[Interval]) -> Part | None:
        """Return the positions of a part whose outputs are all in a box; None if there are none."""
        bounds = list(part.box)
        points = part.points
        for at, (one, (lower, upper)) in enumerate(zip(self.view.output, box, strict=True)):
            if at in self._flat:
                items = self._flat[at] if points is None else self._flat[at][points]
                inside = (items >= lower) & (items < upper)
                if inside.all():
                    continue
                points = np.flatnonzero(inside) if points is None else points[inside]
                if not points.size:
                    return None
            elif one.input_dimension is None or one.factor == 0:
                if not lower <= one.offset < upper:
                    return None
            else:
                k = one.input_dimension
                low, high = _before(one, lower, upper)
                bounds[k] = (max(bounds[k][0], low), min(bounds[k][1], high))
                if bounds[k][0] >= bounds[k][1]:
                    return None
        return Part(tuple(bounds), points)

    def without(self, part: Part, inner: Part) -> Iterator[Part]:
        """Give what is left of a part without one that is inside of it."""
        bounds = list(part.box)
        for k in self._plain:
            low, high = inner.box[k]
            if bounds[k][0] < low:
                yield Part((*bounds[:k], (bounds[k][0], low), *bounds[k + 1 :]), part.points)
            if high < bounds[k][1]:
                yield Part((*bounds[:k], (high, bounds[k][1]), *bounds[k + 1 :]), part.points)
            bounds[k] = (low, high)
        if inner.points is not None:
            points = np.arange(prod(self._shape)) if part.points is None else part.points
            left = np.setdiff1d(points, inner.points, assume_unique=True)
            if left.size:
                yield Part(tuple(bounds), left)

    def grid(self, origin: Sequence[int], shape: Sequence[int]) -> Iterator[list[int]]:
        """Give the cells of a grid in which there are outputs.

        Parameters
        ----------
        origin, shape
            Where cell 0 begins, and of what shape cells are.
        """
        reach = self.reach()
        free: list[tuple[list[int], npt.NDArray[np.int64]]] = []
        seen: set[int] = set()
        for at in range(len(reach)):
            if at in seen or at in self._flat:
                continue
            k = self.view.output[at].input_dimension
            shared = [
                other
                for other in range(at, len(reach))
                if other not in self._flat
                and (
                    other == at or (k is not None and self.view.output[other].input_dimension == k)
                )
            ]
            seen.update(shared)
            free.append((shared, self._cells(shared, origin, shape)))
        if self._flat:
            shared = list(self._flat)
            columns = [(self._flat[at] - origin[at]) // shape[at] for at in shared]
            free.append((shared, np.unique(np.stack(columns, axis=1), axis=0)))
        cell = [0] * len(reach)
        yield from _products(free, cell, 0)

    def _cells(
        self, shared: list[int], origin: Sequence[int], shape: Sequence[int]
    ) -> npt.NDArray[np.int64]:
        """Return the cells that outputs which follow one dimension are in together."""
        columns = []
        for at in shared:
            items = position(self.view.output[at], self.view.domain.dims).reshape(-1)
            columns.append((items - origin[at]) // shape[at])
        if len(columns) == 1:
            return np.unique(columns[0])[:, None]
        return np.unique(np.stack(columns, axis=1), axis=0)

    def view_of(self, part: Part) -> IndexTransform:
        """Return the view of a part: its points come first, then the other dimensions."""
        if not self._joint:
            domain = IndexDomain.of(tuple([Dim.of(*interval) for interval in part.box]))
            return IndexTransform.of(domain, self.view.output)
        count = prod(self._shape) if part.points is None else len(part.points)
        bounds = (Dim.of(0, count), *(Dim.of(*part.box[k]) for k in self._plain))
        places = {k: n + 1 for n, k in enumerate(self._plain)}
        ones = [1] * len(self._plain)
        maps = []
        for at, one in enumerate(self.view.output):
            if at in self._flat:
                items = self._flat[at] if part.points is None else self._flat[at][part.points]
                maps.append(OutputIndexMap.by_array(items.reshape(count, *ones)))
            elif one.input_dimension is None:
                maps.append(one)
            else:
                maps.append(
                    OutputIndexMap.along(places[one.input_dimension], one.offset, one.factor)
                )
        return IndexTransform.of(IndexDomain.of(bounds), tuple(maps))

    def place(self, array: npt.NDArray[Any], part: Part) -> npt.NDArray[Any] | None:
        """Return the view of an array of the view's shape where a part is; None for points."""
        if self._joint:
            return None
        key: Any = (*self._slices(part, range(len(part.box))), ...)
        found: npt.NDArray[Any] = array[key]
        return found

    def items(self, array: npt.NDArray[Any], part: Part) -> npt.NDArray[Any]:
        """Return the elements of a part, in the shape of its view."""
        found = self.place(array, part)
        return self._front(array)[self._key(part)] if found is None else found

    def put(self, array: npt.NDArray[Any], part: Part, items: npt.NDArray[Any]) -> None:
        """Store elements, in the shape of a part's view."""
        found = self.place(array, part)
        if found is None:
            self._front(array)[self._key(part)] = items
        else:
            found[...] = items

    def _front(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.moveaxis(array, self._joint, range(len(self._joint)))

    def _key(self, part: Part) -> tuple[Any, ...]:
        points = np.arange(prod(self._shape)) if part.points is None else part.points
        return (*np.unravel_index(points, self._shape), *self._slices(part, self._plain))

    def _slices(self, part: Part, dims: Sequence[int]) -> tuple[slice, ...]:
        origin = self.view.domain.origin
        return tuple(slice(part.box[k][0] - origin[k], part.box[k][1] - origin[k]) for k in dims)


def _before(one: OutputIndexMap, lower: int, upper: int) -> Interval:
    """Return the indices of the input dimension for which the output is in an interval."""
    low, high = lower - one.offset, upper - one.offset
    if one.factor > 0:
        return -(-low // one.factor), -(-high // one.factor)
    step = -one.factor  # low <= -step * k < high
    return -((high - 1) // step), -low // step + 1


def _products(
    free: list[tuple[list[int], npt.NDArray[np.int64]]], cell: list[int], level: int
) -> Iterator[list[int]]:
    if level == len(free):
        yield list(cell)
        return
    places, rows = free[level]
    for row in rows.tolist():
        for at, index in zip(places, row, strict=True):
            cell[at] = index
        yield from _products(free, cell, level + 1)
