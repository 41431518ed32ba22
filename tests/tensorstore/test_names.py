"""The package `tessarr.tensorstore`: its names, and when it is loaded."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

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


@pytest.fixture
def quiet() -> Generator[None]:
    yield
    ts.experimental_update_verbose_logging(overwrite=True)


@pytest.mark.usefixtures("quiet")
def test_flags_tell_what_stores_are_asked(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    url = f"file://{tmp_path}/"
    ts.parse_tensorstore_flags(["program", "--other", "--tensorstore_verbose_logging=s3,file"])
    ts.KvStore.open(url).result()["a"] = b"123"
    ts.KvStore.open("memory://").result()["b"] = b"123"
    told = capfd.readouterr().err
    assert "file: " in told
    assert "a'" in told
    assert "b'" not in told
    ts.experimental_update_verbose_logging("all,file=-1")
    assert ts.KvStore.open(url).result()["a"] == b"123"
    ts.KvStore.open("memory://").result()["b"] = b"123"
    told = capfd.readouterr().err
    assert "a'" not in told
    assert "memory: " in told
    ts.experimental_update_verbose_logging(overwrite=True)
    ts.KvStore.open("memory://").result()["b"] = b"123"
    assert not capfd.readouterr().err
