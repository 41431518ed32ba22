"""The representation of JSON in TensorStore's style: Python literals, on one line if short.

Examples
--------
>>> format_repr("Spec", {"b": [1, 2.5, None], "a": True})
"Spec({'a': True, 'b': [1, 2.5, None]})"
>>> sort_members({"b": {"d": (1, 2), "c": 0}, "a": []})
{'a': [], 'b': {'c': 0, 'd': [1, 2]}}
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

__all__ = ["format_repr", "sort_members"]

_WIDTH: Final = 80


class _Text(NamedTuple):
    """The text of a value and its length on one line."""

    length: int
    plain: str
    items: list[tuple[str, _Text]]
    brackets: str = ""


def format_repr(name: str, value: Any) -> str:
    """Return the representation of an object that its JSON describes."""
    parts = [f"{name}("]
    _write(_measure(value), parts, 0, 0)
    return "".join([*parts, ")"])


def sort_members(value: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a JSON object in which the members of all objects are sorted by name."""
    return {name: _sort_value(value[name]) for name in sorted(value, key=str)}


def _sort_value(value: Any) -> Any:
    if isinstance(value, dict):
        return sort_members(value)
    if isinstance(value, (list, tuple)):
        return [_sort_value(item) for item in value]
    return value


def _measure(value: Any) -> _Text:
    if isinstance(value, dict):
        names = sorted(value, key=str)
        items, brackets = [(f"{name!r}: ", _measure(value[name])) for name in names], "{}"
    elif isinstance(value, (list, tuple)):
        items, brackets = [("", _measure(item)) for item in value], "[]"
    else:
        text = repr(value)
        return _Text(len(text), text, [])
    inner = sum(len(name) + item.length for name, item in items)
    return _Text(inner + 2 * max(len(items), 1), "", items, brackets)  # commas, or both brackets


def _write(text: _Text, parts: list[str], indent: int, column: int) -> None:
    """Append a text that starts at a column of its line."""
    if not text.brackets:
        parts.append(text.plain)
        return
    parts.append(text.brackets[0])
    # The commas of all levels must fit.
    if not text.items or text.length + indent // 2 + column <= _WIDTH:
        for k, (name, item) in enumerate(text.items):
            parts.append(f", {name}" if k else name)
            _write(item, parts, 0, 0)
    else:
        inner = indent + 2
        for name, item in text.items:
            parts.append(f"\n{' ' * inner}{name}")
            _write(item, parts, inner, inner + len(name))
            parts.append(",")
        parts.append(f"\n{' ' * indent}")
    parts.append(text.brackets[1])
