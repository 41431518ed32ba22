"""What a user's key selects, in the form in which the engine walks it.

Theory
------
Every NumPy-like key, however mixed, comes down to one entry per axis of the array:

* a *range* ``(start, step, count)``: integers and slices. An integer is a range of one
  whose axis is dropped from the result;
* an *outer list*, an ``int64`` vector: the axis is walked through the list independently of
  the other axes;
* a *joint list*, a 1-tuple of such a vector: all joint axes are walked together, entry ``k``
  of each names one point.

One group of joint lists suffices, because NumPy broadcasts all index arrays of a key
together. The engine fills a buffer that has one axis for each range and outer list that is
kept, and one for the joint group: `Selection.buffer_shape`. NumPy's result differs from it only
by ``newaxis`` (axes of length 1) and by index arrays of several dimensions, which the
buffer holds flattened, so that a reshape, which copies nothing, leads from one to the other.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

__all__ = ["AxisSelection", "IndexList", "Indexer", "Range", "Selection"]

Range: TypeAlias = tuple[int, int, int]
"""``(start, step, count)``: in bounds, the step not 0, and 1 when there is at most one index."""

IndexList: TypeAlias = "npt.NDArray[np.int64]"
"""One-dimensional, in bounds, not negative, read-only, and not shared with the user."""

AxisSelection: TypeAlias = "Range | IndexList | tuple[IndexList]"


class Selection(NamedTuple):
    """A normalised selection of elements of an array.

    Parameters
    ----------
    axes : tuple of AxisSelection
        One entry per axis of the array: a range ``(start, step, count)``, an outer list, or a
        1-tuple with a joint list.
    out_axes : tuple of (int or None)
        One entry per axis of the array: the axis of the buffer that it runs along, or None
        where the axis is dropped. All joint axes name the same one.
    shape : tuple of int
        The shape of the result by NumPy's rules.
    buffer_shape : tuple of int
        The shape of what the engine fills or stores; as many elements as in `shape`. Where
        there are none the engine is not called.
    scalar : bool
        True if a read gives a NumPy scalar and no array: an integer for every axis.
    order : tuple of int, optional
        The axes of the result in the order in which the buffer has them, where that is another
        one (the buffer's first axis may stand for several). Axes that are left out repeat.

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
        """Give a filled buffer the shape that NumPy would have returned.

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
        """Give values of `shape` the shape of the buffer; of what repeats the last counts.

        Parameters
        ----------
        values : numpy.ndarray
            An array of `shape`.

        Returns
        -------
        numpy.ndarray
            A view of `buffer_shape` where strides allow for that, else a copy.
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
    """Reads and writes by keys of one form: give it brackets.

    Parameters
    ----------
    read, write
        Read what a key selects, and write a value to it.
    """

    __slots__ = ("_read", "_write")

    def __init__(self, read: Callable[[Any], Any], write: Callable[[Any, Any], None]) -> None:
        self._read = read
        self._write = write

    def __getitem__(self, key: Any) -> Any:
        return self._read(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._write(key, value)
