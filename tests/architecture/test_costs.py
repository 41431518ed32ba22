"""Few modules on import, few calls on a read, and cheap repeated opens."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tessarr
from calls import record_calls
from tessarr.index_space import IndexDomain, IndexTransform

# Modules that opening and reading an array do not need are imported on first use.
PACKAGE = str(Path(tessarr.__file__).parent)
MODULES = 70


def test_import_loads_few_modules_beyond_numpy() -> None:
    code = (
        "import sys, numpy; before = set(sys.modules); import tessarr; "
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = done.stdout.split()
    assert len(loaded) <= MODULES, loaded
    heavy = {"asyncio", "importlib.metadata", "logging", "concurrent", "urllib", "argparse"}
    assert not heavy & set(loaded)


def ours(action: Callable[[], object]) -> list[tuple[str, str]]:
    """Return the Tessarr functions that `action` calls, with their modules."""
    calls = record_calls(action).python
    return [(call.module, call.name) for call in calls if call.file.startswith(PACKAGE)]


def test_reading_chunk_takes_few_calls_in_few_modules(tmp_path: Path) -> None:
    a = tessarr.create_array(tmp_path, shape=(100, 100), dtype="i4", chunks=(10, 10))
    a[:] = np.arange(10000).reshape(100, 100)
    plain = ours(lambda: a[10:20, :10])
    assert plain == []  # from the key to the bytes, no Python function runs
    actions: list[Callable[[], object]] = [
        lambda: a[10:20, None, :10],
        lambda: a[[12, 13]],
        lambda: a.read((slice(10, 20), slice(10))).result(),
        lambda: a.get_basic_selection((slice(10, 20), slice(10))),
        lambda: a.blocks[1, 0],
    ]
    for action in actions:
        action()
        calls = ours(action)
        modules = {module for module, _ in calls}
        assert 0 < len(calls) <= 60, calls
        assert len(modules) <= 8, modules
    basic = ours(lambda: a.read((slice(10, 20), slice(10))).result())
    assert len(basic) <= 15, basic
    assert len({module for module, _ in basic}) <= 6, basic


def test_opening_again_parses_nothing(tmp_path: Path) -> None:
    tessarr.create_array(tmp_path, shape=(100, 100), dtype="i4", chunks=(10, 10))
    tessarr.open_array(tmp_path)
    calls = ours(lambda: tessarr.open_array(str(tmp_path)))
    assert not any("metadata" in module or "codec" in module for module, _ in calls), calls
    assert len(calls) <= 20, calls


def test_indexing_view_takes_few_calls() -> None:
    """The composition of a view takes few calls, for any number of positions."""
    view = IndexTransform(IndexDomain(shape=[100000, 100, 50]))
    indices = np.arange(10000)
    taken = view[indices]
    actions: list[Callable[[], object]] = [
        lambda: view[5],
        lambda: view[5:100, ::2],
        lambda: view[indices],
        lambda: view.vindex[indices, indices[:1]],
        lambda: taken[indices],
        lambda: taken[10:500],
    ]
    for action in actions:
        calls = ours(action)
        assert 0 < len(calls) <= 60, calls
