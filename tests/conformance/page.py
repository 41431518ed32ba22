"""Generator of ``docs/conformance.md``, the requirements and the tests that check them.

``requirements.txt`` has one requirement per line, and ``exceptions.txt`` the reasons for omissions.
The marker ``@pytest.mark.covers("V2-META-01")`` names the requirement that a test checks.
``python tests/conformance/page.py`` writes the page; a test checks that it is current.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGE", "Requirement", "build_page", "exceptions", "format_requirement", "requirements"]

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
PAGE = ROOT / "docs" / "conformance.md"

COLUMNS = "| id | level | requirement | tests |"
HEAD = """\
# Conformance

This page is generated (`just conformance`), and a test checks that it is current. It lists the
requirements of the formats and the tests that check them. Levels: **M** must, **S** should,
**O** optional, **D** in no specification, but real data or common readers depend on it. Tessarr
reads known defects of other writers with a warning if they have a single meaning. It always writes
valid metadata.
"""


@dataclass(frozen=True)
class Requirement:
    """One line of ``requirements.txt``."""

    section: str
    id: str
    level: str
    text: str


def requirements() -> list[Requirement]:
    """Return all requirements, in the order of the page."""
    requirements_, section = [], ""
    for line in (FOLDER / "requirements.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            section = line[2:]
        else:
            name, level, text = line.split(" ", 2)
            requirements_.append(Requirement(section, name, level, text))
    return requirements_


def exceptions() -> dict[str, str]:
    """Return the reasons for requirements without tests."""
    lines = (FOLDER / "exceptions.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split(" ", 1) for line in lines if line)


def format_requirement() -> dict[str, list[tuple[Path, str]]]:
    """Return the files and names of the tests of each requirement."""
    counts: dict[str, list[tuple[Path, str]]] = {}
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        if "covers(" in text:
            for function, covered in _markers(ast.parse(text)):
                counts.setdefault(covered, []).append((file.relative_to(ROOT), function))
    return counts


def _markers(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for decorator in node.decorator_list:
            if not isinstance(decorator, ast.Call):
                continue
            if isinstance(decorator.func, ast.Attribute) and decorator.func.attr == "covers":
                for argument in decorator.args:
                    yield node.name, ast.literal_eval(argument)


def build_page() -> str:
    """Return the text of the page."""
    tests, reasons = format_requirement(), exceptions()
    listed = requirements()
    counts = {
        "checked by tests": sum(item.id in tests for item in listed),
        "exceptions": sum(item.id in reasons for item in listed),
        "open": sum(item.id not in tests and item.id not in reasons for item in listed),
    }
    total = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    lines = [HEAD, f"{len(listed)} requirements: {total}."]
    section = ""
    for item in listed:
        if item.section != section:
            section = item.section
            lines += [f"\n## {section}\n", COLUMNS, "|---|---|---|---|"]
        cell = _tests(tests.get(item.id, []))
        if item.id in reasons:
            cell = (
                f"{cell}; exception: {reasons[item.id]}"
                if cell
                else f"exception: {reasons[item.id]}"
            )
        lines.append(f"| {item.id} | {item.level} | {_escaped(item.text)} | {cell or 'open'} |")
    return "\n".join(lines) + "\n"


def _tests(tests: list[tuple[Path, str]]) -> str:
    files: dict[Path, list[str]] = {}
    for file, name in tests:
        files.setdefault(file, []).append(name.removeprefix("test_").replace("_", " "))
    return "; ".join(
        f"[{file.stem.removeprefix('test_')}](../{file.as_posix()}): {', '.join(names)}"
        for file, names in files.items()
    )


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("__", "\\_\\_")


if __name__ == "__main__":
    PAGE.write_text(build_page(), encoding="utf-8")
