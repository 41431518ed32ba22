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
much as one. The engine composes them (`rust/engine/src/space`); here are the values that users see.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.errors import SelectionError
from tessarr.space.domain import INFINITE, Box, Dim

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr._engine import View

__all__ = [
    "OutputIndexMap",
    "OutputIndexMaps",
    "OutputIndexMethod",
    "maps_of",
    "position",
]


class OutputIndexMethod(IntEnum):
    """The form of an output index map.

    Examples
    --------
    >>> OutputIndexMap(offset=5).method
    <OutputIndexMethod.constant: 0>
    """

    constant = 0
    single_input_dimension = 1
    array = 2

    def __str__(self) -> str:
        return f"OutputIndexMethod.{self.name}"


WHOLE: Final = (-INFINITE, INFINITE + 1)
"""All indices, as a half-open interval."""


class OutputIndexMap:
    """How one index of what is viewed follows from a position of the view.

    ``OutputIndexMap(offset)`` is always the same index, ``OutputIndexMap(input_dimension, offset,
    stride)`` follows one dimension of the view, ``OutputIndexMap(index_array, offset, stride,
    index_range)`` takes the index from an array.

    Parameters
    ----------
    offset : int, optional
        What is added; by default 0.
    stride : int, optional
        What the index of the input dimension, or of the index array, is multiplied with; by
        default 1.
    input_dimension : int, optional
        The dimension of the view that the index follows.
    index_array : array of int, optional
        The indices that positions get: one axis per dimension of the view, of length 1 where
        the index does not vary.
    index_range : Dim, optional
        In which interval the items of the index array have to be; by default in any.

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

    __slots__ = ("factor", "index_array", "input_dimension", "offset", "within")

    offset: int
    """What is added."""
    factor: int
    """The stride; 0 of a constant."""
    input_dimension: int | None
    """The dimension of the view that the index follows."""
    index_array: npt.NDArray[np.int64] | None
    """The indices that positions get."""
    within: tuple[int, int]
    """The half-open interval in which the items of the index array have to be."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        form, given = _form(arguments, keywords)
        self.offset = _index(given.get("offset", 0))
        self.factor = _index(given.get("stride", 1)) if form else 0
        self.input_dimension = None
        self.index_array = None
        self.within = WHOLE
        if form == "input_dimension":
            self.input_dimension = _index(given[form])
        elif form:
            self.index_array = _indices(given[form])
            if "index_range" in given:
                self.within = _interval(given["index_range"])

    @classmethod
    def constant(cls, offset: int) -> OutputIndexMap:
        """Return the map to one index."""
        made = _new(cls)
        made.offset = offset
        made.factor = 0
        made.input_dimension = made.index_array = None
        made.within = WHOLE
        return made

    @classmethod
    def along(cls, dimension: int, offset: int = 0, stride: int = 1) -> OutputIndexMap:
        """Return the map that follows a dimension of the view."""
        made = _new(cls)
        made.offset = offset
        made.factor = stride
        made.input_dimension = dimension
        made.index_array = None
        made.within = WHOLE
        return made

    @classmethod
    def by_array(
        cls,
        array: npt.NDArray[np.int64],
        offset: int = 0,
        stride: int = 1,
        within: tuple[int, int] = WHOLE,
    ) -> OutputIndexMap:
        """Return the map by an array, known to be good."""
        made = _new(cls)
        made.offset = offset
        made.factor = stride
        made.input_dimension = None
        made.index_array = array
        made.within = within
        return made

    @property
    def method(self) -> OutputIndexMethod:
        """The form."""
        if self.index_array is not None:
            return OutputIndexMethod.array
        if self.input_dimension is not None:
            return OutputIndexMethod.single_input_dimension
        return OutputIndexMethod.constant

    @property
    def stride(self) -> int | None:
        """What the index is multiplied with; None of a constant."""
        return None if self.is_constant else self.factor

    @property
    def index_range(self) -> Dim | None:
        """In which interval the items of the index array have to be; None where there is none."""
        return None if self.index_array is None else Dim.of(*self.within)

    @property
    def is_constant(self) -> bool:
        """Whether the index is always the same."""
        return self.index_array is None and self.input_dimension is None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OutputIndexMap):
            return NotImplemented
        if (self.offset, self.factor, self.input_dimension, self.within) != (
            other.offset, other.factor, other.input_dimension, other.within,
        ):  # fmt: skip
            return False
        if self.index_array is None or other.index_array is None:
            return self.index_array is other.index_array
        return np.array_equal(self.index_array, other.index_array)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        if self.index_array is not None:
            arguments = (self.index_array, self.offset, self.factor, self.within)
            return OutputIndexMap.by_array, arguments
        if self.input_dimension is not None:
            return OutputIndexMap.along, (self.input_dimension, self.offset, self.factor)
        return OutputIndexMap.constant, (self.offset,)

    def __repr__(self) -> str:
        if self.is_constant:
            return f"OutputIndexMap(offset={self.offset})"
        start = f"OutputIndexMap(offset={self.offset}, stride={self.factor}, "
        if self.index_array is None:
            return f"{start}input_dimension={self.input_dimension})"
        items = braces(self.index_array)
        return f"{start}index_array={items}, index_range={Dim.of(*self.within)})"


