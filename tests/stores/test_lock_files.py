"""Lock files on file systems without locks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/file.h>
#include <sys/syscall.h>

static int refusal(void) {
    const char *number = getenv("NO_LOCKS");
    return number ? atoi(number) : 0;
}

int flock(int descriptor, int operation) {
    if (refusal()) { errno = refusal(); return -1; }
    return syscall(SYS_flock, descriptor, operation);
}

static int control(int descriptor, int command, void *argument) {
    if ((command == F_OFD_SETLK || command == F_OFD_SETLKW || command == F_SETLK) && refusal()) {
        errno = refusal();
        return -1;
    }
    return syscall(SYS_fcntl, descriptor, command, argument);
}

int fcntl(int descriptor, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return control(descriptor, command, argument);
}

int fcntl64(int descriptor, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    void *argument = va_arg(arguments, void *);
    va_end(arguments);
    return control(descriptor, command, argument);
}
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile a library that makes every system lock fail."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("needs a C compiler, and a system whose loader takes LD_PRELOAD")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    library = folder / "shim.so"
    source = str(folder / "shim.c")
    command = [compiler, "-shared", "-fPIC", "-o", str(library), source, "-ldl"]
    subprocess.run(command, check=True)
    return library


def started(shim: Path, number: str, program: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a program whose lock calls fail with the errno `number`."""
    environment = {**os.environ, "LD_PRELOAD": str(shim), "NO_LOCKS": number}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finished(process: subprocess.Popen[str]) -> str:
    """Return the output of a program."""
    out, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    return out


def left(folder: Path) -> list[Path]:
    """Return the lock files in a folder."""
    return [path for path in folder.rglob("*") if "__lock" in path.name]


WRITING = """
import sys, warnings, numpy as np, tessarr
from tessarr.errors import TessarrWarning
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    store = tessarr.stores.LocalStore(sys.argv[1])
    group = tessarr.create_group(store)
    array = group.create_array("a", data=np.arange(6), chunks=3)
    array[1] = 7
    array.attrs["x"] = 1
    array.append(np.arange(3))
    group.create_group("b")
    del group["b"]
    group["a"] = np.arange(3)
    store.hold("key", lambda: None)
messages = [str(one.message) for one in told if issubclass(one.category, TessarrWarning)]
assert len(messages) == 1, messages
assert "has no locks" in messages[0]
print(told[0].filename, group["a"][:].tolist())
"""


@pytest.mark.parametrize("number", ["37", "38", "95", "22"])  # ENOLCK, ENOSYS, EOPNOTSUPP, EINVAL
def test_write_without_locks_warns_once_and_leaves_no_lock_file(
    shim: Path, tmp_path: Path, number: str
) -> None:
    """All writes succeed, and no lock file remains."""
    out = finished(started(shim, number, WRITING, str(tmp_path / "a")))
    assert out == "<string> [0, 1, 2]\n"
    assert left(tmp_path) == []


COUNTING = """
import sys, warnings, tessarr
warnings.simplefilter("ignore")
array = tessarr.open_array(sys.argv[1], mode="r+")
for _ in range(int(sys.argv[2])):
    array.attrs.update({sys.argv[3]: array.attrs.get(sys.argv[3], 0) + 1})
    array[int(sys.argv[3])] += 1
"""


def test_processes_without_locks_lose_no_update(shim: Path, tmp_path: Path) -> None:
    """Four processes change parts of one chunk, and attributes of one document."""
    import tessarr

    folder = tmp_path / "a"
    tessarr.create_array(folder, shape=4, dtype="i4", fill_value=0, attributes={})
    count = 100
    processes = [started(shim, "37", COUNTING, str(folder), str(count), str(i)) for i in range(4)]
    for process in processes:
        finished(process)
    array = tessarr.open_array(folder)
    assert array[:].tolist() == [count] * 4
    assert dict(array.attrs) == {str(i): count for i in range(4)}
    assert left(tmp_path) == []


HOLDING = """
import sys, time, warnings, tessarr
warnings.simplefilter("ignore")
store = tessarr.stores.LocalStore(sys.argv[1])
def work():
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
store.hold("key", work)
"""

