"""Fixtures that run the command, and a folder with an array of format 1."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tessarr.cli import main

Run: TypeAlias = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command in this process and return its exit code, output and errors."""

    def call(*arguments: object) -> tuple[int, str, str]:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def program() -> Callable[..., Any]:
    """Start the command in a new process."""

    def call(*arguments: object, **settings: Any) -> Any:
        return subprocess.Popen(
            [sys.executable, "-m", "tessarr", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
            **settings,
        )

    return call


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to a new folder and return it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def old(here: Path) -> Path:
    """Return the folder ``old``, an array of format 1 with the elements 1, 2 and 3."""
    meta = {
        "zarr_format": 1,
        "shape": [3],
        "chunks": [3],
        "dtype": "|u1",
        "compression": "none",
        "compression_opts": None,
        "fill_value": 0,
        "order": "C",
    }
    folder = here / "old"
    folder.mkdir()
    (folder / "meta").write_text(json.dumps(meta))
    (folder / "attrs").write_text("{}")
    (folder / "0").write_bytes(bytes([1, 2, 3]))
    return folder
