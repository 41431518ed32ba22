"""What a user gives as values, as an array of the data type of what is written."""

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
    """Return values that have the data type, and, where they are converted, at most `rank` axes.

    What has a data type of its own is cast only where NumPy calls that safe; single values and
    lists are taken as NumPy takes them.

    Raises
    ------
    ArgumentError
        If they have more axes, or are none of the data type: a `TooLargeError` if it is too small.
    TypeError
        If an array is of a type that NumPy does not cast safely, or an element is no text or bytes.
    """
    wanted = data_type.dtype
    if wanted.kind == "O":
        return _object_array(source, data_type, rank)
    if type(source) is np.ndarray and source.dtype == wanted:
        return source
    if has_dtype(source):
        values: npt.NDArray[Any] = np.asarray(source)
        if rank:  # where there are no dimensions, the cast is refused first
            _check_rank(values, rank)
        if values.dtype != wanted:
            values = values.astype(wanted, casting="safe")
    else:
        values = as_array(source, wanted)
    return values


def _object_array(source: Any, data_type: DataType, rank: int) -> npt.NDArray[Any]:
    given = np.asarray(source) if has_dtype(source) else source  # also what is masked
    if data_type.name == "json":
        values = to_objects(given, rank)
        # Where there are no dimensions, what has axes is one element: lists of JSON.
        return values if rank or not values.ndim else to_objects(values.tolist(), rank)
    # Lists are followed as deep as there are dimensions; where there are none, as deep as they go.
    values = to_objects(given, rank or _MAX_DEPTH).astype("O", copy=False)
    _check_rank(values, rank)
    # None would be stored as an empty element, and in memory what is derived would stay so.
    if set(map(type, values.flat)) <= {data_type.type}:
        return values
    return elements(values, data_type)


def _check_rank(values: npt.NDArray[Any], rank: int) -> None:
    if values.ndim > rank:
        raise ArgumentError(
            f"values of shape {values.shape} for {rank} dimensions", kind="shape_mismatch"
        )


def as_array(source: Any, wanted: np.dtype[Any] | None) -> npt.NDArray[Any]:
    """Return what NumPy makes of a value; None leaves the data type to it.

    Raises
    ------
    ArgumentError
        If it is none of the data type.
    """
    try:
        return np.asarray(source, dtype=wanted)
    except (ValueError, OverflowError) as error:
        made = TooLargeError if isinstance(error, OverflowError) else ArgumentError
        what = f"cannot convert the value to {'an array' if wanted is None else wanted}"
        raise made(f"{what}: {error}", kind="cannot_cast") from error
