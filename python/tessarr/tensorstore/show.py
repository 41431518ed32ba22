"""JSON as TensorStore shows it: in Python's words, on one line where that is short enough."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["shown"]

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
    return f"{name}({_shown(value, 0, 0)})"


def _shown(value: Any, indent: int, taken: int) -> str:
    """Return the text of a value that stands behind `taken` characters of its line."""
    line = _line(value)
    room = _WIDTH - taken - (taken > 0)
    if len(line) <= room or not isinstance(value, (dict, list, tuple)) or not value:
        return line
    inner = " " * (indent + 2)
    lines: list[str] = []
    if isinstance(value, dict):
        for key in sorted(value):
            start = f"{_text(key)}: "
            member = _shown(value[key], indent + 2, len(inner) + len(start) + 1)  # and a comma
            lines.append(f"{inner}{start}{member},\n")
        return "{\n" + "".join(lines) + " " * indent + "}"
    lines = [f"{inner}{_shown(item, indent + 2, len(inner) + 1)},\n" for item in value]
    return "[\n" + "".join(lines) + " " * indent + "]"


def _line(value: Any) -> str:
    if isinstance(value, dict):
        members = (f"{_text(key)}: {_line(value[key])}" for key in sorted(value))
        return "{" + ", ".join(members) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_line, value)) + "]"
    if isinstance(value, str):
        return _text(value)
    return repr(value)


def _text(value: str) -> str:
    plain = value.isascii() and value.isprintable() and "'" not in value
    return f"'{value}'" if plain and "\\" not in value and '"' not in value else repr(value)
