"""Examples of the documentation return the results on the pages."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.pages import ROOT, list_pages, read_blocks, run_page


@pytest.mark.parametrize("page", list_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_page_examples_give_printed_results(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every example of the page returns the result below it."""
    monkeypatch.chdir(tmp_path)
    _, problems = run_page(page)
    assert not problems, "\n".join(problems)


def test_page_runner_finds_examples_of_teaching_pages() -> None:
    """A page that shows code has examples that run."""
    names = ["README.md", "docs/quickstart.md", "docs/tutorial.md", "docs/extending.md"]
    for name in names:
        assert sum(block.text.count(">>> ") for block in read_blocks(ROOT / name)) > 5, name


def test_page_runner_reports_differences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong result, a wrong output, an exit code and an unknown language are reported."""
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 1\n```\n\n```python\n>>> x\n1\n>>> x\n2\n\n```\n\n"
        "```console\n$ echo a\nb\n$ false\n```\n\n```perl\n1\n```\n",
        encoding="utf-8",
    )
    count, problems = run_page(page)
    assert count == 5
    assert len(problems) == 4
    assert "Expected:\n    2\nGot:\n    1" in problems[0]
    assert "line 8" in problems[0]
    assert "exit code 1" in problems[2]
