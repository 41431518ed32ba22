"""Lazy arrays: views that read and write only when `read` or `write` is called."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Protocol, SupportsIndex

import numpy as np

from tessarr.array.properties import ScalarConversion
from tessarr.errors import ArgumentError, SelectionError
from tessarr.format.registry import set_public_module
from tessarr.index_space import Assignable, Dim, IndexDomain, IndexTransform, lower
from tessarr.index_space.indexing_terms import Mode
from tessarr.indexing import axis_number
from tessarr.indexing.key_terms import Array as Indices
from tessarr.indexing.key_terms import AxislessTerm, Integer, Mask, Slice, Term, read_terms

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from tessarr.flow.future import Future
    from tessarr.types import ArrayLike, SelectionLike, Shape

__all__ = ["LazyArray"]


class _IndexableArray(Protocol):
    """The methods of an array that a view uses."""

    @property
    def shape(self) -> Shape: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def start_read(self, normalize: Any, key: Any, out: Any) -> Future[Any]: ...

    def start_write(self, normalize: Any, key: Any, value: Any) -> Future[None]: ...


class LazyArray(ScalarConversion):
    """A lazy view of an array: a selection that reads elements only on request.

    ``array.lazy`` returns a view, and so does indexing a view: by integers, slices of any step,
    index arrays, masks, ``newaxis`` and ``...`` with NumPy's meaning, `oindex` and `vindex`. A view
    of a view costs as much as one view, and one call of the engine reads or writes it. Assigning to
    an indexed view writes to the array.

    Notes
    -----
    A view does not follow resizes of the array; reading elements that a resize has removed raises
    an error. Views are thread-safe. ``bool``, ``int``, ``float``, ``complex`` and
    ``operator.index`` read the element of a view with one element; for other views they raise an
    error, as in NumPy.

    Examples
    --------
    >>> import numpy as np, tessarr
    >>> a = tessarr.array(np.arange(60).reshape(6, 10), chunks=(3, 5))
    >>> view = a.lazy[::2].T[3:7]
    >>> view
    LazyArray((4, 3), int64)
    >>> view[-1].read().result()
    array([ 6, 26, 46])
    >>> view[0] = -1
    >>> a[:, 3]
    array([-1, 13, -1, 33, -1, 53])
    """

    __slots__ = ("_array", "_transform")

    def __init__(self, array: _IndexableArray, view: IndexTransform | None = None) -> None:
        self._array = array
        whole = tuple(Dim._of(0, size) for size in array.shape)
        self._transform = IndexTransform(IndexDomain._of(whole)) if view is None else view

    @property
    def shape(self) -> Shape:
        """The length of each axis."""
        return self._transform.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The data type of the elements."""
        return self._array.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._transform.input_rank

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._transform.size

    @property
    def nbytes(self) -> int:
        """The number of bytes of the elements in memory."""
        return self.size * self.dtype.itemsize

    @property
    def transform(self) -> IndexTransform:
        """The map from the view's indices to the array's indices."""
        return self._transform

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        from dask.base import normalize_token

        return "tessarr.lazy", normalize_token(self._array), normalize_token(self._transform)

    def __getitem__(self, key: SelectionLike) -> LazyArray:
        return self._apply_operation("default", key)

    def __setitem__(self, key: SelectionLike, value: ArrayLike) -> None:
        self[key].write(value).result()

    @property
    def oindex(self) -> Assignable[LazyArray]:
        """Outer indexing: each index array applies to its own axis."""
        return Assignable(self, "oindex")

    @property
    def vindex(self) -> Assignable[LazyArray]:
        """Indexing by points: index arrays are broadcast together, and their axes come first."""
        return Assignable(self, "vindex")

    def _apply_operation(self, mode: Mode, key: Any) -> LazyArray:
        terms_ = read_terms(key, self.shape)
        if mode == "default" and _is_separated(terms_):
            mode = "vindex"
        items = tuple(_to_index_space(terms_, self.shape))
        return LazyArray(self._array, self._transform._indexed(items, mode).translate_to[0])

    def transpose(self, *axes: SupportsIndex | Iterable[SupportsIndex] | None) -> LazyArray:
        """Return the view with its axes in another order, by default reversed.

        Parameters
        ----------
        *axes
            The axis numbers as arguments or as one sequence; negative numbers count from the last
            axis.

        Raises
        ------
        AxisError
            If an axis number is out of range.
        ArgumentError
            If the numbers do not contain every axis exactly once.
        TypeError
            If an axis number is not an integer.
        """
        arguments = _axes_argument(axes)
        if arguments is None:
            return self.T
        named = [operator.index(axis) for axis in arguments]
        if len(named) != self.ndim:
            raise ArgumentError(f"axes {named} are not as many as those of the view: {self.ndim}")
        order = [axis_number(axis, self.ndim) for axis in named]
        if len(set(order)) != self.ndim:
            raise ArgumentError(f"axes {named} name one axis twice")
        return LazyArray(self._array, self._transform.transpose(order))

    @property
    def T(self) -> LazyArray:  # noqa: N802 (as NumPy calls it)
        """The view with its axes in reverse order."""
        return LazyArray(self._array, self._transform.T)

    def read(self, out: npt.NDArray[Any] | None = None) -> Future[Any]:
        """Start to read the elements; wait with ``.result()`` or ``await``.

        Parameters
        ----------
        out
            The destination: a writable array of `shape` and `dtype`.

        Returns
        -------
        Future
            A future of a new array, or of `out`; of a NumPy scalar if the view has no axes.

        Raises
        ------
        SelectionError
            Immediately, if a resize has removed some of the elements.
        ArgumentError
            Immediately, if `out` does not fit.
        """
        return self._array.start_read(lower, self._transform, out)

    def write(self, value: ArrayLike) -> Future[None]:
        """Start to write the elements; wait with ``.result()`` or ``await``.

        Parameters
        ----------
        value
            The values, which are broadcast to `shape`. Do not change them until the future is done.
            If the view contains an element several times, the last value is written.

        Raises
        ------
        SelectionError, ArgumentError, ReadOnlyError
            Immediately, and before any change of the store.
        """
        return self._array.start_write(lower, self._transform, value)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("the elements are read: they cannot be had without a copy")
        return np.asarray(self.read().result(), dtype=dtype)

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len() of a view without axes")
        return self.shape[0]

    def _read_first(self) -> Any:
        return self[(0,) * self.ndim].read().result()

    def __repr__(self) -> str:
        return f"LazyArray({self.shape}, {self.dtype})"

    def _repr_html_(self) -> str:
        from tessarr.node.html import render_lazy_array

        return render_lazy_array(self, self._array)


