"""Names and pictures on the pages of the site."""

from __future__ import annotations

import re
import runpy
from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest

import tessarr
from docs.pages import ROOT, list_pages

PUBLIC = [
    *("tessarr", "tessarr.codecs", "tessarr.errors", "tessarr.extensions", "tessarr.storage"),
    *("tessarr.stores", "tessarr.tensorstore"),
]
# Groups of entry points have names of the same form.
GROUPS = {
    f"tessarr.{name}"
    for name in ("data_types", "chunk_grids", "chunk_key_encodings", "storage_transformers")
}
NAME = re.compile(r"`(tessarr(?:\.\w+)+)(?=[`(])")


PROGRAMS = {"tessarr.xarray": "xarray", "tessarr.zarr": "zarr"}
"""The packages that modules need, and that may be missing."""


def resolve_name(name: str) -> Any:
    """Return the object of a dotted name: an attribute, or a module.

    The result is a string if the package of a program is missing.
    """
    for program, package in PROGRAMS.items():
        if name.startswith(program) and find_spec(package) is None:
            return f"needs {package}"
    resolved: Any = tessarr
    try:
        for part in name.split(".")[1:]:
            resolved = getattr(resolved, part, None) or import_module(f"{resolved.__name__}.{part}")
    except ModuleNotFoundError:
        # A function may have the name of its module.
        module, _, last = name.rpartition(".")
        resolved = getattr(import_module(module), last)
    return resolved


@pytest.mark.parametrize("page", list_pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_names_on_page_exist(page: Any) -> None:
    """Every ``tessarr.name`` on a page can be imported."""
    for name in set(NAME.findall(page.read_text(encoding="utf-8"))) - GROUPS:
        assert resolve_name(name) is not None, name


def test_reference_has_every_public_name() -> None:
    """The reference shows each name, its whole module, or lists it among the other names."""
    text = "\n".join(
        page.read_text(encoding="utf-8") for page in (ROOT / "docs/reference").glob("*.md")
    )
    hooks = runpy.run_path(str(ROOT / "docs/making/hooks.py"))
    assert hooks["OTHER_NAMES"] in text
    shown = {*re.findall(r"^::: (\S+)", text, re.MULTILINE), *hooks["other_names"]()}
    shown_objects = [resolve_name(name) for name in shown]
    for module in [item for item in shown_objects if isinstance(item, ModuleType)]:
        shown_objects += [getattr(module, name) for name in module.__all__]
    missing = [
        f"{module}.{name}"
        for module in PUBLIC
        if module not in shown
        for name in import_module(module).__all__
        if not any(item is resolve_name(f"{module}.{name}") for item in shown_objects)
        if not isinstance(resolve_name(f"{module}.{name}"), ModuleType)
    ]
    assert not missing, f"put them on a page of docs/reference: {missing}"


def test_guide_lists_every_option() -> None:
    text = (ROOT / "docs/guide/options.md").read_text(encoding="utf-8")
    missing = [f.name for f in fields(tessarr.Options) if f"| `{f.name}` |" not in text]
    assert not missing, f"add them to the table of docs/guide/options.md: {missing}"


def test_pictures_are_current() -> None:
    """``just pictures`` changes nothing."""
    script = runpy.run_path(str(ROOT / "docs/making/pictures.py"))
    for name, draw in script["PICTURES"].items():
        file = ROOT / "docs/pictures" / f"{name}.svg"
        assert file.read_text(encoding="utf-8") == draw(), name


def test_list_of_storage_options_is_current() -> None:
    """``just storage-options`` changes nothing."""
    script = runpy.run_path(str(ROOT / "docs/making/storage_options.py"))
    assert script["PAGE"].read_text(encoding="utf-8") == script["build_page"]()


def test_pictures_have_no_background() -> None:
    """Lines and words take the colour of the text, on a light or dark background."""
    for file in (ROOT / "docs/pictures").glob("*.svg"):
        text = file.read_text(encoding="utf-8")
        assert 'fill="currentColor"' in text
        assert not re.search(r'="(?:#fff\w*|white|black|#000\w*)"', text), file
