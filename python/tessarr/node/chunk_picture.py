"""Drawings of an array's chunks as SVG: a row, a rectangle or a cube.

A drawing shows up to three axes, which are the last ones. Its colours derive from the colour of the
text, so that it is readable on light and dark pages.
"""

from __future__ import annotations

from html import escape
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from tessarr.node.axis_names import find_axis_names, format_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tessarr.format.chunk_grid import Cuts
    from tessarr.metadata.node import ArrayMeta

__all__ = ["render_chunks"]

_LONGEST: Final = 140
"""The longest side of a drawing, in pixels."""
_SHORTEST: Final = 14
_DEPTH: Final = 0.45
"""The ratio by which the axis into the page is shortened."""
_MAX_LINES: Final = 40
"""The maximum number of chunks along an axis that are drawn individually."""
_DOTTED_LINES: Final = 20
"""The number of lines that stand for more chunks than that."""
_LINE_HEIGHT: Final = 16
_CHARACTER: Final = 7
"""The width of a character in pixels."""

_THIN: Final = 'stroke-width="0.7" stroke-opacity="0.55"'
_DOTTED: Final = f'{_THIN} stroke-dasharray="1 2"'
_THICK: Final = 'stroke-width="1.8" stroke-opacity="0.9"'
_EDGE: Final = 'stroke-width="1.2" stroke-opacity="0.9"'
_FILLS: Final = ("0.18", "0.28", "0.38")
"""The opacities of the front, the top and the right side."""


class _Point(NamedTuple):
    x: float
    y: float


class _Box(NamedTuple):
    """A box in the drawing: the front's top left corner, and the sizes in pixels."""

    left: float
    top: float
    width: float
    height: float
    depth: float

    def point(self, x: float, y: float, z: float) -> _Point:
        """Return the point at distances from the front's top left corner."""
        return _Point(self.left + x + z, self.top + y - z)


def render_chunks(meta: ArrayMeta) -> str:
    """Return a drawing (SVG) of the last three axes of an array, cut into chunks and shards.

    An array without axes or elements has no drawing. Dotted lines stand for more chunks than a
    drawing can show.

    Examples
    --------
    >>> import tessarr
    >>> a = tessarr.zeros((20, 40), chunks=(10, 10), dtype="u1")
    >>> render_chunks(a._metadata).count("<line")
    4
    """
    if not meta.shape or 0 in meta.shape:
        return ""
    lengths = meta.shape[-3:]
    sides = [max(_LONGEST * length / max(lengths), _SHORTEST) for length in lengths]
    width, height = sides[-1], sides[-2] if len(sides) > 1 else 1.6 * _SHORTEST
    depth = max(sides[0] * _DEPTH, _SHORTEST) if len(sides) > 2 else 0.0
    labels = _axis_labels(meta)
    margin = 4 + _CHARACTER * len(labels[-2]) if len(labels) > 1 else 4
    box = _Box(margin, 2 + depth, width, height, depth)
    lines = [*_render_cuts(box, meta, meta.chunk_cuts, _THIN)]
    if meta.is_sharded:
        lines += _render_cuts(box, meta, meta.chunk_grid.cuts, _THICK)
    parts = [*_render_faces(box), *lines, *_render_labels(box, labels)]
    right = margin + width + depth + (10 + _CHARACTER * len(labels[0]) if depth else 4)
    right = max(right, margin + width / 2 + _CHARACTER * len(labels[-1]) / 2 + 4)
    bottom = box.top + height + _LINE_HEIGHT + 6
    label = escape(f"the last axes of shape {meta.shape} in chunks of {meta.chunk_shape}")
    note = f"<div>the last 3 of {meta.rank} axes</div>" if meta.rank > 3 else ""
    return (
        f'<svg role="img" aria-label="{label}" xmlns="http://www.w3.org/2000/svg" '
        f'width="{right:.0f}" height="{bottom:.0f}" stroke="currentColor" fill="currentColor" '
        f'font-size="12" style="max-width: 100%">{"".join(parts)}</svg>{note}'
    )


