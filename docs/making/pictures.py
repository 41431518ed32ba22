"""Generator of the pictures of the guide: ``just pictures`` writes ``docs/pictures``.

Lines and words have the colour of the text around (``currentColor``) and areas are
translucent, so that a picture is as readable on dark as on light ground.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median

FOLDER = Path(__file__).parents[1] / "pictures"
RESULTS = Path(__file__).parents[2] / "bench/results/2026-11-21-edge-512.md"
"""The measured times that the picture of speed shows."""
BLUE, ORANGE, GREEN, RED = "#4c8dff", "#ff9d2e", "#2fbf71", "#f0506e"
STYLE = (
    "<style>.picture{color:#24292f}"
    "@media(prefers-color-scheme:dark){.picture{color:#d0d7de}}</style>"
)


def svg(width: int, height: int, parts: Iterable[str]) -> str:
    """Return a picture of these parts."""
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="13" '
        f'fill="currentColor">\n{STYLE}\n{body}\n</svg>\n'
    )


def box(
    x: float,
    y: float,
    width: float,
    height: float,
    colour: str = "none",
    *,
    thick: float = 1,
    dashed: bool = False,
) -> str:
    """Return a tinted rectangle with an outline."""
    dashes = ' stroke-dasharray="4 3"' if dashed else ""
    opacity = "" if colour == "none" else ' fill-opacity="0.45"'
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{colour}"{opacity} '
        f'stroke="currentColor" stroke-width="{thick:g}"{dashes}/>'
    )


def tint(x: float, y: float, width: float, height: float, colour: str) -> str:
    """Return an area without an outline."""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" '
        f'fill="{colour}" fill-opacity="0.45"/>'
    )


def words(x: float, y: float, text: str, *, anchor: str = "middle", mono: bool = False) -> str:
    """Return a line of text."""
    family = ' font-family="monospace"' if mono else ""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{family}>{text}</text>'


def arrow(x0: float, y0: float, x1: float, y1: float) -> str:
    """Return an arrow to the right or down."""
    right = x1 > x0
    head = (
        f"{x1:g},{y1:g} {x1 - 7:g},{y1 - 4:g} {x1 - 7:g},{y1 + 4:g}"
        if right
        else f"{x1:g},{y1:g} {x1 - 4:g},{y1 - 7:g} {x1 + 4:g},{y1 - 7:g}"
    )
    return (
        f'<line x1="{x0:g}" y1="{y0:g}" x2="{x1:g}" y2="{y1:g}" stroke="currentColor"/>'
        f'<polygon points="{head}"/>'
    )


def grid(
    x: float, y: float, rows: int, columns: int, edge: float, *, thick: float = 1.5
) -> Iterator[str]:
    """Return the lines of a grid."""
    lines = [f"M{x:g} {y + i * edge:g}h{columns * edge:g}" for i in range(rows + 1)]
    lines += [f"M{x + j * edge:g} {y:g}v{rows * edge:g}" for j in range(columns + 1)]
    yield (
        f'<path d="{"".join(lines)}" fill="none" stroke="currentColor" stroke-width="{thick:g}"/>'
    )


def chunks() -> str:
    """Draw a selection, and the chunks that it touches."""
    edge, x, y = 50, 20, 40
    parts = [words(x, 24, "an array of 8 × 8, in chunks of 2 × 2", anchor="start")]
    parts += [tint(x + j * edge, y + i * edge, edge, edge, BLUE) for i in (0, 1, 2) for j in (1, 2)]
    parts += grid(x, y, 8, 8, edge / 2, thick=0.3)
    parts += grid(x, y, 4, 4, edge)
    parts += [box(x + 1.5 * edge, y + 0.5 * edge, edge, 2 * edge, ORANGE, thick=2.5)]
    left = x + 4 * edge + 40
    rows = [
        (ORANGE, "a[1:5, 3:5]", "selects 8 elements"),
        (BLUE, "6 chunks", "are read and decoded, on all cores"),
        ("none", "10 chunks", "are not read"),
    ]
    for i, (colour, first, second) in enumerate(rows):
        top = y + 20 + i * 56
        parts += [box(left, top, 24, 24, colour)]
        parts += [words(left + 36, top + 10, first, anchor="start", mono=True)]
        parts += [words(left + 36, top + 28, second, anchor="start")]
    return svg(560, 260, parts)


def shards() -> str:
    """Draw shards of subchunks, and the layout of a stored shard."""
    edge, x, y = 25, 20, 40
    parts = [words(x, 24, "shards of 4 × 4, chunks of 1 × 1", anchor="start")]
    parts += [tint(x + 4 * edge, y, 4 * edge, 4 * edge, BLUE)]
    parts += [tint(x + 5 * edge, y + 2 * edge, edge, edge, ORANGE)]
    parts += grid(x, y, 8, 8, edge, thick=0.6)
    parts += grid(x, y, 2, 2, 4 * edge, thick=2.5)
    left, top, height = 270, 110, 34
    parts += [words(left + 170, 60, "one stored object: c/0/1", mono=True)]
    parts += [arrow(x + 8 * edge + 8, top + height / 2, left - 8, top + height / 2)]
    lengths = [12, 19, 11, 16, 20, 14, 15, 18, 13, 12, 17, 10, 16, 14, 19, 14]
    at = float(left)
    for i, length in enumerate(lengths):
        parts.append(box(at, top, length, height, ORANGE if i == 9 else BLUE))
        at += length
    parts.append(box(at, top, 110, height, GREEN))
    parts.append(words(at + 55, top + 22, "index"))
    parts.append(words(left + 120, top - 12, "subchunks, encoded separately"))
    parts.append(
        words(left, top + 64, "The index has the offset and size of each subchunk.", anchor="start")
    )
    parts.append(
        words(left, top + 82, "Reading a subchunk takes two requests, and one", anchor="start")
    )
    parts.append(words(left, top + 100, "request if the index is in the cache.", anchor="start"))
    return svg(640, 260, parts)


def pipeline() -> str:
    """Draw the codec chain of a chunk."""
    stages = [
        ("elements", "100 × 100", "none"),
        ("filters", "array → array", BLUE),
        ("serializer", "array → bytes", GREEN),
        ("compressors", "bytes → bytes", ORANGE),
        ("stored", "c/3/7", "none"),
    ]
    width, gap, top = 118, 24, 40
    parts: list[str] = [words(340, 22, "encoding from left to right; decoding from right to left")]
    for i, (name, what, colour) in enumerate(stages):
        x = 10 + i * (width + gap)
        parts += [box(x, top, width, 54, colour, dashed=colour == "none")]
        parts += [words(x + width / 2, top + 23, name), words(x + width / 2, top + 42, what)]
        if i:
            parts += [arrow(x - gap + 2, top + 27, x - 2, top + 27)]
    return svg(710, 110, parts)


def indexing() -> str:
    """Draw the four ways to select."""
    edge, size = 24, 6
    ways: list[tuple[str, list[tuple[int, int]]]] = [
        ("a[1:4, ::2]", [(i, j) for i in (1, 2, 3) for j in (0, 2, 4)]),
        ("a.oindex[[0, 3], [1, 4]]", [(i, j) for i in (0, 3) for j in (1, 4)]),
        ("a.vindex[[0, 3], [1, 4]]", [(0, 1), (3, 4)]),
        ("a.blocks[1, 0]", [(i, j) for i in (3, 4, 5) for j in (0, 1, 2)]),
    ]
    parts: list[str] = []
    for k, (name, cells) in enumerate(ways):
        x, y = 36 + k * 216, 40
        parts += [words(x + size * edge / 2, 24, name, mono=True)]
        parts += [tint(x + j * edge, y + i * edge, edge, edge, ORANGE) for i, j in cells]
        parts += grid(x, y, size, size, edge, thick=0.6)
        parts += grid(x, y, 2, 2, 3 * edge, thick=2)
    return svg(864, 200, parts)


def shapes() -> str:
    """Draw how many chunks a row and a column touch, by the shape of the chunks."""
    edge = 20
    kinds = [("chunks=(2, None)", 2, 8), ("chunks=(None, 2)", 8, 2), ("chunks=(4, 4)", 4, 4)]
    parts: list[str] = []
    for k, (name, rows, columns) in enumerate(kinds):
        x, y = 30 + k * 230, 40
        parts += [words(x + 4 * edge, 24, name, mono=True)]
        across = range(0, 8, columns)
        down = range(0, 8, rows)
        row = 3 // rows * rows
        column = 5 // columns * columns
        parts += [
            tint(x + j * edge, y + row * edge, columns * edge, rows * edge, BLUE) for j in across
        ]
        parts += [
            tint(x + column * edge, y + i * edge, columns * edge, rows * edge, ORANGE) for i in down
        ]
        parts += [
            box(x + j * edge, y + i * edge, columns * edge, rows * edge, thick=1.5)
            for i in down
            for j in across
        ]
        parts += [box(x, y + 3 * edge, 8 * edge, edge, thick=2.5, dashed=True)]
        parts += [box(x + 5 * edge, y, edge, 8 * edge, thick=2.5, dashed=True)]
        labels = [f"a row: {len(across)} of {len(across) * len(down)} chunks"]
        labels += [f"a column: {len(down)} of {len(across) * len(down)}"]
        parts += [
            words(x + 4 * edge, y + 8 * edge + 22 + 18 * i, text) for i, text in enumerate(labels)
        ]
    return svg(700, 260, parts)


def writers() -> str:
    """Draw writers of the same chunk and of separate chunks."""
    unit, height = 5.0, 30
    parts: list[str] = []
    cases = [
        ("regions match chunks: no writer waits", [(0, 20), (20, 40), (40, 60)]),
        ("two writers share the middle chunk: one waits for the other", [(0, 30), (30, 60)]),
    ]
    for k, (name, regions) in enumerate(cases):
        y = 40 + k * 110
        parts += [words(340, y - 14, name)]
        for i in range(3):
            parts += [box(190 + i * 20 * unit, y, 20 * unit, height, thick=2)]
            parts += [words(190 + (i + 0.5) * 20 * unit, y + 20, f"chunk {i}")]
        colours = (BLUE, ORANGE, GREEN)
        for (start, stop), colour in zip(regions, colours, strict=False):
            left = 190 + start * unit
            parts += [box(left + 2, y + height + 8, (stop - start) * unit - 4, 24, colour)]
            middle = left + (stop - start) * unit / 2
            parts += [words(middle, y + height + 25, f"z[{start}:{stop}]", mono=True)]
    return svg(680, 230, parts)


ENGINES = {
    "tensorstore-nosync": ("TensorStore without fsync", BLUE, "M0-5L5 0 0 5-5 0Z"),
    "zarr": ("zarr-python", RED, "M-4-4H4V4H-4Z"),
    "zarr-fused": ("zarr-python, fused pipeline", ORANGE, "M0-5L5 4-5 4Z"),
    "zarrista": ("zarrista", GREEN, "M-4 0A4 4 0 1 0 4 0A4 4 0 1 0-4 0Z"),
}
"""The label, the colour and the mark of each library."""

OPERATIONS = {
    "open an array": r"open an array",
    "read one chunk of 8 kB": r"one 8 kB",
    "read crops": r"\d+³ crops",
    "read points and strides": r"10000 points|outer selection|every 4th",
    "read planes": r"planes",
    "read a whole array": r"read all",
    "write parts of chunks": r"8³ partial writes",
    "append rows": r"append",
    "write a whole array, disk": r"write all(?!.*tmpfs)",
    "write a whole array, memory": r"write all.*tmpfs",
}
"""The rows of the table of results that each operation comprises."""


def read_ratios() -> list[dict[str, str]]:
    """Return the rows of the first table of results; each maps columns to texts."""
    lines = RESULTS.read_text(encoding="utf-8").split("\n## ")[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "|" in line]
    start = next(i for i, row in enumerate(cells) if row[0] == "row")
    return [dict(zip(cells[start], row, strict=True)) for row in cells[start + 2 :]]


def find_ratios(operation: str, engine: str) -> list[float]:
    """Return the ratios of the time of an engine to that of Tessarr, if it has the operation."""
    rows = [row for row in read_ratios() if re.match(OPERATIONS[operation], row["row"])]
    matches = [re.match(r"([\d.]+)×", row[engine]) for row in rows]
    return [float(match[1]) for match in matches if match]


def speed() -> str:
    """Draw the median time of other libraries, in multiples of Tessarr's time."""
    left, top, line, decade = 240, 76, 27, 165

    def at(ratio: float) -> float:
        return left + decade * (math.log10(ratio) + 0.5)

    bottom = top + line * len(OPERATIONS)
    parts = [
        words(at(1), 20, "time of other libraries ÷ time of Tessarr (medians)", anchor="start")
    ]
    for k, (name, colour, mark) in enumerate(ENGINES.values()):
        x = (20, 230, 350, 565)[k]
        parts += [f'<path d="{mark}" fill="{colour}" transform="translate({x} 44)"/>']
        parts += [words(x + 12, 48, name, anchor="start")]
    for ratio in (0.5, 1, 2, 5, 10, 20, 50, 100, 200):
        x, width = at(ratio), 2 if ratio == 1 else 0.3
        height = bottom - top
        parts += [
            f'<path d="M{x:.1f} {top}v{height}" stroke="currentColor" stroke-width="{width}"/>'
        ]
        parts += [words(round(x, 1), bottom + 18, f"{ratio:g}×")]
    parts += [words(at(1) - 8, bottom + 38, "← Tessarr is slower", anchor="end")]
    parts += [words(at(1) + 8, bottom + 38, "Tessarr is faster →", anchor="start")]
    for k, operation in enumerate(OPERATIONS):
        y = top + (k + 0.5) * line
        count = len(find_ratios(operation, "zarr"))
        parts += [words(left - 8, y + 4, f"{operation} ({count})", anchor="end")]
        for engine, (_, colour, mark) in ENGINES.items():
            if ratios := find_ratios(operation, engine):
                where = f'transform="translate({at(median(ratios)):.1f} {y:g})"'
                parts += [f'<path d="{mark}" fill="{colour}" fill-opacity="0.85" {where}/>']
    return svg(730, bottom + 50, parts)


PICTURES: dict[str, Callable[[], str]] = {
    f.__name__: f for f in (chunks, indexing, pipeline, shapes, shards, speed, writers)
}


def main() -> None:
    """Write all pictures."""
    for name, draw in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
