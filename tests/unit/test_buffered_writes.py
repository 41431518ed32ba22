"""Blocks of buffered writes: stored chunks, memory, views, errors and other operations."""

from __future__ import annotations

import asyncio
import atexit
import os
import pickle
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.errors import ArgumentError, NotFoundError, ReadOnlyError
from tessarr.stores import LatencyStore, MemoryStore, SQLiteStore, TempStore, ZipStore


class CountingStore:
    """A store in Python that counts the stored values of each key."""

    def __init__(self) -> None:
        self.inner = MemoryStore()
        self.stored: Counter[str] = Counter()
        self.error: Exception | None = None

    def get(self, key: str) -> bytes | None:
        return self.inner.get(key)

    def put(self, key: str, data: bytes) -> None:
        if self.error is not None and not key.endswith(".json"):
            raise self.error
        self.stored[key] += 1
        self.inner.put(key, data)

    def delete(self, key: str) -> None:
        self.inner.delete(key)

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        if self.error is not None and not key.endswith(".json"):
            raise self.error
        self.stored[key] += 1
        return self.inner.replace(key, data, expected)

    def list(self, prefix: str) -> list[str]:
        return self.inner.list(prefix)

    def list_dir(self, prefix: str) -> tuple[list[str], list[str]]:
        return self.inner.list_dir(prefix)

    def delete_prefix(self, prefix: str) -> None:
        self.inner.delete_prefix(prefix)

    @property
    def chunks(self) -> dict[str, int]:
        """How often each chunk was stored."""
        documents = ("zarr.json", ".zarray", ".zattrs", ".zgroup")
        return {key: n for key, n in self.stored.items() if not key.endswith(documents)}


LAYOUTS: dict[str, dict[str, Any]] = {
    "v2": {"chunks": (4, 3), "zarr_format": 2},
    "v3": {"chunks": (4, 3)},
    "raw": {"chunks": (4, 3), "compressors": None},
    "shards": {"chunks": (1, 3), "shards": (4, 6)},
    "shards of larger chunks": {"chunks": (2, 3), "shards": (4, 6)},
}


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> dict[str, Any]:
    return LAYOUTS[request.param]


def created(layout: dict[str, Any], shape: tuple[int, ...] = (12, 6), **others: Any) -> Any:
    """Return an array of int32 in a counting store, and the store."""
    store = CountingStore()
    array = tessarr.create_array(store, shape=shape, dtype="i4", **layout, **others)
    store.stored.clear()
    return array, store


def rows(shape: tuple[int, ...] = (12, 6), start: int = 1) -> np.ndarray[Any, Any]:
    return np.arange(start, np.prod(shape) + start, dtype="i4").reshape(shape)


# Stored chunks


def test_rows_store_each_chunk_once(layout: dict[str, Any]) -> None:
    """A loop over rows stores every chunk or shard once; reads see the rows before that."""
    array, store = created(layout)
    expected = np.zeros((12, 6), "i4")
    with array.buffered() as same:
        assert same is array
        for i, row in enumerate(rows()):
            array[i] = expected[i] = row
            assert np.array_equal(array[...], expected)
        assert not store.chunks
    assert set(store.chunks.values()) == {1}
    assert np.array_equal(tessarr.open_array(store.inner, mode="r")[...], expected)


def test_rows_over_stored_chunks_store_each_chunk_once(layout: dict[str, Any]) -> None:
    """Elements that the block does not write keep their stored values."""
    array, store = created(layout)
    array[...] = expected = rows()
    store.stored.clear()
    with array.buffered():
        for i in range(0, 12, 2):
            array[i, 1:5] = expected[i, 1:5] = i
    assert set(store.chunks.values()) == {1}
    assert np.array_equal(array[...], expected)


def test_whole_chunks_are_stored_at_once() -> None:
    """A write of whole chunks does not use the memory of the block."""
    array, store = created(LAYOUTS["v3"])
    with array.buffered() as _, array.buffered():
        array[:8] = rows()[:8]
        assert len(store.chunks) == 4
        array[:] = rows()
    assert store.chunks == {f"c/{i}/{j}": 1 + (i < 2) for i in range(3) for j in range(2)}


