"""Blocks of buffered writes whose chunks cannot be stored, or that are never left."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr._engine import BufferScope
from tessarr.errors import ArgumentError
from tessarr.stores import MemoryStore


class FailingStore:
    """A store in Python that rejects chosen keys."""

    def __init__(self) -> None:
        self.inner = MemoryStore()
        self.errors: dict[str, BaseException] = {}
        self.attempts: list[str] = []

    def fail(self, *keys: str) -> None:
        self.errors = {key: OSError(f"no room for {key}") for key in keys}

    def get(self, key: str) -> bytes | None:
        return self.inner.get(key)

    def put(self, key: str, data: bytes) -> None:
        self.replace(key, data, self.inner.get(key))

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        self.attempts.append(key)
        if key in self.errors:
            raise self.errors[key]
        return self.inner.replace(key, data, expected)

    def delete(self, key: str) -> None:
        self.inner.delete(key)

    def list(self, prefix: str) -> list[str]:
        return self.inner.list(prefix)

    def delete_prefix(self, prefix: str) -> None:
        self.inner.delete_prefix(prefix)


def created(**settings: Any) -> tuple[tessarr.Array, FailingStore]:
    """Return an array of eight chunks of two elements, and its store."""
    store = FailingStore()
    settings = {"shape": 16, "dtype": "i4", "chunks": 2, **settings}
    return tessarr.create_array(store, **settings), store


def stored(store: FailingStore) -> list[int]:
    """Return the elements that are stored."""
    values: list[int] = tessarr.open_array(store.inner, mode="r")[...].tolist()
    return values


# Chunks that fail


def test_failing_chunks_do_not_prevent_others() -> None:
    """The end of the block tries every chunk, and its error names the ones that failed."""
    array, store = created()
    store.fail("c/1", "c/3", "c/4")
    block = array.buffered()
    with pytest.raises(OSError, match=r"no room for c/[134]") as raised, block:
        for i in range(0, 16, 2):
            array[i] = i + 1
    (note,) = [note for note in raised.value.__notes__ if "more could" in note]
    named = {key for key in ("c/0", "c/1", "c/2", "c/3", "c/4") if key in f"{raised.value} {note}"}
    assert named == {"c/1", "c/3", "c/4"}
    assert note.startswith("2 more could not be stored: ")
    assert "stay in memory" in note
    assert stored(store)[::2] == [1, 0, 5, 0, 0, 11, 13, 15]
    block.discard()


def test_failed_chunks_stay_readable_and_can_be_stored_later() -> None:
    """After the block, reads see the chunk that is left, and flush stores it."""
    array, store = created()
    store.fail("c/1")
    block = array.buffered()
    with pytest.raises(OSError, match="c/1"), block:
        array[:4:2] = 7
    assert array[:4].tolist() == [7, 0, 7, 0]
    assert stored(store)[:4] == [7, 0, 0, 0]
    assert block.nbytes > 0
    with pytest.raises(OSError, match="c/1"):
        block.flush()
    store.fail()
    block.flush()
    assert block.nbytes == 0
    assert stored(store)[:4] == [7, 0, 7, 0]


def test_next_block_stores_chunks_that_are_left() -> None:
    """Without the block object, the end of any later block of the array tries again."""
    array, store = created()
    store.fail("c/0")
    with pytest.raises(OSError, match="c/0"), array.buffered():
        array[0] = 1
    store.fail()
    with array.buffered():
        array[1] = 2
        array[2] = 3
        assert array[:4].tolist() == [1, 2, 3, 0]
    assert stored(store)[:4] == [1, 2, 3, 0]


def test_write_after_failed_block_stores_the_chunk_that_is_left() -> None:
    """A later write to the chunk succeeds as a whole, or raises and changes nothing."""
    array, store = created()
    store.fail("c/0")
    with pytest.raises(OSError, match="c/0"), array.buffered():
        array[0] = 1
    with pytest.raises(OSError, match="c/0"):
        array[0] = 2
    with pytest.raises(OSError, match="c/0"):
        array[:2] = [2, 2]
    assert array[:2].tolist() == [1, 0]
    array[2] = 3  # another chunk is stored as without a block
    store.fail()
    assert stored(store)[:4] == [0, 0, 3, 0]
    array[1] = 2
    assert stored(store)[:4] == [1, 2, 3, 0]


def test_discard_drops_chunks_that_are_left() -> None:
    array, store = created()
    store.fail("c/0")
    block = array.buffered()
    with pytest.raises(OSError, match="c/0"), block:
        array[0] = 1
    block.discard()
    assert block.nbytes == 0
    assert array[0] == 0
    store.fail()
    block.flush()
    assert stored(store)[0] == 0


def test_eviction_skips_chunk_that_fails() -> None:
    """A chunk that cannot be stored stays in memory, and others make room for later writes."""
    array, store = created()
    store.fail("c/0")
    block = array.buffered(max_bytes=40)
    with pytest.raises(OSError, match="c/0"), block:
        for i in range(0, 16, 2):
            array[i] = i + 1
            assert block.nbytes <= 40
        assert store.attempts.count("c/0") == 1
        assert array[::2].tolist() == list(range(1, 17, 2))
    assert stored(store)[::2] == [0, *range(3, 17, 2)]
    store.fail()
    block.flush()
    assert stored(store)[0] == 1


def test_failing_array_does_not_prevent_others_of_the_group() -> None:
    store = FailingStore()
    group = tessarr.create_group(store)
    names = ("x", "y")
    arrays = [group.create_array(name, shape=4, dtype="i4", chunks=2) for name in names]
    store.fail("x/c/0")
    block = tessarr.buffered(group)
    with pytest.raises(OSError, match="x/c/0"), block:
        for array in arrays:
            array[::2] = 1
    saved: Any = tessarr.open_group(store.inner, mode="r")
    assert [saved[name][::2].tolist() for name in names] == [[0, 1], [1, 1]]
    block.discard()


def test_store_that_uses_the_chunk_it_receives_raises() -> None:
    """A store or a generator that Python closes in the store does not wait for itself."""
    array, store = created()
    replace = store.replace

    def use_array(key: str, data: bytes | None, expected: bytes | None) -> bool:
        if key == "c/0":
            array[0]
        return replace(key, data, expected)

    store.replace = use_array  # type: ignore[method-assign]
    with pytest.raises(ArgumentError, match="its own array"), array.buffered():
        array[0] = 1
        array[2] = 3
    store.replace = replace  # type: ignore[method-assign]
    assert stored(store)[:4] == [0, 0, 3, 0]
    with array.buffered():
        pass
    assert stored(store)[:4] == [1, 0, 3, 0]


def test_interrupt_during_the_end_keeps_the_rest() -> None:
    """Ctrl-C while the end stores chunks ends it at once; the next attempt stores the rest."""
    array, store = created(shape=4)
    store.errors = {"c/0": KeyboardInterrupt(), "c/1": KeyboardInterrupt()}
    block = array.buffered()
    with pytest.raises(KeyboardInterrupt), block:
        array[::2] = 1
    assert stored(store) == [0, 0, 0, 0]
    assert array[::2].tolist() == [1, 1]
    store.fail()
    block.flush()
    assert stored(store) == [1, 0, 1, 0]


def test_deletion_discards_chunks_that_cannot_be_stored() -> None:
    """An array can be deleted or overwritten although its buffered chunks cannot be stored."""
    store = FailingStore()
    group: Any = tessarr.create_group(store)
    group.create_array("x", shape=4, dtype="i4", chunks=2)
    store.fail("x/c/0")
    with tessarr.buffered(group):
        group["x"][0] = 1
        del group["x"]
        group.create_array("x", shape=4, dtype="i4", chunks=2)[2] = 5
        group["x"][0] = 1
        group.create_array("x", shape=4, dtype="i4", chunks=2, overwrite=True)[3] = 6
    assert tessarr.open_array(store.inner, path="x")[...].tolist() == [0, 0, 0, 6]


# Several blocks


def test_end_of_a_block_keeps_elements_of_others() -> None:
    """Two blocks of one array end in any order; a failure of the first loses nothing."""
    array, store = created()
    with ExitStack() as second:
        with pytest.raises(OSError, match="c/1"), array.buffered():
            array[0] = 1
            second.enter_context(array.buffered())
            array[2] = 2
            store.fail("c/1")
        array[4] = 3
        assert array[:6].tolist() == [1, 0, 2, 0, 3, 0]
        store.fail()
    assert stored(store)[:6] == [1, 0, 2, 0, 3, 0]


@pytest.mark.parametrize("max_bytes", [1 << 20, 100])
def test_threads_with_own_blocks_lose_nothing(max_bytes: int) -> None:
    """Blocks of several threads on one array begin and end at any time."""
    store = MemoryStore()
    array = tessarr.create_array(store, shape=400, dtype="i4", chunks=40)
    failures: list[BaseException] = []

    def write(first: int) -> None:
        try:
            for start in range(first, 400, 40):
                with array.buffered(max_bytes=max_bytes):
                    for i in range(start, min(start + 40, 400), 4):
                        array[i] = i + 1
                        assert array[i] == i + 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    saved = tessarr.open_array(MemoryStore(dict(store)), mode="r")
    assert np.array_equal(saved[...], np.arange(1, 401))


def test_block_after_failed_block_buffers_again() -> None:
    """Chunks that are left do not send the writes of later blocks to the store."""
    array, store = created()
    store.fail("c/0")
    with pytest.raises(OSError, match="c/0"), array.buffered():
        array[0] = 1
    store.fail()
    store.attempts.clear()
    with array.buffered() as same:
        for i in range(2, 16):
            same[i] = i
        assert store.attempts == []
    assert sorted(store.attempts) == [f"c/{n}" for n in range(8)]
    assert stored(store) == [1, 0, *range(2, 16)]


# Blocks that are never left


def test_deleted_block_is_stored_with_a_warning() -> None:
    array, store = created()
    blocks = [array.buffered()]
    blocks[0].__enter__()
    array[0] = 1
    with pytest.warns(ResourceWarning, match="never left"):
        blocks.clear()
    assert stored(store)[0] == 1
    array[1] = 2
    assert stored(store)[:2] == [1, 2]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_deleted_block_is_stored_if_warnings_are_errors() -> None:
    array, store = created()
    blocks = [array.buffered()]
    blocks[0].__enter__()
    array[0] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        blocks.clear()
    assert stored(store)[0] == 1
    array[1] = 2
    assert stored(store)[:2] == [1, 2]


def test_lost_scope_ends() -> None:
    """If Ctrl-C interrupts the start or the end of a block, later writes are not buffered."""
    array, store = created()
    scope = BufferScope(array._store, "", 1 << 20)
    array[0] = 1
    assert "c/0" not in store.attempts
    del scope
    assert array[0] == 1
    array[2] = 3
    assert stored(store)[:4] == [0, 0, 3, 0]
    with array.buffered():
        pass
    assert stored(store)[:4] == [1, 0, 3, 0]


def test_left_block_is_deleted_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    array, _ = created()
    with array.buffered():
        array[0] = 1
    gc.collect()
    assert not [warning for warning in recwarn if warning.category is ResourceWarning]


EXITS = {
    "end": "",
    "exit": "sys.exit(3)",
    "exception": "raise ValueError",
    "generator": "kept = generate(); next(kept)",
    "later store": "tessarr.stores.ZipStore(sys.argv[1] + '.zip')",
}

NEVER_LEFT = """
import sys, tessarr