def _axes_argument(axes: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the axes from separate arguments or one sequence; None without arguments."""
    if len(axes) != 1:
        return axes or None
    if axes[0] is None:
        return None
    try:
        return tuple(axes[0])
    except TypeError:
        return axes  # a single axis number


def _has_index_arrays(terms_: list[Term]) -> bool:
    """Return whether a key has index arrays; integers are then broadcast with these."""
    return any(isinstance(term, (Indices, Mask)) for term in terms_)


def _is_separated(terms_: list[Term]) -> bool:
    """Return whether other terms separate index arrays, whose axes then come first as in NumPy."""
    positions = [i for i, term in enumerate(terms_) if isinstance(term, (Indices, Mask, Integer))]
    return _has_index_arrays(terms_) and positions[-1] - positions[0] + 1 != len(positions)


def _to_index_space(terms_: list[Term], shape: Shape) -> list[Any]:
    """Convert a NumPy key to a key of an index space whose dimensions start at 0.

    In an index space, negative integers do not count from the end.
    """
    joins_arrays = _has_index_arrays(terms_)
    items: list[Any] = []
    for term in terms_:
        if isinstance(term, Slice):
            items.append(_to_slice(term.range))
        elif isinstance(term, Integer):
            items.append(np.array(term.index) if joins_arrays else term.index)
        elif isinstance(term, Indices):
            items.append(_to_positions(term.values, term.axis, shape[term.axis]))
        elif isinstance(term, Mask):
            items += np.nonzero(term.values) if term.values.ndim else [term.values]
        elif term is AxislessTerm.NEWAXIS:
            items.append(None)
    return items


def _to_slice(bounds: tuple[int, int, int]) -> slice:
    start, step, count = bounds
    if not count:
        return slice(start, start)
    return slice(start, start + step * (count - 1) + (1 if step > 0 else -1), step)


def _to_positions(values: npt.NDArray[Any], axis: int, size: int) -> npt.NDArray[np.int64]:
    if values.size and not (-size <= values.min() and values.max() < size):
        wrong_index = values.min() if values.min() < -size else values.max()
        raise SelectionError(
            f"index {wrong_index} is out of bounds for axis {axis} with size {size}",
            kind="out_of_bounds",
        )
    positions = values.astype(np.int64)
    return np.where(positions < 0, positions + size, positions)


set_public_module("tessarr", LazyArray)
# `tessarr` imports the class lazily: this lets doctest find the examples.
__test__ = {"LazyArray": LazyArray}
