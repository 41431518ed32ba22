"""Fits to a selection the value that is stored there, or the array that it is read to."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr._engine import empty
from tessarr.errors import ArgumentError, TessarrWarning
from tessarr.indexing.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from tessarr.types import Shape

__all__ = ["broadcast_value", "empty", "has_dtype", "objects", "read_target", "writable"]

_PLAIN: Final = frozenset({bool, int, float, complex, str, bytes, list, tuple})
_LISTS: Final = (list, tuple, range)
_NESTED: Final = (*_LISTS, np.ndarray)
_INTERFACES: Final = ("__array__", "__array_interface__", "__array_struct__")


def broadcast_value(value: object, selection: Selection, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Convert and broadcast a value as the assignment ``a[key] = value`` of NumPy does.

    Parameters
    ----------
    value : array_like
        Anything that NumPy makes an array of.
    selection : Selection
        What is assigned to.
    dtype : numpy.dtype
        The data type of the array.

    Returns
    -------
    numpy.ndarray
        Of `dtype` and `Selection.buffer_shape`; not to be written to. It is a view of `value`
        where the type is the same, and strides of broadcast axes are 0. It is copied only if an
        index array of several dimensions meets a value that is not contiguous.

    Raises
    ------
    ArgumentError
        Kind ``shape_mismatch``, with both shapes, if the value does not broadcast to
        `Selection.shape` (leading axes of length 1 are dropped from it, as NumPy does). Kind
        ``cannot_cast`` for values that have no meaning in `dtype`, such as a word as an integer.
    OverflowError
        If a Python integer does not fit `dtype` (NumPy 2).
    TypeError
        If an element cannot be converted, such as a complex number to float.

    Warns
    -----
    TessarrWarning
        If numbers are outside the range of an integer type, or text is longer than `dtype` allows.

    Notes
    -----
    The policy for types is NumPy's for assignments, so that a script does not change its meaning
    when an ``ndarray`` becomes a stored array: an array is cast whatever its type (``unsafe``:
    fractions are cut off, integers wrap around; NumPy warns of lost imaginary parts), while
    Python's own numbers are checked one by one. What NumPy loses without a word is warned of here,
    because what is stored may be all that is left; that takes the least and the largest value,
    and only where types differ so.

    Examples
    --------
    >>> from tessarr.indexing import default
    >>> v = broadcast_value([1.5, 2], default((slice(2), None), (4, 2)), np.dtype("i4"))
    >>> v.tolist(), v.strides
    ([[1, 2], [1, 2]], (0, 4))
    """
    if isinstance(value, np.ndarray) and value.dtype == dtype:
        array: npt.NDArray[Any] = np.asarray(value)
    elif dtype.kind in "OT":
        array = _single(value) if selection.scalar else objects(value, len(selection.shape))
    else:
        array = _converted(value, dtype)
    while array.ndim > len(selection.shape) and array.shape[0] == 1:
        array = array[0, ...]  # without the ellipsis the last one would become a scalar
    if array.shape == selection.shape:
        return selection.buffer(array)
    try:
        wide = np.broadcast_to(array, selection.shape)
    except ValueError:
        raise ArgumentError(
            f"cannot assign a value of shape {np.shape(array)} to a selection of shape "
            f"{selection.shape}",
            kind="shape_mismatch",
        ) from None
    return selection.buffer(wide)


