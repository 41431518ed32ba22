"""Numbers and booleans that metadata documents hold as text."""

from __future__ import annotations

import json
import math
import re
from typing import Final, Literal, TypeAlias

__all__ = ["ScalarKind", "parse_text"]

ScalarKind: TypeAlias = Literal["integer", "number", "boolean"]
"""The type of a scalar member or parameter."""

_INTEGER: Final = re.compile(r"-?[0-9]{1,40}")
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]{0,39})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?")
_BOOLEANS: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


def parse_text(text: str, kind: ScalarKind) -> bool | float | None:
    """Return the number or boolean of a text, or None.

    Examples
    --------
    >>> parse_text("4", "integer"), parse_text("1.5", "number"), parse_text("NO", "boolean")
    (4, 1.5, False)
    >>> parse_text("1.5", "integer") is None
    True
    """
    if kind == "boolean":
        return _BOOLEANS.get(text.lower())
    pattern = _INTEGER if kind == "integer" else _NUMBER
    if pattern.fullmatch(text) is None:
        return None
    number: float = int(text) if kind == "integer" else json.loads(text)
    return number if math.isfinite(number) else None
