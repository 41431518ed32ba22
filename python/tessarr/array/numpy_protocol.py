"""Python and NumPy protocols of an array: conversion, iteration, and h5py's methods."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.array.indexing import ArrayIndexing
from tessarr.errors import ArgumentError
from tessarr.indexing import Indexer, select, select_basic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from tessarr.array.summaries import ArrayStats
    from tessarr.types import SelectionLike

__all__ = ["NumPyProtocol"]


class NumPyProtocol(ArrayIndexing):
    """Sequence and conversion protocols of an array."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __getitem__(self, key: Any, /) -> Any: ...
        def __setitem__(self, key: Any, value: Any, /) -> None: ...

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("an array in a store cannot be had without a copy")
        data: npt.NDArray[Any] = self._read_key(select_basic, ...)
        return data if dtype is None else data.astype(dtype, copy=False)

    def __dlpack__(self, **options: Any) -> Any:
        """Read the array and return it as a DLPack capsule for another library."""
        return self.__array__().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the device of the result of `__dlpack__`: main memory."""
        return 1, 0

    def __len__(self) -> int:
        if not self._metadata.shape:
            raise TypeError("an array without axes has no length")
        return self._metadata.shape[0]

    def __iter__(self) -> Iterator[Any]:
        """Yield the items along the first axis; each chunk is read once."""
        return self.islice()

    def islice(self, start: int | None = None, end: int | None = None) -> Iterator[Any]:
        """Yield a range of items along the first axis; each chunk is read once.

        Parameters
        ----------
        start, end
            The index of the first item, and the index after the last; by default all items.

        Raises
        ------
        TypeError
            If the array has no axes.
        ArgumentError
            If `start` or `end` is negative or not an integer.

        Notes
        -----
        The iteration holds the chunks of one item in memory, complete along the other axes.

        Examples
        --------
        >>> import tessarr
        >>> a = tessarr.create_array(data=[0, 10, 20, 30, 40], chunks=2)
        >>> [int(item) for item in a.islice(1, 4)]
        [10, 20, 30]
        """
        if not self._metadata.shape:
            raise TypeError("iteration over an array without axes")
        try:
            first = 0 if start is None else operator.index(start)
            last = len(self) if end is None else min(operator.index(end), len(self))
        except TypeError:
            first = last = -1
        if first < 0 or last < 0:
            raise ArgumentError(
                f"cannot iterate from {start!r} to {end!r}: both count from 0, in integers"
            )
        return (item for slab in self._iter_slabs(first, last) for item in slab)

    def __contains__(self, item: object) -> bool:
        """Return whether an element equals `item`; stop reading at the first one."""
        if not self._metadata.shape:
            return bool(np.any(self[()] == item))
        return any(bool(np.any(slab == item)) for slab in self._iter_slabs())

    def stats(
        self,
        selection: SelectionLike = ...,
        *,
        bins: int = 64,
        progress: Callable[[int, int], object] | None = None,
    ) -> ArrayStats:
        """Return minimum, maximum, mean, standard deviation, NaN count and histogram.

        Threads read and summarise regions of whole chunks. Chunks that are not stored count as the
        fill value, and are not read.

        Parameters
        ----------
        selection
            A key of the array; by default everything. For an array with fields it names one:
            ``"x"``, or ``("x", slice(10))``.
        bins
            The maximum number of bins of the histogram, up to 1024; 0 for no histogram.
        progress
            Called regularly with the processed bytes and their total.

        Returns
        -------
        ArrayStats
            The statistics of the elements as `a[selection]` returns them, without regard to
            attributes such as ``scale_factor`` and ``_FillValue``. Elements that are NaN, NaT or
            infinite are only counted.

        Raises
        ------
        SelectionError
            If the selection does not fit the array.
        ArgumentError
            If `bins` is not such a number, or an array with fields has no selected field.
        UnsupportedError
            If the data type is not a number, a time or text.

        Notes
        -----
        One pass over the chunks computes everything: bins have a power of two as their width, and
        two bins become one when the range grows. Sums of integers are exact, and those of floats
        are compensated. Memory: about 128 MB, or the largest chunk if that is larger. A selection
        with index arrays or masks is read as a whole.

        Examples
        --------
        >>> import tessarr
        >>> a = tessarr.array([1.0, 2.0, float("nan"), 4.0], chunks=2)
        >>> stats = a.stats(bins=4)
        >>> stats.count, stats.nan_count, stats.min, stats.max, round(stats.std, 3)
        (4, 1, np.float64(1.0), np.float64(4.0), 1.247)
        >>> stats.histogram.edges, stats.histogram.counts
        (array([1., 2., 3., 4., 5.]), array([1, 1, 0, 1]))
        """
        from tessarr.array.stats import compute_stats

        array: Any = self
        return compute_stats(array, selection, bins=bins, progress=progress)

    def _iter_slabs(self, first: int = 0, last: int | None = None) -> Iterator[Any]:
        end = len(self) if last is None else last
        if first >= end:
            return
        cuts = self._meta.chunk_cuts[0]
        for cell in range(cuts.cell(first), cuts.cell(end - 1) + 1):
            yield self[max(cuts.start(cell), first) : min(cuts.start(cell + 1), end)]

    def _read_first(self) -> Any:
        return self[(0,) * self.ndim]

    # Methods of h5py

    def asstr(self, encoding: str = "utf-8", errors: str = "strict") -> Indexer:
        """Return an indexer that decodes bytes to text: ``a.asstr()[:10]``; text stays unchanged.

        Parameters
        ----------
        encoding, errors
            As for `bytes.decode`.

        Examples
        --------
        >>> import tessarr
        >>> a = tessarr.create_array(data=[b"one", b"two"])
        >>> a.asstr()[0], a.asstr()[:]
        ('one', array(['one', 'two'], dtype=object))
        """

        def text(item: Any) -> Any:
            return item.decode(encoding, errors) if isinstance(item, bytes) else item

        def read(key: Any) -> Any:
            values = self._read_key(select, key)
            if not isinstance(values, np.ndarray):
                return text(values)
            items = (text(item) for item in values.reshape(-1).tolist())
            return np.fromiter(items, object, values.size).reshape(values.shape)

        def write(key: Any, value: Any) -> None:
            self._write_key(select, key, value)

        return Indexer(read, write)

    def read_direct(
        self, dest: Any, source_sel: SelectionLike = ..., dest_sel: SelectionLike = ...
    ) -> None:
        """Read into an existing array, as in h5py.

        Parameters
        ----------
        dest
            A NumPy array.
        source_sel, dest_sel
            The elements to read, and their destination; by default all elements.
        """
        part = dest[dest_sel]
        if not np.may_share_memory(part, dest):  # NumPy copies for a list of indices
            dest[dest_sel] = self._read_key(select, source_sel)
        else:
            self._read_key(select, source_sel, part)

    def write_direct(
        self, source: Any, source_sel: SelectionLike = ..., dest_sel: SelectionLike = ...
    ) -> None:
        """Write from an array, as in h5py.

        Parameters
        ----------
        source
            A NumPy array.
        source_sel, dest_sel
            The elements to write, and their destination; by default all elements.
        """
        self[dest_sel] = source[source_sel]

    def iter_chunks(self, sel: SelectionLike = ...) -> Iterator[tuple[slice, ...]]:
        """Yield the key of each chunk: ``for part in a.iter_chunks(): a[part]``.

        Parameters
        ----------
        sel
            Slices of step 1, which restrict the keys; by default the whole array.

        Raises
        ------
        ArgumentError
            If `sel` is another kind of selection.

        Examples
        --------
        >>> import tessarr
        >>> a = tessarr.zeros((4, 5), chunks=(2, 3))
        >>> next(a.iter_chunks(slice(1, 3)))
        (slice(1, 2, None), slice(0, 3, None))
        """
        from itertools import product

        selection, _ = self._parse_key(select_basic, sel)
        parts: list[list[slice]] = []
        for part, cuts in zip(selection.axes, self._meta.chunk_cuts, strict=True):
            if not isinstance(part, tuple) or len(part) != 3 or part[1] != 1:
                raise ArgumentError(f"cannot cut {sel!r} into chunks: slices have to have step 1")
            first, _, count = part
            cells = range(cuts.cell(first), cuts.cell(first + count - 1) + 1) if count else ()
            bounds = ((cuts.start(cell), cuts.start(cell + 1)) for cell in cells)
            parts.append([slice(max(a, first), min(b, first + count)) for a, b in bounds])
        return product(*parts)

    def len(self) -> int:
        """Return the length of the first axis, as ``len`` does."""
        return len(self)
