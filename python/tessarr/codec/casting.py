"""Casts of real numbers with all rounding modes and out-of-range policies of ``cast_value``.

A value that the target type can represent stays the same. Other values are rounded; values out of
range then raise an error, are clamped, or wrap around. Rounding uses exact values: it compares
floating-point numbers in the wider of the two types, and 64-bit integers that float64 lacks as
Python integers. The floating-point types of ml_dtypes have few values, which a table lists.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from tessarr.dtype import DataType

__all__ = [
    "OUT_OF_RANGE",
    "ROUNDINGS",
    "UnrepresentableError",
    "cast",
    "integer_limits",
    "is_real",
    "to_builtin_type",
]

ROUNDINGS: Final = (
    "nearest-even",
    "towards-zero",
    "towards-positive",
    "towards-negative",
    "nearest-away",
)
OUT_OF_RANGE: Final = ("clamp", "wrap")

_EXACT_IN_FLOAT64: Final = 2**53
_FLOAT64_EXPONENTS: Final = 1024
_INTEGER: Final = re.compile("(u?)int([0-9]+)")
_REAL: Final = re.compile("u?int[0-9]+|b?float[0-9]+(_.*)?")

Array = np.ndarray[Any, Any]


class UnrepresentableError(ValueError):
    """A number that a cast cannot represent."""


def is_real(data_type: DataType) -> bool:
    """Tell whether a data type has real numbers that `cast` supports."""
    return _REAL.fullmatch(data_type.name) is not None


def integer_limits(data_type: DataType) -> tuple[int, int] | None:
    """Return the least and the greatest number of an integer type, or None for other types."""
    return _limits_of_name(data_type.name)


def _limits_of_name(name: str) -> tuple[int, int] | None:
    match = _INTEGER.fullmatch(name)
    if match is None:
        return None
    bits = int(match[2])
    return (0, 2**bits - 1) if match[1] else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def cast(
    values: Array, target: np.dtype[Any], rounding: str = "nearest-even", outside: str | None = None
) -> Array:
    """Cast numbers to another type.

    Parameters
    ----------
    values : numpy.ndarray
        Integers or floating-point numbers.
    target : numpy.dtype
        The new type.
    rounding : str
        One of `ROUNDINGS`.
    outside : {"clamp", "wrap"}, optional
        The treatment of numbers out of range; by default they are an error.

    Raises
    ------
    UnrepresentableError
        If a number cannot be cast.

    Examples
    --------
    >>> cast(np.array([0.5, 1.5, 300.0]), np.dtype("u1"), outside="clamp")
    array([  0,   2, 255], dtype=uint8)
    >>> cast(np.array([0.5, 1.5]), np.dtype("u1"), "towards-positive")
    array([1, 2], dtype=uint8)
    """
    with np.errstate(all="ignore"):
        plain = to_builtin_type(values)
        limits = _limits_of_name(target.name)
        if limits is not None:
            carrier = target if _is_builtin(target) else np.dtype("i1" if limits[0] else "u1")
            integers = _cast_to_integers(plain, carrier, limits, rounding, outside)
            return integers.astype(target, copy=False)
        if _is_builtin(target):
            return _cast_to_floats(plain, target, rounding, outside)
        return _cast_by_table(plain, target, rounding, outside)


def to_builtin_type(values: Array) -> Array:
    """Convert numbers to a builtin type of NumPy in native byte order."""
    if _is_builtin(values.dtype):
        return values.astype(values.dtype.newbyteorder("="), copy=False)
    limits = _limits_of_name(values.dtype.name)
    return values.astype(np.float32 if limits is None else np.int8 if limits[0] else np.uint8)


def _is_builtin(dtype: np.dtype[Any]) -> bool:
    """Tell whether a type is a builtin type of NumPy; other types have numbers from 256."""
    return dtype.num < 256


def _raise_where(values: Array, which: Array, target: np.dtype[Any]) -> None:
    if which.any():
        raise UnrepresentableError(f"{values[which].flat[0]} does not fit {target.name}")


def _cast_to_integers(
    values: Array,
    target: np.dtype[Any],
    limits: tuple[int, int],
    rounding: str,
    outside: str | None,
) -> Array:
    low, high = limits
    if values.dtype.kind == "f":
        _raise_where(values, ~np.isfinite(values), target)
        whole = _ROUND[rounding](values.astype(np.float64))
        beyond = (whole < low) | (whole >= float(high + 1))
    else:
        whole = values
        info = np.iinfo(values.dtype)
        beyond = np.zeros(values.shape, bool)
        if low > info.min:
            beyond |= values < low
        if high < info.max:
            beyond |= values > high
    if not beyond.any():
        return whole.astype(target)
    if outside is None:
        _raise_where(values, beyond, target)
    if outside == "clamp":
        inside = np.where(beyond, 0, whole).astype(target)
        limit = np.where(whole < 0, target.type(low), target.type(high))
        return np.where(beyond, limit, inside).astype(target, copy=False)
    unused = 8 * target.itemsize - (high - low).bit_length()
    return _wrap_to_64_bits(whole).astype(target) << unused >> unused


def _wrap_to_64_bits(whole: Array) -> Array:
    """Return integers modulo 2**64; every integer type uses their lowest bits."""
    if whole.dtype.kind != "f":
        return whole
    rest = np.fmod(whole, 2.0**64)
    size = np.abs(rest).astype(np.uint64)
    return np.where(rest < 0, np.uint64(0) - size, size)


def _round_half_away(values: Array) -> Array:
    whole = np.trunc(values)
    half: Array = np.abs(values - whole) >= 0.5
    return whole + np.where(half, np.copysign(1.0, values), 0.0)


_ROUND: Final[dict[str, Callable[[Array], Array]]] = {
    "nearest-even": np.rint,
    "towards-zero": np.trunc,
    "towards-positive": np.ceil,
    "towards-negative": np.floor,
    "nearest-away": _round_half_away,
}


def _cast_to_floats(
    values: Array, target: np.dtype[Any], rounding: str, outside: str | None
) -> Array:
    nearest = values.astype(target)
    if values.dtype.kind == "f" and values.dtype.itemsize <= target.itemsize:
        return nearest
    finite = np.isfinite(values)
    # Numbers of at least 2 to the power of the largest exponent plus 1 round to infinity.
    exponent = int(np.finfo(target).maxexp)
    bound = 2.0**exponent if exponent < _FLOAT64_EXPONENTS else np.inf
    beyond = finite & (np.abs(values.astype(np.float64)) >= bound)
    if rounding != "nearest-even":
        nearest = _round_directed(values, nearest, finite & ~beyond, rounding)
    beyond |= finite & ~np.isfinite(nearest)
    if outside is None:
        _raise_where(values, beyond, target)
    infinity = np.where(values < 0, target.type("-inf"), target.type("inf"))
    return np.where(beyond, infinity, nearest).astype(target, copy=False)


def _round_directed(values: Array, nearest: Array, which: Array, rounding: str) -> Array:
    """Return the neighbours of `values` for a rounding mode."""
    exact, stored = _to_comparable(values[which], nearest[which])
    rounded = nearest[which]
    up, down = rounded.dtype.type("inf"), rounded.dtype.type("-inf")
    above, below = stored > exact, stored < exact
    if rounding == "towards-negative":
        rounded = np.where(above, np.nextafter(rounded, down), rounded)
    elif rounding == "towards-positive":
        rounded = np.where(below, np.nextafter(rounded, up), rounded)
    elif rounding == "towards-zero":
        away = (above & (exact > 0)) | (below & (exact < 0))
        rounded = np.where(away, np.nextafter(rounded, rounded.dtype.type(0)), rounded)
    else:
        other = np.where(above, np.nextafter(rounded, down), np.nextafter(rounded, up))
        _, other_number = _to_comparable(values[which], other)
        tie = (above | below) & (abs(other_number - exact) == abs(stored - exact))
        rounded = np.where(tie & (abs(other_number) > abs(stored)), other, rounded)
    result = nearest.copy()
    result[which] = rounded
    return result


def _to_comparable(values: Array, floats: Array) -> tuple[Array, Array]:
    """Return both arrays as exact numbers of a common type."""
    if values.dtype.kind == "f":
        return values, floats.astype(values.dtype)
    wide = values.astype(np.float64)
    if values.dtype.itemsize < 8 or (np.abs(wide) < _EXACT_IN_FLOAT64).all():
        return wide, floats.astype(np.float64)
    integers = [int(number) if np.isfinite(number) else number for number in floats]
    return values.astype(object), np.array(integers, dtype=object)


@cache
def _list_numbers(target: np.dtype[Any]) -> tuple[Array, Array, Array]:
    """Return the finite numbers of a type of at most 16 bits: as float64, as items, their parity.

    The numbers are sorted. At both ends the list has the next number of an unbounded type, to
    which numbers out of range round.
    """
    unsigned = np.dtype(f"u{target.itemsize}")
    patterns = np.arange(1 << (8 * target.itemsize), dtype=np.uint32).astype(unsigned)
    every = patterns.view(target).astype(np.float64)
    finite = np.flatnonzero(np.isfinite(every))
    # The first of equal numbers counts (upper bits may have no meaning).
    numbers, positions = np.unique(every[finite], return_index=True)
    chosen = patterns[finite[positions]]
    before, after = 2 * numbers[0] - numbers[1], 2 * numbers[-1] - numbers[-2]
    even = np.concatenate([chosen[:1] & 1 != 0, chosen & 1 == 0, chosen[-1:] & 1 != 0])
    items = np.concatenate([chosen[:1], chosen, chosen[-1:]]).view(target)
    return np.concatenate([[before], numbers, [after]]), items, even


def _cast_by_table(
    values: Array, target: np.dtype[Any], rounding: str, outside: str | None
) -> Array:
    numbers, items, even = _list_numbers(target)
    exact = _to_odd_float64(values)
    special = ~np.isfinite(exact)
    converted = exact.astype(target)
    lost = special & (np.isnan(converted.astype(np.float64)) != np.isnan(exact))
    _raise_where(
        values, lost | (np.isinf(exact) & np.isfinite(converted.astype(np.float64))), target
    )
    below = np.clip(np.searchsorted(numbers, exact, "right") - 1, 0, len(numbers) - 2)
    down, up = exact - numbers[below], numbers[below + 1] - exact
    upwards = {
        "nearest-even": (up < down) | ((up == down) & ~even[below]),
        "nearest-away": (up < down) | ((up == down) & (exact > 0)),
        "towards-zero": (exact < 0) & (down != 0),
        "towards-positive": down != 0,
        "towards-negative": np.zeros(exact.shape, bool),
    }[rounding]
    chosen = below + upwards
    beyond = (chosen == 0) | (chosen == len(numbers) - 1)
    beyond = ~special & (beyond | (exact < numbers[0]) | (exact > numbers[-1]))
    if outside is None:
        _raise_where(values, beyond, target)
    result = np.where(beyond, np.where(exact < 0, items[0], items[-1]), items[chosen])
    infinity = np.where(exact < 0, -np.inf, np.inf).astype(target)
    if np.isinf(infinity.astype(np.float64)).all():
        result = np.where(beyond, infinity, result)
    # The sign of zeros follows NumPy's cast.
    as_cast = special | ((exact <= 0) & np.signbit(exact) & (result.astype(np.float64) == 0))
    zero = np.copysign(0.0, exact).astype(target)
    final: Array = np.where(as_cast, np.where(special, converted, zero), result)
    return final.astype(target, copy=False)


def _to_odd_float64(values: Array) -> Array:
    """Return numbers as float64; an integer that float64 lacks becomes its odd neighbour.

    Further rounding treats the odd neighbour like the integer.
    """
    wide = values.astype(np.float64)
    if values.dtype.kind == "f" or values.dtype.itemsize < 8:
        return wide
    inwards, above, below = (
        cast(values, np.dtype(np.float64), rounding)
        for rounding in ("towards-zero", "towards-positive", "towards-negative")
    )
    odd: Array = inwards.view(np.uint64) | (above != below)
    return odd.view(np.float64)
