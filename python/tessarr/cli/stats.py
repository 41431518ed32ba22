"""``tessarr stats PATH [SELECTION]``: minimum, maximum, mean, deviation, NaN count, histogram."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tessarr.array import Array
from tessarr.cli.node_argument import add_node_verb, get_node_argument
from tessarr.cli.output import Progress, format_json
from tessarr.cli.selection import SELECTION_HELP, parse_selection
from tessarr.cli.tables import format_columns, format_table, get_width, wrap_text
from tessarr.errors import ArgumentError, TessarrError, UnsupportedError

if TYPE_CHECKING:
    import argparse

    from tessarr.array.summaries import ArrayStats, Histogram
    from tessarr.group import Group

__all__ = ["add_to"]

_BAR_WIDTH: Final = 40
_ROWS: Final = 16
"""Text shows a histogram in at most so many rows."""

_PACKING: Final = ("scale_factor", "add_offset")
"""Attributes of netCDF and xarray that scale elements."""

_MISSING: Final = ("_FillValue", "missing_value")
"""Attributes of netCDF and xarray that declare elements missing."""


def add_to(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the verb to the command."""
    parser = add_node_verb(
        verbs,
        "stats",
        _run,
        reads_files=True,
        help="print minimum, maximum, mean, standard deviation, NaN count and histogram",
        description="Print statistics of an array, of a selection, or a table for all arrays below "
        "a group. Chunks are read in parallel and in bounded memory; chunks that "
        "are not stored count as the fill value. NaN, NaT and infinities are only counted. "
        "Attributes such as scale_factor are not applied.",
        epilog="example: tessarr stats data.zarr/temperature time=0,lat=10:20",
    )
    parser.add_argument(
        "selection", metavar="SELECTION", nargs="?", default="", help=SELECTION_HELP
    )
    parser.add_argument(
        "--bins",
        type=int,
        metavar="N",
        help=f"the maximum number of bins of the histogram: {_ROWS}, or 64 with --json; 0: none",
    )


def _run(arguments: argparse.Namespace) -> int:
    node = get_node_argument(arguments).open()
    if not isinstance(node, Array):
        return _run_group(node, arguments)
    bins = arguments.bins if arguments.bins is not None else 64 if arguments.json else _ROWS
    stats = _compute(node, parse_selection(arguments.selection, node) or (...,), bins)
    if arguments.json:
        print(format_json({"path": node.name, "data_type": str(node.dtype), **stats.asdict()}))
        return 0
    print(format_table(_list_rows(stats)))
    if stats.histogram is not None:
        print(f"\n{_draw_histogram(stats.histogram)}")
    unapplied = _find_unapplied(node)
    if unapplied:
        names = ", ".join(unapplied)
        note = f"tessarr: these are the stored elements, without regard to the attributes {names}\n"
        sys.stderr.write(wrap_text(note))
    return 0


def _find_unapplied(array: Array) -> list[str]:
    """Return the attributes that give elements another meaning; NaN is no element in any case."""
    names = _PACKING if array.fill_value != array.fill_value else (*_PACKING, *_MISSING)
    return [name for name in names if name in array.metadata.attributes]


def _compute(array: Array, selection: Any, bins: int) -> ArrayStats:
    with Progress(array.name, unit="bytes") as bar:
        return array.stats(selection, bins=bins, progress=bar)


def _list_rows(stats: ArrayStats) -> list[tuple[str, str]]:
    rows = [("count", f"{stats.count:,}")]
    for name, count in (("NaN", stats.nan_count), ("infinite", stats.inf_count)):
        if count:
            rows.append((name, f"{count:,} ({100 * count / stats.count:.3g} %)"))
    for name in ("min", "max", "mean", "std", "sum"):
        value = getattr(stats, name)
        if value is not None:
            rows.append((name, _format_value(value)))
    return rows


def _format_value(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.9g}"
    if isinstance(value, complex):
        return f"{value.real:.9g}{value.imag:+.9g}j"
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def _draw_histogram(histogram: Histogram) -> str:
    """Return a bar for each bin."""
    most = int(histogram.counts.max())
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    block = "█" if encoding.lower().startswith("utf") else "#"
    names = [f">{_format_value(edge)}" for edge in histogram.edges[:-1]]
    counts = [f">{count:,}" for count in histogram.counts.tolist()]
    used = max(map(len, names)) + max(map(len, counts)) + 2
    width = max(min(_BAR_WIDTH, (get_width() or 80) - used), 1)
    bars = [
        block * (-(-width * count // most) if count else 0) for count in histogram.counts.tolist()
    ]
    rows = [(">from", ">count", ""), *zip(names, counts, bars, strict=True)]
    return format_columns(rows)


def _run_group(group: Group, arguments: argparse.Namespace) -> int:
    """Print a table of all arrays below a group."""
    if arguments.selection:
        raise ArgumentError(f"{arguments.path!r} is a group, and a selection is of an array")
    bins = (arguments.bins or 64) if arguments.json and arguments.bins != 0 else 0
    listed: list[dict[str, Any]] = []
    rows = [["array", "type", ">NaN", ">min", ">max", ">mean", ">std"]]
    failed = 0
    for path, node in group.members(None):
        if not isinstance(node, Array):
            continue
        row = [path, str(node.dtype)]
        try:
            stats = _compute(node, ..., bins)
        except (UnsupportedError, ArgumentError) as error:
            listed.append({"path": node.name, "data_type": row[1], "message": error.message})
            rows.append([*row, *(">–",) * 5])
            continue
        except TessarrError as error:
            failed += 1
            listed.append({"path": node.name, "data_type": row[1], "message": error.message})
            sys.stderr.write(f"tessarr: {error}\n")
            continue
        listed.append({"path": node.name, "data_type": row[1], **stats.asdict()})
        values = (stats.min, stats.max, stats.mean, stats.std)
        words = ["–" if value is None else _shorten(_format_value(value)) for value in values]
        rows.append([*row, f">{stats.nan_count:,}", *(f">{word}" for word in words)])
    print(format_json(listed) if arguments.json else format_columns(rows))
    return 1 if failed else 0


def _shorten(text: str) -> str:
    return text if len(text) <= 26 else f"{text[:25]}…"