def test_appends_store_each_shard_once() -> None:
    """Rows appended one by one store each shard once, and the shape with each row."""
    array, store = created(LAYOUTS["shards"], shape=(0, 6))
    with array.buffered():
        for i, row in enumerate(rows()):
            assert array.append(row[None]) == (i + 1, 6)
            assert np.array_equal(array[i], row)
        assert tessarr.open_array(store.inner, mode="r").shape == (12, 6)
    assert store.chunks == {f"c/{i}/0": 1 for i in range(3)}
    assert np.array_equal(tessarr.open_array(store.inner, mode="r")[...], rows())


def test_growing_row_by_row_stores_each_chunk_once() -> None:
    """The loop of h5py, `resize` and an assignment, stores each chunk once."""
    array, store = created(LAYOUTS["v3"], shape=(0, 6))
    with array.buffered():
        for i, row in enumerate(rows()):
            array.resize((i + 1, 6))
            array[i] = row
    assert set(store.chunks.values()) == {1}
    assert np.array_equal(array[...], rows())


def test_fill_values_are_not_stored() -> None:
    """A chunk of which a block writes only the fill value has no key."""
    array, store = created(LAYOUTS["v3"])
    with array.buffered():
        for i in range(12):
            array[i] = 0
    assert not store.inner.list("c/")


STORES: dict[str, Callable[[Path], Any]] = {
    "folder": lambda path: path,
    "zip": lambda path: ZipStore(path / "a.zip"),
    "sqlite": lambda path: SQLiteStore(path / "a.db"),
    "mapping": lambda _: {},
    "slow": lambda _: LatencyStore(None, read_s=1e-4, write_s=1e-4),
}


@pytest.mark.parametrize("kind", STORES)
def test_rows_are_stored_in_every_store(tmp_path: Path, layout: dict[str, Any], kind: str) -> None:
    """Rows arrive in stores with and without locks, concurrency and conditional writes."""
    with tessarr.create_array(STORES[kind](tmp_path), shape=(12, 6), dtype="i4", **layout) as array:
        array[...] = expected = rows()
        with array.buffered(max_bytes=200):
            for i in range(0, 12, 2):
                array[i, :4] = expected[i, :4] = -i
            array[1:11] = expected[1:11] = expected[1:11] + 1
        assert np.array_equal(array[...], expected)


# Memory


def test_memory_stays_below_limit(layout: dict[str, Any]) -> None:
    """The block stores chunks when the memory is full: complete ones, each once."""
    array, store = created(layout, shape=(80, 6))
    limit = 400 if "shards" in layout else 300
    values = rows((80, 6))
    with (block := array.buffered(max_bytes=limit)):
        for i, row in enumerate(values):
            array[i] = row
            assert block.nbytes <= limit
    assert set(store.chunks.values()) == {1}
    assert not block.nbytes
    assert np.array_equal(array[...], values)


def test_write_larger_than_memory_stays_below_limit(layout: dict[str, Any]) -> None:
    """A write to parts of more chunks than the memory holds stores them like any write."""
    array, _ = created(layout, shape=(80, 60))
    expected = np.zeros((80, 60), "i4")
    with (block := array.buffered(max_bytes=500)):
        for step in (2, 3):
            array[::step] = expected[::step] = rows((80, 60), step)[::step]
            assert block.nbytes <= 500
            assert np.array_equal(array[...], expected)
    assert np.array_equal(array[...], expected)


def test_no_memory_stores_each_write() -> None:
    """With a limit of 0 bytes a block has no effect."""
    array, store = created(LAYOUTS["v3"])
    with array.buffered(max_bytes=0):
        array[0] = 1
        assert len(store.chunks) == 2
    assert array[0].tolist() == [1] * 6


def test_oldest_chunk_is_stored_first() -> None:
    """Among incomplete chunks the block stores the one whose last write is oldest."""
    array, store = created({"chunks": (4,)}, shape=(16,))
    with array.buffered(max_bytes=40):
        array[0] = 1
        array[4] = 1
        array[1] = 1
        array[8] = 1
        assert store.chunks == {"c/1": 1}
        assert array[:9].tolist() == [1, 1, 0, 0, 1, 0, 0, 0, 1]


