"""Completion of names and paths in brackets: ``g["a/<TAB>``."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tessarr
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.stores import MemoryStore, ZipStore


@pytest.fixture
def group() -> tessarr.Group:
    g = tessarr.create_group(MemoryStore())
    nodes: dict[str, Any] = {"site/temp": {"shape": 3}, "site/deep/x": {"shape": 3}, "other": None}
    list(g.create_hierarchy(nodes))
    return g


@pytest.fixture
def type_text(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that simulates text before the cursor of a shell."""

    def type_in(text: str) -> None:
        shell = SimpleNamespace(Completer=SimpleNamespace(text_until_cursor=text))
        ipython = SimpleNamespace(get_ipython=lambda: shell)
        monkeypatch.setitem(__import__("sys").modules, "IPython", ipython)

    return type_in


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ('g["', []),
        ('g["si', []),
        ('g["site/', ["site/deep", "site/temp"]),
        ("x = f(g[ 'site/te", ["site/deep", "site/temp"]),
        ('g["site"]; g["site/deep/', ["site/deep/x"]),
        ('g["site/temp/', []),
        ('g["nope/', []),
        ('g["../', []),
        ('g["site/"].', []),
        ('"site/', []),
    ],
)
@pytest.mark.parametrize("consolidated", [False, True])
def test_typed_path_completes_members_of_its_group(
    group: tessarr.Group, type_text: Any, text: str, paths: list[str], consolidated: bool
) -> None:
    type_text(text)
    if consolidated:
        group = tessarr.consolidate_metadata(group.store)
    assert group._ipython_key_completions_() == ["other", "site", *paths]


def test_completion_takes_one_listing_per_group(group: tessarr.Group, type_text: Any) -> None:
    store = CountingStore(group.store)
    opened = tessarr.open_group(store, "r")
    before = sum(store.counts().values())
    type_text('g["')
    opened._ipython_key_completions_()
    assert sum(store.counts().values()) - before == 1


def test_completion_without_shell_is_names(group: tessarr.Group) -> None:
    assert group._ipython_key_completions_() == ["other", "site"]
    assert group["site"]._ipython_key_completions_() == ["deep", "temp"]


def test_completion_in_closed_store_is_empty(tmp_path: Path) -> None:
    store = ZipStore(tmp_path / "a.zip", mode="w")
    g = tessarr.create_group(store)
    g.create_group("a")
    store.close()
    assert g._ipython_key_completions_() == []


def test_attributes_and_fields_are_completed() -> None:
    a = tessarr.zeros(3, dtype=[("x", "i4"), ("y", "f8")], attributes={"units": "m"})
    assert a.attrs._ipython_key_completions_() == ["units"]
    assert a._ipython_key_completions_() == ["x", "y"]
    assert tessarr.zeros(3)._ipython_key_completions_() == []


@pytest.mark.parametrize("use_jedi", [False, True])
def test_ipython_completes_paths_attributes_and_keywords(
    group: tessarr.Group, use_jedi: bool
) -> None:
    """In a real shell of IPython."""
    pytest.importorskip("IPython")
    from IPython.core.completer import provisionalcompleter
    from IPython.core.interactiveshell import InteractiveShell

    group.attrs["units"] = "m"
    shell: Any = InteractiveShell.instance()
    try:
        shell.user_ns |= {"g": group, "attrs": group.attrs, "tessarr": tessarr}
        shell.Completer.use_jedi = use_jedi

        def offers(typed: str, name: str) -> bool:
            with provisionalcompleter():
                completions = [*shell.Completer.completions(typed, len(typed))]
            return any(name in one.text for one in completions)

        assert offers('g["', "other")
        assert offers('g["site/', "temp")
        assert offers('g["site/de', "deep")
        assert offers('g["site/deep/', "x")
        assert offers('attrs["', "units")
        assert offers("tessarr.create_array(ch", "chunks=")
        assert offers("tessarr.options(thr", "threads=")
        assert not use_jedi or offers("g.create_array('a', comp", "compressors=")
        assert not offers('g.attrs["', "units")  # IPython evaluates no property of unknown classes
        shell.run_line_magic("load_ext", "tessarr")
        assert offers('g.attrs["', "units")
    finally:
        InteractiveShell.clear_instance()
