"""Selections from keys of NumPy indexing, `oindex`, `vindex` and `blocks`.

Theory
------
Index arrays are either *joint* (NumPy's rule, and `vindex`) or *outer* (`oindex`). NumPy
broadcasts joint arrays to one shape. The dimensions of this shape replace the index arrays if
these are adjacent (integers count as index arrays here); otherwise they come first.

Joint arrays that vary along different dimensions of the broadcast shape, such as those of
``np.ix_``, are equivalent to outer arrays, and an array of one element is equivalent to an integer.
The functions detect both cases, because the engine reads an outer selection of ``m + n`` indices
much faster than ``m × n`` points.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tessarr.errors import SelectionError
from tessarr.indexing.key_terms import Array, AxislessTerm, Integer, Mask, Slice, Term, read_terms
from tessarr.indexing.selection import (
    AxisSelection,
    Selection,
    as_range,
    index_list,
    range_of_slice,
    wrap_integer,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from tessarr.format.chunk_grid import Cuts

__all__ = [
    "select",
    "select_basic",
    "select_blocks",
    "select_mask",
    "select_outer",
    "select_points",
]

Shape: TypeAlias = tuple[int, ...]


def select(key: object, shape: Shape) -> Selection:
    """Normalise a key by NumPy's own rules.

    Parameters
    ----------
    key : object
        An integer, a slice with any step, ``...``, None, a mask, an integer array or list, or a
        tuple of these.
    shape : tuple of int
        The shape of the array.

    Returns
    -------
    Selection
        `Selection.shape` is the shape of NumPy's result.

    Raises
    ------
    SelectionError
        If NumPy raises IndexError, and for ragged lists. Kinds ``out_of_bounds``,
        ``too_many_indices``, ``invalid_selection``.
    ArgumentError
        For a slice with step 0 (NumPy raises ValueError).

    Examples
    --------
    >>> select(([4, 1], slice(None), [0, 2]), (10, 6, 5)).shape
    (2, 6)
    >>> select(([5, 6, 7], slice(None, None, -2)), (10, 6)).axes
    ((5, 1, 3), (5, -2, 3))
    """
    return _select_plain(key, shape) or _combine(read_terms(key, shape), shape, joint_first=False)


def select_basic(key: object, shape: Shape) -> Selection:
    """Normalise a key of integers, slices, Ellipsis and None only.

    Parameters
    ----------
    key, shape
        As for `select`.

    Returns
    -------
    Selection
        All of its axes are ranges.

    Raises
    ------
    SelectionError
        As `select`, and if there is a mask or an index array.

    Examples
    --------
    >>> select_basic((3, ...), (10, 6)).shape
    (6,)
    """
    selection = _select_plain(key, shape)
    if selection is not None:
        return selection
    parts = read_terms(key, shape)
    if any(isinstance(term, (Array, Mask)) for term in parts):
        raise SelectionError("only integers, slices, ellipsis and None make a basic selection")
    return _combine(parts, shape, joint_first=False)


def select_points(key: object, shape: Shape) -> Selection:
    """Normalise a key of `vindex`, whose index arrays are joint.

    Parameters
    ----------
    key : object
        Integers and integer arrays, which are broadcast to one shape, or masks; also slices and
        None.
    shape : tuple of int
        The shape of the array.

    Returns
    -------
    Selection
        The dimensions of the index arrays come first, then those of the slices.

    Raises
    ------
    SelectionError
        As `select`.

    Examples
    --------
    >>> s = select_points(([0, 4, 4], [1, 2, 0]), (10, 6))
    >>> s.shape, s.out_axes
    ((3,), (0, 0))
    >>> select_points((slice(None), [0, 2], [1, 1]), (10, 6, 5)).shape
    (2, 10)
    """
    return _combine(read_terms(key, shape), shape, joint_first=True)


def select_mask(key: object, shape: Shape) -> Selection:
    """Normalise one mask of the array's own shape.

    Parameters
    ----------
    key : array_like of bool
        True for selected elements.
    shape : tuple of int
        The shape of the array.

    Returns
    -------
    Selection
        One-dimensional; the elements are in C order.

    Raises
    ------
    SelectionError
        If `key` is not boolean or has another shape.

    Examples
    --------
    >>> select_mask([[True, False], [True, True]], (2, 2)).shape
    (3,)
    """
    try:
        values = np.asarray(key)
    except ValueError as error:
        raise SelectionError(f"a mask has to be an array: {error}") from error
    if values.dtype.kind != "b" or values.shape != shape:
        raise SelectionError(
            f"a mask has to be boolean and of shape {shape}, "
            f"not {values.dtype} of shape {values.shape}"
        )
    return select_points(values, shape)


def select_outer(key: object, shape: Shape) -> Selection:
    """Normalise a key of `oindex`, which indexes each axis independently.

    Parameters
    ----------
    key : object
        For each axis an integer, a slice, a mask or an integer array; ``...`` and None as in
        NumPy. All dimensions of an index array replace its axis. One mask may cover several
        axes.
    shape : tuple of int
        The shape of the array.

    Returns
    -------
    Selection
        Its dimensions are in the order of the key.

    Raises
    ------
    SelectionError
        As `select`; also for masks without dimensions and for a second mask of several.

    Examples
    --------
    >>> select_outer(([0, 4], [1, 2, 5]), (10, 6)).shape
    (2, 3)
    """
    plan = _Plan(shape)
    integers_only = True
    joint_masks = 0
    for term in read_terms(key, shape):
        if isinstance(term, Array):
            indices = index_list(term.values, term.axis, shape[term.axis])
            plan.put(term.axis, plan.add(indices.size, term.values.shape), _to_range(indices))
        elif isinstance(term, Mask):
            joint_masks += term.values.ndim != 1
            if joint_masks > 1 or term.values.ndim == 0:
                raise SelectionError("an outer selection has masks of one axis, and one of several")
            if term.values.ndim == 1:
                indices = _freeze(term.values.nonzero()[0])
                plan.put(term.axis, plan.add(indices.size, (indices.size,)), _to_range(indices))
            else:
                count, axes = _select_true(term)
                buffer_axis = plan.add(count, (count,))
                for axis, chosen in axes.items():
                    plan.put(axis, buffer_axis, chosen)
        else:
            plan.add_term(term)
        integers_only = integers_only and isinstance(term, Integer)
    return plan.selection(scalar=integers_only)


def select_blocks(key: object, shape: Shape, cuts: Sequence[Cuts]) -> Selection:
    """Normalise a key of `blocks`, whose indices are chunk coordinates.

    Parameters
    ----------
    key : object
        Integers and slices of step 1, in chunks; ``...`` stands for all chunks. An integer
        takes the whole chunk and drops no axis.
    shape : tuple of int
        The shape of the array.
    cuts : sequence of Cuts
        The cuts of each axis into chunks.

    Returns
    -------
    Selection
        Ranges of step 1, clipped at the end of the array.

    Raises
    ------
    SelectionError
        Kinds ``out_of_bounds`` (in chunks), ``too_many_indices``, ``invalid_selection``.

    Examples
    --------
    >>> from tessarr.format.chunk_grid import RegularGrid
    >>> select_blocks((-1, slice(1, 3)), (10, 100), RegularGrid((4, 10)).cuts).axes
    ((8, 1, 2), (10, 1, 20))
    """
    grid = tuple(axis.count(size) for axis, size in zip(cuts, shape, strict=True))
    plan = _Plan(shape)
    for term in read_terms(key, grid):
        if term is AxislessTerm.ELLIPSIS:
            continue
        if isinstance(term, Integer):
            axis, (start, step, count) = term.axis, (term.index, 1, 1)
        elif isinstance(term, Slice):
            axis, (start, step, count) = term.axis, term.range
        else:
            raise SelectionError("a selection of blocks has integers, slices and ellipsis only")
        if step != 1:
            raise SelectionError(f"a slice of blocks has step 1, not {step}")
        first = cuts[axis].start(start)
        size = min(cuts[axis].start(start + count), shape[axis]) - first
        plan.put(axis, plan.add(size, (size,)), (first if size else 0, 1, size))
    return plan.selection(scalar=False)


class _Plan:
    """Collects the axes of the array and of the buffer into a `Selection`."""

    __slots__ = ("axes", "buffer_shape", "out_axes", "result_shape", "shape")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.axes: list[AxisSelection] = [(0, 1, 0)] * len(shape)
        self.out_axes: list[int | None] = [None] * len(shape)
        self.result_shape: list[int] = []
        self.buffer_shape: list[int] = []

    def add(self, size: int, result: Shape) -> int:
        """Append an axis to the buffer, and its dimensions to the result; return its number."""
        self.buffer_shape.append(size)
        self.result_shape += result
        return len(self.buffer_shape) - 1

    def put(self, axis: int, buffer_axis: int | None, selection: AxisSelection) -> None:
        """Assign a selection and an axis of the buffer to an axis of the array."""
        self.axes[axis] = selection
        self.out_axes[axis] = buffer_axis

    def add_term(self, term: Term) -> None:
        """Append a term that all kinds of indexing share."""
        if isinstance(term, Slice):
            size = term.range[2]
            self.put(term.axis, self.add(size, (size,)), term.range)
        elif isinstance(term, Integer):
            self.put(term.axis, None, (term.index, 1, 1))
        elif term is AxislessTerm.NEWAXIS:
            self.result_shape.append(1)

    def selection(self, *, scalar: bool) -> Selection:
        result = tuple(self.result_shape)
        buffer = tuple(self.buffer_shape)
        if 0 in result and set(self.out_axes) != set(range(len(buffer))):
            # A mask without dimensions makes the selection empty, without an axis of the array.
            rank = len(self.shape)
            empty = ((0, 1, 0),) * rank
            return Selection(empty, tuple(range(rank)), result, (0,) * max(rank, 1))
        return Selection(tuple(self.axes), tuple(self.out_axes), result, buffer, scalar)


_PLAIN_TYPES = frozenset((int, slice, type(None), EllipsisType))


def _select_plain(key: Any, shape: Shape) -> Selection | None:
    """Normalise a key of integers, slices, None and ``...`` in one pass; None for other keys."""
    items = key if isinstance(key, tuple) else (key,)
    ellipsis_axes = len(shape)
    ellipses = 0
    for item in items:
        if type(item) not in _PLAIN_TYPES:
            return None
        if item is Ellipsis:
            ellipses += 1
        elif item is not None:
            ellipsis_axes -= 1
    if ellipsis_axes < 0 or ellipses > 1:
        return None  # `read_terms` raises the error
    axes: list[AxisSelection] = []
    out_axes: list[int | None] = []
    result: list[int] = []
    buffer: list[int] = []
    complete: tuple[Any, ...] = items if ellipses else (*items, ...)
    for item in complete:
        axis = len(axes)
        if item is None:
            result.append(1)
        elif item is Ellipsis:
            for size in shape[axis : axis + ellipsis_axes]:
                axes.append((0, 1, size))
                out_axes.append(len(buffer))
                buffer.append(size)
                result.append(size)
        elif isinstance(item, slice):
            span = range_of_slice(item, shape[axis])
            axes.append(span)
            out_axes.append(len(buffer))
            buffer.append(span[2])
            result.append(span[2])
        else:
            axes.append((wrap_integer(item, axis, shape[axis]), 1, 1))
            out_axes.append(None)
    scalar = not result and not ellipses
    return Selection(tuple(axes), tuple(out_axes), tuple(result), tuple(buffer), scalar)


def _combine(parts: list[Term], shape: Shape, *, joint_first: bool) -> Selection:
    """Combine terms with joint index arrays to a selection."""
    plan = _Plan(shape)
    array_positions = [
        n for n, term in enumerate(parts) if isinstance(term, (Integer, Array, Mask))
    ]
    joint = _broadcast_arrays([parts[n] for n in array_positions], shape)
    neighbours = (
        bool(array_positions)
        and array_positions[-1] - array_positions[0] == len(array_positions) - 1
    )
    joint_position = (
        array_positions[0] if joint is not None and neighbours and not joint_first else -1
    )
    if joint is not None and joint_position < 0:
        joint.put(plan)
    for n, term in enumerate(parts):
        if joint is not None and n == joint_position:
            joint.put(plan)
        if not isinstance(term, (Array, Mask)):
            plan.add_term(term)
    return plan.selection(scalar=all(isinstance(term, Integer) for term in parts))


@dataclass(frozen=True, slots=True)
class _JointArrays:
    """Joint index arrays, and their axes in the buffer."""

    shape: Shape
    buffer_shape: Shape
    axes: dict[int, tuple[int | None, AxisSelection]]
    """For each axis of the array: its axis in the joint part of the buffer, and its selection."""

    def put(self, plan: _Plan) -> None:
        first = len(plan.buffer_shape)
        plan.buffer_shape += self.buffer_shape
        plan.result_shape += self.shape
        for axis, (buffer_axis, selection) in self.axes.items():
            plan.put(axis, None if buffer_axis is None else first + buffer_axis, selection)


def _broadcast_arrays(index_terms: list[Term], shape: Shape) -> _JointArrays | None:
    """Broadcast the index arrays of a key; None if there are none."""
    lists = [term for term in index_terms if not isinstance(term, Integer)]
    if len(lists) == 1 and isinstance(lists[0], Mask) and lists[0].values.ndim > 1:
        count, axes = _select_true(lists[0])
        return _JointArrays((count,), (count,), {axis: (0, axes[axis]) for axis in axes})
    arrays: dict[int, npt.NDArray[Any]] = {}
    shapes: list[Shape] = []
    for term in index_terms:
        if isinstance(term, Array):
            arrays[term.axis] = term.values
            shapes.append(term.values.shape)
        elif isinstance(term, Mask):
            indices = term.values.nonzero() if term.values.ndim else ()
            arrays |= dict(enumerate(indices, start=term.axis))
            shapes.append(indices[0].shape if indices else (int(term.values),))
    if not shapes:
        return None
    try:
        joint_shape = np.broadcast_shapes(*shapes)
    except ValueError as error:
        listed = " ".join(map(str, shapes))
        raise SelectionError(
            f"the index arrays cannot be broadcast together: shapes {listed}"
        ) from error
    count = prod(joint_shape)
    if count == 0:  # NumPy does not check the indices then
        none = _freeze(np.empty(0, np.int64))
        walk: AxisSelection = (none,) if len(arrays) > 1 else (0, 1, 0)
        return _JointArrays(joint_shape, (0,), dict.fromkeys(arrays, (0, walk)))
    constant: dict[int, tuple[int | None, AxisSelection]] = {}
    varying: dict[int, npt.NDArray[Any]] = {}
    for axis, values in arrays.items():
        if values.size == 1:
            constant[axis] = None, (wrap_integer(int(values.flat[0]), axis, shape[axis]), 1, 1)
        else:
            varying[axis] = values
    independent = _find_independent_axes(varying, len(joint_shape))
    if independent is not None:
        lists_by_axis = {axis: index_list(varying[axis], axis, shape[axis]) for axis in independent}
        walks = {axis: (n, _to_range(lists_by_axis[axis])) for n, axis in enumerate(independent)}
        sizes = tuple(indices.size for indices in lists_by_axis.values())
        return _JointArrays(joint_shape, sizes, constant | walks)
    tied = {
        axis: (
            0,
            (
                _freeze(
                    np.broadcast_to(_check_indices(values, axis, shape), joint_shape).reshape(-1)
                ),
            ),
        )
        for axis, values in varying.items()
    }
    return _JointArrays(joint_shape, (count,), constant | tied)


def _select_true(term: Mask) -> tuple[int, dict[int, AxisSelection]]:
    """Return the number of true elements of a mask, and its selection for each of its axes."""
    mask = np.array(term.values, order="C", copy=True)
    mask.flags.writeable = False
    axes: dict[int, AxisSelection] = {term.axis + n: (mask, n) for n in range(mask.ndim)}
    return int(np.count_nonzero(mask)), axes


def _find_independent_axes(arrays: dict[int, npt.NDArray[Any]], rank: int) -> list[int] | None:
    """Return the axes ordered by the dimensions along which they vary, or None if two share one."""
    owners: list[int] = []
    for dimension in range(-rank, 0):
        varying = [
            axis for axis, a in arrays.items() if a.ndim >= -dimension and a.shape[dimension] != 1
        ]
        if len(varying) > 1:
            return None
        if varying and varying != owners[-1:]:
            owners += varying
    # A duplicate is an array that varies along dimensions on both sides of another array's.
    return owners if len(set(owners)) == len(owners) else None


def _check_indices(values: npt.NDArray[Any], axis: int, shape: Shape) -> npt.NDArray[np.int64]:
    return index_list(values, axis, shape[axis]).reshape(values.shape)


def _freeze(indices: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return a read-only int64 list of new indices within bounds."""
    frozen = np.ascontiguousarray(indices, dtype=np.int64)
    frozen.flags.writeable = False
    return frozen


def _to_range(indices: npt.NDArray[np.int64]) -> AxisSelection:
    span = as_range(indices)
    return indices if span is None else span
