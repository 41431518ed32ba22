"""HTML for notebooks: tables, foldable parts and JSON values.

All text is escaped, and the HTML has no scripts. Colours derive from the colour of the text, so
that notebooks can be light or dark. Long values are truncated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from tessarr._safe_repr import safe_repr

__all__ = [
    "format_count",
    "render_attributes",
    "render_block",
    "render_fold",
    "render_grid",
    "render_table",
]

_MAX_ATTRIBUTES: Final = 200
_MAX_TEXT: Final = 5000
"""The maximum number of characters of a value."""
_MAX_LINE: Final = 80
"""The maximum number of characters of a list or an object that is not folded."""

_STYLE: Final = (
    ".tessarr{line-height:1.4}"
    ".tessarr table{border-collapse:collapse;border:0;margin:2px 0;font-size:inherit}"
    ".tessarr tr,.tessarr th,.tessarr td{background:none!important;border:0;color:inherit}"
    ".tessarr th,.tessarr td{text-align:left;vertical-align:top;padding:1px 16px 1px 0;"
    "max-width:60ch;overflow-wrap:anywhere;white-space:normal}"
    ".tessarr th{font-weight:normal;opacity:.7;white-space:nowrap}"
    ".tessarr summary{cursor:pointer;display:list-item}"
    ".tessarr pre{background:none;color:inherit;margin:0;padding:0;max-height:24em;overflow:auto;"
    "white-space:pre-wrap;font-size:inherit}"
)


def render_block(kind: str, name: str, *parts: str) -> str:
    """Return the HTML of an object: its kind and name above parts of HTML.

    Examples
    --------
    >>> render_block("Array", "/<a>").endswith("<b>Array</b> <code>/&lt;a&gt;</code></div></div>")
    True
    """
    named = f" <code>{_escape(name)}</code>" if name else ""
    return (
        f'<div class="tessarr"><style>{_STYLE}</style>'
        f"<div><b>{_escape(kind)}</b>{named}</div>{''.join(parts)}</div>"
    )


def render_table(rows: Iterable[tuple[str, str]]) -> str:
    """Return an HTML table of labels and values.

    Examples
    --------
    >>> render_table([("Name", "<a>")]).count("&lt;a&gt;")
    1
    """
    return render_grid((), rows)


def render_grid(columns: Sequence[str], rows: Iterable[tuple[str, ...]]) -> str:
    """Return an HTML table with a label for each column and each row.

    Parameters
    ----------
    columns
        The labels of the columns of values.
    rows
        The label of a row, and its values. A single value spans all columns.

    Examples
    --------
    >>> render_grid(["Array", "Chunk"], [("Size", "5 B", "<1 B"), ("Order", "C")]).count("<td")
    3
    """
    head = "".join(f"<th>{_escape(label)}</th>" for label in ("", *columns))
    lines = [head] if columns else []
    for label, *texts in rows:
        span = f' colspan="{len(columns)}"' if len(texts) < len(columns) else ""
        cells = "".join(f"<td{span}>{_escape(text)}</td>" for text in texts)
        lines.append(f"<th>{_escape(label)}</th>{cells}")
    return _render_rows(lines)


def _render_rows(lines: Iterable[str]) -> str:
    return f"<table><tbody>{''.join(f'<tr>{line}</tr>' for line in lines)}</tbody></table>"


def render_fold(summary: str, content: str, *, is_open: bool = False) -> str:
    """Return HTML that shows `content`, which is HTML, when a reader unfolds it."""
    start = "<details open>" if is_open else "<details>"
    return f"{start}<summary>{_escape(summary)}</summary>{content}</details>"


def format_count(count: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> format_count(1, "element"), format_count(2000, "element")
    ('1 element', '2,000 elements')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def render_attributes(attributes: Mapping[str, Any]) -> str:
    """Return a table of attributes; long lists and objects are folded.

    Examples
    --------
    >>> render_attributes({"units": "<K>", "levels": [*range(99)]}).count("<details>")
    1
    """
    names = list(attributes)
    rows = [
        f"<th>{_escape(name)}</th><td>{_render_value(attributes[name])}</td>"
        for name in names[:_MAX_ATTRIBUTES]
    ]
    if len(names) > _MAX_ATTRIBUTES:
        rows.append(f"<td>… and {len(names) - _MAX_ATTRIBUTES} more</td>")
    return _render_rows(rows)


def _render_value(value: Any) -> str:
    if isinstance(value, str):
        return _escape(value)
    short = _to_json(value, indent=None)
    if not isinstance(value, dict | list) or len(short) <= _MAX_LINE:
        return _escape(short)
    unit = "member" if isinstance(value, dict) else "item"
    return render_fold(
        format_count(len(value), unit), f"<pre>{_escape(_to_json(value, indent=2))}</pre>"
    )


def _to_json(value: Any, *, indent: int | None) -> str:
    """Return the JSON text of a value; its representation if that is not possible."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent)
    except (TypeError, ValueError, RecursionError):
        return safe_repr(value)


def _escape(text: str) -> str:
    """Return text for HTML, truncated."""
    short = text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"
    return escape(short.encode("utf-8", "backslashreplace").decode())
