"""How positions of a view become positions of what it views: output index maps.

Theory
------
A view has a box of positions; what it views has dimensions of its own. For each of these an
*output index map* tells the index that belongs to a position: always the same one (*constant*),
``offset + stride * position[k]`` for one dimension ``k`` of the view (*single input dimension*),
or ``offset + stride * array[position]`` (*array*). An index array has one axis for each
dimension of the view, of length 1 where it does not vary along it, and begins at the view's lower
bounds.

All three forms are closed under composition, so that a view of a view is a view, and costs as
much as one: a strided piece of an index array is a NumPy view of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tessarr.errors import ArgumentError, SelectionError
from tessarr.space.domain import INFINITE, Box, Dim

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["OutputIndexMap", "OutputIndexMethod", "Step", "compose", "identity", "position"]


class OutputIndexMethod(Enum):
    """The form of an output index map."""

    constant = 0
    single_input_dimension = 1
    array = 2


@dataclass(frozen=True, slots=True, eq=False)
class OutputIndexMap:
    """How one index of what is viewed follows from a position of the view.

    Parameters
    ----------
    offset : int
        What is added.
    stride : int
        What the index of the input dimension, or of the index array, is multiplied with.
    input_dimension : int, optional
        The dimension of the view that the index follows.
    index_array : numpy.ndarray of int64, optional
        The indices that positions get.
    index_range : tuple of int
        The half-open interval in which the items of the index array have to be.

    Examples
    --------
    >>> OutputIndexMap(offset=2, stride=3, input_dimension=0).method.name
    'single_input_dimension'
    """

    offset: int = 0
    stride: int = 1
    input_dimension: int | None = None
    index_array: npt.NDArray[np.int64] | None = None
    index_range: tuple[int, int] = (-INFINITE, INFINITE + 1)

    @property
    def method(self) -> OutputIndexMethod:
        """The form."""
        if self.index_array is not None:
            return OutputIndexMethod.array
        if self.input_dimension is not None:
            return OutputIndexMethod.single_input_dimension
        return OutputIndexMethod.constant

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OutputIndexMap):
            return NotImplemented
        if (self.method, self.offset) != (other.method, other.offset):
            return False
        if self.method is OutputIndexMethod.constant:
            return True
        if (self.stride, self.input_dimension) != (other.stride, other.input_dimension):
            return False
        if self.index_array is None or other.index_array is None:
            return True
        same = self.index_range == other.index_range
        return same and np.array_equal(self.index_array, other.index_array)

    __hash__ = None  # type: ignore[assignment]


class Step(NamedTuple):
    """One act of indexing: the new view's dimensions, and a map for each old dimension."""

    dims: Box
    maps: tuple[OutputIndexMap, ...]


def identity(rank: int) -> tuple[OutputIndexMap, ...]:
    """Return the maps that leave positions as they are."""
    return tuple(OutputIndexMap(input_dimension=k) for k in range(rank))


def compose(maps: Sequence[OutputIndexMap], dims: Box, step: Step) -> tuple[OutputIndexMap, ...]:
    """Return the maps of a view (`dims`, `maps`) after one more act of indexing.

    Raises
    ------
    SelectionError
        If an offset or stride is beyond 64 bits, or an index array is asked beyond its bounds.
    """
    return tuple(_composed(one, dims, step) for one in maps)


def _composed(one: OutputIndexMap, dims: Box, step: Step) -> OutputIndexMap:
    if one.index_array is not None:
        if any(dim.surely_empty for dim in step.dims):
            return OutputIndexMap(stride=0)
        return simplified(_taken(one, one.index_array, dims, step), step.dims)
    if one.input_dimension is None:
        return one
    inner = step.maps[one.input_dimension]
    offset = one.offset + one.stride * inner.offset
    stride = one.stride * inner.stride
    if max(abs(offset), abs(stride)) >= 2**63:
        raise SelectionError(f"offset {offset} or stride {stride} is beyond 64 bits")
    return replace(inner, offset=offset, stride=stride)


def _taken(
    one: OutputIndexMap, array: npt.NDArray[np.int64], dims: Box, step: Step
) -> OutputIndexMap:
    """Index an index array by a step."""
    rank = len(step.dims)
    if any(
        array.shape[k] != 1 and step.maps[k].index_array is not None for k in range(array.ndim)
    ) or _shares(array, step):
        places = [
            _place(array.shape[k], dims[k], step.maps[k], step.dims) for k in range(array.ndim)
        ]
        taken = np.broadcast_arrays(*places, np.zeros((1,) * rank, np.int64))[:-1]
        return replace(one, index_array=array[tuple(taken)])
    key: list[int | slice] = []
    axes: list[int] = []  # of the view, for the axes that are left
    for k, (length, inner) in enumerate(zip(array.shape, step.maps, strict=True)):
        if length == 1:
            key.append(0)
        elif inner.input_dimension is None:
            key.append(inner.offset - dims[k].inclusive_min)
        else:
            along = step.dims[inner.input_dimension]
            first = inner.offset + inner.stride * along.inclusive_min - dims[k].inclusive_min
            key.append(_strided(first, inner.stride, along.size))
            axes.append(inner.input_dimension)
    left = array[tuple(key)].transpose(np.argsort(axes)) if axes else array[tuple(key)]
    shape = [1] * rank
    for axis, length in zip(sorted(axes), np.shape(left), strict=True):
        shape[axis] = length
    return replace(one, index_array=np.asarray(left).reshape(shape))


def _shares(array: npt.NDArray[np.int64], step: Step) -> bool:
    """Whether two axes along which the array varies become one."""
    axes = [
        inner.input_dimension
        for length, inner in zip(array.shape, step.maps, strict=True)
        if length != 1 and inner.input_dimension is not None
    ]
    return len(set(axes)) < len(axes)