def _converted(value: object, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if isinstance(value, np.generic) or has_dtype(value) or dtype.kind in "SU":
        value = value if isinstance(value, np.generic) else np.asarray(value)
        _warn_of_loss(np.asarray(value), dtype)
    try:
        if isinstance(value, np.generic):
            # NumPy refuses some scalars in an assignment that `asarray` would wrap around.
            single = np.empty((), dtype)
            single[()] = value
            return single
        return np.asarray(value, dtype=dtype)
    except ValueError as error:
        raise ArgumentError(
            f"cannot convert the value to {dtype}: {error}", kind="cannot_cast"
        ) from error


def has_dtype(value: object) -> bool:
    """Tell whether NumPy makes of a value an array whose type is the value's own.

    Arrays, buffers and what looks like an array have one; elements, and lists of them, have none.

    Examples
    --------
    >>> [has_dtype(value) for value in (np.ones(2), bytearray(2), [1.5, 2], np.int8(1), b"text")]
    [True, True, False, False, False]
    """
    if type(value) in _PLAIN or isinstance(value, np.generic):  # the first is quick
        return False
    if any(hasattr(value, name) for name in _INTERFACES):
        return True
    if isinstance(value, str | bytes):
        return False
    try:
        memoryview(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):
        return False
    return True


def _warn_of_loss(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> None:
    """Warn where numbers wrap around or text is cut off."""
    if not values.size or np.can_cast(values.dtype, dtype):
        return
    loss = None
    if dtype.kind in "iu" and values.dtype.kind in "iuf":
        loss = _beyond(values, np.iinfo(dtype))
    elif dtype.kind in "SU" and values.dtype.kind in "SU":
        length = int(np.char.str_len(values).max())
        if length > dtype.itemsize // np.dtype(f"{dtype.kind}1").itemsize:
            loss = f"text of length {length} does not fit {dtype}: it is cut off"
    if loss is not None:
        warnings.warn(f"{loss}, as NumPy does in an assignment", TessarrWarning, stacklevel=2)


def _beyond(values: npt.NDArray[Any], limits: np.iinfo[Any]) -> str | None:
    low, high = values.min().item(), values.max().item()
    # What follows the point is cut off before; NaN is in no range.
    if limits.min - 1 < low <= high < limits.max + 1:
        return None
    return f"numbers from {low} to {high} do not fit {limits.dtype}: they wrap around"


def objects(value: object, rank: int) -> npt.NDArray[Any]:
    """Return values as an array of objects of at most `rank` axes.

    Elements may be sequences themselves, so nested lists are not followed further down. What they
    have to be is checked by the engine, one by one.

    Examples
    --------
    >>> objects([[1, 2], [3]], 1), objects("text", 1)
    (array([list([1, 2]), list([3])], dtype=object), array('text', dtype=object))
    """
    if isinstance(value, np.ndarray):
        return value if value.dtype.kind in "OT" else value.astype(object)
    if not isinstance(value, _LISTS):
        # Text, and containers of their own that NumPy knows how to read.
        return objects(np.asarray(value), rank) if hasattr(value, "__array__") else _single(value)
    shape: list[int] = []
    items: list[Any] = [value]
    while len(shape) < rank and all(isinstance(item, _NESTED) for item in items):
        lengths = {len(item) for item in items}
        if len(lengths) != 1:
            break
        shape += lengths
        items = [element for item in items for element in item]
    return np.fromiter(items, object, len(items)).reshape(shape)


def _single(value: object) -> npt.NDArray[Any]:
    """Return one element, whatever it is, as an array of rank 0."""
    single = np.empty(1, object)
    single[0] = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    return single.reshape(())


def read_target(
    selection: Selection, dtype: np.dtype[Any], out: Any
) -> tuple[npt.NDArray[Any], Callable[[npt.NDArray[Any]], Any]]:
    """Return the buffer that the engine is to fill, and what makes the result of it.

    Parameters
    ----------
    selection
        What is read.
    dtype
        The data type of the array.
    out
        Where the user wants it: see `writable`. It has the selection's shape, any strides, and
        a type that NumPy casts `dtype` to (``same_kind``). None for a new array.

    Raises
    ------
    ArgumentError
        If `out` does not fit.

    Notes
    -----
    What the engine cannot fill itself is read to a buffer first: `out` of another type, of
    joint axes that the user has apart, of axes that repeat, and stored arrays.

    Examples
    --------
    >>> from tessarr.indexing import default
    >>> buffer, finish = read_target(default((1, None), (2, 3)), np.dtype("u1"), None)
    >>> buffer.shape, finish(buffer).shape
    ((3,), (1, 3))
    """
    if out is None:
        return empty(selection.buffer_shape, dtype), selection.result
    place = writable(out)
    _check(place, selection.shape, dtype)
    if isinstance(place, np.ndarray) and place.dtype == dtype:
        buffer = selection.buffer(place)
        if buffer.size == place.size and (not place.size or np.may_share_memory(buffer, place)):
            return buffer, lambda _: out

    def copy(filled: npt.NDArray[Any]) -> Any:
        values = filled.reshape(selection.shape) if selection.scalar else selection.result(filled)
        if isinstance(place, np.ndarray):
            np.copyto(place, values, casting="same_kind")
        else:
            place[...] = values
        return out

    return empty(selection.buffer_shape, dtype), copy


def writable(out: Any) -> Any:
    """Return what to fill in order to fill what a user gives as `out`.

    Parameters
    ----------
    out
        A NumPy array; an object with such memory as NumPy can use (a buffer, an array of
        another library on the processor); or an array that is stored, with a shape, a data
        type and assignment.

    Returns
    -------
    numpy.ndarray or object
        An array of the same memory, or `out`.

    Raises
    ------
    ArgumentError
        If it is nothing of this.

    Examples
    --------
    >>> memory = bytearray(2)
    >>> writable(memory)[:] = 65
    >>> memory
    bytearray(b'AA')
    """
    if isinstance(out, np.ndarray):
        return out
    try:
        return np.asarray(memoryview(out))
    except (TypeError, ValueError, BufferError):
        pass
    if hasattr(out, "__array_interface__"):
        return np.asarray(out)
    if all(hasattr(out, name) for name in ("shape", "dtype", "__setitem__")):
        if hasattr(out, "__dlpack__") and not hasattr(out, "store"):
            return np.from_dlpack(out)
        return out
    raise ArgumentError(f"out is no array that can be written to, but {type(out).__name__}")


def _check(place: Any, shape: Shape, dtype: np.dtype[Any]) -> None:
    of_numpy = isinstance(place, np.ndarray)
    castable = not of_numpy or np.can_cast(dtype, place.dtype, "same_kind")
    if tuple(place.shape) != shape or not castable:
        raise ArgumentError(
            f"out has shape {place.shape} and data type {place.dtype}, "
            f"but the selection has shape {shape} and data type {dtype}",
            kind="shape_mismatch" if castable else "cannot_cast",
        )
    if of_numpy and not place.flags.writeable:
        raise ArgumentError("out is not writable")
