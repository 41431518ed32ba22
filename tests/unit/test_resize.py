"""Growing, shrinking, appending."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.array import clear_outside, resize
from tessarr.errors import ArgumentError, StoreError
from tessarr.flow import edit
from tessarr.flow.run import run_flow
from tessarr.store import ForeignStore, MemoryStore
from tessarr.store.wrappers.instrumented import CountingStore


@pytest.fixture(params=[None, (4, 6)])
def array(store: Any, request: pytest.FixtureRequest) -> tessarr.Array:
    """Return an array in chunks of (2, 3), optionally in shards of (4, 6)."""
    return tessarr.create_array(
        store, shape=(7, 8), dtype="i4", chunks=(2, 3), shards=request.param, fill_value=-1
    )


def test_both_spellings(array: tessarr.Array) -> None:
    array.resize(5, 6)
    assert array.shape == (5, 6)
    array.resize((3, 9))
    assert array.shape == (3, 9)
    array.resize([4, 4])  # type: ignore[arg-type]
    array.shape = (2, 2)
    assert array.shape == (2, 2)
    assert tessarr.open_array(array.store).shape == (2, 2)


@pytest.mark.parametrize("shape", [(3,), (1, 2, 3), (-1, 2), (1.5, 2), ("a", "b")])
def test_resize_to_invalid_shape_raises(array: tessarr.Array, shape: Any) -> None:
    with pytest.raises(ArgumentError):
        array.resize(*shape)
    assert tessarr.open_array(array.store).shape == array.shape == (7, 8)


@pytest.mark.parametrize("shape", [(7, 8), (3, 8), (7, 4), (5, 5), (1, 1), (0, 8), (0, 0), (9, 2)])
def test_shrunk_and_grown_again_shows_fill(array: tessarr.Array, shape: Any) -> None:
    expected = np.full((12, 12), -1, "i4")
    expected[:7, :8] = np.arange(56).reshape(7, 8)
    array[:] = expected[:7, :8]
    array.resize(shape)
    np.testing.assert_array_equal(array[:], expected[: shape[0], : shape[1]])
    expected[shape[0] :] = -1
    expected[:, shape[1] :] = -1
    array.resize(12, 12)
    np.testing.assert_array_equal(array[:], expected)
    np.testing.assert_array_equal(tessarr.open_array(array.store)[:], expected)


@pytest.mark.parametrize("trim", [True, False])
def test_resize_of_untrimmed_edges_shows_them_only_without_trim(
    array: tessarr.Array, trim: bool
) -> None:
    """Elements that shrinking with ``trim=False`` leaves return if growing also leaves them."""
    array[:] = 1
    array.resize(1, 1, trim=False)
    array.resize(2, 3, trim=trim)
    assert array[1, 2] == (-1 if trim else 1)


def test_resize_without_deletion_shows_outside_chunks_only_without_it() -> None:
    """Chunks that shrinking leaves return if growing leaves them, too."""
    a = tessarr.create_array(None, data=np.arange(9), chunks=4)
    for delete, shown in ((False, 8), (True, 0)):
        a.resize(2, delete_outside_chunks=False)
        a.resize(9, delete_outside_chunks=delete)
        assert a[8] == shown


UNTRIMMED: dict[str, dict[str, Any]] = {
    "v3": {"chunks": (2, 3)},
    "v3 shards": {"chunks": (2, 3), "shards": (4, 6)},
    "v3 lists of chunks": {"chunks": ((2, 3, 2, 7), (3, 3, 2, 9))},
    "v2": {"chunks": (2, 3), "zarr_format": 2},
    "v2 slash, F": {"chunks": (2, 3), "zarr_format": 2, "dimension_separator": "/", "order": "F"},
    "write_empty_chunks": {"chunks": (2, 3), "write_empty_chunks": True},
    "text": {"chunks": (2, 3), "dtype": "str", "fill_value": "-"},
    "records": {"chunks": (2, 3), "dtype": [("x", "i2"), ("y", "f8")], "fill_value": None},
    "NaN": {"chunks": (2, 3), "dtype": "f4", "fill_value": np.nan},
}


@pytest.mark.parametrize("kind", UNTRIMMED)
@pytest.mark.parametrize("shape", [(8, 9), (7, 15), (14, 8), (14, 17), (3, 17), (14, 1)])
def test_resize_larger_over_stored_elements_shows_fill(kind: str, shape: tuple[int, ...]) -> None:
    """Growing shows the fill value, though the whole grid holds data beyond the old shape."""
    store = MemoryStore()
    settings = {"dtype": "i4", "fill_value": -1, **UNTRIMMED[kind]}
    a = tessarr.create_array(store, shape=(14, 17), **settings)
    empty, dtype = a[:], a.dtype
    values = np.ones((14, 17), "i4").astype(str if kind == "text" else dtype)
    a[:] = values
    a.resize(7, 8, trim=False, delete_outside_chunks=False)
    a.resize(shape)
    expected = empty[: shape[0], : shape[1]].copy()
    overlap = np.s_[: min(7, shape[0]), : min(8, shape[1])]
    expected[overlap] = values[overlap]
    for seen in (a, tessarr.open_array(store)):
        np.testing.assert_array_equal(seen[:], expected)


def test_resize_larger_of_clean_edges_writes_only_document() -> None:
    """Growing reads chunks at the edge, but rewrites no chunk that is clean beyond the edge."""
    store = CountingStore(MemoryStore())
    a = tessarr.create_array(store, data=np.ones((5, 5)), chunks=(2, 2), fill_value=0)
    before = store.counts()["written_bytes"]
    a.resize(9, 9)
    assert store.counts()["written_bytes"] - before == store.size("zarr.json")
    assert a[:].sum() == 25


def test_resize_larger_that_needs_blocks_clears_every_edge_chunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Growing reads edge chunks in blocks of bounded size, and clears each one."""
    monkeypatch.setattr(clear_outside, "_BLOCK_BYTES", 100)
    a = tessarr.create_array(None, data=np.ones((40, 40)), chunks=(3, 4), fill_value=0)
    a.resize(20, 22, trim=False, delete_outside_chunks=False)
    a.resize(40, 40)
    assert a[:].sum() == 20 * 22


