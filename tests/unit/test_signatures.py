"""Signatures and types: `help`, completion and type checkers know each keyword."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from typing import Any, get_type_hints

import pytest

import tessarr
import tessarr.tensorstore as ts
from tessarr.array import keyword_types
from tessarr.array.keywords import SETTING_NAMES
from tessarr.format.registry import with_keywords
from tessarr.options import OptionChanges

FUNCTIONS = [
    *("array", "create", "create_array", "empty", "empty_like", "from_array", "full", "full_like"),
    *("load", "ones", "ones_like", "open", "open_array", "open_consolidated", "open_group"),
    *("open_like", "group", "save_array", "zeros", "zeros_like", "configure", "options", "Array"),
]
METHODS = [
    *("array", "create", "create_array", "create_dataset", "create_dataset_like", "create_groups"),
    *("empty", "empty_like", "full", "full_like", "ones", "ones_like", "require_array"),
    *("require_dataset", "zeros", "zeros_like"),
]


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signature_of_function_names_all_keywords(name: str) -> None:
    kinds = [parameter.kind for parameter in parameters(getattr(tessarr, name)).values()]
    assert inspect.Parameter.VAR_KEYWORD not in kinds


@pytest.mark.parametrize("name", METHODS)
def test_signature_of_method_names_all_keywords(name: str) -> None:
    method = getattr(tessarr.create_group(), name)
    named = parameters(method)
    assert "self" not in named
    assert inspect.Parameter.VAR_KEYWORD not in {one.kind for one in named.values()}


def test_signature_of_create_array_has_types_and_defaults() -> None:
    named = parameters(tessarr.create_array)
    assert set(named) >= SETTING_NAMES
    assert named["chunks"].annotation == "ChunksLike"
    defaults = {name: named[name].default for name in ("chunks", "compressors", "overwrite")}
    assert defaults == {"chunks": None, "compressors": "auto", "overwrite": False}
    assert inspect.signature(tessarr.create_array).return_annotation == "Array"


def test_defaults_in_signatures_are_defaults_of_calls() -> None:
    """Each keyword with its default in the signature has no effect."""
    aliases = {"compressor", "fillvalue", "chunk_shape", "compression", "zarr_version"}
    settings = {
        name: one.default
        for name, one in parameters(tessarr.create_array).items()
        if name not in {"store", "shape", *aliases}
    }
    explicit = tessarr.create_array(shape=(5, 6), **settings)
    assert explicit.metadata == tessarr.create_array(shape=(5, 6)).metadata
    assert explicit.config == tessarr.create_array(shape=(5, 6)).config


@pytest.mark.parametrize("name", ["open", "open_array", "create_array", "array", "zeros"])
def test_keywords_of_types_are_keywords_of_calls(name: str) -> None:
    """The function accepts each keyword of its signature: only its value may be wrong."""
    function = getattr(tessarr, name)
    for keyword, one in parameters(function).items():
        if one.kind is inspect.Parameter.KEYWORD_ONLY:
            first: dict[str, Any] = {"data": [1]} if name == "array" else {}
            first |= {"shape": 3} if name in {"zeros", "create_array"} else {}
            try:
                function(**{**first, keyword: object()})
            except TypeError as error:
                assert "unexpected keyword" not in str(error), keyword
            except Exception:
                pass


def test_help_shows_keywords() -> None:
    text = pydoc.render_doc(tessarr.create_array, renderer=pydoc.plaintext)
    head = text.split("Create an array.")[0]
    assert "chunks:" in head
    assert "compressors:" in head
    assert "settings" not in head


def test_option_types_are_those_of_options() -> None:
    names = vars(sys.modules["tessarr.options"])
    hints = get_type_hints(tessarr.Options, names)
    assert get_type_hints(OptionChanges, names) == hints
    assert {one.default for one in parameters(tessarr.configure).values()} == {...}


def test_signature_of_tensorstore_function_names_keywords() -> None:
    assert {"create", "dtype", "kvstore"} <= set(parameters(ts.open))
    assert {"rank", "dtype"} <= set(parameters(ts.Schema))


def test_signature_is_computed_on_first_use() -> None:
    """`import tessarr` does not import the types of keywords."""
    code = "import sys, tessarr; print('tessarr.array.keyword_types' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False"


def test_signature_supports_replacement_and_comparison() -> None:
    @with_keywords("tessarr.array.keyword_types")
    def draw(what: Any, **settings: Any) -> None: ...

    draw.__annotations__["settings"] = "Unpack[OpenGroupSettings]"
    shown = inspect.signature(draw)
    names = ["what", *keyword_types.OpenGroupSettings.__annotations__]
    assert [*shown.parameters] == names
    assert shown == inspect.Signature(list(shown.parameters.values()), return_annotation="None")
    assert [*shown.replace(parameters=[]).parameters] == []
    assert not hasattr(shown, "colour")
