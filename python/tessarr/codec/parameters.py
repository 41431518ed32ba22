"""Checks of what users pass to codec classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessarr.errors import ArgumentError
from tessarr.problems import is_integer

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["check_choice", "check_integer"]


def check_integer(name: str, value: object, low: int, high: int) -> None:
    """Raise unless `value` is an integer of `low` to `high`."""
    if not is_integer(value) or not low <= value <= high:
        raise ArgumentError(f"{name} {value!r} is not an integer of {low} to {high}")


def check_choice(name: str, value: object, choices: Collection[object]) -> None:
    """Raise unless `value` is one of `choices`."""
    if value not in choices:
        allowed = ", ".join(repr(choice) for choice in choices)
        raise ArgumentError(f"{name} {value!r} is not one of {allowed}")
