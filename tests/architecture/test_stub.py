"""The stub and the compiled engine name the same things (`just stubs` compares signatures too)."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

from tessarr import _engine

STUB = Path(__file__).parents[2] / "python" / "tessarr" / "_engine.pyi"


def declared() -> dict[str, set[str]]:
    """Give the public names of the stub; those of classes with their members."""
    found: dict[str, set[str]] = {}
    for node in ast.parse(STUB.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = set()
        elif isinstance(node, ast.ClassDef):
            members = [item.name for item in node.body if isinstance(item, ast.FunctionDef)]
            found[node.name] = {name for name in members if not name.startswith("__")}
    return found


def test_the_same_names() -> None:
    assert set(declared()) == set(_engine.__all__)


def test_the_same_members() -> None:
    for name, members in declared().items():
        thing = getattr(_engine, name)
        if inspect.isclass(thing):
            own = {member for member in vars(thing) if not member.startswith("__")}
            assert members == own, name