def test_text_counts_and_is_stored() -> None:
    """The bytes of variable-length elements count, also of overwritten ones."""
    store = MemoryStore()
    array = tessarr.create_array(store, shape=(8,), dtype=str, chunks=(4,))
    with (block := array.buffered(max_bytes=2000)):
        for i in range(100):
            array[i % 3] = "x" * 100
            assert block.nbytes <= 2100
        assert array[2] == "x" * 100
    assert tessarr.open_array(store)[:4].tolist() == ["x" * 100] * 3 + [""]


@pytest.mark.parametrize("limit", [-1, 1.5, "1", None, True])
def test_invalid_limit_raises(limit: Any) -> None:
    array, _ = created(LAYOUTS["v3"])
    with pytest.raises(ArgumentError, match="max_bytes"):
        array.buffered(max_bytes=limit)


def test_flush_stores_and_continues() -> None:
    array, store = created(LAYOUTS["v3"])
    with (block := array.buffered()):
        array[0] = 1
        assert block.nbytes == 96
        block.flush()
        assert not block.nbytes
        assert store.chunks == {"c/0/0": 1, "c/0/1": 1}
        array[1] = 2
    assert store.chunks == {"c/0/0": 2, "c/0/1": 2}


# Views and other objects of the array


def test_views_see_buffered_writes() -> None:
    """Every way to read sees the writes, and every way to write shares the memory."""
    array, store = created(LAYOUTS["v3"])
    with array.buffered():
        array[0] = [1, 2, 3, 4, 5, 6]
        array.oindex[[1, 2], 1:5] = 7
        array.vindex[[5], [5]] = 8
        array.write(3, 9).result()
        array.set_mask_selection(np.arange(72).reshape(12, 6) == 30, 10)
        assert np.asarray(array.lazy[0, ::2]).tolist() == [1, 3, 5]
        assert array.oindex[[1, 0], [1, 4]].tolist() == [[7, 7], [2, 5]]
        assert array.vindex[[5, 5], [5, 0]].tolist() == [8, 10]
        assert array.read((3, 0)).result() == 9
        assert asyncio.run(_read(array, 3)).tolist() == [9] * 6
        results = [array.read((0, i)) for i in range(6)]
        assert [int(future.result()) for future in results] == [1, 2, 3, 4, 5, 6]
        assert [row.tolist() for row in array][5] == [10, 0, 0, 0, 0, 8]
        assert not store.chunks
        assert tessarr.open_array(array.store_path)[3, 3] == 9
        assert not store.chunks
    assert array[5].tolist() == [10, 0, 0, 0, 0, 8]


async def _read(array: tessarr.Array, key: Any) -> Any:
    return await array.read(key)


def test_views_with_other_types_store_first() -> None:
    """A view with another data type sees the writes, and the array sees those of the view."""
    array, store = created(LAYOUTS["v3"])
    with array.buffered():
        array[0] = -1
        assert array.astype("f8")[0].tolist() == [-1.0] * 6
        assert len(store.chunks) == 2
        view = array.view(dtype="u4")
        array[1] = -1
        assert view[1, 0] == 2**32 - 1
        view[1, 0] = 5
        assert array[1].tolist() == [5] + [-1] * 5
        array[1, 1] = 6
        assert view[1, :2].tolist() == [5, 6]
    assert tessarr.open_array(store.inner)[1].tolist() == [5, 6] + [-1] * 4


def test_unrelated_store_object_reads_stored_chunks() -> None:
    """A store whose location is unknown is like another process: it sees only stored chunks."""
    array, store = created(LAYOUTS["v3"])
    other = tessarr.open_array(store.inner)
    with array.buffered():
        array[0] = 1
        other[0, 0] = 2
        other[1] = 3
        assert array[0].tolist() == [1] * 6
        assert array[1].tolist() == [3] * 6
        assert other[0, :2].tolist() == [2, 0]
    assert other[:2].tolist() == [[1] * 6, [3] * 6]


def test_pickled_array_reads_buffered_elements(tmp_path: Path) -> None:
    array = tessarr.create_array(tmp_path / "a", shape=4, dtype="i4", chunks=2)
    with array.buffered():
        array[0] = 1
        assert pickle.loads(pickle.dumps(array))[0] == 1


# Groups


