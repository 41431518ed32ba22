"""Elements with inner dimensions: bytes of records, and fields that are arrays.

The engine reads and writes whole elements; NumPy selects inside them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tessarr.index_space import Dim, IndexDomain, IndexTransform, OutputIndexMap
from tessarr.index_space.output_index_map import check_within_bounds, evaluate_map

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from tessarr.types import Shape

__all__ = ["InnerDimensions", "InnerWrite", "SplitView"]


class SplitView(NamedTuple):
    """A view, split into outer and inner dimensions.

    Parameters
    ----------
    outer
        The view of whole elements.
    places
        Indices from the read values, with inner dimensions last, to those of the view.
    shape
        The shape of the view.
    outer_dims
        The dimensions of the view that select whole elements.
    """

    outer: IndexTransform
    places: tuple[npt.NDArray[np.int64], ...]
    shape: Shape
    outer_dims: tuple[int, ...]


class InnerWrite(NamedTuple):
    """A write to positions inside elements, which are the same for several elements.

    Parameters
    ----------
    outer
        The view of these elements.
    places
        The positions, counted in C order, without repetition.
    values
        Values of the view's shape; positions are the last dimension.
    """

    outer: IndexTransform
    places: list[int]
    values: npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class InnerDimensions:
    """The dimensions inside an element.

    Parameters
    ----------
    rank
        The number of dimensions of the array.
    shape
        The inner dimensions.
    """

    rank: int
    shape: Shape

    def split(self, view: IndexTransform) -> SplitView:
        """Split a view whose last maps belong to the inner dimensions.

        Raises
        ------
        SelectionError
            If an index is outside the element.
        """
        dims = view.domain._dims
        outer, inner = view.output[: self.rank], view.output[self.rank :]
        check_within_bounds(inner, dims, tuple(Dim._of(0, size) for size in self.shape))
        followed = {k for index_map in outer for k in _input_dimensions(index_map)}
        outer_dims = [k for k in range(len(dims)) if k in followed]
        places = {k: location for location, k in enumerate(outer_dims)}
        maps = tuple(_renumber_map(index_map, places, outer_dims) for index_map in outer)
        small = IndexTransform._of(IndexDomain._of(tuple(dims[k] for k in outer_dims)), maps)
        index = [_axis_positions(k, len(dims), dims[k].size) for k in outer_dims]
        index += [evaluate_map(index_map, dims) for index_map in inner]
        return SplitView(small, tuple(index), view.domain.shape, tuple(outer_dims))

    def select(self, split: SplitView, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the values that a view selects from whole elements."""
        selected = values[split.places]
        if selected.shape != split.shape:
            selected = np.broadcast_to(selected, split.shape).copy()
        return np.asarray(selected, order="C")

    def split_writes(self, split: SplitView, values: npt.NDArray[Any]) -> Iterator[InnerWrite]:
        """Yield the writes to positions inside elements, for values of a view's shape."""
        if not values.size:
            return
        outer_dims, inner = split.outer_dims, split.places[len(split.outer_dims) :]
        others = [k for k in range(len(split.shape)) if k not in outer_dims]
        within = [np.zeros((), np.int64), *np.broadcast_arrays(*inner)]
        flat = sum(
            (location * step for location, step in zip(within[1:], self._strides(), strict=True)),
            within[0],
        )
        if all(flat.shape[k] == 1 for k in outer_dims if k < flat.ndim):
            sizes = [split.shape[k] for k in others]
            along = np.broadcast_to(flat.reshape([flat.shape[k] for k in others]), sizes)
            last = {location: number for number, location in enumerate(along.ravel().tolist())}
            outer = [split.shape[k] for k in outer_dims]
            block = values.transpose(*outer_dims, *others).reshape(*outer, along.size)
            if len(last) < along.size:  # the last of repeated positions wins
                block = block[..., list(last.values())]
            yield InnerWrite(split.outer, list(last), block)
            return
        flat = np.broadcast_to(flat, split.shape)
        for location in np.unique(flat).tolist():
            indices = np.nonzero(flat == location)
            starts = split.outer.domain.origin
            points = [indices[k] + start for k, start in zip(outer_dims, starts, strict=True)]
            yield InnerWrite(
                split.outer.vindex[tuple(points)], [location], values[indices][:, None]
            )

    def _strides(self) -> list[int]:
        """Return the stride of each dimension, in positions."""
        return [prod(self.shape[k + 1 :]) for k in range(len(self.shape))]


def _input_dimensions(index_map: OutputIndexMap) -> set[int]:
    if index_map.index_array is not None:
        return {k for k, size in enumerate(index_map.index_array.shape) if size != 1}
    return set() if index_map.input_dimension is None else {index_map.input_dimension}


def _renumber_map(
    index_map: OutputIndexMap, places: dict[int, int], outer_dims: list[int]
) -> OutputIndexMap:
    array, along = index_map.index_array, index_map.input_dimension
    if array is not None:
        small = array.reshape([array.shape[k] for k in outer_dims])
        return OutputIndexMap._by_array(
            small, index_map.offset, index_map._factor, index_map._within
        )
    if along is not None:
        return OutputIndexMap._along(places[along], index_map.offset, index_map._factor)
    return index_map


def _axis_positions(k: int, rank: int, size: int) -> npt.NDArray[np.int64]:
    shape = [1] * rank
    shape[k] = size
    return np.arange(size, dtype=np.int64).reshape(shape)
