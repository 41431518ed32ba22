"""MkDocs hooks for decisions, the changelog, links, pictures, search and names of the reference.

Pages also work in the repository. Their links may lead to files outside ``docs``, which the site
does not have, and to pictures, which the site embeds in the colours of the reader.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from os.path import relpath
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
PACKAGE = ROOT / "python/tessarr"
CHANGELOG = ROOT / "CHANGELOG.md"
RELEASES = "<!-- towncrier release notes start -->"
OTHER_NAMES = "<!-- the names that no other page has -->"
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
PICTURE = re.compile(r'<img alt="([^"]*)" src="[^"]*?([\w-]+\.svg)"[^>]*>')
NAMED = re.compile(r"<code>(tessarr(?:\.\w+)+)([^<]*)</code>(?!</a>)")
NO_DESCRIPTION = re.compile(r'–\s*<div class="doc-md-description">\s*</div>')
STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)
RANKS = {
    **dict.fromkeys(("programs/", "guide/", "faq.md"), 10),
    **dict.fromkeys(("guide/tensorstore.md", "guide/codecs-measured.md"), 1),
    **dict.fromkeys(("reference/", "glossary.md", "matrix.md"), 0.1),
    **dict.fromkeys(("adr/", "architecture.md", "changelog.md", "conformance.md"), 0.001),
    **dict.fromkeys(("correctness.md", "developing.md"), 0.001),
}
"""Weights of the search by page or folder; the longest match counts, and 1 is the default."""


def on_config(config: Any) -> Any:
    """Add every decision below the page of decisions."""
    project = next(entry["Project"] for entry in config.nav if "Project" in entry)
    decisions = sorted((DOCS / "adr").glob("0*.md"))
    pages = [{_title(page): f"adr/{page.name}"} for page in decisions]
    project[-1] = {"Decisions": ["adr/README.md", *pages]}
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Add the changelog, which begins with the changes since the last release."""
    from mkdocs.structure.files import File  # tests read this file without MkDocs

    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "Next release"]
    draft = subprocess.run(  # noqa: S603 -- fixed arguments
        [*command, "--date", "unreleased"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        encoding="utf-8",
    ).stdout
    _, _, released = CHANGELOG.read_text(encoding="utf-8").partition(RELEASES)
    files.append(File.generated(config, "changelog.md", content=f"# Changelog\n{draft}{released}"))
    return files


def _title(page: Path) -> str:
    with page.open(encoding="utf-8") as file:
        return file.readline().lstrip("# 0123456789.").strip()


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Rank the page in the search, and replace links to files outside the documentation."""
    name = page.file.src_uri
    ranks = [key for key in RANKS if name.startswith(key)]
    page.meta["search"] = {"boost": RANKS[max(ranks, key=len)] if ranks else 1}
    folder = (DOCS / name).parent

    def inside(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if target == CHANGELOG:
            return f"[{link[1]}]({relpath(DOCS / 'changelog.md', folder)})"
        return link[0] if target.is_relative_to(DOCS) else link[1]

    return LINK.sub(
        inside, markdown.replace(OTHER_NAMES, "\n\n".join(f"::: {name}" for name in other_names()))
    )


def other_names() -> list[str]:
    """Return the public names of the package that no page of the reference shows."""
    pages = "\n".join(page.read_text(encoding="utf-8") for page in DOCS.glob("reference/*.md"))
    shown = set(re.findall(r"^::: tessarr.*\.(\w+)$", pages, re.MULTILINE))
    modules = {path.stem: path for path in PACKAGE.iterdir()}
    for name in shown & modules.keys():
        if modules[name].is_file():
            shown |= set(_public(modules[name]))
    names = _public(PACKAGE / "__init__.py")
    return [f"tessarr.{name}" for name in names if name not in shown and name not in modules]


def _public(module: Path) -> list[str]:
    """Return the names that a module exports."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    return []


def on_page_content(html: str, **_: Any) -> str:
    """Embed pictures, and link names to the reference."""

    def inline(image: re.Match[str]) -> str:
        text = (DOCS / "pictures" / image[2]).read_text(encoding="utf-8")
        return f'<figure role="img" aria-label="{image[1]}">{STYLE.sub("", text)}</figure>'

    linked = r'<autoref identifier="\1" optional><code>\1\2</code></autoref>'
    html = html.replace("<p>::</p>", "")  # in docstrings, where it starts a drawing
    html = NO_DESCRIPTION.sub("", html)
    return NAMED.sub(linked, PICTURE.sub(inline, html))
