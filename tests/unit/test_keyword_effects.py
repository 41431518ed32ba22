"""Functions that open, create and save: each keyword has an effect, or raises an error."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import tessarr
from keyword_calls import (
    DATA,
    NEW_ONLY,
    NO_EFFECT,
    OPENING,
    REQUIRED,
    SHAPE,
    VALUES,
    has_effect,
    list_keywords,
)
from tessarr.array.keywords import RUNTIME_NAMES
from tessarr.errors import ArgumentError, NotFoundError

CALLS = [
    (name, keyword)
    for name in REQUIRED
    for keyword in list_keywords(getattr(tessarr, name))
    if keyword not in REQUIRED[name]
]


def test_table_has_all_functions_and_keywords() -> None:
    """Each function that opens, creates or saves is under test with all its keywords."""
    starts = ("create", "empty", "full", "ones", "open", "save", "zeros")
    public = {name for name in tessarr.__all__ if name.startswith(starts)}
    assert public | {"array", "from_array", "group", "load"} == set(REQUIRED)
    assert {keyword for _, keyword in CALLS} <= VALUES.keys()


@pytest.mark.parametrize(("name", "keyword"), CALLS)
def test_keyword_of_new_node_has_effect_or_raises(name: str, keyword: str, tmp_path: Path) -> None:
    assert has_effect(tessarr, name, keyword, tmp_path, existing=False)


@pytest.mark.parametrize(
    ("name", "keyword"), [one for one in CALLS if one[0] in OPENING and one[1] not in NEW_ONLY]
)
def test_keyword_of_existing_node_has_effect_or_raises(
    name: str, keyword: str, tmp_path: Path
) -> None:
    assert has_effect(tessarr, name, keyword, tmp_path, existing=True)


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize("name", ["create_array", "open", "open_array"])
def test_keyword_without_effect_is_noticed(name: str, existing: bool, tmp_path: Path) -> None:
    """The comparison of calls is exact."""
    (keyword,) = NO_EFFECT
    assert not has_effect(tessarr, name, keyword, tmp_path, existing=existing)


@pytest.mark.parametrize("keyword", sorted({*RUNTIME_NAMES} - NO_EFFECT))
def test_keyword_of_required_array_has_effect_or_raises(keyword: str, tmp_path: Path) -> None:
    """Runtime settings apply to an array that exists."""
    methods = SimpleNamespace(
        open_group=lambda store, **settings: tessarr.open_group(store).require_array(
            "a", SHAPE, **settings
        )
    )
    assert has_effect(methods, "open_group", keyword, tmp_path, existing=True)


@pytest.mark.parametrize("name", sorted(REQUIRED.keys() - {"save", "save_group"}))
def test_keyword_outside_signature_raises(name: str, tmp_path: Path) -> None:
    """No function passes on a keyword that its signature lacks."""
    function = getattr(tessarr, name)
    known = {*list_keywords(function), *REQUIRED[name], *NO_EFFECT, "store"}
    location = {"path" if name == "open_like" else "store": str(tmp_path)}
    for keyword in sorted(VALUES.keys() - known):
        with pytest.raises(TypeError, match=keyword):
            function(**{**REQUIRED[name], **location, keyword: VALUES[keyword]})
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("save", [tessarr.save, tessarr.save_group])
def test_save_setting_among_arrays_raises(save: object, tmp_path: Path) -> None:
    """A setting does not become an array of a group; an array may have any name."""
    assert callable(save)
    with pytest.raises(TypeError, match="overwrite=True is a setting"):
        save(tmp_path / "a", DATA, overwrite=True)
    assert not (tmp_path / "a").exists()
    save(tmp_path / "a", missing=DATA)
    assert tessarr.load(tmp_path / "a")["missing"].tolist() == DATA.tolist()


def test_open_with_shape_of_group_raises() -> None:
    """A shape denotes an array."""
    group = tessarr.create_group("memory://keywords-of-group")
    for mode in ("r", "r+", "a"):
        with pytest.raises(NotFoundError, match=r"no array .*, but a group"):
            tessarr.open("memory://keywords-of-group", mode, shape=(3,))
    assert list(group) == []


def test_open_of_new_group_applies_runtime_settings() -> None:
    """Runtime settings of a group are those of its arrays."""
    settings = {"missing": "refuse", "write_empty_chunks": True, "config": {"chunk_cache_bytes": 0}}
    group = tessarr.open("memory://settings-of-group", "w", **settings)
    array = group.create_array("a", shape=(2,), chunks=(1,), dtype="f8")
    assert array.config == group["a"].config
    assert array.config.chunk_cache_bytes == 0
    array[0] = 0
    assert array.nchunks_initialized == 1
    with pytest.raises(NotFoundError):
        array[:]
    other = group.create_array("b", shape=(2,), dtype="f8", config={"read_missing_chunks": True})
    assert other[:].tolist() == [0, 0]
    assert tessarr.open("memory://settings-of-group", "w", read_only=True).read_only


def test_create_mode_and_overwrite_that_contradict_raise() -> None:
    for mode in ("w-", "x"):
        with pytest.raises(ArgumentError, match="overwrite=True"):
            tessarr.create((3,), mode=mode, overwrite=True)
