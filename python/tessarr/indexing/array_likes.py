"""Masked elements, missing values, units and time zones of assigned values.

``np.asarray`` ignores these. Here masked elements become the fill value of the array. A unit or a
time zone causes a warning, because an array does not store it. Missing values of pandas are an
error. The functions inspect attributes of the value's class and import no library.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from tessarr.errors import ArgumentError, CastError
from tessarr.format.user_warnings import warn_user

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

__all__ = [
    "Fill",
    "broadcast_masked",
    "check_elements",
    "element_kinds",
    "fill_masked",
    "has_mask",
    "has_unit",
    "mask_lists",
    "strip_unit",
    "strip_units_and_zones",
    "values_in_memory",
]

Fill: TypeAlias = "Callable[[], npt.NDArray[Any] | None]"
"""Returns the fill value of an array as an array of rank 0, or None where it has none."""

_NESTED: Final = (list, tuple)
_NONE: Final = type(None)


def has_unit(value: object) -> bool:
    """Tell whether a value is a quantity with a unit, of pint, astropy or unyt.

    Only properties of the class count, not attributes of the object.
    """
    kind = type(value)
    return (hasattr(kind, "magnitude") and hasattr(kind, "units")) or (
        hasattr(kind, "value") and (hasattr(kind, "unit") or hasattr(kind, "units"))
    )


def strip_unit(value: Any) -> Any:
    """Return the numbers of a quantity with a unit, and warn about the lost unit.

    Examples
    --------
    >>> strip_unit([1, 2])
    [1, 2]
    """
    if not has_unit(value):
        return value
    numbers = value.magnitude if hasattr(value, "magnitude") else value.value
    name = str(value.units if hasattr(value, "units") else value.unit)
    if name not in ("", "1", "dimensionless", "None"):
        warn_user(
            f"the unit {name!r} of the value is not stored: store the numbers, in the unit of the "
            "array, and keep the unit as an attribute"
        )
    return numbers


def strip_units_and_zones(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a value without its unit and time zone, and warn about the loss.

    Raises
    ------
    CastError
        If an array of pandas has a missing value and `dtype` has no "not a number".
    """
    value = strip_unit(value)
    if type(value).__module__.partition(".")[0] != "pandas":
        return value
    if hasattr(value, "isna") and dtype.kind in "biuSU" and np.any(value.isna()):
        raise _missing_value_error("a missing value", dtype)
    zone = getattr(getattr(value, "dtype", None), "tz", None)
    if zone is not None and dtype.kind == "M":
        warn_user(f"the time zone {str(zone)!r} of the value is not stored: times are UTC")
        return np.asarray(value, f"M8[{value.dtype.unit}]")
    return value


def _missing_value_error(description: str, dtype: np.dtype[Any]) -> CastError:
    return CastError(
        f"cannot convert {description} to {dtype}: fill missing values first (fillna), or "
        "give a masked "
        "array, whose masked elements become the fill value"
    )


def values_in_memory(value: Any) -> npt.NDArray[Any]:
    """Convert an array of another library to a NumPy array, with its mask if it has one.

    ``np.asarray`` would ignore the mask, also for arrays of Dask.
    """
    if isinstance(getattr(value, "_meta", None), np.ma.MaskedArray):
        value = value.compute()
    if not isinstance(value, np.ndarray) and hasattr(value, "__array__"):
        value = value.__array__()
    if isinstance(value, np.ma.MaskedArray):
        return value
    return np.asarray(strip_unit(value))


def has_mask(value: object) -> bool:
    """Tell whether some element of a value is masked.

    Examples
    --------
    >>> has_mask(np.ma.array([1, 2])), has_mask(np.ma.masked), has_mask([1])
    (False, True, False)
    """
    if not isinstance(value, np.ma.MaskedArray):
        return False
    mask = np.ma.getmask(value)
    return mask is not np.ma.nomask and bool(_has_true(mask))


def _has_true(mask: Any) -> bool:
    names = mask.dtype.names
    return bool(np.any(mask)) if names is None else any(_has_true(mask[name]) for name in names)


def broadcast_masked(value: Any, shape: tuple[int, ...]) -> Any:
    """Broadcast a masked array to a shape, which ``np.broadcast_to`` cannot do."""
    data = np.broadcast_to(np.ma.getdata(value), shape)
    return np.ma.array(data, mask=np.broadcast_to(np.ma.getmaskarray(value), shape), copy=False)


