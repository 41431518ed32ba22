"""Progress bars and durations of the command."""

from __future__ import annotations

import io
import threading
from typing import Any

import pytest

from tessarr.cli import output
from tessarr.cli.output import Progress, format_duration, track_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Ascii(io.TextIOWrapper):
    """Terminal with ASCII output only."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="ascii")

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the clock by one that the test advances."""
    now = [100.0]
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(output, "monotonic", lambda: now[0])
    return now


def drawn(stream: io.StringIO) -> list[str]:
    return [line.removesuffix("\x1b[K") for line in stream.getvalue().split("\r")[1:]]


def test_progress_bar_shows_rate_and_remaining_time(clock: list[float]) -> None:
    """Half of the work takes two seconds, so two seconds remain."""
    stream = Terminal()
    with Progress("copying", 4 << 20, "bytes", stream) as bar:
        clock[0] += 2
        bar.add(2 << 20)
    first, second, last = drawn(stream)
    assert first == f"copying  {'░' * 24}   0 %  0 of 4.0M"
    assert second == f"copying  {'█' * 12}{'░' * 12}  50 %  2.0M of 4.0M  1.0M/s  2 s left"
    assert last == ""
    assert "\n" not in stream.getvalue()


def test_progress_rate_uses_last_seconds(clock: list[float]) -> None:
    """Work that starts fast and slows down has a long remaining time."""
    stream = Terminal()
    with Progress("work", 1000, stream=stream) as bar:
        for _ in range(20):
            clock[0] += 1
            bar.add(40)
        for _ in range(20):
            clock[0] += 1
            bar.add(1)
    assert drawn(stream)[-2].endswith("820 of 1,000  1/s  3:00 min left")


def test_progress_bar_draws_at_limited_rate(clock: list[float]) -> None:
    """The bar limits its updates, and always draws the last one."""
    stream = Terminal()
    for _ in track_progress("work", range(1000), 1000, stream):
        clock[0] += 0.001
    assert len(drawn(stream)) == 12
    assert "100 %" in drawn(stream)[-2]


def test_progress_accepts_callback_with_total(clock: list[float]) -> None:
    """The callback may correct the total."""
    stream = Terminal()
    with Progress("work", None, stream=stream) as bar:
        clock[0] += 1
        bar(5, 10)
    assert drawn(stream)[0] == "work  0"
    assert "5 of 10  5/s  1.0 s left" in drawn(stream)[1]


def test_progress_bar_fits_narrow_terminal(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line must fit the terminal, so that the next line overwrites it."""
    monkeypatch.setenv("COLUMNS", "30")
    stream = Terminal()
    with Progress("a long description of the work", 10, stream=stream):
        pass
    assert len(drawn(stream)[0]) == 29


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_progress_without_terminal_draws_nothing(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pipes and terminals without cursor movement show no bar."""
    monkeypatch.setenv("TERM", "dumb")
    assert list(track_progress("work", iter(range(3)), 3, stream)) == [0, 1, 2]
    assert list(track_progress("none", [], 0, stream)) == []
    assert stream.getvalue() == ""


def test_progress_bar_without_block_characters(clock: list[float]) -> None:
    """The bar has an ASCII form."""
    stream = Ascii()
    with Progress("work", 2, stream=stream) as bar:
        clock[0] += 1
        bar.add()
    buffer: Any = stream.buffer
    assert b"############------------  50 %" in buffer.getvalue()


def add_often(bar: Progress) -> None:
    for _ in range(1000):
        bar.add()


def test_progress_from_many_threads(clock: list[float]) -> None:
    """Concurrent updates are all counted."""
    with Progress("work", 4000, stream=Terminal()) as bar:
        threads = [threading.Thread(target=add_often, args=(bar,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert "4,000 of 4,000" in bar._format_line()


def test_durations() -> None:
    """Durations are rounded, and never show 60 seconds or minutes."""
    assert format_duration(59.4) == "59 s"
    assert format_duration(59.6) == "1:00 min"
    assert format_duration(119.9) == "2:00 min"
    assert format_duration(7200) == "2:00 h"
