"""Conversion and broadcasting of assigned values, and targets of reads, for a selection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr._engine import empty
from tessarr.errors import ArgumentError, CastError, TessarrError, TooLargeError
from tessarr.indexing.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from tessarr.indexing.array_likes import Fill
    from tessarr.types import Shape

__all__ = [
    "broadcast_value",
    "convert_value",
    "empty",
    "has_dtype",
    "is_raised_by_value",
    "read_target",
    "replace_masked",
    "to_objects",
    "to_writable",
]

_PLAIN: Final = frozenset({bool, int, float, complex, str, bytes, list, tuple})
_SCALARS: Final = frozenset({bool, int, float, complex, str, bytes, type(None)})
_MAX_DEPTH: Final = 32
"""The maximum number of axes in the search for an element that cannot be converted."""

_LISTS: Final = (list, tuple, range)
_NESTED: Final = (*_LISTS, np.ndarray)
_INTERFACES: Final = ("__array__", "__array_interface__", "__array_struct__")


def _no_fill() -> None:
    """Return None: no fill value."""


def broadcast_value(
    value: object, selection: Selection, dtype: np.dtype[Any], fill: Fill = _no_fill
) -> npt.NDArray[Any]:
    """Convert and broadcast a value as the assignment ``a[key] = value`` of NumPy does.

    Parameters
    ----------
    value : array_like
        Any value that NumPy converts to an array.
    selection : Selection
        The target of the assignment.
    dtype : numpy.dtype
        The data type of the array.
    fill : callable
        Returns the fill value of the array, which replaces masked elements, or None.

    Returns
    -------
    numpy.ndarray
        An array of `dtype` and `Selection.buffer_shape`; do not write to it. It is a view of
        `value` if the types are equal; broadcast axes have a stride of 0. A copy is necessary
        only for an index array of several dimensions and a value that is not contiguous.

    Raises
    ------
    ArgumentError
        Kind ``shape_mismatch``, with both shapes, if the value does not broadcast to
        `Selection.shape` (leading axes of length 1 do not count, as in NumPy). Kind
        ``cannot_cast`` for values that `dtype` cannot represent, such as a word as an integer:
        a `TooLargeError` (OverflowError) if a Python number does not fit `dtype`, a `CastError`
        (TypeError) if an element cannot be converted, such as a complex number to float. The
        message has the element and its index.

    Warns
    -----
    TessarrWarning
        If numbers are outside the range of an integer type, text is longer than `dtype` allows,
        or a unit, a time zone or "not a time" cannot be stored.
    numpy.exceptions.ComplexWarning
        If imaginary parts are lost.

    Notes
    -----
    The casting rules are those of assignments in NumPy, so a script keeps its meaning when a stored
    array replaces an ``ndarray``. Arrays are cast with the rule ``unsafe``: fractions are cut off
    and integers wrap around. Python numbers are checked one by one. Unlike NumPy, this function
    warns about losses, because the stored values may be the only copy. The check computes the
    least and the largest value, and only if the types allow a loss.

    Examples
    --------
    >>> from tessarr.indexing import select
    >>> v = broadcast_value([1.5, 2], select((slice(2), None), (4, 2)), np.dtype("i4"))
    >>> v.tolist(), v.strides
    ([[1, 2], [1, 2]], (0, 4))
    """
    if type(value) is not np.ndarray and not (
        # The single element of a scalar selection may be an object of any class.
        selection.scalar and dtype.kind in "OT" and not _is_masked_scalar(value)
    ):
        value = replace_masked(value, dtype, fill)
    if isinstance(value, np.ndarray) and value.dtype == dtype:
        array: npt.NDArray[Any] = np.asarray(value)
    elif dtype.kind in "OT":
        array = _to_0d(value) if selection.scalar else to_objects(value, len(selection.shape))
    else:
        array = convert_value(value, dtype)
    while array.ndim > len(selection.shape) and array.shape[0] == 1:
        array = array[0, ...]  # without the ellipsis the result could be a scalar
    if array.shape == selection.shape:
        return selection.buffer(array)
    try:
        broadcast = np.broadcast_to(array, selection.shape)
    except ValueError:
        raise ArgumentError(
            f"cannot assign a value of shape {np.shape(array)} to a selection of shape "
            f"{selection.shape}",
            kind="shape_mismatch",
        ) from None
    return selection.buffer(broadcast)


def _is_masked_scalar(value: object) -> bool:
    return isinstance(value, np.ma.MaskedArray) and not value.ndim


def replace_masked(value: Any, dtype: np.dtype[Any], fill: Fill) -> Any:
    """Replace the masked elements of a value by the fill value, and strip its unit."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    from tessarr.indexing.array_likes import (
        check_elements,
        element_kinds,
        fill_masked,
        mask_lists,
        strip_units_and_zones,
        values_in_memory,
    )

    kinds = {kind}
    if kind is list or kind is tuple:
        kinds = element_kinds(value)
        value = mask_lists(value, kinds)
    if dtype.kind not in "OTV":
        check_elements(kinds, dtype)
    value = strip_units_and_zones(value, dtype)
    if hasattr(value, "__array__") and not isinstance(value, np.ndarray | np.generic):
        value = values_in_memory(value)
    if isinstance(value, np.ma.MaskedArray):
        convert = convert_value if dtype.kind not in "OT" else _as_objects
        return fill_masked(value, dtype, fill, convert)
    return value


