"""Selections: the elements that a key selects, in the form that the engine reads.

Theory
------
Every key has one entry for each axis of the array:

* a *range* ``(start, step, count)``, for integers and slices. An integer is a range of one index
  whose axis the result lacks;
* an *outer list*, an ``int64`` vector of indices, independent of the other axes;
* a *joint list*, a 1-tuple of such a vector. Entry ``k`` of all joint lists is one point.

One group of joint lists suffices, because NumPy broadcasts all index arrays of a key to one shape.
The engine fills a buffer with one axis for each range and outer list, and one axis for the joint
group: `Selection.buffer_shape`. NumPy's result differs from the buffer only by ``newaxis`` (axes of
length 1) and by index arrays of several dimensions, which the buffer contains flattened. So a
reshape without a copy converts the buffer to the result.
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

    def __getitem__(self, key: Any) -> Any:
        return self._read(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._write(key, value)
