"""The stub and the compiled engine have equal names (`just stubs` compares signatures)."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

from tessarr import _engine

STUB = Path(__file__).parents[2] / "python" / "tessarr" / "_engine.pyi"


def declared() -> dict[str, set[str]]:
    """Return the public names of the stub, with the members of classes."""
    by_name: dict[str, set[str]] = {}
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            by_name[node.name] = set()
        elif isinstance(node, ast.ClassDef):
            members = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
            by_name[node.name] = {name for name in members if not name.startswith("__")}
    return by_name


def test_stub_and_engine_have_equal_names() -> None:
    assert set(declared()) == set(_engine.__all__)


def test_stub_and_engine_classes_have_equal_members() -> None:
    for name, members in declared().items():
        value = getattr(_engine, name)
        if inspect.isclass(value):
            own = {member for member in vars(value) if not member.startswith("__")}
            assert members == own, name
