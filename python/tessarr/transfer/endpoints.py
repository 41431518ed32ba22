"""Sources and targets of a copy: two classes for arrays of any library.

Both use *ranges*, ``(start, step, count)`` for each axis. So a part of an array, even a reversed
one, is an endpoint like a whole array.
"""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from tessarr._engine import ArrayBase
from tessarr.errors import ArgumentError
from tessarr.indexing import Selection, broadcast_value
from tessarr.indexing.array_likes import broadcast_masked, has_mask, values_in_memory
from tessarr.transfer.plan import cut_points

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    import numpy.typing as npt

    from tessarr.format.chunk_grid import Cuts
    from tessarr.indexing import Range
    from tessarr.metadata.node import ArrayMeta
    from tessarr.store import Store
    from tessarr.transfer.plan import Region
    from tessarr.types import Shape

__all__ = [
    "Source",
    "StoredArray",
    "Target",
    "as_tessarr_array",
    "make_source",
    "make_target",
    "read_part",
]

_CONCURRENT: Final = frozenset(("tessarr", "numpy", "zarr", "h5py", "dask", "xarray"))
"""Packages whose arrays are thread-safe for reading."""


class StoredArray(Protocol):
    """The part of `tessarr.Array` that this package uses."""

    @property
    def _metadata(self) -> ArrayMeta: ...
    @property
    def _store(self) -> Store: ...
    @property
    def _synchronizer(self) -> object: ...
    @property
    def write_empty_chunks(self) -> bool: ...
    @property
    def path(self) -> str: ...
    @property
    def shape(self) -> Shape: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    def get_basic_selection(
        self, selection: Any, *, out: npt.NDArray[Any] | None = None
    ) -> npt.NDArray[Any]: ...
    def _write_locked(
        self, axes: Any, out_axes: Any, values: npt.NDArray[Any], parts: Any = None
    ) -> None: ...


def as_tessarr_array(array: Any) -> StoredArray | None:
    """Return the array if it is a `tessarr.Array`, else None."""
    tessarr_array: Any = array
    return tessarr_array if isinstance(array, ArrayBase) else None


@dataclass(frozen=True, slots=True)
class Source:
    """An array, or a part of it, to read region by region.

    Parameters
    ----------
    array
        Any object with a shape that returns arrays when indexed by slices.
    ranges
        The part of the array.
    shape
        The shape after broadcasting by NumPy's rules, which repeat axes of length 1 and add leading
        axes.
    dtype
        The data type of the elements.
    chunks
        For each axis of `array`, the length of its chunks, or the lengths of all its chunks.
    """

    array: Any
    ranges: tuple[Range, ...]
    shape: Shape
    dtype: np.dtype[Any]
    chunks: tuple[int | Sequence[int] | None, ...]
    _lock: AbstractContextManager[Any] = field(repr=False)

    @property
    def is_stored(self) -> bool:
        """Whether it is a `tessarr.Array`."""
        return isinstance(self.array, ArrayBase)

    def cuts(self) -> list[npt.NDArray[np.int64] | None]:
        """Return the chunk borders of each axis, in the coordinates of the part.

        None means that the borders of an axis are unknown or irrelevant.
        """
        missing = len(self.shape) - len(self.ranges)
        cuts: list[npt.NDArray[np.int64] | None] = [None] * missing
        for lengths, size, (start, step, count), length in zip(
            self.chunks, self.array.shape, self.ranges, self.shape[missing:], strict=True
        ):
            if lengths is None or count != length:
                cuts.append(None)
            else:
                cuts.append(_cuts_in_range(cut_points(lengths, size), start, step, count))
        return cuts

    def read(self, region: Region, buffer: npt.NDArray[np.uint8] | None) -> npt.NDArray[Any]:
        """Read a region, into `buffer` if possible."""
        missing = len(self.shape) - len(self.ranges)
        bounds = [
            (0, 1) if count != length else bounds_
            for bounds_, (_, _, count), length in zip(
                region[missing:], self.ranges, self.shape[missing:], strict=True
            )
        ]
        key = tuple(
            _range_slice(start + step * first, step, last - first)
            for (start, step, _), (first, last) in zip(self.ranges, bounds, strict=True)
        )
        if self.is_stored and buffer is not None and not self.dtype.hasobject:
            out = _view_buffer(buffer, tuple(last - first for first, last in bounds), self.dtype)
            values = self.array.get_basic_selection(key, out=out)
        else:
            with self._lock:
                values = read_part(self.array, key)
        shape = tuple(last - first for first, last in region)
        return (
            broadcast_masked(values, shape) if has_mask(values) else np.broadcast_to(values, shape)
        )


def read_part(array: Any, key: Any) -> npt.NDArray[Any]:
    """Read a part of an array of any library; convert text of HDF5, which h5py reads as bytes."""
    values = values_in_memory(array[key])
    metadata = getattr(array.dtype, "metadata", None)
    if values.dtype.kind != "O" or not metadata or metadata.get("vlen") is not str:
        return values
    decoded = np.empty(values.shape, object)
    decoded.reshape(-1)[:] = [
        item.decode("utf-8", "surrogateescape") if isinstance(item, bytes) else item
        for item in values.reshape(-1)
    ]
    return decoded


