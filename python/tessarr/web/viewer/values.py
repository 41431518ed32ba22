"""Selections of the viewer, and their values as raw numbers or as text.

A selection is text like ``3,0:1024:8,0:1024:8``: an index or a range per axis, without negative
numbers. Responses hold at most `MAX_ELEMENTS` elements, so a page requests large planes as tiles
with a step. A tile with a step has every n-th element, or a reduction of each block.

Browsers compute with 64-bit floats. `read_numbers` therefore returns these types only:

==========================================  =========================================
data type                                   values of the response
==========================================  =========================================
bool, uint8, int8 … uint32, int32           the same; bool as uint8
int64, uint64                               float64
float16, bfloat16 and smaller, float32      float32
float64, long double                        float64
complex                                     float64 of the part that `part` names
datetime64, timedelta64                     float64 of the count of units; NaT is NaN
==========================================  =========================================

Packed elements and missing values become values as `packing` describes. Text is exact for all data
types: it equals the output of ``tessarr cat``.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import numpy as np

from tessarr.dtype.element_text import format_elements
from tessarr.errors import ArgumentError, SelectionError, TooLargeError, UnsupportedError
from tessarr.web.viewer.packing import find_packing
from tessarr.web.viewer.reduction import reduce_blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from tessarr.array import Array
    from tessarr.types import JSONObject, Shape

__all__ = [
    "MAX_CELLS",
    "MAX_ELEMENTS",
    "Part",
    "Reduction",
    "Selection",
    "find_number_type",
    "parse_selection",
    "read_level",
    "read_numbers",
    "read_text",
]

MAX_ELEMENTS: Final = 1 << 20
"""The maximum number of elements of a response with numbers."""

MAX_CELLS: Final = 1 << 16
"""The maximum number of elements of a response with text."""

Selection: TypeAlias = "tuple[int | range, ...]"
Reduction: TypeAlias = Literal["stride", "mean", "bounds"]
Part: TypeAlias = Literal["abs", "real", "imag", "phase"]

_PARTS: Final[dict[str, Callable[[Any], Any]]] = {
    "abs": np.abs,
    "real": np.real,
    "imag": np.imag,
    "phase": np.angle,
}


def parse_selection(text: str, shape: Shape) -> Selection:
    """Return the index or the range of each axis.

    Parameters
    ----------
    text
        An index or ``start:stop:step`` per axis, joined by commas; ``""`` selects all elements.
    shape
        The shape of the array.

    Raises
    ------
    SelectionError
        If the text is malformed, or an index lies outside the array.

    Examples
    --------
    >>> parse_selection("3,:,0:9:4", (5, 6, 7))
    (3, range(0, 6), range(0, 7, 4))
    """
    words = text.split(",") if text else [":"] * len(shape)
    if len(words) != len(shape):
        message = f"selection {text!r} has {len(words)} axes, and the array has {len(shape)}"
        raise SelectionError(message)
    return tuple(_parse_axis(word, length) for word, length in zip(words, shape, strict=True))


def _parse_axis(word: str, length: int) -> int | range:
    try:
        numbers = [int(number) if number else None for number in word.split(":")]
    except ValueError as error:
        raise SelectionError(f"{word!r} is not an index or a range") from error
    if len(numbers) > 3 or any(number is not None and number < 0 for number in numbers):
        raise SelectionError(f"{word!r} is not an index ≥ 0 or a range start:stop:step")
    if len(numbers) == 1:
        index = numbers[0]
        if index is None or index >= length:
            message = f"index {word!r} is outside of an axis of length {length}"
            raise SelectionError(message, kind="out_of_bounds")
        return index
    if len(numbers) == 3 and numbers[2] == 0:
        raise SelectionError(f"the step of {word!r} is 0")
    start, stop, step = slice(*numbers).indices(length)
    return range(start, stop, min(step, max(length, 1)))  # a longer step selects the same element


def find_number_type(dtype: np.dtype[Any]) -> str | None:
    """Return the type of the numbers that `read_numbers` returns, or None for other elements.

    Examples
    --------
    >>> find_number_type(np.dtype(">i8")), find_number_type(np.dtype("U3"))
    ('<f8', None)
    """
    kind, size = dtype.kind, dtype.itemsize
    if kind == "b":
        return "|u1"
    if kind in "iu" and size <= 4:
        return f"{'|' if size == 1 else '<'}{kind}{size}"
    if kind in "iucmM":
        return "<f8"
    if kind == "f":
        return "<f4" if size <= 4 else "<f8"
    if kind == "V" and dtype.names is None and dtype.type.__module__ == "ml_dtypes":
        return "<f4"
    return None


def read_numbers(
    array: Array,
    selection: Selection,
    *,
    reduction: Reduction = "stride",
    part: Part = "abs",
    field: str | None = None,
) -> npt.NDArray[Any]:
    """Return selected elements as numbers for a browser.

    Parameters
    ----------
    array
        The array.
    selection
        A result of `parse_selection` for the shape of the array.
    reduction
        The value of an element of a range with a step n: every n-th element; the mean of n; or the
        minimum and the maximum of n, along a new last axis. NaN does not count.
    part
        The part of complex numbers.
    field
        A field of records.

    Returns
    -------
    ndarray
        C-contiguous and little-endian; axes with an index are dropped.

    Raises
    ------
    TooLargeError
        If the selection has more than `MAX_ELEMENTS` elements.
    UnsupportedError
        If the elements are not numbers.
    """
    dtype = array.dtype if field is None else _find_field(array, field)
    packing = find_packing(array)
    number_type = find_number_type(dtype) if packing is None else packing.number_type
    if number_type is None:
        raise UnsupportedError(f"elements of type {dtype} are not numbers; request them as text")
    _check_size(selection, MAX_ELEMENTS)

    def read(part_of_selection: Selection) -> npt.NDArray[Any]:
        values = _read(array, part_of_selection, field)
        return _to_numbers(values, number_type, part) if packing is None else packing.unpack(values)

    if reduction == "stride" or not any(isinstance(axis, range) for axis in selection):
        return np.ascontiguousarray(read(selection))
    values = reduce_blocks(read, selection, array.shape, reduction)
    return np.ascontiguousarray(values, "<f4" if reduction == "mean" else number_type)


def _find_field(array: Array, field: str) -> np.dtype[Any]:
    fields: Any = array.dtype.fields or {}
    if field not in fields:
        raise ArgumentError(f"the array has no field {field!r}; its fields are {list(fields)}")
    dtype: np.dtype[Any] = fields[field][0]
    return dtype


def _check_size(selection: Selection, limit: int) -> None:
    size = prod(len(axis) for axis in selection if isinstance(axis, range))
    if size > limit:
        raise TooLargeError(f"the selection has {size} elements; a request may have {limit}")


def _read(array: Array, selection: Selection, field: str | None) -> npt.NDArray[Any]:
    key = tuple(map(_to_key, selection))
    return np.asarray(array[key] if field is None else array[(field, *key)])


def _to_key(axis: int | range) -> int | slice:
    return axis if isinstance(axis, int) else slice(axis.start, axis.stop, axis.step)


def _to_numbers(values: npt.NDArray[Any], number_type: str, part: Part) -> npt.NDArray[Any]:
    kind = values.dtype.kind
    if kind == "c":
        values = _PARTS[part](values)
    elif kind in "mM":
        is_missing = np.isnat(values)
        values = np.where(is_missing, np.nan, values.astype("i8"))
    return values.astype(number_type)


def read_level(levels: Sequence[Array], selection: Selection, **settings: Any) -> npt.NDArray[Any]:
    """Return numbers of an image, from the coarsest level that has the requested resolution.

    Parameters
    ----------
    levels
        The arrays of the levels; the first one has the full resolution.
    selection
        A selection of the first level. An element of a coarser level stands for its block.
    **settings
        As for `read_numbers`.
    """
    full = levels[0]
    steps = [axis.step if isinstance(axis, range) else None for axis in selection]
    for level in reversed(levels[1:]):
        if level.ndim == full.ndim and _is_fine_enough(level.shape, full.shape, steps):
            return _read_scaled(level, selection, full.shape, **settings)
    return read_numbers(full, selection, **settings)


def _is_fine_enough(shape: Shape, full: Shape, steps: Sequence[int | None]) -> bool:
    """Return whether a level has an element for each step; odd lengths are rounded."""
    return all(
        step is None or 0 < length == total or (length + 1) * step >= total > length > 0
        for length, total, step in zip(shape, full, steps, strict=True)
    )


def _read_scaled(
    level: Array, selection: Selection, full: Shape, **settings: Any
) -> npt.NDArray[Any]:
    """Read the elements of a coarser level that hold the centres of the selected blocks."""
    axes = tuple(map(_scale_axis, selection, level.shape, full))
    ranges = tuple(map(_to_range, axes))
    if None not in ranges:
        return read_numbers(level, cast("Selection", ranges), **settings)
    # The lengths of the levels have no common ratio: read the range around all indices.
    around = tuple(axis if isinstance(axis, int) else _surrounding_range(axis) for axis in axes)
    values = read_numbers(level, around, **settings)
    positions = [axis - axis[0] for axis in axes if not isinstance(axis, int)]
    return np.ascontiguousarray(values[np.ix_(*positions)])


def _scale_axis(axis: int | range, length: int, total: int) -> int | npt.NDArray[np.int64]:
    if isinstance(axis, int):
        return min((2 * axis + 1) * length // (2 * total), length - 1)
    indices = np.arange(axis.start, axis.start + len(axis) * axis.step, axis.step, dtype="i8")
    scaled: npt.NDArray[np.int64] = (2 * indices + axis.step) * length // (2 * total)
    return np.minimum(scaled, length - 1)


def _to_range(axis: int | npt.NDArray[np.int64]) -> int | range | None:
    """Return indices as a range, or None if their distances differ."""
    if isinstance(axis, int):
        return axis
    if len(axis) < 2:
        return range(int(axis[0]), int(axis[0]) + 1) if len(axis) else range(0)
    step = int(axis[1] - axis[0])
    if step < 1 or (np.diff(axis) != step).any():
        return None
    return range(int(axis[0]), int(axis[-1]) + 1, step)


def _surrounding_range(axis: npt.NDArray[np.int64]) -> range:
    return range(int(axis[0]), int(axis[-1]) + 1)


def read_text(array: Array, selection: Selection) -> JSONObject:
    """Return selected elements as text.

    Parameters
    ----------
    array
        The array.
    selection
        A result of `parse_selection` for the shape of the array.

    Returns
    -------
    dict
        ``shape``; ``columns``, the names of the fields of records, or None; and ``cells``, the
        text of all elements in C order: one list per column.

    Raises
    ------
    TooLargeError
        If the selection has more than `MAX_CELLS` elements.
    """
    _check_size(selection, MAX_CELLS)
    values = _read(array, selection, None)
    shape = [len(axis) for axis in selection if isinstance(axis, range)]
    flat = _flatten(values, prod(shape))
    names = values.dtype.names
    columns = [flat] if names is None else [flat[name] for name in names]
    return {
        "shape": shape,
        "columns": None if names is None else list(names),
        "cells": [format_elements(column) for column in columns],
    }


def _flatten(values: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    """Return the elements as one axis; an element may be an object that NumPy would unpack."""
    if values.dtype.hasobject and values.ndim == 0:
        flat = np.empty(count, values.dtype)
        flat[0] = values[()]
        return flat
    return values.reshape(count)
