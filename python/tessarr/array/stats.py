"""Statistics of arrays: `Array.stats` reads and summarises regions of whole chunks in parallel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from tessarr.array.parallel import map_in_parallel
from tessarr.array.regions import count_elements, split_region
from tessarr.array.summaries import ArrayStats, Summary, find_summarizer
from tessarr.codec import Bytes
from tessarr.errors import ArgumentError, StoreError, UnsupportedError
from tessarr.format.chunk_grid import RegularGrid
from tessarr.indexing import select_basic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from tessarr.array.lazy import LazyArray
    from tessarr.format.chunk_grid import Cuts
    from tessarr.metadata.node import ArrayMeta
    from tessarr.store import Store
    from tessarr.types import SelectionLike, Shape

__all__ = ["compute_stats"]

_LOCAL_BYTES: Final = (8 << 20, 1 << 20)
"""The sizes of a box and a region; a region stays in the processor's cache for its summary."""

_REMOTE_BYTES: Final = (32 << 20, 32 << 20)
"""The sizes for a remote store: a read of a region sends many requests concurrently."""

_MAX_BYTES: Final = 128 << 20
"""The maximum size of the regions in memory, unless one chunk is larger."""

_PARTS: Final = 64
"""A box with stored chunks is divided into about so many, which are searched for them again."""

_MAX_BINS: Final = 1024


class _Array(Protocol):
    """The members of an array that its statistics use."""

    _store: Store
    _missing: str

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def shape(self) -> Shape: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def metadata(self) -> ArrayMeta: ...
    @property
    def lazy(self) -> LazyArray: ...
    @property
    def _has_write_buffer(self) -> bool: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def _storage_statistics(
        self, view: Any, not_stored: bool, fully_stored: bool
    ) -> tuple[bool, bool] | None: ...


def compute_stats(
    array: _Array,
    selection: SelectionLike,
    *,
    bins: int,
    progress: Callable[[int, int], object] | None,
) -> ArrayStats:
    """Return the statistics of a selection: see `Array.stats`."""
    if type(bins) is not int or not (bins == 0 or 2 <= bins <= _MAX_BINS):
        raise ArgumentError(f"bins {bins!r} is neither 0 nor a number from 2 to {_MAX_BINS}")
    key = selection if isinstance(selection, tuple) else (selection,)
    names = tuple(part for part in key if isinstance(part, str))
    rest: Any = tuple(part for part in key if not isinstance(part, str))
    reader = _Reader(array, names, _find_summarizer(array, names, bins))
    if _is_basic(rest):
        axes: Any = select_basic(rest, array.shape).axes
        parts = reader.summarize_parts([_ascending(*axis) for axis in axes], progress)
    else:
        parts = iter([reader.summarize((*names, *rest))])
    total: Summary = reader.summarizer(np.empty(0, reader.dtype))
    for part in parts:
        total = total.merged(part)
    return total.to_stats()


def _find_summarizer(
    array: _Array, names: tuple[str, ...], bins: int
) -> Callable[[npt.NDArray[Any]], Summary]:
    dtype = _find_dtype(array, names)
    if dtype.names is not None:
        fields = ", ".join(map(repr, dtype.names))
        raise ArgumentError(f"select one field of array {array.name!r} for statistics: {fields}")
    summarizer = find_summarizer(dtype.base, bins)
    if summarizer is None:
        raise UnsupportedError(
            f"array {array.name!r} has elements of data type {dtype}, which have no statistics: "
            "only numbers, times and text have",
            kind="unsupported_data_type",
            path=array.path,
        )
    return summarizer


def _find_dtype(array: _Array, names: tuple[str, ...]) -> np.dtype[Any]:
    if not names:
        return array.dtype
    # NumPy checks the names.
    return np.asarray(array[(*names, *(slice(0, 0),) * len(array.shape))]).dtype


def _is_basic(key: tuple[Any, ...]) -> bool:
    return all(
        part is ... or part is None or isinstance(part, slice | int | np.integer) for part in key
    )


