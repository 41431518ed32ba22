"""Regions of an array that zarr-python's parts of chunks make up."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tessarr.array.array import Array

__all__ = ["Region", "find_regions"]

Selector: TypeAlias = "int | slice | NDArray[Any]"
Selectors: TypeAlias = "tuple[Selector, ...]"


@dataclass(frozen=True)
class Region:
    """A selection of an array, and where its elements lie in a buffer.

    Parameters
    ----------
    key
        The selection in the array.
    place
        The selection in the buffer.
    indexing
        "basic", "orthogonal", "points" or "numpy": how `key` selects.
    drop_axes
        The axes of the selected elements that the buffer does not have.
    """

    key: Any
    place: Any
    indexing: str
    drop_axes: tuple[int, ...] = ()

    def read(self, array: Array, out: NDArray[Any]) -> None:
        """Read the region into a buffer."""
        if self.indexing == "basic":
            target = out[self.place]
            if isinstance(target, np.ndarray) and target.dtype == array.dtype and target.ndim:
                array.get_basic_selection(self.key, out=target)
                return
        values = self._indexer(array)[self.key]
        out[self.place] = np.squeeze(values, axis=self.drop_axes) if self.drop_axes else values

    def write(self, array: Array, source: NDArray[Any]) -> None:
        """Write the region from a buffer, which may be a scalar."""
        values: Any = source if source.ndim == 0 else source[self.place]
        if self.drop_axes and source.ndim:
            values = np.expand_dims(values, self.drop_axes)
        self._indexer(array)[self.key] = values

    def _indexer(self, array: Array) -> Any:
        if self.indexing == "orthogonal":
            return array.oindex
        return array.vindex if self.indexing == "points" else array


def find_regions(
    coordinates: NDArray[np.int64],
    chunks: tuple[int, ...],
    parts: list[Selectors],
    places: list[Selectors],
    drop_axes: tuple[int, ...],
) -> list[Region]:
    """Return as few regions as possible that together are parts of chunks.

    Parameters
    ----------
    coordinates
        The position of each chunk in the grid: (chunks, dimensions).
    chunks
        The chunk shape.
    parts, places
        For each chunk, the selection in the chunk and in the buffer.
    drop_axes
        The axes of the selected elements that the buffer does not have.
    """
    parts, places = [_to_tuple(part) for part in parts], [_to_tuple(place) for place in places]
    if coordinates.shape[1] > 1 and all(map(_is_vector, parts[0])):
        return [_merge_points(coordinates * np.array(chunks), parts, places)]
    merged = _merge_product(coordinates, chunks, parts, places, drop_axes)
    if merged is not None:
        return [merged]
    return [
        Region(tuple(map(_move, part, offset)), place, "numpy", drop_axes)
        for part, offset, place in zip(
            parts, (coordinates * np.array(chunks)).tolist(), places, strict=True
        )
    ]


def _merge_points(
    offsets: NDArray[np.int64], parts: list[Selectors], places: list[Selectors]
) -> Region:
    """Return the region of single elements."""
    key = tuple(
        np.concatenate(
            [
                _to_indices(part[axis]) + offset
                for part, offset in zip(parts, offsets[:, axis].tolist(), strict=True)
            ]
        )
        for axis in range(offsets.shape[1])
    )
    return Region(key, (np.concatenate([_to_indices(place[0]) for place in places]),), "points")


def _merge_product(
    coordinates: NDArray[np.int64],
    chunks: tuple[int, ...],
    parts: list[Selectors],
    places: list[Selectors],
    drop_axes: tuple[int, ...],
) -> Region | None:
    """Return the region of parts that are a product of selections of each axis; None for others."""
    axes = [np.unique(column) for column in coordinates.T]
    grid = np.meshgrid(*axes, indexing="ij")
    if prod(map(len, axes)) != len(parts) or any(
        not np.array_equal(column, each.ravel())
        for column, each in zip(coordinates.T, grid, strict=True)
    ):
        return None
    columns = _find_columns(parts, [len(axis) for axis in axes])
    if columns is None:
        return None
    out_axes = [
        axis
        for axis, column in enumerate(columns)
        if axis not in drop_axes and not isinstance(column[0], int)
    ]
    out_columns = _find_columns(places, [len(axes[axis]) for axis in out_axes])
    if out_columns is None:
        return None
    key = [
        _join([_move(part, int(number) * chunk) for part, number in zip(column, axis, strict=True)])
        for column, axis, chunk in zip(columns, axes, chunks, strict=True)
    ]
    place = [_join(column) for column in out_columns]
    if not drop_axes and all(isinstance(each, int | slice) for each in (*key, *place)):
        return Region(tuple(key), tuple(place), "basic")
    return Region(tuple(key), np.ix_(*map(_to_indices, place)), "orthogonal", drop_axes)


def _find_columns(entries: list[Selectors], counts: list[int]) -> list[list[Selector]] | None:
    """Return the selectors of each axis whose product the entries are; None if they are not."""
    if prod(counts) != len(entries) or len(entries[0]) != len(counts):
        return None
    strides = [prod(counts[axis + 1 :]) for axis in range(len(counts))]
    columns = [
        [entries[number * stride][axis] for number in range(count)]
        for axis, (count, stride) in enumerate(zip(counts, strides, strict=True))
    ]
    expected = list(product(*columns))
    if all(isinstance(selector, int | slice) for column in columns for selector in column):
        return columns if entries == expected else None
    return columns if all(map(_are_equal, entries, expected)) else None


def _are_equal(entry: Selectors, expected: Selectors) -> bool:
    return len(entry) == len(expected) and all(
        a is b or np.array_equal(_to_indices(a), _to_indices(b))
        for a, b in zip(entry, expected, strict=True)
    )


def _join(selectors: list[Selector]) -> Selector:
    """Return one selector for several that follow one another."""
    if len(selectors) == 1 and isinstance(selectors[0], int | slice):
        return selectors[0]
    spans = [each for each in selectors if isinstance(each, slice)]
    if len(spans) == len(selectors):
        step = spans[0].step or 1
        ends = [each.start + len(range(each.start, each.stop, step)) * step for each in spans]
        starts = [each.start for each in spans]
        if starts[1:] == ends[:-1] and all((each.step or 1) == step for each in spans):
            return slice(starts[0], spans[-1].stop, step)
    return np.concatenate([_to_indices(selector) for selector in selectors])


def _move(selector: Selector, offset: int) -> Selector:
    """Return the selector in the array for a selector in a chunk."""
    if isinstance(selector, int):
        return selector + offset
    if isinstance(selector, slice):
        return slice((selector.start or 0) + offset, selector.stop + offset, selector.step)
    return _to_indices(selector) + offset


def _to_tuple(selection: Any) -> Selectors:
    return selection if isinstance(selection, tuple) else (selection,)


def _is_vector(selector: Selector) -> bool:
    return not isinstance(selector, int | slice) and selector.ndim == 1 and selector.dtype != "bool"


def _to_indices(selector: Selector) -> NDArray[np.int64]:
    """Return the indices that a selector names, as a vector."""
    if isinstance(selector, slice):
        return np.arange(selector.start or 0, selector.stop, selector.step or 1, dtype=np.int64)
    indices = np.asarray(selector)
    return np.flatnonzero(indices) if indices.dtype == np.bool_ else indices.ravel()
