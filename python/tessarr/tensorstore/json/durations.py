"""Durations in JSON, such as ``1m30s``."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from tessarr.tensorstore.json.parse import expected_error, text

__all__ = ["format_duration", "parse_seconds"]

_UNITS: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_LONG: Final = 60
_PIECE: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|ms|s|m|h)")


def format_duration(value: Any) -> str:
    """Return the shortest text of a duration such as ``1h30m`` or ``1.5s``."""
    duration = text(value)
    body = duration.lstrip("+-")
    sign = "-" if duration.startswith("-") else ""
    if body in {"inf", "0"}:
        return sign + body if body == "inf" else "0"
    pieces = list(_PIECE.finditer(body))
    if not pieces or "".join(piece[0] for piece in pieces) != body or len(body) > _LONG:
        raise expected_error("duration as in 1m30s", value)
    from decimal import Decimal

    total = int(sum(Decimal(piece[1]) * _UNITS[piece[2]] for piece in pieces))
    return (sign if total else "") + _shortest(total)


def parse_seconds(time: str) -> float:
    """Return the seconds of a duration that `format_duration` returned.

    Examples
    --------
    >>> parse_seconds("1m30s"), parse_seconds("0"), parse_seconds("inf")
    (90.0, 0.0, inf)
    """
    sign = -1 if time.startswith("-") else 1
    if time.endswith("inf"):
        return sign * math.inf
    return sign * sum(float(piece[1]) * _UNITS[piece[2]] for piece in _PIECE.finditer(time)) / 1e9


def _shortest(total: int) -> str:
    if total == 0:
        return "0"
    if total < _UNITS["s"]:
        unit = next(unit for unit in ("ms", "us", "ns") if total >= _UNITS[unit])
        return f"{_decimal(total, _UNITS[unit])}{unit}"
    hours, rest = divmod(total, _UNITS["h"])
    minutes, rest = divmod(rest, _UNITS["m"])
    whole = (f"{hours}h" if hours else "") + (f"{minutes}m" if minutes else "")
    return whole + (f"{_decimal(rest, _UNITS['s'])}s" if rest else "")


def _decimal(count: int, unit: int) -> str:
    whole, rest = divmod(count, unit)
    digits = str(rest).zfill(int(math.log10(unit))).rstrip("0")
    return f"{whole}.{digits}" if rest else str(whole)