def test_group_buffers_all_arrays_below() -> None:
    """Arrays from before the block, and new objects of them, share the memory of the group."""
    store = CountingStore()
    group = tessarr.create_group(store)
    deep = group.create_array("deep/x", shape=(4, 4), dtype="i4", chunks=(2, 4))
    outside = tessarr.create_array(store, name="deeper", shape=4, dtype="i4", chunks=2)
    group.create_array("y", shape=(4, 4), dtype="i4", chunks=(2, 4))
    store.stored.clear()
    with tessarr.buffered(group["deep"]) as below:
        assert below.path == "deep"
        outside[0] = 1
        assert store.chunks == {"deeper/c/0": 1}
    with (block := tessarr.buffered(group)):
        for i in range(4):
            deep[i] = i
            group["y"][i] = group["deep/x"][i] + 1
        assert store.chunks == {"deeper/c/0": 1}
        assert block.nbytes == 2 * 64
    assert store.chunks == dict.fromkeys(
        ["deeper/c/0", *(f"{name}/c/{i}/0" for name in ("deep/x", "y") for i in range(2))], 1
    )
    assert group["y"][:, 0].tolist() == [1, 2, 3, 4]


def test_buffered_of_other_objects_raises() -> None:
    with pytest.raises(ArgumentError, match="array or group"):
        tessarr.buffered(np.zeros(3))  # type: ignore[type-var]


def test_read_only_nodes_raise() -> None:
    store = MemoryStore()
    tessarr.create_group(store).create_array("x", shape=4, dtype="i4")
    group = tessarr.open_group(store, mode="r")
    for call in (lambda: tessarr.buffered(group), group["x"].buffered):
        with pytest.raises(ReadOnlyError):
            call()


# Other operations in a block


@pytest.fixture
def filled() -> Any:
    """An array in a group, with elements in the memory of a block of the group."""
    group = tessarr.create_group(MemoryStore())
    array = group.create_array("x", shape=(4, 4), dtype="i4", chunks=(2, 4))
    with tessarr.buffered(group):
        array[1] = 5
        yield group


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "count": lambda group: group["x"].nchunks_initialized,
    "size": lambda group: group["x"].nbytes_stored > group["x"].nchunks,
    "digest": lambda group: group["x"].hexdigest(),
    "copy": lambda group: _copy(group["x"]),
    "assignment": lambda group: _assign(group["x"]),
    "move": lambda group: (group.move("x", "z"), group["z"][1].tolist())[1],
    "shrink": lambda group: (group["x"].resize((3, 4)), group["x"][1].tolist())[1],
    "save": lambda group: np.asarray(group["x"]).tolist(),
}


def _copy(array: tessarr.Array) -> Any:
    target = MemoryStore()
    tessarr.copy_to(array, target)
    return tessarr.open_array(target)[...].tolist()


def _assign(array: tessarr.Array) -> Any:
    copied = tessarr.zeros_like(array)
    copied[...] = array
    return copied[...].tolist()


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_includes_buffered_writes(filled: Any, name: str) -> None:
    """Operations on stored chunks have the same result in a block as without it."""
    group = tessarr.create_group(MemoryStore())
    array = group.create_array("x", shape=(4, 4), dtype="i4", chunks=(2, 4))
    array[1] = 5
    assert OPERATIONS[name](filled) == OPERATIONS[name](group)


def test_shrinking_discards_elements_outside(filled: Any) -> None:
    filled["x"][3] = 6
    filled["x"].resize((2, 4))
    filled["x"].resize((4, 4))
    assert filled["x"][:, 0].tolist() == [0, 5, 0, 0]


def test_raw_copy_replaces_buffered_elements(filled: Any) -> None:
    """Elements that the block wrote before do not return after a copy of whole chunks."""
    array = filled["x"]
    array[...] = tessarr.ones_like(array)
    assert (array[...] == 1).all()
    array[0, 0] = 2
    assert array[0].tolist() == [2, 1, 1, 1]


def test_deleted_array_does_not_return(filled: Any) -> None:
    """A deletion also removes buffered elements; a new array at the path does not have them."""
    del filled["x"]
    assert filled.store.list("x/") == []
    new = filled.create_array("x", shape=(4, 4), dtype="u1", chunks=(4, 2))
    new[0] = 7
    assert new[:2].tolist() == [[7] * 4, [0] * 4]


def test_replaced_array_has_only_new_elements(filled: Any) -> None:
    filled["x"][3] = 1
    new = filled.create_array("x", data=np.ones((5, 5), "u1"), chunks=(2, 2), overwrite=True)
    new[0, 0] = 2
    assert new[...].sum() == 26