def test_resize_larger_by_many_chunks_lists_stored_keys() -> None:
    """Growing by a million chunks requests only the stored chunks."""
    store = CountingStore(MemoryStore())
    a = tessarr.create_array(store, shape=(2000, 2000), chunks=(2, 2), dtype="u1")
    a[1500:, 1500:] = 1
    a.resize(5, 5, trim=False, delete_outside_chunks=False)
    a.resize(2000, 2000)
    assert store.list("") == ["zarr.json"]


def test_resize_larger_after_concurrent_growth_keeps_its_data() -> None:
    """An array with an outdated shape deletes no part of the stored array."""
    a = tessarr.create_array(None, data=np.ones(4), chunks=2)
    old = tessarr.open_array(a.store)
    a.append(np.ones(5))
    old.resize(12)
    assert old[:].tolist() == [1.0] * 9 + [0.0] * 3


def test_resize_smaller_deletes_chunks_outside(array: tessarr.Array) -> None:
    array[:] = 1
    array.resize(2, 3)
    assert array.store.list("") == ["c/0/0", "zarr.json"]
    array.resize(0, 0)
    assert array.store.list("") == ["zarr.json"]


def test_shrinking_creates_no_chunks() -> None:
    a = tessarr.create_array(None, shape=8, dtype="u1", chunks=4, write_empty_chunks=True)
    a.resize(3)
    assert a.store.list("") == ["zarr.json"]


def test_format_2_shrinks_too(store: Any) -> None:
    a = tessarr.create_array(store, shape=(6, 6), dtype="i4", chunks=(2, 2), zarr_format=2)
    a[:] = 1
    a.resize(3, 3)
    assert store.list("") == [".zarray", ".zattrs", "0.0", "0.1", "1.0", "1.1"]
    a.resize(4, 4)
    assert a[:].sum() == 9


