"""Calls of fsync, counted by a library that replaces the system's function."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SPY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void note(int fd) {
    char link[64], name[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, name, sizeof name - 1);
    FILE *log = fopen(getenv("SPY_LOG"), "a");
    if (log && size > 0) { name[size] = 0; fprintf(log, "%s\\n", name); }
    if (log) fclose(log);
}
int fsync(int fd) { note(fd); return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd); }
int fdatasync(int fd) { note(fd); return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd); }
"""

WRITER = """
import os, sys, tessarr
log = os.environ["SPY_LOG"]
with tessarr.options(durable=sys.argv[2] == "durable"):
    array = tessarr.create_array(sys.argv[1], shape=4, chunks=2, dtype="i4")
open(log, "w").close()
array[:2] = 1
"""


REMOVER = """
import os, sys
from tessarr.stores import LocalStore
os.mkdir(sys.argv[1])
store = LocalStore(sys.argv[1], durable=True)
store["a/x"] = b"1"
store.delete_prefix("a/")
store.delete_prefix("a/")
store.delete_prefix("b/")
"""

RESOURCE = """
import os, sys
import tessarr.tensorstore as ts
spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": sys.argv[1] + "/"}}
context = ts.Context({"file_io_sync": sys.argv[2] == "durable"})
chunks = ts.ChunkLayout(chunk_shape=[2])
array = ts.open(
    spec, create=True, dtype="int32", shape=[4], chunk_layout=chunks, context=context
).result()
open(os.environ["SPY_LOG"], "w").close()
array[:2] = 1
"""


@pytest.fixture(scope="module")
def spy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the library and return its path."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler and /proc")
    folder = tmp_path_factory.mktemp("spy")
    source, library = folder / "spy.c", folder / "spy.so"
    source.write_text(SPY)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def synchronised(spy: Path, folder: Path, mode: str, writer: str = WRITER) -> list[str]:
    """Write a chunk in another process; return the synchronised files."""
    path, log = folder / "a.zarr", folder / "log"
    environment = {**os.environ, "LD_PRELOAD": str(spy), "SPY_LOG": str(log)}
    subprocess.run([sys.executable, "-c", writer, path, mode], env=environment, check=True)
    return [str(Path(name).relative_to(path)) for name in log.read_text().split()]


def test_durable_write_syncs_file_and_folder(spy: Path, tmp_path: Path) -> None:
    """The order is the file, then its folder, then the folder of the new folder."""
    names = synchronised(spy, tmp_path, "durable")
    assert names == ["c/0.__lock", "c", "."]


def test_other_writes_synchronise_nothing(spy: Path, tmp_path: Path) -> None:
    """The default leaves synchronisation to the system."""
    assert synchronised(spy, tmp_path, "quick") == []


def test_durable_delete_syncs_folder_once(spy: Path, tmp_path: Path) -> None:
    """A delete of an absent key synchronises nothing."""
    names = synchronised(spy, tmp_path, "durable", REMOVER)
    assert names == ["a/x.__lock", "a", ".", "."]


@pytest.mark.parametrize("mode", ["durable", "quick"])
def test_context_file_io_sync_selects_durability(spy: Path, tmp_path: Path, mode: str) -> None:
    """The resource ``file_io_sync`` sets the durability; as in TensorStore, the default is true."""
    names = set(synchronised(spy, tmp_path, mode, RESOURCE))
    assert names == ({"c/0.__lock", "c", "."} if mode == "durable" else set())
