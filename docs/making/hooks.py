"""MkDocs hooks for decisions, links, pictures and names of the reference.

Pages also work in the repository. Their links may lead to files outside ``docs``, which the site
does not have, and to pictures, which the site embeds in the colours of the reader.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
PACKAGE = DOCS.parent / "python/tessarr"
OTHER_NAMES = "<!-- the names that no other page has -->"
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")
PICTURE = re.compile(r'<img alt="([^"]*)" src="[^"]*?([\w-]+\.svg)"[^>]*>')
NAMED = re.compile(r"<code>(tessarr(?:\.\w+)+)([^<]*)</code>(?!</a>)")
STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)


def on_config(config: Any) -> Any:
    """Add every decision below the page of decisions."""
    project = next(entry["Project"] for entry in config.nav if "Project" in entry)
    decisions = sorted((DOCS / "adr").glob("0*.md"))
    pages = [{_title(page): f"adr/{page.name}"} for page in decisions]
    project[-1] = {"Decisions": ["adr/README.md", *pages]}
    return config


def _title(page: Path) -> str:
    with page.open(encoding="utf-8") as file:
        return file.readline().lstrip("# 0123456789.").strip()


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace links to files outside the documentation by their texts."""
    folder = Path(page.file.abs_src_path).parent

    def inside(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
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
    return NAMED.sub(linked, PICTURE.sub(inline, html))
