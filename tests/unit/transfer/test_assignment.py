"""``a[key] = other`` with arrays outside of memory: chunk by chunk, with NumPy's result."""

from __future__ import annotations

import threading
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessarr
from tessarr.errors import ArgumentError
from tessarr.store import MemoryStore
from tessarr.store.wrappers.instrumented import CountingStore
from tessarr.transfer import assign_array, is_lazy

SHAPE = (300, 1100)
VALUES = np.random.default_rng(5).integers(0, 1000, SHAPE).astype("i4")


class Sliced:
    """A third party's array with a shape, a data type and slices; it records its keys."""

    def __init__(self, values):
        self.values = values
        self.read_sizes = []
        self.inside = 0
        self.most = 0

    @property
    def shape(self):
        return self.values.shape

    @property
    def dtype(self):
        return self.values.dtype

    def __getitem__(self, key):
        self.inside += 1
        self.most = max(self.most, self.inside)
        result = self.values[key].copy()
        self.read_sizes.append(result.size)
        threading.Event().wait(0.001)
        self.inside -= 1
        return result


@pytest.fixture(autouse=True)
def small_memory():
    """Divide copies into several regions, to expose errors between them."""
    with tessarr.options(copy_bytes=1 << 18):
        yield


def new(shape=SHAPE, dtype="f8", chunks=(64, 100), **settings):
    return tessarr.create_array(None, shape=shape, dtype=dtype, chunks=chunks, **settings)


def in_h5py(path: Path):
    return h5py.File(path / "a.h5", "w").create_dataset(
        "x", data=VALUES, chunks=(37, 250), compression="gzip"
    )


def in_zarr(path: Path):
    import zarr

    array = zarr.create_array(path / "z", shape=SHAPE, dtype="i4", chunks=(50, 500))
    array[...] = VALUES
    return array


def in_dask(values, chunks):
    import dask.array

    return dask.array.from_array(values, chunks=chunks)


