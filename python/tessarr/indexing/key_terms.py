"""Terms of a key of indexing: the items of the key, each with its axes.

`read_terms` implements the part that all kinds of indexing share: the distinction between integers,
masks and index arrays by NumPy's rules, the position of the Ellipsis, and the number of axes.
`tessarr.indexing.normalize` combines the index arrays (by NumPy's rules, outer, pointwise).
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from enum import Enum
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tessarr.errors import SelectionError
from tessarr.indexing.selection import Range, range_of_slice, wrap_integer

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Array", "AxislessTerm", "Integer", "Mask", "Slice", "Term", "read_terms"]


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice that is clipped to its axis."""

    axis: int
    range: Range


@dataclass(frozen=True, slots=True)
class Integer:
    """A checked integer that is not negative."""

    axis: int
    index: int


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """An unchecked array of integers with one or more dimensions."""

    axis: int
    values: npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """A mask whose dimensions cover consecutive axes from `axis`; its shape fits these axes."""

    axis: int
    values: npt.NDArray[np.bool_]


class AxislessTerm(Enum):
    """Terms without an axis."""

    NEWAXIS = "newaxis"
    ELLIPSIS = "ellipsis"
    """The position of the Ellipsis, which separates index arrays even if it covers no axis."""


Term: TypeAlias = Slice | Integer | Array | Mask | AxislessTerm
Item: TypeAlias = "slice | EllipsisType | int | npt.NDArray[Any] | None"

_ALLOWED = (
    "integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or boolean arrays"
)


def read_terms(key: object, shape: tuple[int, ...]) -> list[Term]:
    """Split a key into terms that cover every axis once, in order.

    Parameters
    ----------
    key : object
        The key of indexing.
    shape : tuple of int
        The shape of the array.

    Returns
    -------
    list of Term
        Axes that the key does not mention come as full slices.

    Raises
    ------
    SelectionError
        Kinds ``invalid_selection``, ``out_of_bounds``, ``too_many_indices``.

    Examples
    --------
    >>> read_terms((..., 1), (4, 5))
    [Slice(axis=0, range=(0, 1, 4)), <AxislessTerm.ELLIPSIS: 'ellipsis'>, Integer(axis=1, index=1)]
    """
    items = [_read_item(item) for item in (key if isinstance(key, tuple) else (key,))]
    taken = sum(_count_axes(item) for item in items)
    ellipsis_axes = len(shape) - taken
    if ellipsis_axes < 0:
        raise SelectionError(
            f"too many indices: the array has {len(shape)} dimensions, but {taken} were indexed",
            kind="too_many_indices",
        )
    if sum(item is Ellipsis for item in items) > 1:
        raise SelectionError("an index can only have a single ellipsis ('...')")
    result: list[Term] = []
    axis = 0
    for item in items:
        if item is Ellipsis:
            result += _full_slices(axis, axis + ellipsis_axes, shape)
            result.append(AxislessTerm.ELLIPSIS)
            axis += ellipsis_axes
        else:
            result.append(_read_term(item, axis, shape))
            axis += _count_axes(item)
    return result + _full_slices(axis, len(shape), shape)


def _full_slices(start: int, stop: int, shape: tuple[int, ...]) -> list[Term]:
    return [Slice(axis, (0, 1, shape[axis])) for axis in range(start, stop)]


def _count_axes(item: Item) -> int:
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if isinstance(item, np.ndarray) and item.dtype.kind == "b" else 1


def _read_term(item: Item, axis: int, shape: tuple[int, ...]) -> Term:
    if item is None:
        return AxislessTerm.NEWAXIS
    if isinstance(item, slice):
        return Slice(axis, range_of_slice(item, shape[axis]))
    if isinstance(item, int):
        return Integer(axis, wrap_integer(item, axis, shape[axis]))
    assert isinstance(item, np.ndarray)
    if item.dtype.kind != "b":
        return Array(axis, item)
    covered = shape[axis : axis + item.ndim]
    if item.shape != covered:
        wrong = next(d for d, (a, b) in enumerate(zip(item.shape, covered, strict=True)) if a != b)
        raise SelectionError(
            f"the mask of shape {item.shape} does not fit axes {axis} to {axis + item.ndim - 1}: "
            f"axis {axis + wrong} has size {covered[wrong]}, the mask {item.shape[wrong]}"
        )
    return Mask(axis, item)


def _read_item(item: Any) -> Item:
    """Convert an item of a key to an integer, a mask or an index array by NumPy's rules."""
    kind = type(item)
    if kind is int or kind is slice or item is None or item is Ellipsis:
        return item  # type: ignore[no-any-return]
    if isinstance(item, np.ndarray):
        array: npt.NDArray[Any] = np.asarray(item)
    elif isinstance(item, (bool, np.bool_)):
        return np.asarray(item)
    else:
        try:
            return operator.index(item)
        except TypeError:
            array = _to_array(item)
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind not in "iu":
        raise SelectionError(f"only {_ALLOWED} are indices, not {_describe(item)}")
    return array if array.ndim else int(array)


def _to_array(item: Any) -> npt.NDArray[Any]:
    try:
        array: npt.NDArray[Any] = np.asarray(item)
    except ValueError as error:  # a ragged list
        raise SelectionError(f"only {_ALLOWED} are indices: {error}") from error
    # NumPy would convert an empty list to float64.
    return array.astype(np.int64) if array.size == 0 and array.ndim else array


def _describe(item: Any) -> str:
    if isinstance(item, np.ndarray):
        return f"an array of {item.dtype}"
    text = repr(item)
    return text if len(text) <= 60 else f"a {type(item).__name__}"