def test_appending(array: tessarr.Array) -> None:
    array[:] = 1
    assert array.append(np.full((3, 8), 2)) == (10, 8)
    assert array.append(np.full((10, 2), 3), axis=-1) == (10, 10)
    expected = np.ones((10, 10), "i4")
    expected[7:] = 2
    expected[:, 8:] = 3
    np.testing.assert_array_equal(array[:], expected)
    np.testing.assert_array_equal(tessarr.open_array(array.store)[:], expected)


def test_append_of_empty_data_changes_nothing(array: tessarr.Array) -> None:
    assert array.append(np.zeros((0, 8))) == (7, 8)


def test_append_overwrites_leftovers_of_failed_append(store: Any) -> None:
    a = tessarr.create_array(store, shape=2, dtype="u1", chunks=2, compressors=None)
    store.put("c/1", b"\x09\x09")
    a.append([0, 0])
    assert a[:].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("data", [np.zeros((1, 7)), np.zeros(8), np.zeros((1, 1, 8)), 5])
def test_append_wrong_shape_raises(array: tessarr.Array, data: Any) -> None:
    before = array.store.list("")
    with pytest.raises(ArgumentError) as caught:
        array.append(data)
    assert caught.value.kind == "shape_mismatch"
    assert (array.shape, array.store.list("")) == ((7, 8), before)
    with pytest.raises(ArgumentError):
        array.append(np.zeros((1, 8)), axis=2)


def test_append_after_concurrent_append_follows_it(store: Any) -> None:
    a = tessarr.create_array(store, shape=0, dtype="u1", chunks=2)
    b = tessarr.open_array(store)
    a.append([1, 2, 3])
    assert b.append([4]) == (4,)
    assert a.append([5]) == (5,)
    assert a[:].tolist() == [1, 2, 3, 4, 5]


