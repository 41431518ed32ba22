"""Tables and text that wrap at the width of the terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["format_columns", "format_table", "get_width", "wrap_text"]

_MIN_WIDTH: Final = 20
"""Text does not wrap at fewer columns."""


def get_width() -> int | None:
    """Return the width of the terminal; None if stdout is no terminal, so that no line wraps."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wrap_text(text: str, indent: str = "", width: int | None = None) -> str:
    """Wrap text at the width of the terminal.

    Parameters
    ----------
    text
        The text; its line breaks stay.
    indent
        The start of each line after a break.
    width
        The width; by default that of the terminal.

    Examples
    --------
    >>> print(wrap_text("one two three four five", "  ", 20))
    one two three four
      five
    """
    columns = get_width() if width is None else width
    if columns is None:
        return text
    lines = [_wrap_line(line, columns, indent) for line in text.split("\n")]
    return "\n".join(lines)


def _wrap_line(line: str, columns: int, indent: str) -> str:
    if len(line) <= columns:
        return line
    wrapped = textwrap.wrap(
        line,
        max(columns, _MIN_WIDTH),
        subsequent_indent=indent,
        break_on_hyphens=False,
        replace_whitespace=False,
    )
    return "\n".join(wrapped)


def format_table(rows: Sequence[tuple[str, str]], width: int | None = None) -> str:
    """Format rows of two columns; consecutive rows with one name show it once.

    Parameters
    ----------
    rows
        Pairs of a name and a value.
    width
        The width at which values wrap; by default that of the terminal.

    Examples
    --------
    >>> print(format_table([("shape", "3 × 4"), ("codec", "a"), ("codec", "b")]))
    shape  3 × 4
    codec  a
           b
    """
    longest = max(len(name) for name, _ in rows)
    lines = []
    previous = None
    for name, value in rows:
        line = f"{'' if name == previous else name:<{longest}}  {value}"
        lines.append(wrap_text(line, " " * (longest + 2), width))
        previous = name
    return "\n".join(lines)


def format_columns(rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Format rows of columns; cells that begin with ">" are right-aligned.

    Parameters
    ----------
    rows
        Rows with the same number of cells.
    width
        The width; by default that of the terminal. Columns that do not fit are below the others,
        indented.

    Examples
    --------
    >>> table = [("name", ">size"), ("a", ">5"), ("long name", ">12345")]
    >>> print(format_columns(table))
    name        size
    a              5
    long name  12345
    >>> print(format_columns(table, 15))
    name
         size
    a
            5
    long name
        12345
    """
    if not rows:
        return ""
    columns = get_width() if width is None else width
    widths = [
        max(len(cell.removeprefix(">")) for cell in column) for column in zip(*rows, strict=True)
    ]
    bands = _split_columns(widths, columns)
    lines = []
    for row in rows:
        for number, band in enumerate(bands):
            cells = [
                cell[1:].rjust(width) if cell.startswith(">") else cell.ljust(width)
                for cell, width in zip(row[band], widths[band], strict=True)
            ]
            line = (_INDENT if number else "") + "  ".join(cells).rstrip()
            if line.strip() or len(bands) == 1:
                lines.append(line)
    return "\n".join(lines)


_INDENT: Final = "    "


def _split_columns(widths: Sequence[int], columns: int | None) -> list[slice]:
    """Return runs of columns that fit side by side."""
    bands: list[slice] = []
    start = used = 0
    for number, width in enumerate(widths):
        more = width + (2 if number > start else 0)
        if columns is not None and number > start and used + more > columns:
            bands.append(slice(start, number))
            start, used, more = number, len(_INDENT), width
        used += more
    return [*bands, slice(start, len(widths))]