MAKERS = {
    "tessarr": lambda path: tessarr.create_array(path / "t", data=VALUES, chunks=(1, 1100)),
    "tessarr shards": lambda path: tessarr.create_array(
        path / "t", data=VALUES, chunks=(10, 55), shards=(100, 550)
    ),
    "tessarr rectilinear": lambda path: tessarr.create_array(
        path / "t", data=VALUES, chunks=[[100, 150, 50], 300]
    ),
    "h5py": in_h5py,
    "zarr": in_zarr,
    "dask": lambda path: in_dask(VALUES, (123, 777)),
    "others": lambda path: Sliced(VALUES),
    "in memory": lambda path: VALUES,
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize(
    "key",
    [
        ...,
        (slice(None), slice(None, None, -1)),
        (slice(299, None, -1), slice(0, None)),
    ],
)
def test_assign_accepts_every_kind_of_array(tmp_path, kind, key):
    source = MAKERS[kind](tmp_path)
    target, expected = new(), np.zeros(SHAPE)
    target[key] = source
    expected[key] = VALUES
    np.testing.assert_array_equal(target[...], expected)


def test_values_arrive_in_shards_and_in_chunks_of_different_lengths(tmp_path):
    for settings in ({"chunks": (8, 50), "shards": (64, 500)}, {"chunks": [[200, 60, 40], 550]}):
        target = new(dtype="i4", **settings)
        target[...] = Sliced(VALUES)
        np.testing.assert_array_equal(target[...], VALUES)


lines = st.integers(0, 40).flatmap(
    lambda n: st.tuples(
        st.just(n),
        st.slices(n).map(lambda s: s if s.step != 0 else slice(None)),
        st.integers(1, 9),
        st.integers(1, 9),
    )
)


@given(st.lists(lines, min_size=1, max_size=3), st.booleans(), st.data())
def test_assign_to_slices_matches_numpy(layout, thin, data):
    lengths, key, source_chunks, chunks = zip(*layout, strict=True)
    expected = np.zeros(lengths, "i4")
    shape = expected[key].shape
    own = tuple(1 if thin and data.draw(st.booleans()) else n for n in shape)
    values = np.arange(1, 1 + int(np.prod(own)), dtype="i8").reshape(own)
    expected[key] = values
    target = new(lengths, "i4", chunks)
    source = new(own, "i8", tuple(source_chunks))
    source[...] = values
    with pytest.MonkeyPatch.context() as patch, tessarr.options(copy_bytes=64):
        patch.setattr("tessarr.transfer.assignment._SMALL_BYTES", -1)
        target[key] = source
    np.testing.assert_array_equal(target[...], expected)


def test_assign_lazy_encodes_each_chunk_once_in_bounded_memory():
    counted = CountingStore(MemoryStore())
    target = tessarr.create_array(counted, shape=SHAPE, dtype="i4", chunks=(50, 100))
    source = Sliced(VALUES)
    before = counted.counts()
    target[...] = source
    after = counted.counts()
    written = {name: after[name] - before[name] for name in after}
    assert sum(source.read_sizes) == VALUES.size
    assert max(source.read_sizes) * 4 <= 1 << 18
    assert written["updates"] == target.nchunks
    assert written["opens"] == written["reads"] == 0


def test_assign_reads_unknown_libraries_in_one_thread():
    source = Sliced(VALUES)
    with tessarr.options(threads=4):
        new()[...] = source
    assert len(source.read_sizes) > 3
    assert source.most == 1


@pytest.mark.parametrize("form", [2, 3])
def test_assign_between_equal_chunks_copies_raw_chunks(form):
    """A damaged chunk is copied, too, which shows that the copy decodes none."""
    source_store = MemoryStore()
    source = tessarr.create_array(source_store, data=VALUES, chunks=(64, 100))
    source_store.put("c/1/1", b"damaged")
    source_store.delete("c/2/2")
    target_store = MemoryStore()
    target = tessarr.create_array(
        target_store, path="a", shape=SHAPE, dtype="i4", chunks=(64, 100), zarr_format=form
    )
    target[...] = 5
    target[...] = source
    key = "a/c/{}/{}" if form == 3 else "a/{}.{}"
    assert target_store.get(key.format(1, 1)) == b"damaged"
    assert target_store.get(key.format(2, 2)) is None
    np.testing.assert_array_equal(target[:64], VALUES[:64])
    assert not target[128:192, 200:300].any()
    with pytest.raises(tessarr.errors.DataError):
        target[::-1] = source  # otherwise Tessarr decodes chunks


def test_assign_with_write_empty_chunks_encodes_again():
    source = tessarr.create_array(None, shape=SHAPE, dtype="i4", chunks=(64, 100))
    target = tessarr.create_array(
        None, shape=SHAPE, dtype="i4", chunks=(64, 100), write_empty_chunks=True
    )
    target[...] = source
    assert target.nchunks_initialized == target.nchunks


def test_assign_detects_shared_storage_by_store(tmp_path):
    """The check compares stores, and not the user's arguments."""
    items = {}
    tessarr.create_array(items, data=VALUES, chunks=(64, 100))
    array = tessarr.open_array(items, "r+")
    array[::-1] = tessarr.open_array(items, "r")
    np.testing.assert_array_equal(array[...], VALUES[::-1])
    tessarr.create_array(tmp_path / "x", data=VALUES, chunks=(64, 100))
    array = tessarr.open_array(tessarr.storage.DirectoryStore(str(tmp_path / "x")), "r+")
    array[::-1] = tessarr.open_array(tmp_path / "x", "r")
    np.testing.assert_array_equal(array[...], VALUES[::-1])


@pytest.mark.parametrize("limit", [1 << 18, 1 << 30])
@pytest.mark.parametrize("key", [(slice(None, None, -1),), (..., slice(None, None, -1)), ...])
def test_assign_of_array_to_itself_matches_numpy(key, limit):
    """As in NumPy, all reads precede the writes; copies may also use a file."""
    array = tessarr.create_array(None, data=VALUES, chunks=(64, 100))
    expected = VALUES.copy()
    expected[key] = VALUES
    with tessarr.options(copy_bytes=limit):
        array[key] = array
    np.testing.assert_array_equal(array[...], expected)


def test_assign_array_to_itself_reads_first(tmp_path):
    import zarr

    array = tessarr.create_array(tmp_path, data=VALUES, chunks=(64, 100))
    array[::-1] = tessarr.open_array(tmp_path)
    np.testing.assert_array_equal(array[...], VALUES[::-1])
    array[::-1] = zarr.open_array(tmp_path)
    np.testing.assert_array_equal(array[...], VALUES)
    array[...] = in_dask(array, (64, 100))[::-1]
    np.testing.assert_array_equal(array[...], VALUES[::-1])


def test_assign_of_wrong_shape_stores_nothing():
    target = new(fill_value=3)
    with pytest.raises(ArgumentError) as caught:
        target[:200] = Sliced(VALUES)
    assert caught.value.kind == "shape_mismatch"
    assert target.nchunks_initialized == 0


def test_assign_of_unknown_dask_lengths_is_refused():
    unknown = in_dask(VALUES, 100)
    unknown = unknown[unknown[:, 0] > 500]
    with pytest.raises(ArgumentError, match="compute_chunk_sizes"):
        new()[...] = unknown


def test_index_arrays_take_whole_value():
    target, expected = new(), np.zeros(SHAPE)
    rows = np.random.default_rng(1).permutation(300)
    target[rows] = Sliced(VALUES)
    expected[rows] = VALUES
    np.testing.assert_array_equal(target[...], expected)


def test_assign_source_error_ends_copy():
    class Broken(Sliced):
        def __getitem__(self, key):
            if len(self.read_sizes) > 2:
                raise ZeroDivisionError("no more")
            return super().__getitem__(key)

    source = Broken(VALUES)
    with pytest.raises(ZeroDivisionError, match="no more"):
        new()[...] = source
    assert not [t for t in threading.enumerate() if t.name.startswith("tessarr-copy")]
    assert len(source.read_sizes) < 8


def test_assign_locks_chunks_with_synchronizer():
    """The writing thread holds the locks, one region at a time."""

    class Noting(tessarr.ThreadSynchronizer):
        def __init__(self):
            super().__init__()
            self.held = []

        def __getitem__(self, key):
            self.held.append(key)
            return super().__getitem__(key)

    noting = Noting()
    target = tessarr.create_array(
        None, shape=SHAPE, dtype="i4", chunks=(64, 100), synchronizer=noting
    )
    target[...] = Sliced(VALUES)
    assert sum("c/" in key for key in noting.held) == target.nchunks
    np.testing.assert_array_equal(target[...], VALUES)


def test_assign_copies_text_from_lazy_arrays():
    words = np.array([f"word {i}" for i in range(40_000)], object)
    source = tessarr.create_array(None, data=words, dtype=str, chunks=(999,))
    target = new(words.shape, str, (1024,))
    target[...] = source
    assert target[...].tolist() == words.tolist()


def test_records_are_copied():
    records = np.zeros(200_000, [("a", "i4"), ("b", "f8")])
    records["a"] = np.arange(200_000)
    target = new(records.shape, records.dtype, (7000,))
    target[...] = Sliced(records)
    assert (target[...] == records).all()


def test_is_lazy_of_labelled_or_small_values_is_false():
    class Series(Sliced):
        iloc = None

    assert not is_lazy(Series(VALUES), np.dtype("f8"))
    assert not is_lazy(3, np.dtype("f8"))
    assert not is_lazy([1, 2], np.dtype("f8"))
    assert not is_lazy(VALUES, VALUES.dtype)
    assert is_lazy(Sliced(VALUES), VALUES.dtype)


def test_assign_reads_small_value_at_once():
    from tessarr.indexing import select

    target = new()
    whole = assign_array(target, select((0,), SHAPE), Sliced(VALUES[0]))
    np.testing.assert_array_equal(whole, VALUES[0])