def _ascending(start: int, step: int, count: int) -> range:
    """Return the indices of an axis in ascending order."""
    if count == 0:
        return range(0)
    last = start + step * (count - 1)
    return range(min(start, last), max(start, last) + 1, max(abs(step), 1))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads and summarises parts of an array.

    Parameters
    ----------
    array
        The array.
    names
        The selected field, if any.
    summarizer
        The function that summarises elements.
    """

    array: _Array
    names: tuple[str, ...]
    summarizer: Callable[[npt.NDArray[Any]], Summary]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The data type of the elements."""
        return _find_dtype(self.array, self.names).base

    def summarize(self, key: Any) -> Summary:
        """Return the summary of the elements of a key."""
        return self.summarizer(np.asarray(self.array[key]))

    def summarize_parts(
        self, axes: Sequence[range], progress: Callable[[int, int], object] | None
    ) -> Iterator[Summary]:
        """Yield summaries of parts of a selection, which threads compute.

        Chunks that are not stored are not read.
        """
        size = prod(map(len, axes))
        item_bytes = max(self.array.dtype.itemsize, 1)
        done = unstored = 0
        example: tuple[slice, ...] | None = None
        sizes = _Sizes.of(self.array)
        cuts = _find_cuts(self.array, sizes.region)
        largest = max(sizes.region, prod(axis.longest for axis in cuts)) * item_bytes
        whole = tuple(slice(axis.start, axis.stop) for axis in axes)
        boxes = self._find_boxes(axes, whole, cuts, sizes.box) if size else iter(())

        def summarize_box(box: _Box) -> tuple[_Box, Summary | None]:
            if not box.may_be_stored or self._is_unstored(box.bounds):
                return box, None
            regions = split_region(box.bounds, cuts, sizes.region)
            parts = (_select(axes, region) for region in regions)
            keys = ((*self.names, *part) for part in parts if part is not None)
            return box, reduce(_merge, map(self.summarize, keys))

        for box, summary in map_in_parallel(
            summarize_box, boxes, max_threads=max(_MAX_BYTES // largest, 1)
        ):
            count = _count_selected(box.selected)
            if summary is None:
                unstored, example = unstored + count, box.selected
            else:
                yield summary
            done += count
            if progress is not None:
                progress(done * item_bytes, size * item_bytes)
        if example is not None:
            first = tuple(slice(axis.start, axis.start + 1) for axis in example)
            yield self.summarize((*self.names, *first)).repeated(unstored)

    def _find_boxes(
        self, axes: Sequence[range], bounds: tuple[slice, ...], cuts: Sequence[Cuts], most: int
    ) -> Iterator[_Box]:
        """Yield the boxes of a selection, with at most `most` elements unless a chunk has more."""
        selected = _select(axes, bounds)
        if selected is None:
            return
        count = count_elements(bounds)
        if count > most and self._is_unstored(bounds):
            yield _Box(bounds, selected, may_be_stored=False)
            return
        parts = list(split_region(bounds, cuts, max(count // _PARTS, most)))
        if len(parts) == 1:
            yield _Box(bounds, selected, may_be_stored=True)
            return
        for part in parts:
            yield from self._find_boxes(axes, part, cuts, most)

    def _is_unstored(self, box: tuple[slice, ...]) -> bool:
        """Return whether the store is known to hold no chunk of a box."""
        array = self.array
        if array._missing != "fill" or array._has_write_buffer:
            return False
        view = array.lazy[box].transform._as_view()
        try:
            statistics = array._storage_statistics(view, True, False)
        except StoreError as error:
            if error.retryable:
                raise
            return False  # the store refuses listings: the elements are read
        return statistics is not None and statistics[0]


def _select(axes: Sequence[range], box: tuple[slice, ...]) -> tuple[slice, ...] | None:
    """Return the part of a selection in a box; None if it is empty."""
    parts = []
    for axis, bounds in zip(axes, box, strict=True):
        first = axis.start + -(-(bounds.start - axis.start) // axis.step) * axis.step
        if first >= bounds.stop:
            return None
        parts.append(slice(first, bounds.stop, axis.step))
    return tuple(parts)


def _count_selected(part: tuple[slice, ...]) -> int:
    return prod(len(range(axis.start, axis.stop, axis.step)) for axis in part)


def _merge(left: Summary, right: Summary) -> Summary:
    merged: Summary = left.merged(right)
    return merged


@dataclass(frozen=True, slots=True)
class _Box:
    """A box that one thread summarises.

    Parameters
    ----------
    bounds
        The bounds of the box, in whole chunks.
    selected
        The part of the selection in it.
    may_be_stored
        Whether the store may hold some of its chunks.
    """

    bounds: tuple[slice, ...]
    selected: tuple[slice, ...]
    may_be_stored: bool


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The numbers of elements of a box, and of the regions of a box, which are read one by one."""

    box: int
    region: int

    @classmethod
    def of(cls, array: _Array) -> _Sizes:
        is_remote = array._store.concurrency > 0
        box_bytes, region_bytes = _REMOTE_BYTES if is_remote else _LOCAL_BYTES
        item_bytes = max(array.dtype.itemsize, 1)
        return cls(max(box_bytes // item_bytes, 1), max(region_bytes // item_bytes, 1))


def _find_cuts(array: _Array, most: int) -> Sequence[Cuts]:
    """Return the boundaries of regions: those of chunks, or any if chunks are not encoded."""
    meta = array.metadata
    is_raw = all(isinstance(codec, Bytes) for codec in meta.codecs.codecs)
    if not is_raw or prod(axis.longest for axis in meta.chunk_cuts) <= most:
        return meta.chunk_cuts
    return RegularGrid(_row_lengths(tuple(axis.longest for axis in meta.chunk_cuts), most)).cuts


def _row_lengths(chunk: Shape, most: int) -> Shape:
    """Return the shape of a part of a chunk whose elements follow one another.

    Examples
    --------
    >>> _row_lengths((10, 20, 30), 2000)
    (3, 20, 30)
    >>> _row_lengths((10, 20, 30), 70)
    (1, 2, 30)
    """
    lengths: list[int] = []
    for length in reversed(chunk):
        lengths.append(max(min(length, most), 1))
        most = most // max(length, 1)
    return tuple(reversed(lengths))
