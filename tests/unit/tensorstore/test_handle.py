"""Handles: indexing, reading, writing."""

from __future__ import annotations

import array
import ctypes
from typing import Any, Literal

import numpy as np
import pytest

import tessarr
import tessarr.tensorstore as ts
from tessarr.errors import ReadOnlyError
from tessarr.tensorstore.handle.handle import build_handle

VALUES = np.arange(48, dtype="u2").reshape(6, 8)


@pytest.fixture
def store() -> ts.TensorStore:
    array = tessarr.create_array(None, shape=(6, 8), chunks=(2, 3), dtype="u2")
    array[...] = VALUES
    return ts.open({"driver": "zarr3", "kvstore": array.store}).result()


def test_properties(store: ts.TensorStore) -> None:
    view = store[2:5, 7]
    assert (view.rank, view.ndim, view.shape, view.origin, view.size) == (1, 1, (3,), (2,), 3)
    assert (store.dtype, store.mode, str(store.domain)) == (ts.uint16, "rw", "{ [0, 6*), [0, 8*) }")


@pytest.mark.parametrize(
    "key",
    [
        (slice(1, 5), slice(None)),
        (3, slice(2, 7, 2)),
        ([5, 0, 0], slice(1, 3)),
        ([[5, 0], [1, 2]], [1, 7]),
        (slice(None), np.arange(8) % 2 == 0),
        (None, 3),
    ],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_read_returns_numpy_array(store: ts.TensorStore, key: Any, order: Any) -> None:
    result = store[key].read(order=order).result()
    np.testing.assert_array_equal(result, VALUES[key], strict=True)
    assert result.flags.c_contiguous if order == "C" else result.flags.f_contiguous
    out = np.empty(VALUES[key].shape, "u2")
    assert store[key].read(out=out).result() is out
    np.testing.assert_array_equal(out, VALUES[key])
    np.testing.assert_array_equal(np.asarray(store[key]), VALUES[key])


def test_stored_index_array_selects_elements() -> None:
    stored, view = tessarr.array([3, 1]), ts.array(np.arange(5))
    for key in (stored, stored.lazy, tessarr.array([False, True, False, True, False]).lazy):
        assert view[key].read().result().tolist() == np.arange(5)[np.asarray(key)].tolist()
    assert view[stored.lazy[0]].read().result() == 3


def test_read_of_one_element_is_array(store: ts.TensorStore) -> None:
    result = store[2, 3].read().result()
    assert isinstance(result, np.ndarray)
    assert result.shape == ()
    assert result == VALUES[2, 3]


@pytest.mark.parametrize("step", [-1, -2, -3, 2])
def test_resize_none_keeps_bound(step: int) -> None:
    """The upper bound of the array may change soon."""
    values = np.arange(4, dtype="i4")
    spec = {"driver": "zarr3", "kvstore": "memory://"}
    array = ts.open(spec, create=True, dtype="int32", shape=[4]).result()
    array.write(values).result()
    ends = [None, 0, 1, 2, 3]
    for key in (slice(start, stop, step) for start in ends for stop in ends):
        if values[key].size:
            assert array[key].shape == values[key].shape
            assert array[key].read().result().tolist() == values[key].tolist()


def test_write(store: ts.TensorStore) -> None:
    expected = VALUES.copy()
    futures = store[1:3, 2:4].write([1, 2])
    futures.copy.result()
    futures.result()
    expected[1:3, 2:4] = [1, 2]
    store.oindex[[0, 5], [1, 7]] = np.uint16(9)
    expected[np.ix_([0, 5], [1, 7])] = 9
    store.vindex[[0, 5], [1, 7]] = [4, 5]
    expected[[0, 5], [1, 7]] = [4, 5]
    store[ts.d[0].translate_by[10]][13, :] = 3
    expected[3] = 3
    np.testing.assert_array_equal(store, expected)


def test_copies_align(store: ts.TensorStore) -> None:
    array = tessarr.create_array(None, shape=(8, 6), chunks=(3, 4), dtype="i4")
    target = ts.open({"driver": "zarr3", "kvstore": array.store}).result()
    target.label["x", "y"].write(store.label["y", "x"]).result()
    np.testing.assert_array_equal(array[:], VALUES.T)
    target[0:2, 1:5].write(store[2:6, 7]).result()
    np.testing.assert_array_equal(array[:2, 1:5], [VALUES[2:6, 7]] * 2)
    with pytest.raises(ValueError, match="dimension 0"):
        target.write(store).result()
    with pytest.raises(ValueError, match="cast"):
        store.T.write(target).result()


@pytest.mark.parametrize(("to", "of"), [("0:5", "1:6"), ("1:6", "0:5"), ("0:3", "3:6")])
def test_copies_within_array(store: ts.TensorStore, to: str, of: str) -> None:
    item, other = (slice(*map(int, text.split(":"))) for text in (to, of))
    expected = VALUES.copy()
    expected[item] = VALUES[other]
    store[item].write(store[other]).result()
    np.testing.assert_array_equal(store, expected)


def test_array_written_with_itself_reversed(store: ts.TensorStore) -> None:
    store.write(store[::-1]).result()
    np.testing.assert_array_equal(store, VALUES[::-1])


def test_write_of_mismatching_values_is_refused(store: ts.TensorStore) -> None:
    with pytest.raises(TypeError, match="safe"):
        store.write(np.zeros(8))
    with pytest.raises(OverflowError):
        store.write([1, 2, 3, 4, 5, 6, 7, 70000])
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        store.write([1, 2, 3])
    with pytest.raises(ValueError, match=r"shape \(1, 6, 8\)"):
        store.write(np.zeros((1, 6, 8), "u2"))
    with pytest.raises(ValueError, match="'x'"):
        store.write("x")
    with pytest.raises(IndexError):
        store[-1]
    with pytest.raises(ValueError, match="outside"):
        store[5:9].read().result()
    with pytest.raises(ValueError, match="outside"):
        store[5:9].write(1).result()
    with pytest.raises(ValueError, match="shape"):
        store.read(out=np.empty(3, "u2"))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float32", "ustring", "json", "int4"])
def test_cast_errors_have_precedence(dtype: str, order: Literal["C", "F"]) -> None:
    values = np.arange(6).reshape(2, 3)
    for store in (ts.cast(ts.array(values), dtype).T, ts.cast(ts.array(values.copy("F")), dtype)):
        read = store.read(order=order).result()
        assert read.flags.c_contiguous == (order == "C")
        assert read.astype(int).tolist() == store.base.read().result().tolist()


class Exposed:
    """An object with NumPy's array interface that is not an array."""

    def __init__(self, values: Any, protocol: str) -> None:
        self.values = values  # must live as long as the view
        setattr(self, protocol, getattr(values, protocol))


WITH_DATA_TYPES: dict[str, Any] = {
    "array.array": array.array("i", [1, 300, -70000]),
    "memoryview": memoryview(np.array([1.5, 300, -70000])),
    "memoryview of one": memoryview(np.array(300)),
    "bytearray": bytearray(b"a\xffc"),
    "ctypes": (ctypes.c_int * 3)(1, 300, -70000),
    "interface": Exposed(np.array([1, 300, -70000]), "__array_interface__"),
    "struct": Exposed(np.array([1, 300, -70000]), "__array_struct__"),
}


@pytest.mark.parametrize("source", WITH_DATA_TYPES.values(), ids=WITH_DATA_TYPES)
def test_write_of_typed_values_casts_safely(source: Any) -> None:
    small = ts.array(np.zeros(3, "i1"))
    with pytest.raises(TypeError, match="safe"):
        small.write(source)
    with pytest.raises(TypeError, match="safe"):
        ts.array(source, dtype="int8")
    assert not np.any(small)
    wide = ts.array(np.zeros(3, "f8"))
    wide.write(source).result()
    np.testing.assert_array_equal(wide, np.broadcast_to(np.asarray(source), 3))
    np.testing.assert_array_equal(ts.array(source, dtype="float64"), np.asarray(source, "f8"))


def test_modes(store: ts.TensorStore) -> None:
    reading, writing = (build_handle(store._driver, mode=mode) for mode in "rw")
    assert (reading.readable, reading.writable) == (True, False)
    with pytest.raises(ReadOnlyError):
        reading.write(1)
    with pytest.raises(ReadOnlyError):
        writing.read().result()
    assert (reading[2].mode, writing.T.mode) == ("r", "w")


def test_handle_is_not_sequence(store: ts.TensorStore) -> None:
    assert store
    with pytest.raises(TypeError):
        iter(store)
    with pytest.raises(TypeError):
        len(store)
    with pytest.raises(TypeError):
        ts.TensorStore()


@pytest.mark.parametrize(("fill", "stored"), [(None, [b".zarray", b"1"]), (0, [b".zarray"])])
def test_zeros_without_fill_value_are_stored(fill: int | None, stored: list[bytes]) -> None:
    array = ts.open(
        {"driver": "zarr2", "kvstore": "memory://", "metadata": {"chunks": [3]}},
        create=True,
        shape=[6],
        dtype="int16",
        fill_value=fill,
    ).result()
    array[3:] = 0
    assert sorted(array.kvstore.list().result()) == stored
