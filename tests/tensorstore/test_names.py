"""The package `tessarr.tensorstore`: its names, and when it is loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tessarr.tensorstore as ts


def test_import_tessarr_does_not_load_it() -> None:
    code = (
        "import sys, tessarr; a = tessarr.zeros((4, 4), chunks=(2, 2)); a[:]; a.lazy[1:].read(); "
        "print(*(name for name in sys.modules if name.startswith('tessarr.tensorstore')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert not done.stdout.split()


@pytest.mark.parametrize("name", ts.__all__)
def test_public_names_exist(name: str) -> None:
    assert hasattr(ts, name)
