"""Functions of the drop-in: each keyword of zarr-python acts, warns or raises an error."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from keyword_calls import NEW_ONLY, OPENING, REQUIRED, has_effect, list_keywords

zarr = pytest.importorskip("zarr", minversion="3")
dropin = pytest.importorskip("tessarr.zarr")

OF_CREATE = list_keywords(zarr.create)
TAKES_SETTINGS = set(REQUIRED) - {"open_consolidated", "open_group", "save", "save_group"}


def zarr_keywords(name: str) -> list[str]:
    """Return the keywords of a function; those of `create` too, if it passes these on."""
    function = getattr(dropin, name)
    parameters = inspect.signature(function).parameters.values()
    passes_on = any(one.kind is one.VAR_KEYWORD for one in parameters)
    more = OF_CREATE if passes_on and name in TAKES_SETTINGS else []
    return sorted({*list_keywords(function), *more} - REQUIRED[name].keys())


CALLS = [(name, keyword) for name in REQUIRED for keyword in zarr_keywords(name)]


@pytest.mark.parametrize(("name", "keyword"), CALLS)
def test_keyword_of_new_node_has_effect_or_raises(name: str, keyword: str, tmp_path: Path) -> None:
    assert has_effect(dropin, name, keyword, tmp_path, existing=False)


@pytest.mark.parametrize(
    ("name", "keyword"), [one for one in CALLS if one[0] in OPENING and one[1] not in NEW_ONLY]
)
def test_keyword_of_existing_node_has_effect_or_raises(
    name: str, keyword: str, tmp_path: Path
) -> None:
    assert has_effect(dropin, name, keyword, tmp_path, existing=True)
