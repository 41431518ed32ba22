"""The page on the architecture names existing files and folders."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_architecture_page_names_existing_paths() -> None:
    paths = set(re.findall(r"(?<![\w/])(?:python/tessarr|rust)/[\w./]+", PAGE))
    missing = sorted(path for path in paths if not (ROOT / path.rstrip(".")).exists())
    assert len(paths) > 20
    assert not missing


def test_architecture_page_follows_five_operations_in_short_sections() -> None:
    """Each section has fewer than ten lines of text and a diagram."""
    sections = re.split(r"^## .*$", PAGE, flags=re.MULTILINE)[1:]
    assert len(sections) == 5
    for section in sections:
        text = re.sub(r"```.*?```", "", section, flags=re.DOTALL)
        lines = [line for line in text.splitlines() if line.strip()]
        assert len(lines) < 10
        assert "```text" in section