def _as_objects(values: npt.NDArray[Any], _: np.dtype[Any]) -> npt.NDArray[Any]:
    return to_objects(values, values.ndim)


def convert_value(value: object, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Convert a value by NumPy's rules for assignments, and warn about losses.

    Raises
    ------
    ArgumentError
        Of kind ``cannot_cast``; it can be a `TooLargeError` or a `CastError`.
    """
    try:
        if isinstance(value, np.generic) or has_dtype(value) or dtype.kind in "SU":
            value = value if isinstance(value, np.generic) else np.asarray(value)
            value = _warn_of_loss(value, dtype)
        elif value is None and dtype.kind != "V":
            from tessarr.indexing.array_likes import check_elements

            check_elements({type(None)}, dtype)
        with np.errstate(invalid="ignore", over="call", call=_warn_of_overflow):
            if isinstance(value, np.generic):
                # Assignment rejects some scalars that `asarray` would wrap around.
                single = np.empty((), dtype)
                single[()] = value
                return single
            return np.asarray(value, dtype=dtype)
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        if isinstance(error, TessarrError) or is_raised_by_value(error):
            raise
        raise _conversion_error(value, dtype, error) from error


def _warn_of_overflow(*_: object) -> None:
    from tessarr.format.user_warnings import warn_user

    warn_user("numbers are stored as infinity: they do not fit the data type", RuntimeWarning)


def is_raised_by_value(error: BaseException) -> bool:
    """Tell whether a method of the value raised an error, rather than NumPy."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is not None


def _conversion_error(value: object, dtype: np.dtype[Any], error: Exception) -> ArgumentError:
    """Return the error for a value that cannot be converted, with the element and its index."""
    from tessarr._safe_repr import safe_repr

    error_type: type[ArgumentError] = ArgumentError
    reason = str(error)
    if isinstance(error, TypeError):
        error_type = CastError
    elif isinstance(error, OverflowError):
        error_type = TooLargeError
        if dtype.kind in "iu":
            limits = np.iinfo(dtype)
            reason = f"it is not from {limits.min} to {limits.max}"
    element, index = _find_unconvertible(value, dtype)
    position = f" at index {index}" if index else ""
    return error_type(
        f"cannot convert the value to {dtype}: {safe_repr(element)}{position}: {reason}",
        kind="cannot_cast",
    )


def _find_unconvertible(value: object, dtype: np.dtype[Any]) -> tuple[object, tuple[int, ...]]:
    """Return the first element that cannot be converted, and its index, or the whole value."""
    if isinstance(value, np.ndarray) or type(value) in _LISTS:
        for index, element in np.ndenumerate(to_objects(value, _MAX_DEPTH)):
            try:
                np.asarray(element, dtype=dtype)
            except (ValueError, TypeError, OverflowError, RuntimeError):
                return element, index
    return value, ()


def has_dtype(value: object) -> bool:
    """Tell whether a value has its own data type.

    Arrays, array-likes and buffers have a data type; elements, and lists of them, have none.

    Examples
    --------
    >>> [has_dtype(value) for value in (np.ones(2), bytearray(2), [1.5, 2], np.int8(1), b"text")]
    [True, True, False, False, False]
    """
    if type(value) in _PLAIN or isinstance(value, np.generic):  # the fast check first
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


def _warn_of_loss(value: Any, dtype: np.dtype[Any]) -> Any:
    """Warn if numbers wrap around, text is cut off, or a unit is lost.

    Return the value without lost imaginary parts.
    """
    values = np.asarray(value)
    if not values.size or np.can_cast(values.dtype, dtype):
        return value
    from tessarr.format.user_warnings import warn_user
    from tessarr.indexing.array_likes import check_elements

    kind, target_kind = values.dtype.kind, dtype.kind
    loss = None
    if kind == "O" and target_kind != "V":
        check_elements(set(map(type, values.flat)), dtype)
    elif kind == "c" and target_kind in "iuf":
        if np.imag(values).any():
            message = (
                f"the imaginary parts of complex numbers are not stored in an array of {dtype}"
            )
            warn_user(message, np.exceptions.ComplexWarning)
        return _warn_of_loss(np.real(value), dtype)
    elif kind in "mM" and target_kind in "biufc":
        loss = _describe_time_loss(values, dtype)
    elif kind in "iuf" and target_kind in "iu":
        loss = _describe_overflow(values, np.iinfo(dtype))
    elif kind in "SU" and target_kind in "SU":
        length = int(np.char.str_len(values).max())
        if length > dtype.itemsize // np.dtype(f"{target_kind}1").itemsize:
            loss = f"text of length {length} does not fit {dtype}: it is cut off"
    if loss is not None:
        warn_user(f"{loss}, as NumPy does in an assignment")
    return value


def _describe_time_loss(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> str:
    """Return the loss when numbers store times; NaT is an error, as it would become a number."""
    if np.isnat(values).any():
        raise CastError(
            f"cannot convert NaT to {dtype}: it would become a number; replace it first, or "
            "create the array with the data type of the times",
        )
    return f"{values.dtype} is stored as numbers of {dtype}, without its unit"


def _describe_overflow(values: npt.NDArray[Any], limits: np.iinfo[Any]) -> str | None:
    low, high = values.min().item(), values.max().item()
    # Fractions are cut off before the range check; NaN is in no range.
    if limits.min - 1 < low <= high < limits.max + 1:
        return None
    if low != low:  # noqa: PLR0124 (NaN is)
        return f"NaN is stored as a number of {limits.dtype} that depends on the processor"
    return f"numbers from {low} to {high} do not fit {limits.dtype}: they wrap around"


def to_objects(value: object, rank: int) -> npt.NDArray[Any]:
    """Convert values to an array of objects with at most `rank` axes.

    Elements may be sequences, so deeper lists stay elements. The engine checks the elements one
    by one.

    Examples
    --------
    >>> to_objects([[1, 2], [3]], 1), to_objects("text", 1)
    (array([list([1, 2]), list([3])], dtype=object), array('text', dtype=object))
    """
    if isinstance(value, np.ndarray):
        return value if value.dtype.kind in "OT" else value.astype(object)
    if not isinstance(value, _LISTS):
        # Text, and containers that NumPy converts.
        if hasattr(value, "__array__"):
            from tessarr.indexing.array_likes import values_in_memory

            return to_objects(values_in_memory(value), rank)
        return _to_0d(value)
    shape: list[int] = []
    items: list[Any] = [value]
    while len(shape) < rank and all(isinstance(item, _NESTED) for item in items):
        lengths = {len(item) for item in items}
        if len(lengths) != 1:
            break
        shape += lengths
        items = [element for item in items for element in item]
    return np.fromiter(items, object, len(items)).reshape(shape)


def _to_0d(value: object) -> npt.NDArray[Any]:
    """Return one element of any class as an array of rank 0."""
    single = np.empty(1, object)
    single[0] = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    return single.reshape(())


def read_target(
    selection: Selection, dtype: np.dtype[Any], out: Any
) -> tuple[npt.NDArray[Any], Callable[[npt.NDArray[Any]], Any]]:
    """Return the buffer that the engine fills, and a function that converts it to the result.

    Parameters
    ----------
    selection
        The selection to read.
    dtype
        The data type of the array.
    out
        The user's target: see `to_writable`. It has the selection's shape, any strides, and a
        type to which NumPy casts `dtype` (``same_kind``). None means a new array.

    Raises
    ------
    ArgumentError
        If `out` does not fit.

    Notes
    -----
    For targets that the engine cannot fill, the function returns a new buffer: targets of another
    type, with split joint axes or with repeated axes, and stored arrays.

    Examples
    --------
    >>> from tessarr.indexing import select
    >>> buffer, finish = read_target(select((1, None), (2, 3)), np.dtype("u1"), None)
    >>> buffer.shape, finish(buffer).shape
    ((3,), (1, 3))
    """
    if out is None:
        return empty(selection.buffer_shape, dtype), selection.result
    target = to_writable(out)
    _check_target(target, selection.shape, dtype)
    if isinstance(target, np.ndarray) and target.dtype == dtype:
        buffer = selection.buffer(target)
        if buffer.size == target.size and (not target.size or np.may_share_memory(buffer, target)):
            return buffer, lambda _: out

    def copy(filled: npt.NDArray[Any]) -> Any:
        values = filled.reshape(selection.shape) if selection.scalar else selection.result(filled)
        if isinstance(target, np.ndarray):
            np.copyto(target, values, casting="same_kind")
        else:
            target[...] = values
        return out

    return empty(selection.buffer_shape, dtype), copy


def to_writable(out: Any) -> Any:
    """Return an array that shares the memory of the user's `out`, or a stored array.

    Parameters
    ----------
    out
        A NumPy array; an object with memory that NumPy can use (a buffer, or an array of another
        library in main memory); or a stored array with a shape, a data type and assignment.

    Returns
    -------
    numpy.ndarray or object
        An array of the same memory, or `out`.

    Raises
    ------
    ArgumentError
        If `out` is another object.

    Examples
    --------
    >>> memory = bytearray(2)
    >>> to_writable(memory)[:] = 65
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


def _check_target(target: Any, shape: Shape, dtype: np.dtype[Any]) -> None:
    is_numpy = isinstance(target, np.ndarray)
    castable = not is_numpy or np.can_cast(dtype, target.dtype, "same_kind")
    if tuple(target.shape) != shape or not castable:
        raise ArgumentError(
            f"out has shape {target.shape} and data type {target.dtype}, "
            f"but the selection has shape {shape} and data type {dtype}",
            kind="shape_mismatch" if castable else "cannot_cast",
        )
    if is_numpy and not target.flags.writeable:
        raise ArgumentError("out is not writable")