def _view_buffer(
    buffer: npt.NDArray[np.uint8], shape: Shape, dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return np.ndarray(shape, dtype, buffer.data[:size])


def make_source(
    array: Any, shape: Shape | None = None, ranges: Sequence[Range] | None = None
) -> Source:
    """Return an array, or a part of it, as a source that is broadcast to `shape`.

    Parameters
    ----------
    array
        An object with ``shape`` and ``dtype`` whose slices are array-likes.
    shape
        The shape to copy; by default that of the array.
    ranges
        The part of the array; by default the whole array.
    """
    array_shape = tuple(map(int, array.shape))
    source_ranges = (
        tuple((0, 1, length) for length in array_shape) if ranges is None else tuple(ranges)
    )
    counts = tuple(count for _, _, count in source_ranges)
    top = type(array).__module__.partition(".")[0]
    lock: AbstractContextManager[Any] = nullcontext() if top in _CONCURRENT else threading.Lock()
    return Source(
        array,
        source_ranges,
        counts if shape is None else shape,
        np.dtype(array.dtype),
        _chunks(array),
        lock,
    )


def _chunks(array: Any) -> tuple[int | Sequence[int] | None, ...]:
    """Return the chunk length of each axis, or the lengths of all chunks, or None."""
    stored = as_tessarr_array(array)
    if stored is not None:
        return _axis_chunks(stored._metadata.chunk_cuts, stored.shape)
    rank = len(array.shape)
    chunks = getattr(array, "chunks", None)
    if not isinstance(chunks, tuple) or len(chunks) != rank:
        return (None,) * rank
    return tuple(_parse_chunk_lengths(axis) for axis in chunks)


def _axis_chunks(cuts: Sequence[Cuts], shape: Shape) -> tuple[int | Sequence[int], ...]:
    axes = zip(cuts, shape, strict=True)
    return tuple(axis.longest if axis.even else axis.lengths(size) for axis, size in axes)


def _parse_chunk_lengths(axis: Any) -> int | Sequence[int] | None:
    if isinstance(axis, int | np.integer):
        return int(axis) if axis > 0 else None
    return tuple(map(int, axis)) if isinstance(axis, tuple | list) else None


@dataclass(frozen=True, slots=True)
class Target:
    """An array, or a part of it, to write region by region.

    Parameters
    ----------
    array
        A `tessarr.Array`, or an object with slice assignment.
    ranges
        The part of the array: one range for each axis.
    axes
        The source axis along each range; None if it has none.
    shape
        The shape of the source.
    dtype
        The data type of the elements.
    chunks
        For each axis of `array`, the length of its chunks, or the lengths of all its chunks.
    """

    array: Any
    ranges: tuple[Range, ...]
    axes: tuple[int | None, ...]
    shape: Shape
    dtype: np.dtype[Any]
    chunks: tuple[int | Sequence[int] | None, ...]

    def cuts(self) -> list[npt.NDArray[np.int64]]:
        """Return the chunk borders along each axis of the source."""
        cuts = [np.empty(0, np.int64)] * len(self.shape)
        for lengths, size, (start, step, count), axis in zip(
            self.chunks, self.array.shape, self.ranges, self.axes, strict=True
        ):
            if axis is not None:
                cuts[axis] = _cuts_in_range(cut_points(lengths, size), start, step, count)
        return cuts

    def write(self, region: Region, values: npt.NDArray[Any]) -> None:
        """Write a region."""
        target_ranges = tuple(
            part
            if axis is None
            else (part[0] + part[1] * region[axis][0], part[1], _length_of(region[axis]))
            for part, axis in zip(self.ranges, self.axes, strict=True)
        )
        tessarr_array = as_tessarr_array(self.array)
        if tessarr_array is not None:
            prepared: Any = tessarr_array._metadata.data_type.to_numpy_input(values)
            selection = Selection(target_ranges, self.axes, prepared.shape, prepared.shape)
            fill = tessarr_array._metadata.fill_element
            tessarr_array._write_locked(
                target_ranges,
                self.axes,
                broadcast_value(prepared, selection, tessarr_array.dtype, fill),
            )
        elif has_mask(values):
            raise ArgumentError(
                f"cannot copy masked elements to {type(self.array).__name__}: fill them first"
            )
        else:
            key = tuple(
                start if axis is None else _range_slice(start, step, count)
                for (start, step, count), axis in zip(target_ranges, self.axes, strict=True)
            )
            # Other libraries do not support NumPy's variable-length text.
            self.array[key] = values.astype(object) if values.dtype.kind == "T" else values


def make_target(array: Any, selection: Selection | None = None) -> Target:
    """Return an array, or a selection of ranges, as a target."""
    shape = tuple(array.shape)
    if selection is None:
        ranges: Any = tuple((0, 1, length) for length in shape)
        axes: tuple[int | None, ...] = tuple(range(len(shape)))
        target_shape = shape
    else:
        ranges, axes, target_shape = selection.axes, selection.out_axes, selection.buffer_shape
    tessarr_array = as_tessarr_array(array)
    chunks = (
        _chunks(array)
        if tessarr_array is None
        else _axis_chunks(tessarr_array._metadata.chunk_grid.cuts, shape)
    )
    return Target(array, ranges, axes, target_shape, np.dtype(array.dtype), chunks)


def _length_of(bounds: tuple[int, int]) -> int:
    return bounds[1] - bounds[0]


def _range_slice(start: int, step: int, count: int) -> slice:
    """Return the slice that starts at `start` and has `count` elements."""
    stop = start + step * count
    return slice(start, stop if stop >= 0 else None, step)


def _cuts_in_range(
    points: npt.NDArray[np.int64], start: int, step: int, count: int
) -> npt.NDArray[np.int64]:
    """Return the positions of cuts of an axis in the elements of a range."""
    positions = -((start - points) // step) if step > 0 else (start - points) // -step + 1
    return np.unique(positions[(positions > 0) & (positions < count)])