def test_new_fill_value_affects_only_missing_chunks() -> None:
    array = tessarr.create_array(MemoryStore(), shape=4, dtype="i4", chunks=2)
    with array.buffered():
        array[0] = 1
        array.fill_value = 9
        assert array[...].tolist() == [1, 0, 9, 9]
    assert array[...].tolist() == [1, 0, 9, 9]


def test_synchronized_array_stores_at_once() -> None:
    """The locks of a synchronizer are held during a write, so the write stores its chunks."""
    store = CountingStore()
    tessarr.create_array(store, shape=4, dtype="i4", chunks=2)
    array = tessarr.Array(store, synchronizer=tessarr.ThreadSynchronizer())
    other = tessarr.open_array(array.store_path)
    with array.buffered():
        array[0] = 1
        assert store.chunks == {"c/0": 1}
        other[1] = 2
        assert store.chunks == {"c/0": 1}
        assert array[...].tolist() == [1, 2, 0, 0]
    array.append([3])
    assert tessarr.open_array(store.inner)[...].tolist() == [1, 2, 0, 0, 3]


# Nested blocks and threads


def test_nested_blocks_share_elements() -> None:
    """The end of each block stores what is in the memory of its arrays."""
    array, store = created(LAYOUTS["v3"])
    with array.buffered():
        array[0] = 1
        with array.buffered():
            array[1] = 2
            assert array[:2, 0].tolist() == [1, 2]
            assert not store.chunks
        assert set(store.chunks.values()) == {1}
        array[2] = 3
        assert set(store.chunks.values()) == {1}
    assert array[:3, 0].tolist() == [1, 2, 3]


def test_same_block_nests() -> None:
    array, store = created(LAYOUTS["v3"])
    block = array.buffered()
    with block, block:
        array[0] = 1
    with block:
        array[1] = 1
    assert set(store.chunks.values()) == {2}


def test_threads_write_rows_in_own_blocks() -> None:
    """Threads write rows of the same chunks, each in a block; after its block a row is stored."""
    store = MemoryStore()
    array = tessarr.create_array(store, shape=(64, 8), dtype="i4", chunks=(16, 4))

    def work(i: int) -> None:
        with array.buffered(max_bytes=1000):
            array[i, :4] = i + 1
            array[i, 4:] = array[i, :4]
        stored = tessarr.open_array(MemoryStore(dict(store)), mode="r")
        assert stored[i].tolist() == [i + 1] * 8

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(64)))
    assert np.array_equal(array[...], np.arange(1, 65)[:, None].repeat(8, 1))


@pytest.mark.parametrize("limit", [300, 1 << 20])
def test_threads_write_in_one_block(limit: int) -> None:
    """Threads write and read in one block, with too little memory and with enough."""
    array = tessarr.create_array(MemoryStore(), shape=(64, 8), dtype="i4", chunks=(16, 4))

    def work(i: int) -> None:
        array[i] = i
        array[i] += 1
        assert array[i].tolist() == [i + 1] * 8

    with array.buffered(max_bytes=limit), ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(64)))
    assert np.array_equal(array[...], np.arange(1, 65)[:, None].repeat(8, 1))


def test_writes_during_the_end_of_a_block_are_stored() -> None:
    """A thread writes on while blocks begin and end in another thread; nothing is lost."""
    store = MemoryStore()
    array = tessarr.create_array(store, shape=(2000,), dtype="i4", chunks=(50,))
    written = 0
    done = threading.Event()

    def write() -> None:
        nonlocal written
        for i in range(2000):
            array[i] = i + 1
            assert array[i] == i + 1
            written += 1
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    while not done.wait(0):
        with array.buffered():
            pass
        assert thread.is_alive() or written == 2000
    thread.join()
    stored = tessarr.open_array(MemoryStore(dict(store)), mode="r")
    assert np.array_equal(stored[...], np.arange(1, 2001))


def test_blocks_and_stores_share_one_function_at_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    """`atexit` never forgets a function, so that one for each block would slow down all later."""
    array, _ = created(LAYOUTS["v3"])
    registered, register = [], atexit.register

    def count(*call: Any) -> Any:
        registered.append(call)
        return register(*call)

    monkeypatch.setattr(atexit, "register", count)
    for _ in range(100):
        with array.buffered():
            array[0] = 1
        TempStore().close()
    assert len(registered) <= 1


