"""Settings of folder stores: locking, reading and durability."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tessarr
from stores.processes import run_programs, start_program
from tessarr.errors import ArgumentError, StoreError
from tessarr.store import LocalStore

INCREMENT = """
import sys
from tessarr.store import LocalStore
store = LocalStore(sys.argv[1], locking="lockfile")
print("ready", flush=True)
sys.stdin.readline()
for _ in range(60):
    while True:
        old = store.get("n")
        if store.replace("n", b"%d" % (int(old or b"0") + 1), old):
            break
"""

TENSORSTORE_INCREMENT = """
import sys
import tensorstore as ts
locking = {"mode": "lockfile"}
spec = {"driver": "file", "path": sys.argv[1] + "/", "file_io_locking": locking}
store = ts.KvStore.open(spec).result()
print("ready", flush=True)
sys.stdin.readline()
for _ in range(60):
    while True:
        old = store.read("n").result()
        number = int(old.value) if old.state == "value" else 0
        written = store.write("n", b"%d" % (number + 1), if_equal=old.stamp.generation).result()
        if written.generation:
            break
"""


def names(folder: Path) -> list[str]:
    """Return all files below a folder."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_lock_file_excludes_other_writers(tmp_path: Path) -> None:
    """Only the user, or a writer with other locks, removes the lock file of a killed process."""
    store = LocalStore(tmp_path, locking="lockfile", lock_timeout_s=0.02)
    store.put("k", b"1")
    assert names(tmp_path) == ["k"]
    (tmp_path / "k.__lock").write_bytes(b"half")
    with pytest.raises(
        StoreError, match=r"more than 0\.02 s; if no writer runs, remove the lock file"
    ) as caught:
        store.put("k", b"2")
    assert caught.value.retryable
    assert (store.get("k"), store.list()) == (b"1", ["k"])
    LocalStore(tmp_path).put("k", b"3")
    store.put("k", b"4")
    assert (store.get("k"), names(tmp_path)) == (b"4", ["k"])


@pytest.mark.slow
@pytest.mark.parametrize("others", [INCREMENT, TENSORSTORE_INCREMENT], ids=["ours", "tensorstore"])
def test_processes_with_lock_files_lose_no_update(tmp_path: Path, others: str) -> None:
    pytest.importorskip("tensorstore", reason="TensorStore takes the same lock files")
    processes = [start_program(program, str(tmp_path)) for program in (INCREMENT, others, others)]
    run_programs(processes)
    assert [process.wait(timeout=60) for process in processes] == [0, 0, 0]
    assert LocalStore(tmp_path).get("n") == b"180"
    assert names(tmp_path) == ["n"]


@pytest.mark.parametrize("locking", ["none", "non_atomic"])
def test_without_locks(tmp_path: Path, locking: str) -> None:
    """Writers ignore lock files; threads of one process still lose no update."""
    store = LocalStore(tmp_path, locking=locking)
    (tmp_path / "n.__lock").write_bytes(b"half")

    def count(_: int) -> None:
        for _ in range(50):
            old = store.get("n")
            while not store.replace("n", b"%d" % (int(old or b"0") + 1), old):
                old = store.get("n")

    if locking == "none":  # with "non_atomic", a reader may see an empty value during a write
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(count, range(4)))
        assert store.get("n") == b"200"
    store.put("a/b", b"1")
    store.put("a/b", b"2")
    store.delete("n")
    assert (store.get("a/b"), names(tmp_path)) == (b"2", ["a/b", "n.__lock"])


def test_non_atomic_writes_keep_inode(tmp_path: Path) -> None:
    """A write keeps the file and changes its bytes; a shard keeps its unwritten subchunks."""
    store = LocalStore(tmp_path, locking="non_atomic", durable=True)
    store.put("k", b"long value")
    number = (tmp_path / "k").stat().st_ino
    store.put("k", b"short")
    assert ((tmp_path / "k").stat().st_ino, store.get("k")) == (number, b"short")
    (tmp_path / "x" / "hollow").mkdir(parents=True)
    store.put("x", b"1")
    values = np.arange(400).reshape(20, 20)
    array = tessarr.create_array(store, path="a", data=values, chunks=(5, 5), shards=(20, 20))
    number = (tmp_path / "a/c/0/0").stat().st_ino
    array[2:7, 3] = -1
    values[2:7, 3] = -1
    assert (array[...] == values).all()
    assert (tmp_path / "a/c/0/0").stat().st_ino == number
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda row: array.__setitem__(row, row), range(20)))
    assert (array[...] == np.arange(20)[:, None]).all()


def test_memmap_read_returns_mapped_memory(tmp_path: Path) -> None:
    """The value is a memory map, which stays valid after a replacement."""
    store = LocalStore(tmp_path, reading="memmap")
    store.put("k", b"old value")
    value = store.open_value("k")
    assert value is not None
    maps = Path("/proc/self/maps").read_text() if Path("/proc/self/maps").exists() else None
    assert maps is None or f"{tmp_path}/k" in maps
    store.put("k", b"new")
    assert (value.read(4, 5), store.get("k")) == (b"value", b"new")
    store.put("empty", b"")
    assert store.get("empty") == b""


def test_direct_read_uses_whole_blocks(tmp_path: Path) -> None:
    """Reads of any range return its bytes, aligned or not, up to the end of the file."""
    data = np.random.default_rng(0).bytes(3 * 4096 + 17)
    store = LocalStore(tmp_path, reading="direct")
    store.put("k", data)
    value = store.open_value("k")
    assert value is not None
    for begin, count in (
        (0, 1),
        (0, len(data)),
        (4095, 2),
        (4096, 4096),
        (5000, 5000),
        (12288, 17),
        (7, 0),
    ):
        assert value.read(begin, count) == data[begin : begin + count]
    flag = getattr(os, "O_DIRECT", 0)
    try:
        os.close(os.open(tmp_path / "k", os.O_RDONLY | flag))
    except OSError:
        flag = 0  # this file system has no direct reads
    if flag and Path("/proc/self/fd").exists():
        assert _flags_of(tmp_path / "k") & flag


def _flags_of(path: Path) -> int:
    for link in Path("/proc/self/fd").iterdir():
        if link.is_symlink() and str(link.readlink()) == str(path):
            text = Path(f"/proc/self/fdinfo/{link.name}").read_text()
            return int(text.split("flags:")[1].split()[0], 8)
    return 0


def test_settings_survive_pickling_and_copies(tmp_path: Path) -> None:
    """Settings are part of the store; unknown values raise an error."""
    store = LocalStore(tmp_path, locking="none", reading="direct", lock_timeout_s=float("inf"))
    assert repr(store) == (
        f"LocalStore('{tmp_path}', reading='direct', locking='none', lock_timeout_s=inf)"
    )
    assert pickle.loads(pickle.dumps(store)) == store != LocalStore(tmp_path)
    for wrong in ({"locking": "flock"}, {"reading": "mmap"}, {"lock_timeout_s": -1}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            LocalStore(tmp_path, **wrong)
