"""The check that integers of JSON fit 64 bits."""

from __future__ import annotations

from typing import Any

from tessarr._engine import find_large_int
from tessarr._safe_repr import safe_repr, truncate
from tessarr.errors import TooLargeError

__all__ = ["check_integers"]


def check_integers(json: Any) -> None:
    """Raise an error if JSON contains an integer of more than 64 bits at any depth.

    Raises
    ------
    TooLargeError
        If an integer has more than 64 bits.
    """
    integer = find_large_int(json)
    if integer is not None:
        path = _find_path(json, integer)
        message = f"Expected integers of at most 64 bits, but received: {safe_repr(integer)}"
        raise TooLargeError(f"{path}: {message}" if path else message)


def _find_path(json: Any, value: Any) -> str:
    """Return the JSON path of a value, such as ``/shape/0``; empty for the whole JSON."""
    left: list[tuple[Any, Any]] = [(json, None)]  # values with their linked path of names
    while left:
        current, names = left.pop()
        if current is value:
            path: list[str] = []
            while names is not None:
                name, names = names
                path.append(str(name))
            return truncate("".join(f"/{name}" for name in reversed(path)))
        if isinstance(current, dict):
            left += [(item, (name, names)) for name, item in current.items()]
        elif isinstance(current, list | tuple):
            left += [(item, (index, names)) for index, item in enumerate(current)]
    return ""
