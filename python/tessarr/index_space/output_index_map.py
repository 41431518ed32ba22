"""Output index maps: the index of the base for each position of a view.

Theory
------
A view has a box of positions, and its base has dimensions. An *output index map* for each dimension
of the base returns its index at a position: a *constant*, ``offset + stride * position[k]`` for one
dimension ``k`` of the view (*single input dimension*), or ``offset + stride * array[position]``
(*array*). An index array has one axis for each dimension of the view, and starts at the lower
bounds of the view. An axis along which it does not vary has length 1.

Composition preserves the three forms, so a view of a view costs as much as a view. The engine
composes them (`rust/engine/src/index_space`); this module has the values that users see.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np

from tessarr._safe_repr import safe_repr
from tessarr.errors import SelectionError
from tessarr.index_space.dimension_names import as_integer
from tessarr.index_space.intervals import INFINITE, Box, Dim

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import EllipsisType

    import numpy.typing as npt

__all__ = [
    "MapState",
    "OutputIndexMap",
    "OutputIndexMaps",
    "OutputIndexMethod",
    "check_within_bounds",
    "evaluate_map",
    "map_extent",
]


class OutputIndexMethod(Enum):
    """The form of an output index map.

    Examples
    --------
    >>> OutputIndexMap(offset=5).method
    <OutputIndexMethod.constant: 0>
    """

    constant = 0
    single_input_dimension = 1
    array = 2

    def __index__(self) -> int:
        return self.value

    __int__ = __index__

    def __str__(self) -> str:
        return f"OutputIndexMethod.{self.name}"


ALL_INDICES: Final = (-INFINITE, INFINITE + 1)
"""All indices, as a half-open interval."""

_CONSTANT: Final = ("offset",)
_ALONG: Final = ("input_dimension", "offset", "stride")
_BY_ARRAY: Final = ("index_array", "offset", "stride", "index_range")

MapState: TypeAlias = "tuple[int, int, int | npt.NDArray[np.int64] | None, tuple[int, int] | None]"
"""The offset, the stride, the dimension or index array, and the bounds of the array."""


class OutputIndexMap:
    """The map from positions of a view to the indices of one dimension of the base.

    ``OutputIndexMap(offset)`` is a constant index, ``OutputIndexMap(input_dimension, offset,
    stride)`` follows one dimension of the view, ``OutputIndexMap(index_array, offset, stride,
    index_range)`` takes the index from an array.

    Parameters
    ----------
    offset : int, optional
        The offset; by default 0.
    stride : int, optional
        The factor of the index of the input dimension, or of the index array; by default 1.
    input_dimension : int, optional
        The dimension of the view that the index follows.
    index_array : array of int, optional
        The indices that positions get: one axis per dimension of the view, of length 1 where
        the index does not vary.
    index_range : Dim, optional
        The interval that must contain the items of the index array; by default any.

    Raises
    ------
    TypeError
        If the arguments are not those of one of the forms.

    Examples
    --------
    >>> OutputIndexMap(input_dimension=0, offset=2, stride=3)
    OutputIndexMap(offset=2, stride=3, input_dimension=0)
    >>> OutputIndexMap([4, 8], index_range=Dim(10))
    OutputIndexMap(offset=0, stride=1, index_array={4, 8}, index_range=[0, 10))
    """

    __slots__ = ("__weakref__", "_state")
    __hash__ = None  # type: ignore[assignment]

    _state: MapState

    def __init__(
        self,
        *arguments: Any,
        offset: int | EllipsisType = ...,
        stride: int | EllipsisType = ...,
        input_dimension: int | EllipsisType = ...,
        index_array: npt.ArrayLike | EllipsisType = ...,
        index_range: Dim | EllipsisType = ...,
    ) -> None:
        keywords = {
            "offset": offset,
            "stride": stride,
            "input_dimension": input_dimension,
            "index_array": index_array,
            "index_range": index_range,
        }
        keywords = {name: value for name, value in keywords.items() if value is not ...}
        names = _select_form(arguments, keywords)
        if len(arguments) > len(names) or keywords.keys() - set(names[len(arguments) :]):
            raise TypeError(
                "OutputIndexMap takes (offset), (input_dimension, offset, stride), or "
                "(index_array, offset, stride, index_range): not "
                f"{len(arguments)} arguments and {sorted(keywords)}"
            )
        given: dict[str, Any] = {**dict(zip(names, arguments, strict=False)), **keywords}
        start, factor = as_integer(given.get("offset", 0)), as_integer(given.get("stride", 1))
        if "input_dimension" in given:
            self._state = start, factor, as_integer(given["input_dimension"]), None
        elif "index_array" in given:
            within = given.get("index_range", Dim._of(*ALL_INDICES))
            if not isinstance(within, Dim):
                raise TypeError(f"index_range: {safe_repr(within)} is not a Dim")
            ends = within.inclusive_min, within.exclusive_max
            self._state = start, factor, _copy_indices(given["index_array"]), ends
        else:
            self._state = start, 0, None, None

    @classmethod
    def _of(cls, *state: Any) -> OutputIndexMap:
        """Return the map of a valid state."""
        new: OutputIndexMap = object.__new__(OutputIndexMap)
        new._state = state
        return new

    @classmethod
    def _constant(cls, offset: int) -> OutputIndexMap:
        """Return the map to one index."""
        return cls._of(offset, 0, None, None)

    @classmethod
    def _along(cls, dimension: int, offset: int = 0, stride: int = 1) -> OutputIndexMap:
        """Return the map that follows a dimension of the view."""
        return cls._of(offset, stride, dimension, None)

    @classmethod
    def _by_array(
        cls,
        array: npt.NDArray[np.int64],
        offset: int = 0,
        stride: int = 1,
        within: tuple[int, int] = ALL_INDICES,
    ) -> OutputIndexMap:
        """Return the map by an index array, which must be valid."""
        return cls._of(offset, stride, array, within)

    @property
    def offset(self) -> int:
        """The offset.

        Examples
        --------
        >>> OutputIndexMap(5).offset
        5
        """
        return self._state[0]

    @property
    def _factor(self) -> int:
        """The stride; 0 of a constant."""
        return self._state[1]

    @property
    def stride(self) -> int | None:
        """The factor of the index; None of a constant.

        Examples
        --------
        >>> OutputIndexMap(input_dimension=0, stride=2).stride, OutputIndexMap(5).stride
        (2, None)
        """
        return None if self._state[2] is None else self._state[1]

    @property
    def input_dimension(self) -> int | None:
        """The dimension of the view that the index follows.

        Examples
        --------
        >>> OutputIndexMap(input_dimension=1).input_dimension
        1
        """
        source = self._state[2]
        return source if isinstance(source, int) else None

    @property
    def index_array(self) -> npt.NDArray[np.int64] | None:
        """The indices that positions get.

        Examples
        --------
        >>> OutputIndexMap([4, 8]).index_array
        array([4, 8])
        """
        source = self._state[2]
        return None if isinstance(source, int) else source

    @property
    def _within(self) -> tuple[int, int]:
        """The half-open interval that must contain the items of the index array."""
        return self._state[3] or ALL_INDICES

    @property
    def index_range(self) -> Dim | None:
        """The interval that must contain the items of the index array; None without an array.

        Examples
        --------
        >>> OutputIndexMap([4, 8], index_range=Dim(10)).index_range
        Dim(inclusive_min=0, exclusive_max=10)
        """
        within = self._state[3]
        return None if within is None else Dim._of(*within)

    @property
    def method(self) -> OutputIndexMethod:
        """The form.

        Examples
        --------
        >>> OutputIndexMap([4, 8]).method
        <OutputIndexMethod.array: 2>
        """
        source = self._state[2]
        if source is None:
            return OutputIndexMethod.constant
        is_dimension = isinstance(source, int)
        return OutputIndexMethod.single_input_dimension if is_dimension else OutputIndexMethod.array

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OutputIndexMap):
            return NotImplemented
        mine, others = self._state, other._state
        same = mine[:2] == others[:2] and mine[3] == others[3]
        return same and np.array_equal(cast("Any", mine[2]), cast("Any", others[2]))

    def __getstate__(self) -> tuple[MapState, Any]:
        return self._state, getattr(self, "__dict__", None)

    def __setstate__(self, state: tuple[MapState, Any]) -> None:
        self._state, attributes = state
        if self.index_array is not None:
            self.index_array.setflags(write=False)
        if attributes:
            vars(self).update(attributes)

    def __repr__(self) -> str:
        offset, stride, source, _ = self._state
        if source is None:
            return f"OutputIndexMap(offset={offset})"
        if isinstance(source, int):
            return f"OutputIndexMap(offset={offset}, stride={stride}, input_dimension={source})"
        items = str(source.tolist()).replace("[", "{").replace("]", "}")
        return (
            f"OutputIndexMap(offset={offset}, stride={stride}, index_array={items}, "
            f"index_range={self.index_range})"
        )


def _select_form(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of the arguments of the form that the arguments select."""
    for names in (_ALONG, _BY_ARRAY):
        if names[0] in keywords:
            return names
    if not arguments:
        return _CONSTANT
    first = arguments[0]
    if (isinstance(first, np.ndarray) and first.ndim) or not hasattr(first, "__index__"):
        return _BY_ARRAY
    return _ALONG if len(arguments) > 1 or keywords else _CONSTANT


