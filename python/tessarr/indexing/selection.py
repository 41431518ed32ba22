"""Selections: the elements that a key selects, in the form that the engine reads.

Theory
------
Every key has one entry for each axis of the array:

* a *range* ``(start, step, count)``, for integers and slices. An integer is a range of one index
  whose axis the result lacks;
* an *outer list*, an ``int64`` vector of indices, independent of the other axes;
* a *joint list*, a 1-tuple of such a vector. Entry ``k`` of all joint lists is one point;
* a *joint mask* ``(mask, n)``, for axis ``n`` of a mask of several axes. Its true elements in C
  order are the points. The engine expands them chunk by chunk.

One group of joint axes suffices, because NumPy broadcasts all index arrays of a key to one shape.
The engine fills a buffer with one axis for each range and outer list, and one axis for the joint
group: `Selection.buffer_shape`. NumPy's result differs from the buffer only by ``newaxis`` (axes of
length 1) and by index arrays of several dimensions, which the buffer contains flattened. So a
reshape without a copy converts the buffer to the result.

The engine reads ranges much faster than index lists: whole rows instead of elements. So an index
list with a constant step becomes a range. The check inspects three entries of an irregular list,
and all entries of a regular one.
"""

from __future__ import annotations

import operator
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, TypeAlias, overload

import numpy as np

from tessarr.errors import ArgumentError, AxisError, SelectionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from tessarr.format.chunk_grid import Cuts
    from tessarr.types import ArrayKey, Shape

__all__ = [
    "AxisSelection",
    "IndexList",
    "Indexer",
    "JointMask",
    "Range",
    "Selection",
    "as_range",
    "axis_number",
    "find_touched_cells",
    "index_list",
    "joint_indices",
    "out_of_bounds",
    "range_of_slice",
    "wrap_integer",
]

Range: TypeAlias = tuple[int, int, int]
"""``(start, step, count)``: in bounds, the step not 0, and 1 when there is at most one index."""

IndexList: TypeAlias = "npt.NDArray[np.int64]"
"""One-dimensional, in bounds, not negative, read-only, and not shared with the user."""

JointMask: TypeAlias = "tuple[npt.NDArray[np.bool_], int]"
"""A mask and the number of one of its axes. The mask is in C order, read-only, and not shared."""

AxisSelection: TypeAlias = "Range | IndexList | tuple[IndexList] | JointMask"