def generate():
    with array.buffered():
        array[2] = 2
        yield

array = tessarr.open_array(sys.argv[1], mode="r+")
block = array.buffered()
block.__enter__()
array[0] = 1
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXITS)
def test_exit_of_interpreter_stores_open_blocks(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a"
    array = tessarr.create_array(path, shape=4, dtype="i4", chunks=2)
    program = NEVER_LEFT + EXITS[kind]
    subprocess.run([sys.executable, "-c", program, str(path)], check=False, capture_output=True)
    assert array[...].tolist() == [1, 0, 2 * (kind == "generator"), 0]


LATER_STORES = """
import sys, tessarr
from tessarr.stores import SQLiteStore, TempStore, ZipStore

with tessarr.create_array(None, shape=1, dtype="i4").buffered():
    pass
kinds = {"zip": ZipStore, "sqlite": SQLiteStore, "temporary": lambda path: TempStore(dir=path)}
store = kinds[sys.argv[1]](sys.argv[2])
array = tessarr.create_array(store, shape=4, dtype="i4", chunks=2)
block = array.buffered()
block.__enter__()
array[0] = 1
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zip", "sqlite", "temporary"])
def test_exit_stores_open_blocks_before_it_closes_later_stores(tmp_path: Path, kind: str) -> None:
    """Open blocks are stored before their store closes, even one newer than the first block."""
    path = tmp_path / f"a.{kind}"
    if kind == "temporary":
        path.mkdir()
    command = [sys.executable, "-c", LATER_STORES, kind, str(path)]
    process = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == [path]  # no other files of an open database
    if kind == "temporary":
        assert list(path.iterdir()) == []
    else:
        assert tessarr.open_array(path)[...].tolist() == [1, 0, 0, 0]


@pytest.mark.slow
def test_exit_of_interpreter_reports_chunks_that_fail(tmp_path: Path) -> None:
    """The error is printed; other chunks are stored, and stores are closed."""
    path = tmp_path / "a"
    array = tessarr.create_array(path, shape=4, dtype="i4", chunks=2)
    (path / "c" / "0").mkdir(parents=True)
    (path / "c" / "0" / "x").touch()
    program = NEVER_LEFT + "array[2] = 2; tessarr.stores.TempStore(dir=sys.argv[2])"
    (tmp_path / "temporary").mkdir()
    command = [sys.executable, "-c", program, str(path), str(tmp_path / "temporary")]
    process = subprocess.run(command, check=False, capture_output=True, text=True)
    assert "chunk (0,)" in process.stderr
    assert list((tmp_path / "temporary").iterdir()) == []
    (path / "c" / "0" / "x").unlink()
    (path / "c" / "0").rmdir()
    assert array[...].tolist() == [0, 0, 2, 0]