def _copy_indices(values: Any) -> npt.NDArray[np.int64]:
    """Return a read-only copy of an index array or of nested lists."""
    if isinstance(values, np.ndarray) and not np.can_cast(values.dtype, np.int64):
        raise TypeError(f"index_array: {values.dtype} does not safely become int64")
    try:
        array = np.array(values, np.int64)
    except Exception:  # noqa: BLE001 (a user's object may raise any error)
        raise TypeError(f"index_array: {safe_repr(values)} is no array of integers") from None
    array.setflags(write=False)
    return array


class OutputIndexMaps(tuple[OutputIndexMap, ...]):
    """The output index maps of a transform: a tuple with the repr of a list.

    Examples
    --------
    >>> from tessarr.index_space import IndexTransform
    >>> maps = IndexTransform(2)[5, 0::3].output
    >>> maps.rank, maps[0].offset, [one.stride for one in maps]
    (2, 5, [None, 3])
    """

    __slots__ = ()

    @property
    def rank(self) -> int:
        """The number of maps: the rank of the base.

        Examples
        --------
        >>> from tessarr.index_space import IndexTransform
        >>> IndexTransform(3)[0].output.rank
        3
        """
        return len(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (tuple, list)) and tuple.__eq__(self, tuple(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return list(tuple.__getitem__(self, key))
        return tuple.__getitem__(self, as_integer(key))

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self))}]"