class Selection(NamedTuple):
    """A normalised selection of elements of an array.

    Parameters
    ----------
    axes : tuple of AxisSelection
        One entry per axis of the array: a range ``(start, step, count)``, an outer list, a
        1-tuple with a joint list, or a joint mask.
    out_axes : tuple of (int or None)
        One entry per axis of the array: its axis in the buffer, or None if the result lacks the
        axis. All joint axes have the same entry.
    shape : tuple of int
        The shape of the result by NumPy's rules.
    buffer_shape : tuple of int
        The shape of the engine's buffer, with as many elements as `shape`. For empty selections
        the engine is not called.
    scalar : bool
        Whether a read returns a NumPy scalar: the key has an integer for every axis.
    order : tuple of int, optional
        The axes of the result in the order of the buffer, if the orders differ (the buffer's first
        axis may represent several). Omitted axes repeat.

    Examples
    --------
    >>> from tessarr.indexing import select
    >>> s = select((slice(2, 8, 3), None, -1), (10, 5))
    >>> s.axes, s.out_axes, s.shape, s.buffer_shape
    (((2, 3, 2), (4, 1, 1)), (0, None), (2, 1), (2,))
    """

    axes: tuple[AxisSelection, ...]
    out_axes: tuple[int | None, ...]
    shape: tuple[int, ...]
    buffer_shape: tuple[int, ...]
    scalar: bool = False
    order: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        """The number of selected elements; repeated ones count each time.

        Examples
        --------
        >>> from tessarr.indexing import select
        >>> select(([0, 0, 2], slice(4)), (10, 5)).size
        12
        """
        return prod(self.shape)

    def result(self, buffer: npt.NDArray[Any]) -> Any:
        """Convert a filled buffer to the shape of NumPy's result.

        Parameters
        ----------
        buffer : numpy.ndarray
            An array of `buffer_shape`.

        Returns
        -------
        numpy.ndarray or numpy.generic
            A view of `shape` (a copy only if `buffer` is not contiguous), or the NumPy scalar
            if the selection is `scalar`.

        Examples
        --------
        >>> import numpy as np
        >>> from tessarr.indexing import select
        >>> select((3, None, slice(2)), (10, 5)).result(np.array([7, 8]))
        array([[7, 8]])
        """
        if self.scalar:
            return buffer[()]
        if self.order is not None:
            return self._reorder(buffer, self.order)
        return buffer if self.shape == self.buffer_shape else buffer.reshape(self.shape)

    def buffer(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert values of `shape` to the shape of the buffer; the last of repeated values counts.

        Parameters
        ----------
        values : numpy.ndarray
            An array of `shape`.

        Returns
        -------
        numpy.ndarray
            A view of `buffer_shape` if the strides allow it, or a copy.
        """
        if self.order is None:
            return values.reshape(self.buffer_shape)
        once = [
            slice(None) if k in self.order else slice(size - 1, size)
            for k, size in enumerate(self.shape)
        ]
        return values[(*once, ...)].transpose(self._list_axes()).reshape(self.buffer_shape)

    def _reorder(self, buffer: npt.NDArray[Any], order: tuple[int, ...]) -> npt.NDArray[Any]:
        lengths = [self.shape[k] if k in order else 1 for k in self._list_axes()]
        reordered = buffer.reshape(lengths).transpose(np.argsort(self._list_axes()))
        if reordered.shape == self.shape:
            return reordered
        return np.broadcast_to(reordered, self.shape).copy()

    def _list_axes(self) -> tuple[int, ...]:
        order = self.order or ()
        return (*order, *(k for k in range(len(self.shape)) if k not in order))


class Indexer:
    """Indexing by keys of one kind, such as `oindex`.

    Parameters
    ----------
    read, write
        Read the selection of a key, and write a value to it.
    """

    __slots__ = ("_read", "_write")

    def __init__(self, read: Callable[[Any], Any], write: Callable[[Any, Any], None]) -> None:
        self._read = read
        self._write = write

    @overload
    def __getitem__(self, key: ArrayKey) -> npt.NDArray[Any]: ...
    @overload
    def __getitem__(self, key: Any) -> Any: ...
    def __getitem__(self, key: Any) -> Any:
        return self._read(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._write(key, value)


def axis_number(axis: SupportsIndex, rank: int) -> int:
    """Return the number of an axis; a negative number counts from the last axis.

    Raises
    ------
    TypeError
        If `axis` is not an integer.
    AxisError
        If the array does not have the axis.

    Examples
    --------
    >>> axis_number(-1, 3)
    2
    """
    number = operator.index(axis)
    if not -rank <= number < rank:
        raise AxisError(f"axis {number} is outside an array of {rank} dimensions")
    return number % rank


def out_of_bounds(index: int, axis: int, size: int) -> SelectionError:
    """Return the error for an index out of bounds.

    Examples
    --------
    >>> out_of_bounds(12, 0, 10)
    SelectionError('index 12 is out of bounds for axis 0 with size 10')
    """
    message = f"index {index} is out of bounds for axis {axis} with size {size}"
    return SelectionError(message, kind="out_of_bounds")


def wrap_integer(index: int, axis: int, size: int) -> int:
    """Check an integer index; convert a negative index to the equivalent positive one.

    Raises
    ------
    SelectionError
        Kind ``out_of_bounds``.

    Examples
    --------
    >>> wrap_integer(-1, 0, 10)
    9
    """
    if not -size <= index < size:
        raise out_of_bounds(index, axis, size)
    return index if index >= 0 else index + size


def range_of_slice(item: slice, size: int) -> Range:
    """Clip a slice to an axis, as NumPy does.

    Raises
    ------
    ArgumentError
        If the step is 0 (NumPy raises ValueError).
    TypeError
        If a member is neither an integer nor None (as NumPy).

    Examples
    --------
    >>> range_of_slice(slice(None, None, -4), 10), range_of_slice(slice(7, 3), 10)
    ((9, -4, 3), (0, 1, 0))
    """
    try:
        start, stop, step = item.indices(size)
    except ValueError as error:
        raise ArgumentError(f"{error}, got {item}", kind="invalid_argument") from None
    count = len(range(start, stop, step))
    if count > 1:
        return start, step, count
    return (start, 1, 1) if count else (0, 1, 0)


def index_list(values: npt.NDArray[Any], axis: int, size: int) -> IndexList:
    """Check an array of integers and flatten it into a list of non-negative indices.

    Parameters
    ----------
    values : numpy.ndarray
        Of any integer type and rank.
    axis, size : int
        The number of the axis, for the message, and its length.

    Returns
    -------
    numpy.ndarray
        int64, one-dimensional, in C order, read-only; always a copy, so the user cannot change it
        while the engine reads it.

    Raises
    ------
    SelectionError
        Kind ``out_of_bounds``, with the first wrong index.

    Examples
    --------
    >>> index_list(np.array([[0, -1], [3, 3]]), 0, 10)
    array([0, 9, 3, 3])
    """
    if values.size:
        lowest, highest = int(values.min()), int(values.max())
        if lowest < -size or highest >= size:
            # An unsigned array may contain values beyond int64, so the bounds are Python integers.
            faulty = (values < -size) if values.dtype.kind == "i" else np.zeros(values.shape, bool)
            faulty |= values >= size
            raise out_of_bounds(int(values[faulty].flat[0]), axis, size)
    else:
        lowest = 0
    flat = np.array(values, dtype=np.int64, order="C", copy=True).reshape(-1)
    if lowest < 0:
        flat[flat < 0] += size
    flat.flags.writeable = False
    return flat


def as_range(indices: IndexList) -> Range | None:
    """Return the range that equals a list of indices, or None.

    Examples
    --------
    >>> as_range(np.array([8, 6, 4])), as_range(np.array([1, 1])), as_range(np.array([1, 2, 4]))
    ((8, -2, 3), None, None)
    """
    count = indices.size
    if count < 2:
        return (int(indices[0]), 1, 1) if count else (0, 1, 0)
    start = int(indices[0])
    step = int(indices[1]) - start
    if step == 0 or int(indices[-1]) != start + step * (count - 1):
        return None
    if count > 3 and not bool((indices[1:] - indices[:-1] == step).all()):
        return None
    if count == 3 and int(indices[2]) - int(indices[1]) != step:
        return None
    return start, step, count


def joint_indices(chosen: tuple[IndexList] | JointMask) -> IndexList:
    """Return the indices of a joint axis, one for each point.

    Examples
    --------
    >>> joint_indices((np.array([[True, False], [True, True]]), 1)).tolist()
    [0, 0, 1]
    """
    if len(chosen) == 1:
        return chosen[0]
    mask, number = chosen
    return mask.nonzero()[number]


def find_touched_cells(axes: Sequence[AxisSelection], cuts: Sequence[Cuts]) -> Iterator[Shape]:
    """Yield the cells of a grid that contain selected elements, each once.

    Parameters
    ----------
    axes
        The selection along each axis of an array: see `Selection`; it is not empty.
    cuts
        The cuts of these axes.

    Examples
    --------
    >>> from tessarr.format.chunk_grid import RegularGrid
    >>> from tessarr.indexing import select_outer, select_points
    >>> cuts = RegularGrid((4, 4)).cuts
    >>> list(find_touched_cells(select_outer((slice(3, 9, 4), [0, 5, 1]), (10, 10)).axes, cuts))
    [(0, 0), (0, 1), (1, 0), (1, 1)]
    >>> list(find_touched_cells(select_points(([9, 3, 2], [0, 5, 6]), (10, 10)).axes, cuts))
    [(0, 1), (2, 0)]
    """
    joint: list[int] = []
    columns: list[npt.NDArray[np.int64]] = []
    single: list[tuple[int, Sequence[int]]] = []
    for axis, (chosen, cut) in enumerate(zip(axes, cuts, strict=True)):
        if isinstance(chosen, np.ndarray):
            single.append((axis, np.unique(_find_cells(chosen, cut)).tolist()))
        elif len(chosen) == 3:
            single.append((axis, _find_cells_of_range(chosen, cut)))
        else:
            joint.append(axis)
            columns.append(_find_cells(joint_indices(chosen), cut))
    joint_cells: list[list[int]] = [[]]
    if columns:
        joint_cells = np.unique(np.stack(columns, 1), axis=0).tolist()
    cell = [0] * len(cuts)
    for joint_cell in joint_cells:
        for axis, position in zip(joint, joint_cell, strict=True):
            cell[axis] = position
        for others in product(*(positions for _, positions in single)):
            for (axis, _), position in zip(single, others, strict=True):
                cell[axis] = position
            yield tuple(cell)


def _find_cells(indices: npt.NDArray[np.int64], cut: Cuts) -> npt.NDArray[np.int64]:
    if cut.even:
        return indices // cut.longest
    return np.fromiter(map(cut.cell, indices.tolist()), np.int64, indices.size)


def _find_cells_of_range(chosen: Range, cut: Cuts) -> Sequence[int]:
    start, step, count = chosen
    last = start + step * (count - 1)
    if abs(step) <= cut.distinct[-1]:  # the range touches all chunks in between
        first, last = sorted((cut.cell(start), cut.cell(last)))
        return range(first, last + 1)
    return sorted({cut.cell(start + step * position) for position in range(count)})
