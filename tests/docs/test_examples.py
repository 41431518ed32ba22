"""What the documentation shows is what happens."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pages import ROOT, blocks, pages, run


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_examples_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every example of the page gives what is printed below it."""
    monkeypatch.chdir(tmp_path)
    _, problems = run(page)
    assert not problems, "\n".join(problems)


def test_pages_that_teach_have_examples() -> None:
    """The runner finds the examples: a page that shows code is not passed over."""
    taught = ["README.md", "docs/quickstart.md", "docs/tutorial.md", "docs/extending.md"]
    for name in taught:
        assert sum(block.text.count(">>> ") for block in blocks(ROOT / name)) > 5, name


def test_what_differs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong result, a wrong output, an exit code and an unknown language are found."""
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 1\n```\n\n```python\n>>> x\n1\n>>> x\n2\n\n```\n\n"
        "```console\n$ echo a\nb\n$ false\n```\n\n```perl\n1\n```\n",
        encoding="utf-8",
    )
    count, problems = run(page)
    assert count == 5
    assert len(problems) == 4
    assert "Expected:\n    2\nGot:\n    1" in problems[0]
    assert "line 8" in problems[0]
    assert "exit code 1" in problems[2]