def evaluate_map(index_map: OutputIndexMap, dims: Box) -> npt.NDArray[np.int64]:
    """Return the indices of a map at all positions; constant axes have length 1.

    Raises
    ------
    SelectionError
        If an item of an index array is outside its bounds.
    """
    if index_map.index_array is not None:
        check_index_range(index_map.index_array, index_map._within)
        return index_map.offset + index_map._factor * index_map.index_array
    if index_map.input_dimension is None:
        return np.full((1,) * len(dims), index_map.offset, np.int64)
    along = dims[index_map.input_dimension]
    shape = [1] * len(dims)
    shape[index_map.input_dimension] = along.size
    indices = np.arange(along.inclusive_min, along.exclusive_max, dtype=np.int64)
    return (index_map.offset + index_map._factor * indices).reshape(shape)


def check_index_range(array: npt.NDArray[np.int64], within: tuple[int, int]) -> None:
    """Raise an error if an item of an index array is not in a half-open interval."""
    if array.size == 0 or within == ALL_INDICES:
        return
    least, most = int(array.min()), int(array.max())
    if least < within[0] or most >= within[1]:
        bad = least if least < within[0] else most
        bounds = Dim._of(*within)
        raise SelectionError(f"index {bad} is outside of {bounds}")


def check_within_bounds(
    maps: Sequence[OutputIndexMap], dims: Box, target: Box, *, arrays: bool = True
) -> None:
    """Raise an error if a position is outside the dimensions of the base.

    Parameters
    ----------
    maps, dims
        The view.
    target
        The dimensions of the base.
    arrays
        Whether to check the items of index arrays, too.

    Raises
    ------
    SelectionError
    """
    if any(dim.empty for dim in dims):
        return
    for k, (index_map, goal) in enumerate(zip(maps, target, strict=True)):
        reach = (goal.inclusive_min, goal.exclusive_max)
        if index_map.index_array is not None:
            if not arrays:
                continue
            check_index_range(index_map.index_array, index_map._within)
        least, beyond = map_extent(index_map, dims)
        most = beyond - 1
        if least < reach[0] or most >= reach[1]:
            bad = least if least < reach[0] else most
            raise SelectionError(f"dimension {k}: index {bad} is outside of {goal}")


def map_extent(index_map: OutputIndexMap, dims: Box) -> tuple[int, int]:
    """Return the smallest half-open interval that contains all indices of a map.

    Parameters
    ----------
    index_map
        The map.
    dims
        The input dimensions, which must not be empty.
    """
    if index_map.index_array is not None:
        ends = (int(index_map.index_array.min()), int(index_map.index_array.max()))
    elif index_map.input_dimension is not None:
        along = dims[index_map.input_dimension]
        ends = (along.inclusive_min, along.inclusive_max)
    else:
        ends = (0, 0)
    least, most = sorted(index_map.offset + index_map._factor * end for end in ends)
    return least, most + 1