def _axis_labels(meta: ArrayMeta) -> list[str]:
    """Return the names and lengths of the drawn axes."""
    names = find_axis_names(meta) or (None,) * meta.rank
    pairs = zip(names[-3:], meta.shape[-3:], strict=True)
    return [f"{format_name(name, 20)} {length}" if name else str(length) for name, length in pairs]


def _render_faces(box: _Box) -> Iterator[str]:
    w, h, z = box.width, box.height, box.depth
    faces = [[(0.0, 0.0, 0.0), (w, 0.0, 0.0), (w, h, 0.0), (0.0, h, 0.0)]]
    if z:
        faces.append([(0.0, 0.0, 0.0), (w, 0.0, 0.0), (w, 0.0, z), (0.0, 0.0, z)])
        faces.append([(w, 0.0, 0.0), (w, 0.0, z), (w, h, z), (w, h, 0.0)])
    for face, opacity in zip(faces, _FILLS, strict=False):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (box.point(*corner) for corner in face))
        yield f'<polygon points="{points}" fill="#3f7fbf" fill-opacity="{opacity}" {_EDGE}/>'


def _render_cuts(box: _Box, meta: ArrayMeta, cuts: tuple[Cuts, ...], style: str) -> Iterator[str]:
    """Yield the lines between the parts of each drawn axis, on all visible sides."""
    w, h, z = box.width, box.height, box.depth
    sides = [z, h, w][-min(meta.rank, 3) :]
    for axis, (cut, length) in enumerate(zip(cuts[-3:], meta.shape[-3:], strict=True), -len(sides)):
        positions, is_exact = _cut_positions(cut, length, sides[axis])
        line_style = style if is_exact else _DOTTED
        for p in positions:
            if axis == -1:
                yield _render_line(box.point(p, 0, 0), box.point(p, h, 0), line_style)
                if z:
                    yield _render_line(box.point(p, 0, 0), box.point(p, 0, z), line_style)
            elif axis == -2:
                yield _render_line(box.point(0, p, 0), box.point(w, p, 0), line_style)
                if z:
                    yield _render_line(box.point(w, p, 0), box.point(w, p, z), line_style)
            else:
                yield _render_line(box.point(0, 0, p), box.point(w, 0, p), line_style)
                yield _render_line(box.point(w, 0, p), box.point(w, h, p), line_style)


def _cut_positions(cut: Cuts, length: int, pixels: float) -> tuple[list[float], bool]:
    """Return the pixels of the cuts, or evenly spaced ones for too many, and which they are."""
    if cut.count(length) > _MAX_LINES:
        count = _DOTTED_LINES + 1
        return [pixels * i / count for i in range(1, count)], False
    return [pixels * end / length for end in accumulate(cut.lengths(length)[:-1])], True


def _render_line(start: _Point, end: _Point, style: str) -> str:
    return (
        f'<line x1="{start.x:.1f}" y1="{start.y:.1f}" x2="{end.x:.1f}" y2="{end.y:.1f}" {style}/>'
    )


def _render_labels(box: _Box, labels: list[str]) -> Iterator[str]:
    """Yield the labels: below the front, left of it, and right of the axis into the page."""
    w, h, z = box.width, box.height, box.depth
    below, left = box.point(w / 2, h + _LINE_HEIGHT, 0), box.point(-5, h / 2 + 4, 0)
    yield _render_text(below, labels[-1], "middle")
    if len(labels) > 1:
        yield _render_text(left, labels[-2], "end")
    if len(labels) > 2:
        yield _render_text(box.point(w + 6, h + 8, z / 2), labels[-3], "start")


def _render_text(point: _Point, text: str, anchor: str) -> str:
    return (
        f'<text x="{point.x:.1f}" y="{point.y:.1f}" text-anchor="{anchor}" stroke="none">'
        f"{escape(text)}</text>"
    )
