"""Warnings point to the user's line, through any function."""

from __future__ import annotations

import functools
import itertools
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import BuiltinImporter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import TessarrWarning

FILE = __file__
SHAPES = itertools.count(1000)
ROOT = Path(tessarr.__file__).parent


@contextmanager
def caught() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as result:
        warnings.simplefilter("always")
        yield result


def line_of(text: str) -> int:
    """Return the number of the only line of this file with a comment."""
    (number,) = (
        n
        for n, line in enumerate(Path(FILE).read_text().splitlines(), 1)
        if line.endswith(f"# {text}")
    )
    return number


def broken() -> Any:
    """A store with documents that break their specification, but have one sensible reading."""
    store = tessarr.stores.MemoryStore()
    group = tessarr.create_group(store, zarr_format=2)
    # The memo of parsed documents would suppress the warning.
    group.create_array("x", shape=next(SHAPES), dtype="i4", fill_value=1)
    document = store.get("x/.zarray")
    assert document is not None
    store.put("x/.zarray", document.replace(b'"fill_value": 1', b'"fill_value": 1.0'))
    store.put("x/.zgroup", b'{"zarr_format": 2}')
    return store


def opening() -> None:
    tessarr.open_array(broken(), path="x")  # opening


def member() -> None:
    tessarr.open_group(broken())["x"]  # member


def listing() -> None:
    list(tessarr.open_group(broken()).arrays())  # listing


def assigning() -> None:
    tessarr.zeros(3, dtype="u1")[...] = np.array([1, 2, 300])  # assigning


def by_future() -> None:
    tessarr.zeros(3, dtype="u1").write(..., np.array([1, 2, 300])).result()  # by_future


def creating() -> None:
    tessarr.create_array(data=np.array([1, 2, 300]), dtype="u1")  # creating


def by_thread() -> None:
    values = np.arange(400_000)
    tessarr.zeros(400_000, dtype="u1", chunks=50_000)[...] = values  # by_thread


def by_function_of_python() -> None:
    values = np.array([1, 2, 300])
    functools.partial(tessarr.create_array, data=values, dtype="u1")()  # by_function_of_python


@pytest.mark.parametrize(
    "call",
    [opening, member, listing, assigning, by_future, creating, by_thread, by_function_of_python],
    ids=lambda call: call.__name__,
)
def test_warning_is_reported_at_line_of_caller(call: Callable[[], None]) -> None:
    """File and line are those of the user's statement, also in other threads."""
    with caught() as result:
        call()
    assert result
    assert {(w.filename, w.lineno) for w in result} == {(FILE, line_of(call.__name__))}


def test_warning_is_shown_once_for_each_line() -> None:
    """Python's registry of shown warnings is the one of the user's module."""
    with warnings.catch_warnings(record=True) as result:
        warnings.simplefilter("default")
        for _ in range(3):
            assigning()
    assert len(result) == 1


def test_command_prints_its_warning(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The command has no user's line, so that it prints only the message."""
    from tessarr.cli import main

    store = broken()
    for key in store.list(""):
        path = tmp_path / "x.zarr" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(store.get(key)))
    main(["info", str(tmp_path / "x.zarr" / "x")])
    err = capsys.readouterr().err
    assert err.startswith("tessarr: warning: ")
    assert ".py" not in err


def test_warnings_use_warn_user() -> None:
    """``warnings.warn`` would report a line of the package."""
    users = [
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        if "warnings.warn(" in path.read_text() and path.name != "user_warnings.py"
    ]
    assert users == []


def test_warning_in_terminal_is_shown() -> None:
    """The loader of the module has no source, and raises an error on a request for it."""
    names: dict[str, object] = {"__name__": "__main__", "__loader__": BuiltinImporter}
    code = compile("tessarr.create_group(None, attributes={'x': nan})", "<stdin>", "exec")
    with pytest.warns(TessarrWarning, match="'x'") as caught:
        exec(code, {**names, "tessarr": tessarr, "nan": float("nan")})
    assert [warning.filename for warning in caught] == ["<stdin>"]


@pytest.mark.slow
@pytest.mark.parametrize("option", ["-c", "-", "-i"])
def test_warning_of_program_without_file_is_shown(option: str) -> None:
    text = (
        "import tessarr; tessarr.create_group(None, attributes={'x': float('nan')}); print('end')"
    )
    done = subprocess.run(
        [sys.executable, option, *([text] if option == "-c" else [])],
        input="" if option == "-c" else f"{text}\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.endswith("end\n")
    assert "TessarrWarning: NaN or infinity in attribute 'x'" in done.stderr


@pytest.mark.parametrize("dtype", ["u1", "u8", "f2"])
def test_overflowing_numpy_scalar_warns_at_user_line(dtype: str) -> None:
    """NumPy's own warning about the cast does not point to Tessarr."""
    array = tessarr.create_array(None, shape=3, dtype=dtype)
    with caught() as result:
        array[:] = np.float64(1e20)
    assert result
    assert {warning.filename for warning in result} == {FILE}
