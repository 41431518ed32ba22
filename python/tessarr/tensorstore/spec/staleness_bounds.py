"""Staleness bounds of cached values."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from tessarr._safe_repr import safe_repr
from tessarr.errors import ArgumentError
from tessarr.tensorstore.json.parse import to_plain_json

__all__ = ["Recheck", "read_recheck", "recheck_of"]

Recheck: TypeAlias = "bool | float | str"

_LAST: Final = 2.0**63  # seconds since 1970: later than any check


def recheck_of(value: Any, name: str) -> Recheck:
    """Validate and return a staleness bound: a boolean, ``"open"``, or seconds since 1970."""
    value = to_plain_json(value)
    if isinstance(value, bool) or value == "open":
        result: Recheck = value
        return result
    if isinstance(value, int | float):
        return float(value) if -_LAST < value < _LAST else value >= _LAST
    raise ArgumentError(f'"{name}": {safe_repr(value)} is no boolean, number or "open"')


def read_recheck(value: Any, name: str) -> Recheck:
    """Return the staleness bound of a keyword."""
    try:
        return recheck_of(value, name)
    except ArgumentError as error:
        raise TypeError(str(error)) from error
