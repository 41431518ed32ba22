"""Output of the command: JSON, durations and a progress bar."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from math import isfinite
from time import monotonic
from typing import Any, Final, Literal, Self, TextIO, TypeVar

from tessarr.node.info import format_size

__all__ = [
    "Progress",
    "format_duration",
    "format_json",
    "print_line",
    "track_progress",
]

T = TypeVar("T")

_WIDTH: Final = 24
_REDRAW_S: Final = 0.1
_RATE_S: Final = 10.0
"""The bar shows the rate of the last seconds, because the rate varies."""


def format_json(value: object) -> str:
    """Format a value as JSON; NaN and infinities become text.

    Examples
    --------
    >>> format_json([float("nan"), 1.0]).split()
    ['[', '"NaN",', '1.0', ']']
    """
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    escaped = not encoding.lower().startswith("utf")
    try:
        return json.dumps(value, indent=2, ensure_ascii=escaped, allow_nan=False)
    except ValueError:
        return json.dumps(_replace_non_finite(value), indent=2, ensure_ascii=escaped)


def _replace_non_finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _replace_non_finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_non_finite(item) for item in value]
    # Write the token of Python's JSON as a string.
    return json.dumps(value) if isinstance(value, float) and not isfinite(value) else value


def format_duration(seconds: float) -> str:
    """Format a duration for users.

    Examples
    --------
    >>> format_duration(0.25), format_duration(7.2), format_duration(75), format_duration(3725)
    ('0.2 s', '7 s', '1:15 min', '1:02 h')
    """
    if seconds < 2:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes}:{rest:02d} min"
    return f"{minutes // 60}:{minutes % 60:02d} h"


_bars: list[Progress] = []
"""The bars on the terminal."""


def print_line(text: str) -> None:
    """Print a line immediately, even while the terminal shows a bar."""
    for bar in _bars:
        bar.clear()
    print(text, flush=True)


class Progress:
    """A bar on a terminal with rate and remaining time; no output if stderr is no terminal.

    Any thread can report progress: by `add`, or by a call of the object.

    Parameters
    ----------
    label
        The name of the work.
    total
        The amount of work; None if it is unknown.
    unit
        "bytes" to show sizes; other units are shown as counts.
    stream
        The stream to draw on; by default stderr.

    Examples
    --------
    >>> with Progress("copying", 1000, "bytes") as bar:
    ...     bar.add(400)
    ...     bar(1000, 1000)
    """

    def __init__(
        self,
        label: str,
        total: int | None = None,
        unit: Literal["bytes", "items"] = "items",
        stream: TextIO | None = None,
    ) -> None:
        self._label = label
        self._total = total
        self._shows_bytes = unit == "bytes"
        self._stream: TextIO = sys.stderr if stream is None else stream
        self._is_terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._done = 0
        self._drawn_s = float("-inf")
        self._samples: deque[tuple[float, int]] = deque()
        self._lock = threading.Lock()
        self._full, self._rest = ("█", "░") if _can_draw_blocks(self._stream) else ("#", "-")

    def __enter__(self) -> Self:
        if self._is_terminal:
            _bars.append(self)
        self._samples.append((monotonic(), 0))
        self._draw()
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
        if self._is_terminal:
            _bars.remove(self)

    def add(self, amount: int = 1) -> None:
        """Add an amount of finished work."""
        with self._lock:
            self._done += amount
            self._draw()

    def __call__(self, done: int, total: int | None = None) -> None:
        """Set the amount of finished work and the total."""
        with self._lock:
            self._done = done
            self._total = self._total if total is None else total
            self._draw()

    def clear(self) -> None:
        """Erase the bar until the next report of progress."""
        if self._is_terminal:
            self._drawn_s = float("-inf")
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _draw(self) -> None:
        now = monotonic()
        if not self._is_terminal or (now - self._drawn_s < _REDRAW_S and self._done != self._total):
            return
        self._drawn_s = now
        self._samples.append((now, self._done))
        while len(self._samples) > 2 and now - self._samples[1][0] > _RATE_S:
            self._samples.popleft()
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r{self._format_line()[:width]}\x1b[K")
        self._stream.flush()

    def _format_line(self) -> str:
        first_s, first_done = self._samples[0]
        seconds = self._samples[-1][0] - first_s
        rate = (self._done - first_done) / seconds if seconds > 0 else 0.0
        parts = [self._format_amount(self._done)]
        if self._total is not None:
            filled = _WIDTH * min(self._done, self._total) // max(self._total, 1)
            bar = self._full * filled + self._rest * (_WIDTH - filled)
            share = 100 * self._done // max(self._total, 1)
            parts = [f"{bar} {share:3d} %", f"{parts[0]} of {self._format_amount(self._total)}"]
        if rate > 0:
            is_whole = self._shows_bytes or rate > 99
            amount = self._format_amount(round(rate)) if is_whole else f"{rate:.2g}"
            parts.append(f"{amount}/s")
            if self._total is not None and self._done < self._total:
                parts.append(f"{format_duration((self._total - self._done) / rate)} left")
        return "  ".join([self._label, *parts])

    def _format_amount(self, amount: int) -> str:
        return format_size(amount) if self._shows_bytes else f"{amount:,}"


def _can_draw_blocks(stream: TextIO) -> bool:
    try:
        "█░".encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def track_progress(
    label: str, items: Iterable[T], total: int | None = None, stream: TextIO | None = None
) -> Iterator[T]:
    """Yield items and show the progress on a terminal.

    Parameters
    ----------
    label
        The name of the work.
    items, total
        The items, and their number if it is known.
    stream
        The stream to draw on; by default stderr.
    """
    with Progress(label, total, stream=stream) as bar:
        for item in items:
            yield item
            bar.add()
