"""What is synchronised with the disk: counted by a library that stands before the system's."""

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
    """The library, compiled."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler and /proc")
    folder = tmp_path_factory.mktemp("spy")
    source, library = folder / "spy.c", folder / "spy.so"
    source.write_text(SPY)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def synchronised(spy: Path, folder: Path, how: str, writer: str = WRITER) -> list[str]:
    """Write a chunk in another process; give the files that were synchronised."""
    path, log = folder / "a.zarr", folder / "log"
    environment = {**os.environ, "LD_PRELOAD": str(spy), "SPY_LOG": str(log)}
    subprocess.run([sys.executable, "-c", writer, path, how], env=environment, check=True)
    return [str(Path(name).relative_to(path)) for name in log.read_text().split()]


def test_durable_write_syncs_file_and_folder(spy: Path, tmp_path: Path) -> None:
    """First the bytes, then the name that they got, last the new folder's own name."""
    names = synchronised(spy, tmp_path, "durable")
    assert names == ["c/0.__lock", "c", "."]


def test_other_writes_synchronise_nothing(spy: Path, tmp_path: Path) -> None:
    """The default leaves it to the system."""
    assert synchronised(spy, tmp_path, "quick") == []


def test_durable_delete_syncs_the_folder_once(spy: Path, tmp_path: Path) -> None:
    """Where nothing was removed there is nothing to be made durable."""
    names = synchronised(spy, tmp_path, "durable", REMOVER)
    assert names == ["a/x.__lock", "a", ".", "."]


@pytest.mark.parametrize("how", ["durable", "quick"])
def test_context_file_io_sync_selects_durability(spy: Path, tmp_path: Path, how: str) -> None:
    """By the resource ``file_io_sync``, as TensorStore has it: true by default."""
    names = set(synchronised(spy, tmp_path, how, RESOURCE))
    assert names == ({"c/0.__lock", "c", "."} if how == "durable" else set())