_new: Final = object.__new__


def braces(array: npt.NDArray[np.int64]) -> str:
    """Return the items as text, with braces around each axis."""
    return str(array.tolist()).replace("[", "{").replace("]", "}")


_FORMS: Final = {
    "": ("offset",),
    "input_dimension": ("input_dimension", "offset", "stride"),
    "index_array": ("index_array", "offset", "stride", "index_range"),
}


def _form(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Tell which form of a map is meant, and give the arguments by name."""
    form = next((name for name in _FORMS if name and name in keywords), "")
    if not form and arguments:
        if np.ndim(arguments[0]) or not hasattr(arguments[0], "__index__"):
            form = "index_array"
        elif len(arguments) > 1 or keywords:
            form = "input_dimension"
    names = _FORMS[form]
    given = dict(zip(names, arguments, strict=False)) | keywords
    if len(given) < len(arguments) + len(keywords) or set(given) - set(names):
        raise TypeError(
            "OutputIndexMap takes (offset), (input_dimension, offset, stride), or (index_array, "
            f"offset, stride, index_range): not {len(arguments)} arguments and {sorted(keywords)}"
        )
    return form, given


def _index(value: Any) -> int:
    if not hasattr(value, "__index__") or not -(2**63) <= int(value) < 2**63:
        raise TypeError(f"{value!r} is not an integer of 64 bits")
    return int(value)


def _indices(values: Any) -> npt.NDArray[np.int64]:
    if isinstance(values, np.ndarray) and not np.can_cast(values.dtype, np.int64):
        raise TypeError(f"index_array: {values.dtype} does not safely become int64")
    try:
        array = np.array(values, dtype=np.int64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"index_array: {error}") from error
    array.flags.writeable = False
    return array


def _interval(bounds: Any) -> tuple[int, int]:
    if not isinstance(bounds, Dim):
        raise TypeError(f"index_range: {bounds!r} is not a Dim")
    return bounds.inclusive_min, bounds.exclusive_max


class OutputIndexMaps(tuple[OutputIndexMap, ...]):
    """The output index maps of a transform: a tuple of them that looks like a list."""

    __slots__ = ()

    @property
    def rank(self) -> int:
        """The number of maps: the rank of what is viewed."""
        return len(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (tuple, list)) and tuple.__eq__(self, tuple(other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, key: Any) -> Any:
        found = tuple.__getitem__(self, key)
        return list(found) if isinstance(key, slice) else found

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self))}]"


def maps_of(view: View) -> tuple[OutputIndexMap, ...]:
    """Return the maps of a view of the engine."""
    return tuple([_told(*one) for one in view.maps()])


def _told(offset: int, stride: int, source: Any, within: tuple[int, int] | None) -> OutputIndexMap:
    if source is None:
        return OutputIndexMap.constant(offset)
    if within is None:
        return OutputIndexMap.along(source, offset, stride)
    return OutputIndexMap.by_array(source, offset, stride, within)


def position(one: OutputIndexMap, dims: Box) -> npt.NDArray[np.int64]:
    """Return the indices that a map gives to all positions, with axes of length 1 where constant.

    Raises
    ------
    SelectionError
        If an index array has an item outside of its bounds.
    """
    if one.index_array is not None:
        check_range(one.index_array, one.within)
        return one.offset + one.factor * one.index_array
    if one.input_dimension is None:
        return np.full((1,) * len(dims), one.offset, np.int64)
    along = dims[one.input_dimension]
    shape = [1] * len(dims)
    shape[one.input_dimension] = along.size
    indices = np.arange(along.inclusive_min, along.exclusive_max, dtype=np.int64)
    return (one.offset + one.factor * indices).reshape(shape)


def check_range(array: npt.NDArray[np.int64], within: tuple[int, int]) -> None:
    """Raise an error if an item of an index array is not in a half-open interval."""
    if array.size == 0 or within == WHOLE:
        return
    least, most = int(array.min()), int(array.max())
    if least < within[0] or most >= within[1]:
        bad = least if least < within[0] else most
        bounds = Dim.of(*within)
        raise SelectionError(f"index {bad} is outside of {bounds}")
