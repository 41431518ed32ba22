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

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

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


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
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

    Examples
    --------
    >>> from tessarr.indexing import default
    >>> s = default((slice(2, 8, 3), None, -1), (10, 5))
    >>> s.axes, s.out_axes, s.shape, s.buffer_shape
    (((2, 3, 2), (4, 1, 1)), (0, None), (2, 1), (2,))
    """

    axes: tuple[AxisSelection, ...]
    out_axes: tuple[int | None, ...]
    shape: tuple[int, ...]
    buffer_shape: tuple[int, ...]
    scalar: bool = False

    @property
    def size(self) -> int:
        """The number of selected elements; repeated ones count each time.

        Examples
        --------
        >>> from tessarr.indexing import default
        >>> default(([0, 0, 2], slice(4)), (10, 5)).size
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
        >>> from tessarr.indexing import default
        >>> default((3, None, slice(2)), (10, 5)).result(np.array([7, 8]))
        array([[7, 8]])
        """
        if self.scalar:
            return buffer[()]
        return buffer if self.shape == self.buffer_shape else buffer.reshape(self.shape)


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
