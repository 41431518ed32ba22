"""HTML for notebooks: tables, and drawings of an array's chunks."""

from __future__ import annotations

from html import escape
from itertools import accumulate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tessarr.format.chunk_grid import Cuts
    from tessarr.metadata.node import ArrayMeta
    from tessarr.types import Shape

__all__ = ["render_array", "render_chunks", "render_table"]

_LONGEST: Final = 140
"""The longer side of a picture, in pixels."""

_SHORTEST: Final = 12

_MOST_LINES: Final = 40
"""The maximum number of chunks along an axis that are drawn individually."""

_THIN: Final = 'stroke="#8aa9c8" stroke-width="0.7"'
_THICK: Final = 'stroke="#2f5f8f" stroke-width="1.6"'

_CELL: Final = 'style="text-align: left; padding: 1px 8px"'


def render_table(rows: Iterable[tuple[str, str]]) -> str:
    """Return an HTML table of labels and values.

    Examples
    --------
    >>> render_table([("Name", "<a>")]).count("&lt;a&gt;")
    1
    """
    lines = [
        f"<tr><th {_CELL}>{escape(label)}</th><td {_CELL}>{escape(text)}</td></tr>"
        for label, text in rows
    ]
    return f'<table class="tessarr-info"><tbody>{"".join(lines)}</tbody></table>'


def render_array(name: str, meta: ArrayMeta, rows: Iterable[tuple[str, str]]) -> str:
    """Return HTML for an array: a table and a drawing of its chunks.

    Parameters
    ----------
    name
        The name of the array.
    meta
        The metadata of the array.
    rows
        The labels and values of the table.
    """
    return (
        '<div class="tessarr-array" style="display: flex; gap: 24px; align-items: center">'
        f"<div><b>{escape(name)}</b>{render_table(rows)}</div>{render_chunks(meta)}</div>"
    )


def render_chunks(meta: ArrayMeta) -> str:
    """Return a drawing (SVG) of the last two axes of an array, cut into chunks and shards.

    An array with one axis is a row. An array without axes or elements has no drawing.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.zeros((20, 40), chunks=(10, 10), dtype="u1")
    >>> render_chunks(a._metadata).count("<line")
    4
    """
    if not meta.shape or 0 in meta.shape:
        return ""
    lengths = (1, *meta.shape)[-2:]
    longest = max(lengths)
    height, width = (max(_LONGEST * length / longest, _SHORTEST) for length in lengths)
    lines = [
        _render_lines(_part_lengths(meta.chunk_cuts, meta.shape), lengths, (height, width), _THIN)
    ]
    if meta.is_sharded:
        parts = _part_lengths(meta.chunk_grid.cuts, meta.shape)
        lines.append(_render_lines(parts, lengths, (height, width), _THICK))
    frame = (
        f'<rect x="1" y="1" width="{width:.1f}" height="{height:.1f}" '
        'fill="#dbe7f3" stroke="#1d3b5a" stroke-width="1.6"/>'
    )
    label = escape(f"the last axes of shape {meta.shape} in chunks")
    return (
        f'<svg role="img" aria-label="{label}" xmlns="http://www.w3.org/2000/svg" '
        f'width="{width + 2:.0f}" height="{height + 2:.0f}">{frame}{"".join(lines)}</svg>'
    )


def _part_lengths(cuts: Sequence[Cuts], shape: Shape) -> list[tuple[int, ...]]:
    """Return the lengths of the parts of each axis; none for an axis with too many parts."""
    pairs = zip(cuts, shape, strict=True)
    return [cut.lengths(n) if cut.count(n) <= _MOST_LINES else () for cut, n in pairs]


def _render_lines(
    parts: Sequence[Sequence[int]],
    lengths: tuple[int, ...],
    pixels: tuple[float, float],
    style: str,
) -> str:
    """Return the lines between the parts of the last two axes."""
    rows, columns = [(), *parts][-2:]
    bottom, right = (f"{pixel + 1:.1f}" for pixel in pixels)
    across = [
        f'<line x1="1" x2="{right}" y1="{position:.1f}" y2="{position:.1f}" {style}/>'
        for position in _line_positions(rows, lengths[0], pixels[0])
    ]
    down = [
        f'<line y1="1" y2="{bottom}" x1="{position:.1f}" x2="{position:.1f}" {style}/>'
        for position in _line_positions(columns, lengths[1], pixels[1])
    ]
    return "".join(across + down)


def _line_positions(parts: Sequence[int], length: int, pixels: float) -> list[float]:
    ends = accumulate(parts[:-1])
    return [1 + pixels * end / length for end in ends]