PUTTING = """
import sys, warnings, tessarr
warnings.simplefilter("ignore")
store = tessarr.stores.LocalStore(sys.argv[1], lock_timeout_s=float(sys.argv[2]))
try:
    store["key"] = b"1"
except tessarr.errors.StoreError as error:
    assert error.retryable, error
    print("waited")
else:
    print("stored")
"""


def test_lock_file_of_killed_process_is_taken_over(shim: Path, tmp_path: Path) -> None:
    """A process excludes others from a key until a signal kills it."""
    holder = started(shim, "37", HOLDING, str(tmp_path), "60")
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert finished(started(shim, "37", PUTTING, str(tmp_path), "0.2")) == "waited\n"
    assert finished(started(shim, "0", PUTTING, str(tmp_path), "0.2")) == "waited\n"
    assert not (tmp_path / "key").exists()
    holder.kill()
    holder.communicate()
    assert left(tmp_path) != []
    waiting = [started(shim, "37", PUTTING, str(tmp_path), "30") for _ in range(3)]
    assert [finished(process) for process in waiting] == ["stored\n"] * 3
    assert (tmp_path / "key").read_bytes() == b"1"
    assert left(tmp_path) == []


def test_writer_with_locks_takes_over_lock_file_of_killed_process(
    shim: Path, tmp_path: Path
) -> None:
    """The lock file of a process without locks does not block a process with locks."""
    holder = started(shim, "37", HOLDING, str(tmp_path), "60")
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.communicate()
    assert finished(started(shim, "0", PUTTING, str(tmp_path), "10")) == "stored\n"
    assert (tmp_path / "key").read_bytes() == b"1"


DELETING = """
import sys, warnings, tessarr
warnings.simplefilter("ignore")
tessarr.stores.LocalStore(sys.argv[1]).rmdir("a")
"""


def test_delete_without_locks_removes_lock_files_of_killed_processes(
    shim: Path, tmp_path: Path
) -> None:
    """A folder with stale lock files can be deleted."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "key").write_bytes(b"1")
    holder = started(shim, "37", HOLDING, str(tmp_path / "a"), "60")
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.communicate()
    assert left(tmp_path) != []
    finished(started(shim, "37", DELETING, str(tmp_path)))
    assert list(tmp_path.iterdir()) == []


SQLITE = """
import sys, tessarr
from tessarr.errors import StoreError
store = tessarr.stores.SQLiteStore(sys.argv[1])
works = {
    "create": lambda: tessarr.create_array(store, data=[1, 2], overwrite=True),
    "put": lambda: store.put("a", b"1"),
    "get": lambda: store.get("zarr.json"),
    "open": lambda: tessarr.open(store, mode="r"),
    "hold": lambda: store.hold("key", lambda: None),
}
for name in sys.argv[2:]:
    try:
        works[name]()
    except StoreError as error:
        assert "has no locks" in str(error), error
        assert "LocalStore" in str(error), error
        print(name, error.errno, error.retryable)
"""


@pytest.mark.parametrize("number", ["37", "38", "95", "22"])  # and EINVAL
def test_sqlite_without_locks_fails_at_once_and_leaves_no_file(
    shim: Path, tmp_path: Path, number: str
) -> None:
    """SQLite itself reports a busy database or a failed read."""
    begin = time.monotonic()
    path = tmp_path / "new" / "data.sqlite"
    out = finished(started(shim, number, SQLITE, str(path), "create", "put", "hold"))
    assert out == f"create {number} False\nput {number} False\nhold {number} False\n"
    assert time.monotonic() - begin < 30  # the timeout for a busy database is 60 s
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []


@pytest.mark.parametrize("number", ["37", "38", "95", "22"])
def test_sqlite_without_locks_fails_and_keeps_database(
    shim: Path, tmp_path: Path, number: str
) -> None:
    """Without locks, a database that exists can be neither read nor changed."""
    import tessarr

    path = tmp_path / "data.sqlite"
    with tessarr.stores.SQLiteStore(path) as store:
        tessarr.create_array(store, data=[1, 2, 3])
    before = path.read_bytes()
    begin = time.monotonic()
    out = finished(started(shim, number, SQLITE, str(path), "get", "open", "put", "create"))
    names = [line.split()[0] for line in out.splitlines()]
    assert names == ["get", "open", "put", "create"]
    assert time.monotonic() - begin < 30
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["data.sqlite"]
    assert tessarr.open_array(str(path), mode="r")[:].tolist() == [1, 2, 3]
