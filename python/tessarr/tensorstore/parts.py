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

from itertools import product
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

    __slots__ = ("_flat", "_following", "_joint", "_plain", "_shape", "view")

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
        self._following: list[tuple[int, OutputIndexMap]] = []
        for at, one in enumerate(view.output):
            if one.index_array is not None or one.input_dimension in along:
                found = position(one, dims)
                kept = found.reshape([found.shape[k] for k in self._joint])
                self._flat[at] = np.broadcast_to(kept, self._shape).reshape(-1)
            else:
                self._following.append((at, one))

    @property
    def whole(self) -> Part:
        """All positions."""
        dims = self.view.domain.dims
        return Part(tuple([(dim.inclusive_min, dim.exclusive_max) for dim in dims]))

    def reach(self) -> list[Interval]:
        """Return the interval of each output, half open."""
        found: list[Interval] = [(0, 0)] * len(self.view.output)
        dims = self.view.domain.dims
        for at, one in self._following:
            first = last = one.offset
            if one.input_dimension is not None:
                along = dims[one.input_dimension]
                first += one.factor * along.inclusive_min
                last += one.factor * (along.exclusive_max - 1)
            found[at] = (first, last + 1) if first <= last else (last, first + 1)
        for at, items in self._flat.items():
            found[at] = int(items.min()), int(items.max()) + 1
        return found

    def split(self, part: Part, box: Sequence[Interval]) -> tuple[Part | None, list[Part]]:
        """Return the positions of a part whose outputs are all in a box, and the other ones."""
        bounds = list(part.box)
        for at, one in self._following:
            lower, upper = box[at]
            k = one.input_dimension
            if k is None or one.factor == 0:
                if not lower <= one.offset < upper:
                    return None, [part]
                continue
            low, high = _before(one, lower, upper)
            bounds[k] = low, high = max(bounds[k][0], low), min(bounds[k][1], high)
            if low >= high:
                return None, [part]
        points = others = None
        inside = self._inside(part, box)
        if inside is not None:
            every = np.arange(len(inside)) if part.points is None else part.points
            points, others = every[inside], every[~inside]
            if not points.size:
                return None, [part]
        inner = Part(tuple(bounds), part.points if points is None else points)
        rest = self._around(part, inner)
        if others is not None:
            rest.append(Part(inner.box, others))
        return inner, rest

    def _inside(self, part: Part, box: Sequence[Interval]) -> npt.NDArray[np.bool_] | None:
        """Tell which points have their outputs in a box; None if all have."""
        inside: npt.NDArray[np.bool_] | None = None
        for at, items in self._flat.items():
            lower, upper = box[at]
            some = items if part.points is None else items[part.points]
            within = (some >= lower) & (some < upper)
            inside = within if inside is None else inside & within
        return None if inside is None or inside.all() else inside

    def _around(self, part: Part, inner: Part) -> list[Part]:
        """Return what is left of the box of a part without another one inside of it."""
        bounds = list(part.box)
        found: list[Part] = []
        for k in self._plain:
            low, high = inner.box[k]
            if bounds[k][0] < low:
                sides = (*bounds[:k], (bounds[k][0], low), *bounds[k + 1 :])
                found.append(Part(sides, part.points))
            if high < bounds[k][1]:
                sides = (*bounds[:k], (high, bounds[k][1]), *bounds[k + 1 :])
                found.append(Part(sides, part.points))
            bounds[k] = (low, high)
        return found

    def cells(
        self, origin: Sequence[int], shape: Sequence[int]
    ) -> Iterator[tuple[tuple[int, ...], Part]]:
        """Give the cells of a grid in which there are outputs, and the part of the view in each.

        Parameters
        ----------
        origin, shape
            Where cell 0 begins, and of what shape cells are.
        """
        order: list[int] = []  # of the outputs, as they are found
        choices: list[list[tuple[tuple[int, ...], int, Any]]] = []
        left = list(self._following)
        while left:
            k = left[0][1].input_dimension
            shared = [pair for pair in left if pair[1].input_dimension == k]
            left = [pair for pair in left if pair[1].input_dimension != k]
            order += [at for at, _ in shared]
            columns = [
                (position(one, self.view.domain.dims).reshape(-1) - origin[at]) // shape[at]
                for at, one in shared
            ]
            choices.append(self._runs(k, np.stack(columns, axis=1)))
        if self._flat:
            order += self._flat
            columns = [(items - origin[at]) // shape[at] for at, items in self._flat.items()]
            choices.append(_groups(np.stack(columns, axis=1)))
        places = [order.index(at) for at in range(len(order))]
        whole = self.whole.box
        for chosen in product(*choices):
            bounds, points = list(whole), None
            indices: list[int] = []
            for cell, k, which in chosen:
                indices += cell
                if k >= 0:
                    bounds[k] = which
                elif which is not None:
                    points = which
            yield tuple([indices[place] for place in places]), Part(tuple(bounds), points)

    def _runs(
        self, k: int | None, rows: npt.NDArray[np.int64]
    ) -> list[tuple[tuple[int, ...], int, Any]]:
        """Return the cells along one dimension, and the interval of it that is in each."""
        if k is None:
            return [(tuple(rows[0].tolist()), -1, None)]
        first = self.view.domain.dims[k].inclusive_min
        changes = np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1)) + 1
        starts = [0, *changes.tolist()]
        ends = [*starts[1:], len(rows)]
        return [
            (tuple(cell), k, (first + start, first + end))
            for cell, start, end in zip(rows[starts].tolist(), starts, ends, strict=True)
        ]

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

    def inside(self, part: Part, origin: Sequence[int]) -> IndexTransform:
        """Return the view of a part, of an array that begins at `origin`."""
        view = self.view_of(part)
        moved = []
        for one, begin in zip(view.output, origin, strict=True):
            offset = one.offset - begin
            if one.index_array is not None:
                moved.append(
                    OutputIndexMap.by_array(one.index_array, offset, one.factor, one.within)
                )
            elif one.input_dimension is not None:
                moved.append(OutputIndexMap.along(one.input_dimension, offset, one.factor))
            else:
                moved.append(OutputIndexMap.constant(offset))
        return IndexTransform.of(view.domain, tuple(moved))

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


def _groups(rows: npt.NDArray[np.int64]) -> list[tuple[tuple[int, ...], int, Any]]:
    """Return the cells of points, and which points are in each."""
    cells, inverse, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
    if len(cells) == 1:
        return [(tuple(cells[0].tolist()), -1, None)]
    points = np.split(np.argsort(inverse.reshape(-1), kind="stable"), np.cumsum(counts)[:-1])
    return [(tuple(cell), -1, which) for cell, which in zip(cells.tolist(), points, strict=True)]
