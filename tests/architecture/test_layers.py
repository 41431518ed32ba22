"""Imports point to lower layers; import-linter reports violations."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

REGISTRIES = {
    "__init__.py",  # lazily loaded public names
    "codec/base.py",
    "dtype/base.py",
    "format/registry.py",  # types of keywords, for signatures
    "tensorstore/spec/driver_spec.py",
    "zarr/__init__.py",  # lazily loaded public names
    "zarr/api/__init__.py",  # lazily loaded modules
}
# These import packages of users, or modules of google-auth, by name.
OPTIONAL_PACKAGES = {
    "format/hints.py",
    "store/object/google_credentials.py",
    "zarr/dropin/originals.py",
}


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter on the package in `folder` instead of the installed one."""
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
    """Return a copy of the Python sources, which a test may modify."""
    ignore = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "python", tmp_path / "python", ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_import_contracts_hold(copy: Path) -> None:
    """The package breaks no import contract."""
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
        ("indexing/selection.py", "import threading\n"),
        ("novelty.py", "'''A module without a layer.'''\n"),
    ],
)
def test_layer_violation_is_reported(copy: Path, module: str, line: str) -> None:
    """Violations: upward imports (late, for types), engine and effect imports, new modules."""
    with (copy / "python" / "tessarr" / module).open("a", encoding="utf-8") as file:
        file.write(f"\n\n{line}")
    assert lint(copy).returncode != 0


def hidden_imports(source: str) -> list[int]:
    """Return the lines that import a Tessarr module or a computed name by `import_module`."""
    lines = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and node.args:
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else ""
            name = function.id if isinstance(function, ast.Name) else name
            module = node.args[0]
            foreign = isinstance(module, ast.Constant) and str(module.value).split(".")[0]
            if name in {"import_module", "__import__"} and foreign in {False, "tessarr"}:
                lines.append(node.lineno)
    return lines


def test_import_module_of_own_modules_is_limited_to_registries() -> None:
    """Import-linter does not see `import_module`: a module that uses it could hide a cycle."""
    package = ROOT / "python" / "tessarr"
    hidden = {
        path: lines
        for file in package.rglob("*.py")
        if (lines := hidden_imports(file.read_text(encoding="utf-8")))
        and (path := file.relative_to(package).as_posix()) not in REGISTRIES | OPTIONAL_PACKAGES
    }
    assert not hidden, hidden


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('import_module("tessarr.array")', [1]),
        ('importlib.import_module(f"tessarr.{name}")', [1]),
        ('__import__("tessarr")', [1]),
        ('import_module("h5py")', []),
    ],
)
def test_hidden_imports_finds_own_modules(source: str, lines: list[int]) -> None:
    """Constant and computed names of Tessarr modules count; other packages do not."""
    assert hidden_imports(source) == lines
