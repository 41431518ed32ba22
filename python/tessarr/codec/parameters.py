"""Checks of codec parameters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tessarr.errors import ArgumentError
from tessarr.format.validation import describe, is_integer

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["WrongParameter", "check_choice", "check_integer", "check_number", "number_type"]


class WrongParameter(ArgumentError):  # noqa: N818 - it is always an ArgumentError to users
    """An invalid parameter of a codec; `parameter` is its name."""

    def __init__(self, parameter: str, value: object, expected: str, *, right_type: bool) -> None:
        super().__init__(f"{parameter} {describe(value)} is not {expected}")
        self.parameter = parameter
        self.problem = f"{describe(value)} is not {expected}"
        self.problem_kind = "invalid_value" if right_type else "wrong_type"


def check_integer(name: str, value: Any, low: int, high: int) -> None:
    """Raise unless `value` is an integer of `low` to `high`."""
    right_type = isinstance(value, int) and not isinstance(value, bool)
    if not right_type or not low <= value <= high:
        expected = f"an integer of {low} to {high}"
        raise WrongParameter(name, value, expected, right_type=right_type)


def check_number(name: str, value: Any) -> None:
    """Raise unless `value` is an integer or a floating-point number, and finite."""
    right_type = is_integer(value) or isinstance(value, float)
    try:
        finite = right_type and math.isfinite(value)
    except OverflowError:
        finite = False
    if not finite:
        raise WrongParameter(name, value, "a finite number", right_type=right_type)


def check_choice(name: str, value: object, choices: Collection[object]) -> None:
    """Raise unless `value` is one of `choices`."""
    if value not in choices:
        expected = "one of " + ", ".join(repr(choice) for choice in choices)
        raise WrongParameter(name, value, expected, right_type=isinstance(value, str))


def number_type(name: str, value: Any, kinds: str = "biufcmM") -> np.dtype[Any]:
    """Convert `value` to a dtype of numbers.

    Parameters
    ----------
    name : str
        The parameter.
    value : dtype_like
        The type: ``"<i4"``, ``"int32"``, ``numpy.int32``.
    kinds : str
        The allowed NumPy kinds.

    Raises
    ------
    WrongParameter
        If it is another type, or not a type.
    """
    expected = "a type of numbers" if kinds != "f" else "a type of floating-point numbers"
    short = not isinstance(value, str) or len(value) <= 32
    if value is not None and short and not isinstance(value, list | dict | tuple):
        try:
            dtype: np.dtype[Any] = np.dtype(value)
        except (TypeError, ValueError, SyntaxError):
            pass
        else:
            if dtype.kind in kinds and dtype.itemsize <= 16:
                return dtype
    raise WrongParameter(name, value, expected, right_type=isinstance(value, str))