def test_append_concurrent_resize_without_lock_raises(
    array: tessarr.Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = resize.write_region

    def overtaken(*shape: Any, **options: Any) -> None:
        flow = edit.edit_shape(array.path, array.metadata.zarr_format, wider)
        run_flow(flow, array.store)
        write(*shape, **options)

    def wider(expected: Any) -> Any:
        return replace(expected, shape=(20, 8))

    monkeypatch.setattr(resize, "write_region", overtaken)
    with pytest.raises(StoreError, match="resized") as caught:
        array.append(np.ones((3, 8), "i4"))
    assert caught.value.retryable
    assert tessarr.open_array(array.store).shape == (20, 8)


def test_threads_append_without_losing_anything() -> None:
    from threading import Thread

    a = tessarr.create_array(None, shape=0, dtype="i4", chunks=3)
    threads = [
        Thread(target=lambda i=i: [a.append([100 * i + k]) for k in range(20)]) for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(a[:].tolist()) == [100 * i + k for i in range(4) for k in range(20)]


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shards", [None, (6, 6)])
def test_append_of_lazy_array_reads_parts(axis: int, shards: Any) -> None:
    """Parts have the requested size, and all of them become visible at once."""
    old = np.arange(7 * 5).reshape(7, 5)
    more = np.arange(100, 100 + 23 * 5).reshape(23, 5) if axis == 0 else old[:, [0] * 23] + 100
    array = tessarr.create_array(data=old, chunks=3, shards=shards)
    sizes: list[int] = []

    class Elsewhere:
        """An array that is not in memory."""

        shape, dtype, ndim = more.shape, more.dtype, 2

        def __getitem__(self, key: Any) -> Any:
            part = more[key]
            sizes.append(part.nbytes)
            assert tessarr.Array(array.store).shape == old.shape
            return part

    with tessarr.options(copy_bytes=400):
        array.append(Elsewhere(), axis)
    np.testing.assert_array_equal(array[:], np.concatenate([old, more], axis))
    assert len(sizes) > 2
    assert max(sizes) <= 400
    array.append(array, axis)
    np.testing.assert_array_equal(array[:], np.concatenate([old, more] * 2, axis))
    with pytest.raises(ArgumentError):
        array.append(tessarr.zeros((2, 2)), axis)
    array.append(tessarr.zeros((0, 5) if axis == 0 else (7, 0)), axis)


def test_unreadable_part_undoes_append() -> None:
    array = tessarr.create_array(data=np.ones(5), chunks=3)

    class Broken:
        shape, dtype = (9,), np.dtype("f8")

        def __getitem__(self, key: Any) -> Any:
            if key[0].start:
                raise ZeroDivisionError
            return np.full(9, 2.0)[key]

    with tessarr.options(copy_bytes=32), pytest.raises(ZeroDivisionError):
        array.append(Broken())
    assert (array.shape, tessarr.Array(array.store).shape) == ((5,), (5,))
    array.resize(14)
    assert array[:].tolist() == [1] * 5 + [0] * 9


class _Shared:
    """A store that other processes also change: each replacement compares the old value."""

    def __init__(self) -> None:
        self.items: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.items.get(key)

    def put(self, key: str, data: bytes) -> None:
        self.items[key] = bytes(data)

    def delete(self, key: str) -> None:
        self.items.pop(key, None)

    def list(self, prefix: str) -> list[str]:
        return [key for key in self.items if key.startswith(prefix)]

    def replace(self, key: str, data: bytes | None, expected: bytes | None) -> bool:
        if self.items.get(key) != expected:
            return False
        if data is None:
            self.delete(key)
        else:
            self.put(key, data)
        return True


def _shared_array(chunks: int) -> tuple[tessarr.Array, tessarr.Array]:
    """Return two handles of an array of two ones, like those of two processes."""
    store = ForeignStore(_Shared())
    assert not store.is_exclusive
    first = tessarr.create_array(store, shape=2, chunks=chunks, dtype="i4", overwrite=True)
    first[...] = 1
    return first, tessarr.open_array(store)


@pytest.mark.parametrize("when", ["before clearing", "after clearing"])
@pytest.mark.parametrize("chunks", [1, 2, 8])
@pytest.mark.parametrize("other", ["append", "shrink", "grow"])
def test_resize_larger_after_concurrent_change_starts_again(
    when: str, chunks: int, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that the other process appended stay, and rows that it cut off never appear."""
    first, second = _shared_array(chunks)
    clear = resize._clear_exposed
    calls: list[tuple[int, ...]] = []

    def change() -> None:
        # This process's lock does not protect from another process.
        monkeypatch.setattr(resize, "_with_shape_lock", lambda _, work, below=None: work())
        if other == "append":
            second.append([2, 2])
        elif other == "grow":
            second.resize(5)
            second[4] = 3
        else:  # like a process that ends before it removes chunks outside
            second.resize(1, trim=False, delete_outside_chunks=False)

    def overtaken(array: Any, old: Any, new: Any, **options: Any) -> None:
        if array is not first:
            return clear(array, old, new, **options)
        calls.append(old.shape)
        if len(calls) == 1 and when == "before clearing":
            change()
        clear(array, old, new, **options)
        if len(calls) == 1 and when == "after clearing":
            change()
        return None

    monkeypatch.setattr(resize, "_clear_exposed", overtaken)
    first.resize(9)
    expected = {
        "append": [1, 1, 2, 2, 0, 0, 0, 0, 0],
        "shrink": [1, 0, 0, 0, 0, 0, 0, 0, 0],
        "grow": [1, 1, 0, 0, 3, 0, 0, 0, 0],
    }[other]
    assert calls == [(2,), {"append": (4,), "shrink": (1,), "grow": (5,)}[other]]
    assert first.shape == (9,)
    for array in (first, tessarr.open_array(first.store)):
        assert array[...].tolist() == expected


def test_append_after_concurrent_append_keeps_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Rows that another process appended after the read of the shape are not beyond the edge."""
    first, second = _shared_array(8)
    clear = resize._clear_exposed

    def overtaken(array: Any, old: Any, new: Any, **options: Any) -> None:
        monkeypatch.setattr(resize, "_clear_exposed", clear)
        # This process's lock does not protect from another process.
        monkeypatch.setattr(resize, "_with_shape_lock", lambda _, work, below=None: work())
        second.append([2, 2])
        clear(array, old, new, **options)

    monkeypatch.setattr(resize, "_clear_exposed", overtaken)
    first.append([3])
    assert tessarr.open_array(first.store)[...].tolist() == [1, 1, 2, 2, 3]
