"""The prose of the README and of the documentation: line length and banned words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LONGEST = 100
# Words that hide the subject of a sentence. Each has a clear replacement, so the test bans all.
BANNED = [
    *("whoever", "nobody", "somebody", "anew", "is told", "are told"),
    *("of its own", "as it is", "what is asked"),
]
PATTERN = "|".join(BANNED).replace(" ", r"\s+")
BANNED_WORD = re.compile(rf"\b(?:{PATTERN})\b", re.IGNORECASE)
CODE_SPAN = re.compile(r"`[^`]*`")
LINK = re.compile(r"!?\[[^\]]*\]\(\S+\)")


def prose(text: str) -> str:
    """Return the text with empty lines in place of code blocks and tables."""
    lines, in_code = [], False
    for line in text.splitlines():
        is_fence = line.lstrip().startswith("```")
        is_prose = not (in_code or is_fence or line.lstrip().startswith("|"))
        lines.append(line if is_prose else "")
        in_code ^= is_fence
    return "\n".join(lines)


def long_lines(text: str) -> list[int]:
    """Return the numbers of long lines, except for lines of one word or one link."""
    return [
        number
        for number, line in enumerate(prose(text).splitlines(), 1)
        if len(line) > LONGEST and " " in line.strip() and not LINK.fullmatch(line.strip())
    ]


def banned_words(text: str) -> list[tuple[int, str]]:
    """Return the line numbers and texts of banned words outside code and tables."""
    visible = CODE_SPAN.sub(lambda span: re.sub(r"\S", "_", span[0]), prose(text))
    return [
        (visible.count("\n", 0, match.start()) + 1, " ".join(match[0].split()))
        for match in BANNED_WORD.finditer(visible)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_lines_have_at_most_100_characters(page: Path) -> None:
    """Prose is wrapped; code blocks, tables and lines of one link are not."""
    assert not long_lines(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_uses_no_banned_words(page: Path) -> None:
    """Sentences name their subject."""
    assert not banned_words(page.read_text(encoding="utf-8"))


def test_long_lines_are_reported_in_prose_only() -> None:
    """Code, tables and links may be long; a paragraph or a list item may not."""
    long = "word " * 25
    exempt = ["short", "```text", long, "```", f"| {long} |", f"[{long}](page.md)", "x" * 120]
    assert long_lines("\n".join([*exempt, long, f"- {long}"])) == [8, 9]


def test_banned_words_are_reported_across_lines() -> None:
    """A phrase may continue on the next line; code and longer words do not count."""
    lines = ["A part of its", "own.", "```text", "nobody", "```", "Has it is not, `nobody`."]
    words = banned_words("\n".join([*lines, "Anew", "| nobody |"]))
    assert words == [(1, "of its own"), (7, "Anew")]
