"""Names of files, functions, classes and tests use the terms of docs/glossary.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("python", "rust", "tests", "bench", "docs")
SKIPPED = {"target", "golden", "__pycache__", "site"}

BANNED = frozenset(
    {
        "alike",
        "anew",
        "apart",
        "aside",
        "asked",
        "asking",
        "asks",
        "begun",
        "behind",
        "found",
        "given",
        "kept",
        "likeness",
        "made",
        "nobody",
        "settled",
        "somebody",
        "stated",
        "telling",
        "tells",
        "thing",
        "things",
        "told",
        "whoever",
        "wish",
        "wishes",
    }
)
"""Ordinary words that say nothing about Zarr, arrays, stores or the engine."""

ALLOWED = ("NotFound", "not_found", "connection_made")
"""Terms of HTTP and asyncio that functions and classes may use."""

TOP_LEVEL_ENTRIES = 34
MODULE_LINES = 600


def files(*suffixes: str) -> Iterator[Path]:
    """Yield the source files of the project."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and not SKIPPED.intersection(path.parts):
                yield path


def words(name: str) -> set[str]:
    """Return the words of a name in snake case or camel case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def defined_names(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the functions and classes, or functions and types, that a file defines."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".rs":
        pattern = r"\b(?:fn|struct|enum|trait|type|mod|static|const) +([A-Za-z_]\w*)"
        for number, line in enumerate(text.splitlines(), 1):
            if not line.lstrip().startswith("//"):
                yield from ((name, number) for name in re.findall(pattern, line))
    else:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield node.name, node.lineno


def has_banned_word(name: str) -> bool:
    """Return whether a name contains a banned word."""
    for phrase in ALLOWED:
        name = name.replace(phrase, "")
    return not BANNED.isdisjoint(words(name))


@pytest.mark.parametrize("suffix", [".py", ".rs"])
def test_names_of_definitions_are_terms_of_field(suffix: str) -> None:
    banned = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in files(suffix)
        for name, line in defined_names(path)
        if has_banned_word(name)
    ]
    assert not banned, "\n".join(banned)


def test_names_of_files_are_terms_of_field() -> None:
    banned = [
        str(path.relative_to(ROOT))
        for path in files(".py", ".rs", ".md")
        if has_banned_word(path.stem)
    ]
    assert not banned, "\n".join(banned)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("is_found", True),
        ("WasTold", True),
        ("foundation", False),
        ("HTTPAsked", True),
        ("_not_found_error", False),
    ],
)
def test_banned_word_is_recognised_in_both_cases(name: str, expected: bool) -> None:
    assert has_banned_word(name) is expected


def test_package_has_few_top_level_entries() -> None:
    package = ROOT / "python" / "tessarr"
    entries = {
        path.name
        for path in package.iterdir()
        if path.name != "__pycache__" and path.suffix != ".so"
    }
    assert len(entries) <= TOP_LEVEL_ENTRIES, sorted(entries)


def test_modules_are_short() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in files(".py", ".rs")
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > MODULE_LINES
        and "tests" not in path.parts
    }
    assert not long, long


def test_first_line_of_module_docstrings_is_short() -> None:
    """The line ends with a period or a colon, so that an index can show it alone."""
    long = {}
    for path in files(".py"):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        first = (docstring or "").partition("\n")[0]
        if not 0 < len(first) <= 100:
            long[str(path.relative_to(ROOT))] = first
    assert not long, long


def test_docstring_section_headings_have_own_lines() -> None:
    """A reflowed paragraph must not swallow the heading and the underline of a section."""
    swallowed = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files(".py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.match(r"\s*(?:[A-Z]\w+ )+-{4,}", line)
    ]
    assert not swallowed, swallowed
