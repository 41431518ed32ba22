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
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr._engine import OutputIndexMap
from tessarr.errors import SelectionError
from tessarr.index_space.dimension_names import as_integer
from tessarr.index_space.intervals import INFINITE, Box, Dim

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "OutputIndexMap",
    "OutputIndexMaps",
    "OutputIndexMethod",
    "evaluate_map",
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