def _strided(first: int, stride: int, count: int) -> slice:
    end = first + stride * count
    return slice(first, None if end < 0 else end, stride) if count else slice(0, 0)


def _place(length: int, dim: Dim, inner: OutputIndexMap, dims: Box) -> npt.NDArray[np.int64]:
    """Give the places along one axis of an index array that the positions of a view have."""
    if length == 1:
        return np.zeros((1,) * len(dims), np.int64)
    places = position(inner, dims) - dim.inclusive_min
    if places.size and not (places.min() >= 0 and places.max() < length):
        raise SelectionError(f"an index is outside of [{dim.inclusive_min}, {dim.exclusive_max})")
    return places


def position(one: OutputIndexMap, dims: Box) -> npt.NDArray[np.int64]:
    """Return the indices that a map gives to all positions, with axes of length 1 where constant.

    Raises
    ------
    SelectionError
        If an index array has an item outside of its bounds.
    """
    if one.index_array is not None:
        check_range(one.index_array, one.index_range)
        return one.offset + one.stride * one.index_array
    if one.input_dimension is None:
        return np.full((1,) * len(dims), one.offset, np.int64)
    along = dims[one.input_dimension]
    shape = [1] * len(dims)
    shape[one.input_dimension] = along.size
    indices = np.arange(along.inclusive_min, along.exclusive_max, dtype=np.int64)
    return (one.offset + one.stride * indices).reshape(shape)


def check_range(array: npt.NDArray[np.int64], within: tuple[int, int]) -> None:
    """Raise an error if an item of an index array is not in a half-open interval."""
    if array.size == 0 or within == (-INFINITE, INFINITE + 1):
        return
    least, most = int(array.min()), int(array.max())
    if least < within[0] or most >= within[1]:
        bad = least if least < within[0] else most
        bounds = Dim.of(*within)
        raise SelectionError(f"index {bad} is outside of {bounds}")


def simplified(one: OutputIndexMap, dims: Box) -> OutputIndexMap:
    """Return a constant for an index array of one item, and where there is no position."""
    if one.index_array is None:
        return one
    if any(dim.surely_empty for dim in dims):
        return OutputIndexMap(stride=0)
    if one.index_array.size != 1:
        return one
    check_range(one.index_array, one.index_range)
    return OutputIndexMap(offset=one.offset + one.stride * int(one.index_array.flat[0]), stride=0)


def map_from_json(value: Any, dims: Box, loc: str) -> OutputIndexMap:
    """Return the map that JSON states.

    Raises
    ------
    ArgumentError
        If it states none.
    """
    if not isinstance(value, dict):
        raise ArgumentError(f"{loc}: {value!r} is not an object")
    known = {"offset", "stride", "input_dimension", "index_array", "index_array_bounds"}
    if set(value) - known:
        raise ArgumentError(f"{loc}: unknown members {sorted(set(value) - known)}")
    offset = value.get("offset", 0)
    if "input_dimension" in value and "index_array" in value:
        raise ArgumentError(f"{loc}: give input_dimension or index_array")
    if "input_dimension" in value:
        k = value["input_dimension"]
        if not isinstance(k, int) or not 0 <= k < len(dims):
            raise ArgumentError(f"{loc}: input_dimension {k!r} is not below {len(dims)}")
        return OutputIndexMap(offset, value.get("stride", 1), k)
    if "index_array" not in value:
        if "stride" in value:
            raise ArgumentError(f"{loc}: stride without input_dimension or index_array")
        return OutputIndexMap(offset, 0)
    try:
        array = np.array(value["index_array"], dtype=np.int64, ndmin=0)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{loc}: index_array: {error}") from error
    return array_map(array, dims, offset, value.get("stride", 1), value.get("index_array_bounds"))


def array_map(
    array: npt.NDArray[np.int64],
    dims: Box,
    offset: int = 0,
    stride: int = 1,
    bounds: Any = None,
) -> OutputIndexMap:
    """Return the map of an index array, checked against the dimensions of the view.

    Raises
    ------
    ArgumentError
        If the array does not fit the dimensions.
    """
    if array.ndim != len(dims):
        raise ArgumentError(f"an index array of rank {array.ndim}, the view has {len(dims)}")
    for length, dim in zip(array.shape, dims, strict=True):
        if length not in {1, dim.size}:
            raise ArgumentError(f"an index array of shape {array.shape} does not fit {dim}")
    within = (-INFINITE, INFINITE + 1)
    if bounds is not None:
        lower, upper = (
            (bounds.inclusive_min, bounds.inclusive_max) if isinstance(bounds, Dim) else bounds
        )
        lower = -INFINITE if lower == "-inf" else int(lower)
        within = (lower, INFINITE + 1 if upper == "+inf" else int(upper) + 1)
    return simplified(OutputIndexMap(offset, stride, None, array, within), dims)


def map_to_json(one: OutputIndexMap) -> dict[str, Any]:
    """Return the JSON of a map; what is as by default is left out."""
    result: dict[str, Any] = {}
    if one.offset:
        result["offset"] = one.offset
    if one.method is OutputIndexMethod.constant:
        return result
    if one.stride != 1:
        result["stride"] = one.stride
    if one.index_array is None:
        result["input_dimension"] = one.input_dimension
        return result
    result["index_array"] = one.index_array.tolist()
    lower, upper = one.index_range
    outside = one.index_array.size and (
        one.index_array.min() < lower or one.index_array.max() >= upper
    )
    if outside:
        result["index_array_bounds"] = [
            "-inf" if lower == -INFINITE else lower,
            "+inf" if upper > INFINITE else upper - 1,
        ]
    return result
