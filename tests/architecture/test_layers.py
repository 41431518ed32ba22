"""Imports point down: checked where the tests run, too, and the check is known to bite."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the package in `folder`, which it finds before the installed one."""
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    return subprocess.run(
        [sys.executable, "-c", program, "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "python")},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the sources, without the extension, that a test may spoil."""
    ignore = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "python", tmp_path / "python", ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_layers_hold(copy: Path) -> None:
    """All contracts are kept."""
    done = lint(copy)
    assert done.returncode == 0, done.stdout
    assert "3 kept, 0 broken" in done.stdout


@pytest.mark.parametrize(
    ("module", "line"),
    [
        (
            "format/chunk_grid.py",
            "def late() -> None:\n    import tessarr.array  # noqa\n",
        ),
        (
            "types.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import tessarr.format\n",
        ),
        ("metadata/node.py", "from tessarr import _engine\n"),
        ("indexing/axis.py", "import threading\n"),
        ("novelty.py", "'''A module without a layer.'''\n"),
    ],
)
def test_a_breach_is_noticed(copy: Path, module: str, line: str) -> None:
    """An import upwards (late, or for types), of the engine, of effects; a layerless module."""
    with (copy / "python" / "tessarr" / module).open("a", encoding="utf-8") as file:
        file.write(f"\n\n{line}")
    assert lint(copy).returncode != 0
