"""How the command prints: tables, JSON, and a progress bar."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from time import monotonic
from typing import TextIO, TypeVar

__all__ = ["as_json", "progress", "table"]

T = TypeVar("T")

_WIDTH = 30


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Return rows of two columns; a name that repeats is written once.

    Examples
    --------
    >>> print(table([("shape", "3 × 4"), ("codec", "a"), ("codec", "b")]))
    shape  3 × 4
    codec  a
           b
    """
    width = max(len(name) for name, _ in rows)
    lines = []
    before = None
    for name, value in rows:
        lines.append(f"{'' if name == before else name:<{width}}  {value}")
        before = name
    return "\n".join(lines)


def as_json(value: object) -> str:
    """Return a value as JSON for programs to read."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    return json.dumps(value, indent=2, ensure_ascii=not encoding.lower().startswith("utf"))


def progress(
    label: str, items: Sequence[T] | Iterable[T], total: int, stream: TextIO | None = None
) -> Iterator[T]:
    """Yield items, and show how far that has come.

    Parameters
    ----------
    label
        What is being done.
    items, total
        The items, and how many.
    stream
        By default stderr. On a terminal a bar is redrawn in one line; elsewhere,
        one line is written at the end.
    """
    shown: TextIO = sys.stderr if stream is None else stream
    live = shown.isatty()
    begun = last = monotonic()
    done = 0
    for item in items:
        yield item
        done += 1
        if live and (monotonic() - last > 0.05 or done == total):
            last = monotonic()
            full = _WIDTH * done // max(total, 1)
            bar = "█" * full + "░" * (_WIDTH - full)
            shown.write(f"\r{label:<28} {bar} {100 * done // max(total, 1):3d} %")
            shown.flush()
    if live:
        shown.write("\r\x1b[K")
    else:
        shown.write(f"{label}: {done} of {total} in {monotonic() - begun:.1f} s\n")
    shown.flush()