def fill_masked(
    value: Any,
    dtype: np.dtype[Any],
    fill: Fill,
    convert: Callable[[npt.NDArray[Any], np.dtype[Any]], npt.NDArray[Any]],
) -> npt.NDArray[Any]:
    """Replace the masked elements of an array by the fill value.

    Parameters
    ----------
    value : numpy.ma.MaskedArray
        The array. The data below the mask is neither converted nor stored.
    dtype
        The data type to convert to.
    fill
        Returns the fill value, in `dtype`.
    convert
        Converts elements to a data type.

    Raises
    ------
    ArgumentError
        If an element is masked and there is no fill value.

    Examples
    --------
    >>> values = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    >>> fill_masked(values, np.dtype("i4"), lambda: np.array(-1, "i4"), np.asarray)
    array([ 1, -1,  3], dtype=int32)
    """
    data = np.asarray(np.ma.getdata(value))
    if not has_mask(value):
        return data
    fill_value = fill()
    if fill_value is None:
        raise ArgumentError(
            "cannot store masked elements: the array has no fill value to store in their place; "
            "give it one, or store value.filled(...)"
        )
    mask = np.ma.getmaskarray(value)
    if mask.dtype.names is not None:
        filled = np.array(convert(data, dtype))
        _fill_fields(filled, mask, fill_value)
        return filled
    filled = np.empty(data.shape, dtype)
    filled[...] = fill_value
    filled[~mask] = convert(data[~mask], dtype)
    return filled


def _fill_fields(target: Any, mask: Any, fill_value: Any) -> None:
    if mask.dtype.names is None:
        np.copyto(target, fill_value, where=mask)
        return
    for name, masked in zip(target.dtype.names, mask.dtype.names, strict=True):
        _fill_fields(target[name], mask[masked], fill_value[name])


def element_kinds(value: Iterable[Any]) -> set[type]:
    """Return the classes of the elements of nested lists and tuples.

    Examples
    --------
    >>> sorted(kind.__name__ for kind in element_kinds([[1, 2.5], ("a",)]))
    ['float', 'int', 'str']
    """
    kinds = set(map(type, value))
    nested = kinds.intersection(_NESTED)
    if nested:
        kinds -= nested
        for item in value:
            if type(item) in nested:
                kinds |= element_kinds(item)
    return kinds


def mask_lists(value: Any, kinds: set[type]) -> Any:
    """Convert lists with masked elements or masked arrays to a masked array.

    Parameters
    ----------
    value
        Nested lists and tuples.
    kinds
        The classes of their elements (`element_kinds`).

    Examples
    --------
    >>> mask_lists([1, np.ma.masked], {int, type(np.ma.masked)})
    masked_array(data=[1, --],
                 mask=[False,  True],
           fill_value=999999)
    """
    if not any(issubclass(kind, np.ma.MaskedArray) for kind in kinds):
        return value
    if type(np.ma.masked) not in kinds:
        return np.ma.array(value)
    # NumPy would convert a masked element to NaN, with a warning.
    masked = np.ma.array(_replace_masked(value, _find_unmasked(value)))
    masked[np.array(_collect_masks(value))] = np.ma.masked
    return masked


def _find_unmasked(value: Any) -> Any:
    """Return the first element that is not masked, or `np.ma.masked`."""
    for item in value:
        element = _find_unmasked(item) if type(item) in _NESTED else item
        if element is not np.ma.masked:
            return element
    return np.ma.masked


def _replace_masked(value: Any, other: Any) -> list[Any]:
    """Replace the masked elements of nested lists."""
    return [
        _replace_masked(item, other)
        if type(item) in _NESTED
        else item
        if item is not np.ma.masked
        else 0
        if other is np.ma.masked
        else other
        for item in value
    ]


def _collect_masks(value: Any) -> list[Any]:
    return [
        _collect_masks(item)
        if type(item) in _NESTED
        else True
        if item is np.ma.masked
        else np.ma.getmaskarray(item)
        if np.ndim(item)
        else False
        for item in value
    ]


def check_elements(kinds: set[type], dtype: np.dtype[Any]) -> None:
    """Raise an error for missing values of pandas; warn about None that NumPy would convert.

    Parameters
    ----------
    kinds
        The classes of the elements.
    dtype
        The data type of the array, not one of objects.

    Raises
    ------
    CastError
        If an element is ``pd.NA``, or ``pd.NaT`` and `dtype` has no "not a time".
    """
    pandas = sys.modules.get("pandas")
    if pandas is not None:
        absent = {type(pandas.NA)} | ({type(pandas.NaT)} if dtype.kind not in "mM" else set())
        missing = kinds & absent
        if missing:
            raise _missing_value_error("pd.NA" if type(pandas.NA) in missing else "pd.NaT", dtype)
    if _NONE in kinds and dtype.kind in "bfcSU":
        stored = {"b": "False", "S": "'None'", "U": "'None'"}.get(dtype.kind, "NaN")
        warn_user(f"None is stored as {stored} in an array of {dtype}, as NumPy does")
