"""Conversion of a user's values to an array of the data type that a write needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.errors import ArgumentError, TooLargeError
from tessarr.indexing import has_dtype, to_objects
from tessarr.tensorstore.schema.data_type import elements

if TYPE_CHECKING:
    import numpy.typing as npt

    from tessarr.tensorstore.schema.data_type import dtype as DataType  # noqa: N812

__all__ = ["as_array", "convert_source"]

_MAX_DEPTH: Final = 32


def convert_source(source: Any, data_type: DataType, rank: int) -> npt.NDArray[Any]:
    """Return values of the data type; converted values have at most `rank` axes.

    Values with a data type are cast only if NumPy calls the cast safe. NumPy converts scalars and
    lists.

    Raises
    ------
    ArgumentError
        If the values have more axes or do not fit the data type; `TooLargeError` if a value is
        too large.
    TypeError
        If NumPy does not cast the array's type safely, or an element is not text or bytes.
    """
    target = data_type.dtype
    if target.kind == "O":
        return _object_array(source, data_type, rank)
    if type(source) is np.ndarray and source.dtype == target:
        return source
    if has_dtype(source):
        values: npt.NDArray[Any] = np.asarray(source)
        if rank:  # without dimensions, the cast error has precedence
            _check_rank(values, rank)
        if values.dtype != target:
            values = values.astype(target, casting="safe")
    else:
        values = as_array(source, target)
    return values


def _object_array(source: Any, data_type: DataType, rank: int) -> npt.NDArray[Any]:
    array = np.asarray(source) if has_dtype(source) else source  # also masked arrays
    if data_type.name == "json":
        values = to_objects(array, rank)
        # Without dimensions, an array is one element: nested lists of JSON.
        return values if rank or not values.ndim else to_objects(values.tolist(), rank)
    # Lists nest as deep as the rank; without dimensions, all their levels count.
    values = to_objects(array, rank or _MAX_DEPTH).astype("O", copy=False)
    _check_rank(values, rank)
    # None would be stored as an empty element, and memory would keep subclasses.
    if set(map(type, values.flat)) <= {data_type.type}:
        return values
    return elements(values, data_type)


def _check_rank(values: npt.NDArray[Any], rank: int) -> None:
    if values.ndim > rank:
        raise ArgumentError(
            f"values of shape {values.shape} for {rank} dimensions", kind="shape_mismatch"
        )


def as_array(source: Any, data_type: np.dtype[Any] | None) -> npt.NDArray[Any]:
    """Return the value as a NumPy array; None leaves the data type to NumPy.

    Raises
    ------
    ArgumentError
        If the value does not fit the data type.
    """
    try:
        return np.asarray(source, dtype=data_type)
    except (ValueError, OverflowError) as error:
        error_class = TooLargeError if isinstance(error, OverflowError) else ArgumentError
        message = f"cannot convert the value to {'an array' if data_type is None else data_type}"
        raise error_class(f"{message}: {error}", kind="cannot_cast") from error
