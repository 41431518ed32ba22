"""Elements that have dimensions inside: bytes of records, fields that are arrays.

The array itself is read and written by whole elements; what a view selects inside of these is
done by NumPy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tessarr.space import Dim, IndexDomain, IndexTransform, OutputIndexMap
from tessarr.space.bounds import check_inside
from tessarr.space.maps import position

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.types import Shape

__all__ = ["Inner", "Split"]


class Split(NamedTuple):
    """A view, taken apart.

    Parameters
    ----------
    outer
        The view of whole elements.
    places
        From their values, inner dimensions last, to those of the view.
    shape
        The shape of the view.
    whole
        Whether the view holds all of each element, once.
    """

    outer: IndexTransform
    places: tuple[npt.NDArray[np.int64], ...]
    shape: Shape
    whole: bool


@dataclass(frozen=True, slots=True)
class Inner:
    """The dimensions inside of an element.

    Parameters
    ----------
    rank
        The number of dimensions of the array.
    shape
        Those inside.
    """

    rank: int
    shape: Shape

    def split(self, view: IndexTransform) -> Split:
        """Take a view apart whose last maps are those of the dimensions inside.

        Raises
        ------
        SelectionError
            If an index is outside of the element.
        """
        dims = view.domain.dims
        outer, inner = view.output[: self.rank], view.output[self.rank :]
        check_inside(inner, dims, tuple(Dim.of(0, size) for size in self.shape), exact=True)
        followed = {k for one in outer for k in _follows(one)}
        kept = [k for k in range(len(dims)) if k in followed]
        places = {k: place for place, k in enumerate(kept)}
        maps = tuple(_moved(one, places, kept) for one in outer)
        small = IndexTransform.of(IndexDomain.of(tuple(dims[k] for k in kept)), maps)
        index = [_along(k, len(dims), dims[k].size) for k in kept]
        index += [position(one, dims) for one in inner]
        free = [one.input_dimension for one in inner]
        whole = (
            len(set(free)) == len(free)
            and not followed.intersection(k for k in free if k is not None)
            and sorted([*kept, *(-1 if k is None else k for k in free)]) == list(range(len(dims)))
            and all(
                dims[k].size == size
                for k, size in zip(free, self.shape, strict=True)
                if k is not None
            )
        )
        return Split(small, tuple(index), view.domain.shape, whole)

    def taken(self, split: Split, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return what a view selects of whole elements."""
        return np.ascontiguousarray(np.broadcast_to(values[split.places], split.shape))

    def put(self, split: Split, values: npt.NDArray[Any], into: npt.NDArray[Any]) -> None:
        """Put values where a view selects whole elements."""
        index = np.broadcast_arrays(*split.places, np.empty(split.shape, np.int8))[:-1]
        into[tuple(index)] = values


def _follows(one: OutputIndexMap) -> set[int]:
    if one.index_array is not None:
        return {k for k, size in enumerate(one.index_array.shape) if size != 1}
    return set() if one.input_dimension is None else {one.input_dimension}


def _moved(one: OutputIndexMap, places: dict[int, int], kept: list[int]) -> OutputIndexMap:
    array, along = one.index_array, one.input_dimension
    if array is not None:
        small = array.reshape([array.shape[k] for k in kept])
        return OutputIndexMap.by_array(small, one.offset, one.factor, one.within)
    if along is not None:
        return OutputIndexMap.along(places[along], one.offset, one.factor)
    return one


def _along(k: int, rank: int, size: int) -> npt.NDArray[np.int64]:
    shape = [1] * rank
    shape[k] = size
    return np.arange(size, dtype=np.int64).reshape(shape)
