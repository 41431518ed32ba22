"""The package `tessarr.tensorstore`: its names, and the time of its import."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import tessarr.tensorstore as ts


@pytest.mark.slow
def test_import_tessarr_does_not_load_tensorstore_interface() -> None:
    code = (
        "import sys, tessarr; a = tessarr.zeros((4, 4), chunks=(2, 2)); a[:]; a.lazy[1:].read(); "
        "print(*(name for name in sys.modules if name.startswith('tessarr.tensorstore')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert not done.stdout.split()


@pytest.mark.slow
def test_import_loads_data_types_and_views_only() -> None:
    """Other names load their modules at their first use, and do not change names before."""
    code = (
        "import sys, tessarr.tensorstore as ts; "
        "loaded = {name for name in sys.modules if name.startswith('tessarr.tensorstore.')}; "
        "print(len(loaded), 'tessarr.tensorstore.handle' in loaded); "
        "print(ts.json, ts.Spec.__module__); "
        "print(len([getattr(ts, name) for name in ts.__all__]) > 60, ts.json)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    number, data_type, last = done.stdout.splitlines()
    count, _, has_handle = number.partition(" ")
    assert int(count) < 12
    assert has_handle == "False"
    assert data_type == 'dtype("json") tessarr.tensorstore'
    assert last == 'True dtype("json")'


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'tessarr\.tensorstore' has no attribute 'opne'"):
        ts.opne  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("name", ts.__all__)
def test_public_names_exist(name: str) -> None:
    assert hasattr(ts, name)


def _functions() -> dict[str, Any]:
    """Return the callables by name: functions, classes, and their methods."""
    functions = {}
    for name in ts.__all__:
        value = getattr(ts, name)
        functions[name] = value
        if inspect.isclass(value):
            functions |= {
                f"{name}.{of}": function
                for of, function in inspect.getmembers(value)
                if of[0] != "_"
            }
    return {name: function for name, function in functions.items() if _is_public(function)}


def _is_public(value: Any) -> bool:
    if inspect.isclass(value):
        return "__init__" in vars(value) and value.__module__.startswith("tessarr.")
    return inspect.isroutine(value)


def test_signatures_name_all_keywords() -> None:
    """``help`` shows the keywords, although functions accept them through the name of a type."""
    functions = _functions()
    unnamed = {
        name
        for name, function in functions.items()
        if any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values())
    }
    assert not unnamed
    parameters = inspect.signature(ts.open).parameters
    assert {"spec", "read", "create", "dtype", "shape", "kvstore"} <= parameters.keys()
    assert {"read_chunk_shape", "finalize"} <= inspect.signature(ts.ChunkLayout).parameters.keys()
    assert {"ChunkLayout.update", "Schema", "Spec.update", "TensorStore.spec"} <= functions.keys()


def test_every_class_and_function_has_example() -> None:
    """Doctests run the examples; the main classes have examples in their members, too."""
    functions = _functions()
    with_examples = {
        name for name, function in functions.items() if ">>>" in (function.__doc__ or "")
    }
    assert not {name for name in functions if "." not in name} - with_examples
    for member in ("read", "write", "resize", "resolve", "spec", "astype", "with_transaction"):
        assert f"TensorStore.{member}" in with_examples


@pytest.mark.parametrize("kind", [ts.ChunkLayout, ts.ChunkLayout.Grid, ts.Schema])
@pytest.mark.parametrize("value", [None, [3]])
def test_keywords_that_are_not_known_are_refused(kind: Any, value: Any) -> None:
    for act in (kind, kind().update):
        with pytest.raises(TypeError, match="'shpae'"):
            act(shpae=value)


@pytest.fixture
def quiet() -> Generator[None]:
    yield
    ts.experimental_update_verbose_logging(overwrite=True)


@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
def test_flags_describe_store_abilities(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    url = f"file://{tmp_path}/"
    ts.parse_tensorstore_flags(["program", "--other", "--tensorstore_verbose_logging=s3,file"])
    ts.KvStore.open(url).result()["a"] = b"123"
    ts.KvStore.open("memory://").result()["b"] = b"123"
    log = capfd.readouterr().err
    assert "file: " in log
    assert "a'" in log
    assert "b'" not in log
    ts.experimental_update_verbose_logging("all,file=-1")
    assert ts.KvStore.open(url).result()["a"] == b"123"
    ts.KvStore.open("memory://").result()["b"] = b"123"
    log = capfd.readouterr().err
    assert "a'" not in log
    assert "memory: " in log
    ts.experimental_update_verbose_logging(overwrite=True)
    ts.KvStore.open("memory://").result()["b"] = b"123"
    assert not capfd.readouterr().err
