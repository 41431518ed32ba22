"""Output index maps as JSON, and index arrays that fit the dimensions of a view."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.errors import ArgumentError
from tessarr.space.domain import INFINITE, MAX_RANK, Box
from tessarr.space.maps import WHOLE, OutputIndexMap, simplified

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["array_map", "map_from_json", "map_to_json"]


def map_from_json(value: Any, dims: Box, loc: str) -> OutputIndexMap:
    """Return the map that JSON states.

    Raises
    ------
    ArgumentError
        If it states none.
    """
    if not isinstance(value, dict):
        raise ArgumentError(f"{loc}: {value!r} is not an object")
    known = {"offset", "stride", "input_dimension", "index_array", "index_array_bounds"}
    if set(value) - known:
        raise ArgumentError(f"{loc}: unknown members {sorted(set(value) - known)}")
    offset = _number(value.get("offset", 0), f"{loc}.offset")
    stride = _number(value.get("stride", 1), f"{loc}.stride")
    if "input_dimension" in value and "index_array" in value:
        raise ArgumentError(f"{loc}: give input_dimension or index_array")
    if "input_dimension" in value:
        k = _number(value["input_dimension"], f"{loc}.input_dimension")
        if not 0 <= k < len(dims):
            raise ArgumentError(f"{loc}: input_dimension {k} is not below {len(dims)}")
        return (
            OutputIndexMap.along(k, offset, stride) if stride else OutputIndexMap.constant(offset)
        )
    if "index_array" not in value:
        if "stride" in value:
            raise ArgumentError(f"{loc}: stride without input_dimension or index_array")
        return OutputIndexMap.constant(offset)
    array = _json_array(value["index_array"], f"{loc}.index_array")
    within = WHOLE
    if "index_array_bounds" in value:
        within = _json_bounds(value["index_array_bounds"], f"{loc}.index_array_bounds")
    return array_map(array, dims, offset, stride, within)


def _number(value: Any, loc: str) -> int:
    """Return the integer that JSON states; 1.0 is one."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise ArgumentError(f"{loc}: {value!r} is not an integer of 64 bits")
    return value


def _json_array(value: Any, loc: str) -> npt.NDArray[np.int64]:
    flat: list[int] = []

    def shape_of(part: Any) -> tuple[int, ...]:
        if not isinstance(part, (list, tuple)):
            flat.append(_number(part, loc))
            return ()
        shapes = {shape_of(item) for item in part}
        if len(shapes) > 1:
            raise ArgumentError(f"{loc}: rows of different lengths")
        return len(part), *(shapes.pop() if shapes else ())

    try:
        shape = shape_of(value)
    except RecursionError:
        raise ArgumentError(f"{loc}: nested too deeply") from None
    if len(shape) > MAX_RANK:
        raise ArgumentError(f"{loc}: {len(shape)} dimensions")
    return np.array(flat, np.int64).reshape(shape)


def _json_bounds(value: Any, loc: str) -> tuple[int, int]:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise ArgumentError(f"{loc}: {value!r} is not a pair of indices")
    lower, upper = value
    lower = -INFINITE if lower == "-inf" else _number(lower, loc)
    upper = INFINITE + 1 if upper == "+inf" else _number(upper, loc) + 1
    if not (-INFINITE <= lower <= upper <= INFINITE + 1):
        raise ArgumentError(f"{loc}: [{lower}, {upper}) is not an interval of indices")
    return lower, upper


def array_map(
    array: npt.NDArray[np.int64],
    dims: Box,
    offset: int = 0,
    stride: int = 1,
    within: tuple[int, int] = WHOLE,
) -> OutputIndexMap:
    """Return the map of an index array, checked against the dimensions of the view.

    Raises
    ------
    ArgumentError
        If the array does not fit the dimensions.
    """
    if array.ndim != len(dims):
        raise ArgumentError(f"an index array of rank {array.ndim}, the view has {len(dims)}")
    for length, dim in zip(array.shape, dims, strict=True):
        if length not in {1, dim.size}:
            raise ArgumentError(f"an index array of shape {array.shape} does not fit {dim}")
    return simplified(OutputIndexMap.by_array(array, offset, stride, within), dims)


def map_to_json(one: OutputIndexMap) -> dict[str, Any]:
    """Return the JSON of a map, in order; what is as by default is left out."""
    result: dict[str, Any] = {}
    if one.index_array is not None:
        result["index_array"] = one.index_array.tolist()
        lower, upper = one.within
        array = one.index_array
        if array.size and (array.min() < lower or array.max() >= upper):
            result["index_array_bounds"] = [
                "-inf" if lower == -INFINITE else lower,
                "+inf" if upper > INFINITE else upper - 1,
            ]
    if one.input_dimension is not None:
        result["input_dimension"] = one.input_dimension
    if one.offset:
        result["offset"] = one.offset
    if one.factor != 1 and not one.is_constant:
        result["stride"] = one.factor
    return result
