"""JSON as TensorStore shows it: in Python's words, on one line where that is short enough."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["ordered", "shown"]

_WIDTH: Final = 80


def shown(name: str, value: Any) -> str:
    """Return how an object is shown that is what its JSON says.

    Parameters
    ----------
    name : str
        The name of the class.
    value : JSON
        What it was made of. Members come sorted by their names.

    Examples
    --------
    >>> shown("Spec", {"b": [1, 2.5, None], "a": True})
    "Spec({'a': True, 'b': [1, 2.5, None]})"
    """
    return f"{name}({_shown(ordered(value), 0, 0)})"


def ordered(json: Any) -> Any:
    """Return a copy of JSON with the members of all objects in the order of their names."""
    if isinstance(json, dict):
        return {name: ordered(json[name]) for name in sorted(json)}
    return [ordered(item) for item in json] if isinstance(json, (list, tuple)) else json


def _shown(value: Any, indent: int, taken: int) -> str:
    """Return the text of a value that stands behind `taken` characters of its line."""
    line = repr(value)
    room = _WIDTH - indent // 2 - taken  # for the commas of all levels
    if len(line) <= room or not (isinstance(value, (dict, list)) and value):
        return line
    inner = " " * (indent + 2)
    ends = "{}" if isinstance(value, dict) else "[]"
    parts = (
        [(f"{name!r}: ", item) for name, item in value.items()]
        if isinstance(value, dict)
        else [("", item) for item in value]
    )
    lines = [
        f"{inner}{start}{_shown(item, indent + 2, len(inner) + len(start))},\n"
        for start, item in parts
    ]
    return f"{ends[0]}\n{''.join(lines)}{' ' * indent}{ends[1]}"
