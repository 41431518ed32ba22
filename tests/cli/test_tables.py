"""Tables and text at the width of the terminal."""

from __future__ import annotations

import os
import pty
import sys
from pathlib import Path

import numpy as np
import pytest

import tessarr
from tessarr.cli.tables import format_columns, format_table, wrap_text


def test_format_table_wraps_values_below_their_start() -> None:
    """Continuation lines are indented; without a width nothing wraps."""
    rows = [("name", "one two three four five six"), ("b", "x")]
    assert format_table(rows, 24).splitlines() == [
        "name  one two three four",
        "      five six",
        "b     x",
    ]
    assert "one two three four five six" in format_table(rows)


def test_format_columns_moves_columns_below() -> None:
    """Every cell stays in its column."""
    rows = [("name", ">bytes", ">time"), ("a", ">1", ">2 s"), ("long name", ">12345", ">3 s")]
    for line in format_columns(rows, 20).splitlines():
        assert len(line) <= 20
    assert format_columns(rows, 100) == format_columns(rows)
    assert format_columns(rows, 17).split() == format_columns(rows).split()


@pytest.mark.parametrize("width", [1, 10, 25, 80])
def test_wrap_text_keeps_all_words(width: int) -> None:
    """Text without long words loses nothing."""
    text = "The first is best: [:, 0] in 1 ms instead of 3 ms\nand more"
    assert wrap_text(text, "  ", width).split() == text.split()


@pytest.mark.slow
def test_advise_fits_a_narrow_terminal(here: Path) -> None:
    """On a terminal of 60 columns only the command to copy is longer."""
    tessarr.create_array("a.zarr", data=np.arange(10000.0).reshape(100, 100), chunks=(10, 100))
    reader, writer = pty.openpty()
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-m", "tessarr", "advise", "a.zarr"],
        {**os.environ, "COLUMNS": "60", "PYTHONIOENCODING": "utf-8"},
        file_actions=[(os.POSIX_SPAWN_DUP2, writer, 1), (os.POSIX_SPAWN_DUP2, writer, 2)],
    )
    os.close(writer)
    output = b""
    while True:
        try:
            part = os.read(reader, 65536)
        except OSError:
            break
        if not part:
            break
        output += part
    os.close(reader)
    assert os.waitpid(pid, 0)[1] == 0
    lines = [line.rpartition("\r")[2] for line in output.decode().replace("\r\n", "\n").split("\n")]
    text = [line.replace("\x1b[K", "") for line in lines]
    assert [line for line in text if len(line) > 60 and "tessarr copy" not in line] == []
    assert any("chunks" in line for line in text)
