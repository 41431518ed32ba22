"""The SQLite store: one file, many processes, and no lost update."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import tessarr
from stores.processes import run_programs, start_program
from tessarr.errors import ArgumentError, NotFoundError, ReadOnlyError, StoreError
from tessarr.stores import PrefixStore, SQLiteStore

INCREMENT = """
import sys
from tessarr.stores import SQLiteStore
store = SQLiteStore(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    old = store.get("n")
    while not store.replace("n", b"%d" % (int(old or b"0") + 1), old):
        old = store.get("n")
"""

PARTS = """
import sys
import tessarr
from tessarr.stores import SQLiteStore
a = tessarr.open_array(SQLiteStore(sys.argv[1]), mode="r+")
print("ready", flush=True)
sys.stdin.readline()
for i in range(int(sys.argv[2]), 40, 2):
    a[i] = i + 1
"""

PUT_FOREVER = """
import itertools, sys
from tessarr.stores import SQLiteStore
store = SQLiteStore(sys.argv[1])
print("ready", flush=True)
for number in itertools.count():
    store.put("k", bytes([number % 251]) * (50_000 + number % 3 * 40_000))
    store.replace("other", b"%d" % number, store.get("other"))
"""


def test_sqlite_read_creates_no_file(tmp_path: Path) -> None:
    """An absent file is an empty store, and remains absent."""
    store = SQLiteStore(tmp_path / "sub" / "x.db")
    assert (store.get("k"), store.list(), store.list_dir("a/")) == (None, [], ([], []))
    store.delete("k")
    store.delete_prefix("")
    store.flush()
    store.close()
    assert not list(tmp_path.iterdir())
    store.put("k", b"v")
    assert (tmp_path / "sub" / "x.db").exists()


def test_sqlite_close_leaves_one_file(tmp_path: Path) -> None:
    """Closing the store deletes the companion files of the database."""
    path = tmp_path / "x.db"
    with SQLiteStore(path) as store:
        for number in range(100):
            store.put(f"a/{number}", bytes(10_000))
        value = store.open_value("a/7")
        assert value is not None
        assert value.read(5, 3) == bytes(3)
        del value
    assert list(tmp_path.iterdir()) == [path]
    assert len(store.list()) == 100  # the next access opens the database again
    store.close()


@pytest.mark.slow
def test_sqlite_exit_leaves_one_file(tmp_path: Path) -> None:
    """The exit of the process deletes the companion files, too."""
    code = (
        "import sys, tessarr; from tessarr.stores import SQLiteStore;"
        "tessarr.create_array(SQLiteStore(sys.argv[1]), data=[1, 2, 3])"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "x.db"], check=True, timeout=60)
    assert [path.name for path in tmp_path.iterdir()] == ["x.db"]
    assert tessarr.open_array(SQLiteStore(tmp_path / "x.db"))[:].tolist() == [1, 2, 3]


def test_sqlite_table_matches_zarr_python_2(tmp_path: Path) -> None:
    """The store reads files of its SQLiteStore, with text values, and writes the same table."""
    path = tmp_path / "old.sqldb"
    with sqlite3.connect(path) as old:
        old.execute("CREATE TABLE IF NOT EXISTS zarr(k TEXT PRIMARY KEY, v BLOB)")
        old.execute("REPLACE INTO zarr VALUES ('.zgroup', ?)", (b'{"zarr_format": 2}',))
        old.execute("REPLACE INTO zarr VALUES ('.zattrs', '{\"a\": \"é\"}')")
    old.close()
    group = tessarr.open_group(SQLiteStore(path), mode="r+")
    assert dict(group.attrs) == {"a": "é"}
    group.create_array("x", data=np.arange(4))
    group.store.close()
    with sqlite3.connect(path) as new:
        rows = dict(new.execute("SELECT k, v FROM zarr"))
    new.close()
    assert set(rows) == {".zgroup", ".zattrs", "x/.zarray", "x/.zattrs", "x/0"}


@pytest.mark.slow
def test_concurrent_compare_and_set_loses_nothing(tmp_path: Path) -> None:
    """The final value includes each successful replacement of each process, in a new file."""
    path = tmp_path / "x.db"
    run_programs([start_program(INCREMENT, path, 50) for _ in range(3)])
    assert SQLiteStore(path).get("n") == b"150"


@pytest.mark.slow
def test_concurrent_partial_chunk_writes_lose_nothing(tmp_path: Path) -> None:
    """Updates of one chunk are merged."""
    path = tmp_path / "x.db"
    tessarr.create_array(SQLiteStore(path), shape=(40,), chunks=(40,), dtype="i4")
    run_programs([start_program(PARTS, path, first) for first in range(2)])
    assert tessarr.open_array(SQLiteStore(path))[:].tolist() == list(range(1, 41))


def append(path: Path) -> None:
    array = tessarr.open_array(PrefixStore(SQLiteStore(path), "below"), mode="r+")
    for _ in range(10):
        array.append(np.full(3, os.getpid()))


@pytest.mark.slow
def test_concurrent_appends_lose_nothing(tmp_path: Path) -> None:
    """A held key excludes other processes, through wrappers, too; the lock leaves no file."""
    path = tmp_path / "x.db"
    store = SQLiteStore(path)
    tessarr.create_array(store, path="below", shape=(0,), chunks=(2,), dtype="i8")
    store.close()
    processes = [
        multiprocessing.get_context("spawn").Process(target=append, args=(path,)) for _ in range(2)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    counts = np.unique(tessarr.open_array(store, path="below")[:], return_counts=True)[1]
    assert counts.tolist() == [30, 30]
    store.close()
    assert list(tmp_path.iterdir()) == [path]


def test_sqlite_permanent_lock_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait beyond the timeout raises an error; a dead process holds no lock."""
    path = tmp_path / "x.db"
    monkeypatch.setattr("tessarr.store.sqlite.database._WAIT_S", 0.05)
    code = """
import sys, time
from tessarr.stores import SQLiteStore
def wait():
    print("ready", flush=True)
    sys.stdin.readline()
SQLiteStore(sys.argv[1]).hold("k", wait)
"""
    other = start_program(code, path)
    store = SQLiteStore(path)
    with pytest.raises(StoreError, match="has been locked by another process") as caught:
        store.hold("k", dict)
    assert caught.value.retryable
    assert store.hold("another", lambda: 7) == 7
    other.kill()
    other.communicate()
    assert store.hold("k", lambda: 8) == 8
    assert not list(tmp_path.glob("*.__lock"))


@pytest.mark.slow
def test_killed_writer_leaves_whole_values(tmp_path: Path) -> None:
    """After SIGKILL, every value is an old or a new one, and writes succeed."""
    path = tmp_path / "x.db"
    for round_ in range(4):
        writer = start_program(PUT_FOREVER, path)
        time.sleep(random.Random(round_).uniform(0.02, 0.1))
        writer.kill()
        writer.communicate()
        store = SQLiteStore(path)
        value = store.get("k") or b""
        assert value == value[:1] * len(value)
        store.put("after", b"%d" % round_)
        store.close()
    with sqlite3.connect(path) as check:
        assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    check.close()


def test_sqlite_open_value_is_snapshot(tmp_path: Path) -> None:
    """Partial reads return the state at the time of opening, for large and small values."""
    store = SQLiteStore(tmp_path / "x.db")
    for size in (10, 1_000_000):
        store.put("k", b"a" * size)
        value = store.open_value("k")
        store.put("k", b"b" * size)
        assert value is not None
        with ThreadPoolExecutor(4) as pool:
            parts = pool.map(
                lambda offset, value=value: value.read(offset, 4), range(0, size - 4, size // 5)
            )
            assert set(parts) == {b"aaaa"}
        assert store.get("k") == b"b" * size


def test_sqlite_value_of_closed_store_raises(tmp_path: Path) -> None:
    """After `close`, an open value raises an error."""
    store = SQLiteStore(tmp_path / "x.db")
    store.put("k", bytes(1_000_000))
    value = store.open_value("k")
    store.close()
    assert value is not None
    with pytest.raises(StoreError, match="opened before its store was closed"):
        value.read(0, 1)
    del value
    assert store.get("k") == bytes(1_000_000)


def test_subchunks_are_read_from_shard_by_parts(tmp_path: Path) -> None:
    """A read of parts through an incremental blob equals a read of the whole shard."""
    data = np.random.default_rng(0).random((200, 200))
    a = tessarr.create_array(
        SQLiteStore(tmp_path / "x.db"), data=data, chunks=(10, 10), shards=(200, 200)
    )
    np.testing.assert_array_equal(a[13:17, 50:170], data[13:17, 50:170])
    a[5, 5:150] = 0
    data[5, 5:150] = 0
    np.testing.assert_array_equal(a[:], data)


def test_read_only(tmp_path: Path) -> None:
    """A read-only store changes nothing and leaves no companion file."""
    path = tmp_path / "x.db"
    with SQLiteStore(path) as store:
        store.put("k", b"v")
    before = path.read_bytes()
    reader = SQLiteStore(path, read_only=True)
    assert reader.read_only
    assert reader.get("k") == b"v"
    with pytest.raises(ReadOnlyError):
        reader.put("k", b"w")
    with pytest.raises(ReadOnlyError):
        reader.hold("k", dict)
    reader.close()
    assert path.read_bytes() == before
    assert SQLiteStore(tmp_path / "absent", read_only=True).get("k") is None


def test_sqlite_on_read_only_medium_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed database on a read-only medium is read without companion files."""
    path = tmp_path / "x.db"
    with SQLiteStore(path) as store:
        store.put("k", b"v")
    monkeypatch.setattr(os, "access", lambda *_: False)
    reader = SQLiteStore(path, read_only=True)
    assert reader.get("k") == b"v"
    assert list(tmp_path.iterdir()) == [path]
    reader.close()


def test_sqlite_of_other_file_raises(tmp_path: Path) -> None:
    """A file of another kind raises an error and remains unchanged; so does a damaged database."""
    path = tmp_path / "x.db"
    path.write_bytes(b"not a database at all, but a text of some length" * 100)
    with pytest.raises(StoreError, match="is not an SQLite database"):
        SQLiteStore(path).get("k")
    with pytest.raises(StoreError, match="is not an SQLite database"):
        SQLiteStore(path).put("k", b"v")
    assert path.read_bytes().startswith(b"not a database")
    with pytest.raises(NotFoundError, match="but not an SQLite database"):
        tessarr.open(path, "r")
    good = tmp_path / "good.db"
    with SQLiteStore(good) as store:
        for number in range(100):
            store.put(f"{number}", bytes([number]) * 3000)
    damaged = bytearray(good.read_bytes())
    damaged[4096:] = b"\xff" * (len(damaged) - 4096)
    good.write_bytes(damaged)
    with pytest.raises(StoreError, match="malformed"):
        SQLiteStore(good).get("7")


def test_sqlite_dimension_separator_is_slash(tmp_path: Path) -> None:
    """The option of zarr-python 2 survives pickling."""
    store = SQLiteStore(tmp_path / "a.sqlite", dimension_separator="/")
    tessarr.create_array(store, data=[[1, 2]], chunks=1, zarr_format=2)
    assert "0/1" in pickle.loads(pickle.dumps(store))
    with pytest.raises(ArgumentError, match="dimension_separator"):
        SQLiteStore(tmp_path / "b.sqlite", dimension_separator="-")  # type: ignore[arg-type]


def test_sqlite_without_table_is_empty(tmp_path: Path) -> None:
    """A database without the table is an empty store; a write adds only the table."""
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE mine(x)")
    other.close()
    store = SQLiteStore(path)
    assert (store.get("k"), store.list()) == (None, [])
    store.put("k", b"v")
    assert store.list() == ["k"]


def test_sqlite_locked_database_raises_after_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer raises an error after the timeout; readers never wait."""
    path = tmp_path / "x.db"
    store = SQLiteStore(path)
    store.put("k", b"v")
    monkeypatch.setattr("tessarr.store.sqlite.database._WAIT_S", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked") as caught:
        store.put("k", b"w")
    assert caught.value.retryable
    assert store.get("k") == b"v"
    other.execute("ROLLBACK")
    other.close()
    store.put("k", b"w")


def test_sqlite_too_large_value_raises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the key of a value beyond SQLite's limit; the old value remains."""
    store = SQLiteStore(tmp_path / "x.db")
    store.put("k", b"v")
    connection = store._database._idle[0]
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
    with pytest.raises(ArgumentError, match="use smaller chunks"):
        store.put("k", bytes(950))
    assert not store.replace("k", bytes(950), b"other")
    assert store.get("k") == b"v"
    store.put("k", bytes(800))


@pytest.mark.parametrize("path", ["", ":memory:"])
def test_database_in_memory_is_refused(path: str) -> None:
    """Each connection opens a separate database in memory."""
    with pytest.raises(ArgumentError, match="needs a file"):
        SQLiteStore(path)


def test_equality_pickles_and_repr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store is equal by file and options, also after a change of the working folder."""
    monkeypatch.chdir(tmp_path)
    store = SQLiteStore("x.db")
    again = pickle.loads(pickle.dumps(store))
    assert again == store == SQLiteStore(tmp_path / "x.db") != SQLiteStore("y.db")
    assert hash(again) == hash(store)
    assert store != SQLiteStore("x.db", durable=True)
    assert repr(again) == f"SQLiteStore('{tmp_path}/x.db')"
    assert repr(SQLiteStore("x.db", read_only=True)).endswith("x.db', read_only=True)")
    array = tessarr.create_array(store, data=[1, 2])
    assert pickle.loads(pickle.dumps(array))[:].tolist() == [1, 2]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_sqlite_forked_child_opens_own_connections(tmp_path: Path) -> None:
    """Operations and exit of a child do not affect the connections of the parent."""
    store = SQLiteStore(tmp_path / "x.db")
    store.put("k", b"x" * 100_000)
    opened = store.open_value("k")
    assert opened is not None
    for _ in range(3):
        child = os.fork()
        if child == 0:
            try:
                signal.alarm(20)
                inherited = False
                try:
                    opened.read(0, 1)
                except StoreError:
                    inherited = True
                store.put("child", b"1")
                good = store.get("child") == b"1" and inherited
                store.close()
                os._exit(0 if good else 1)
            finally:
                os._exit(2)
        store.put("parent", b"1")
        assert os.waitpid(child, 0)[1] == 0
        assert (opened.read(0, 1), store.get("child")) == (b"x", b"1")
    with sqlite3.connect(tmp_path / "x.db") as check:
        assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    check.close()