# Errors


def test_exception_in_block_stores_what_was_written() -> None:
    """An exception propagates, and the writes before it are stored, as without the block."""
    array, store = created(LAYOUTS["v3"])
    with pytest.raises(ZeroDivisionError), array.buffered():
        array[0] = 1
        array[1] = 1 // 0
    assert tessarr.open_array(store.inner)[:2, 0].tolist() == [1, 0]
    array[2] = 3
    assert tessarr.open_array(store.inner)[2, 0] == 3


def test_failing_store_raises_at_the_end() -> None:
    """If storing fails, the block raises the error; later writes to other chunks are stored."""
    array, store = created(LAYOUTS["v3"])
    store.error = OSError("full")
    block = array.buffered()
    with pytest.raises(OSError, match="full"), block:
        array[0] = 1
        assert array[0, 0] == 1
    assert array[0, 0] == 1
    store.error = None
    array[4] = 2
    assert tessarr.open_array(store.inner)[::4, 0].tolist() == [0, 2, 0]
    block.flush()
    assert tessarr.open_array(store.inner)[::4, 0].tolist() == [1, 2, 0]


def test_failing_flush_keeps_elements() -> None:
    array, store = created(LAYOUTS["v3"])
    with (block := array.buffered()):
        array[0] = 1
        store.error = OSError("full")
        with pytest.raises(OSError, match="full"):
            block.flush()
        store.error = None
        assert array[0, 0] == 1
    assert tessarr.open_array(store.inner)[0, 0] == 1


def test_failing_eviction_leaves_write_undone() -> None:
    """If a write needs memory and storing other chunks fails, it raises and changes nothing."""
    array, store = created({"chunks": (4,)}, shape=(16,))
    with array.buffered(max_bytes=20):
        array[0] = 1
        store.error = OSError("full")
        with pytest.raises(OSError, match="full"):
            array[4] = 1
        store.error = None
        assert array[:5].tolist() == [1, 0, 0, 0, 0]
    assert array[:5].tolist() == [1, 0, 0, 0, 0]


def test_array_deleted_by_another_process_raises(tmp_path: Path) -> None:
    """The end of the block does not bring the chunks of a deleted array back."""
    import shutil

    array = tessarr.create_array(tmp_path / "a", shape=4, dtype="i4", chunks=2)
    with pytest.raises(NotFoundError), array.buffered():
        array[0] = 1
        shutil.rmtree(tmp_path / "a")
    assert not (tmp_path / "a" / "c").exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_forked_child_stores_its_own_writes(tmp_path: Path) -> None:
    """A child reads stored chunks and writes at once; it does not store the parent's elements."""
    array = tessarr.create_array(tmp_path / "a", shape=(4, 4), dtype="i4", chunks=(2, 4))
    with array.buffered():
        array[0] = 1
        child = os.fork()
        if child == 0:
            code = 1
            try:
                assert array[0, 0] == 0
                array[1] = 2
                assert tessarr.open_array(tmp_path / "a")[:2, 0].tolist() == [0, 2]
                with (block := array.buffered()):
                    array[2] = 3
                    assert block.nbytes > 0
                assert tessarr.open_array(tmp_path / "a")[:3, 0].tolist() == [0, 2, 3]
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert array[:3, 0].tolist() == [1, 2, 3]
    assert array[:3, 0].tolist() == [1, 2, 3]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_forked_child_may_leave_the_block(tmp_path: Path) -> None:
    """The end of the block in a child stores nothing of the parent."""
    array = tessarr.create_array(tmp_path / "a", shape=4, dtype="i4", chunks=2)
    with array.buffered():
        array[0] = 1
        child = os.fork()
        if child:
            assert os.waitpid(child, 0)[1] == 0
    if not child:
        os._exit(int(tessarr.open_array(tmp_path / "a")[0] != 0))
    assert array[0] == 1


def test_read_of_a_partly_written_chunk_counts_its_memory() -> None:
    array = tessarr.create_array(MemoryStore(), shape=8, chunks=8, dtype="u1")
    with (block := array.buffered()):
        array[0] = 1
        assert block.nbytes == 8
        assert array[:2].tolist() == [1, 0]  # marks for each element
        assert block.nbytes == 16
