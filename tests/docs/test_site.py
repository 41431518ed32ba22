"""The site as a whole: its pages, its names, its pictures."""

from __future__ import annotations

import re
import runpy
from dataclasses import fields
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

import tessarr
from docs.pages import ROOT, pages

PUBLIC = [
    *("tessarr", "tessarr.codecs", "tessarr.errors", "tessarr.extensions", "tessarr.storage"),
    *("tessarr.stores", "tessarr.tensorstore"),
]
# Groups of entry points, which have such names too.
GROUPS = {
    f"tessarr.{name}"
    for name in ("data_types", "chunk_grids", "chunk_key_encodings", "storage_transformers")
}
NAME = re.compile(r"`(tessarr(?:\.\w+)+)(?=[`(])")


def found(name: str) -> Any:
    """Give what a dotted name means: as an attribute, else in the module of that name."""
    thing: Any = tessarr
    try:
        for part in name.split(".")[1:]:
            thing = getattr(thing, part, None) or import_module(f"{thing.__name__}.{part}")
    except ModuleNotFoundError:
        # A function may be called as the module that it is in.
        module, _, last = name.rpartition(".")
        thing = getattr(import_module(module), last)
    return thing


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_names_on_a_page_exist(page: Any) -> None:
    """Whatever a page calls ``tessarr.something`` can be imported."""
    for name in set(NAME.findall(page.read_text(encoding="utf-8"))) - GROUPS:
        assert found(name) is not None, name


def test_the_reference_has_every_public_name() -> None:
    """Nothing public is left out: a name is shown itself, its whole module is, or the rest."""
    text = "\n".join(
        page.read_text(encoding="utf-8") for page in (ROOT / "docs/reference").glob("*.md")
    )
    hooks = runpy.run_path(str(ROOT / "docs/making/hooks.py"))
    assert hooks["REST"] in text
    shown = {*re.findall(r"^::: (\S+)", text, re.MULTILINE), *hooks["rest"]()}
    things = [found(name) for name in shown]
    for module in [thing for thing in things if isinstance(thing, ModuleType)]:
        things += [getattr(module, name) for name in module.__all__]
    missing = [
        f"{module}.{name}"
        for module in PUBLIC
        if module not in shown
        for name in import_module(module).__all__
        if not any(thing is found(f"{module}.{name}") for thing in things)
        if not isinstance(found(f"{module}.{name}"), ModuleType)
    ]
    assert not missing, f"put them on a page of docs/reference: {missing}"


def test_every_option_is_told() -> None:
    """The guide lists all options."""
    text = (ROOT / "docs/guide/options.md").read_text(encoding="utf-8")
    missing = [f.name for f in fields(tessarr.Options) if f"| `{f.name}` |" not in text]
    assert not missing, f"add them to the table of docs/guide/options.md: {missing}"


def test_pictures_are_those_that_the_script_draws() -> None:
    """The pictures are current (``just pictures``)."""
    script = runpy.run_path(str(ROOT / "docs/making/pictures.py"))
    for name, draw in script["PICTURES"].items():
        file = ROOT / "docs/pictures" / f"{name}.svg"
        assert file.read_text(encoding="utf-8") == draw(), name


def test_pictures_have_no_ground_of_their_own() -> None:
    """A picture is readable on light and on dark: lines and words take the colour of the text."""
    for file in (ROOT / "docs/pictures").glob("*.svg"):
        text = file.read_text(encoding="utf-8")
        assert 'fill="currentColor"' in text
        assert not re.search(r'="(?:#fff\w*|white|black|#000\w*)"', text), file
