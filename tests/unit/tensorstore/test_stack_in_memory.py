"""Layers with elements in memory: one copy writes all of them, even if they share memory."""

from __future__ import annotations

import pickle
import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest

import tessarr.tensorstore as ts
from calls import record_calls
from tessarr import _engine
from tessarr.errors import ArgumentError, OutOfMemoryError, ReadOnlyError, UnsupportedError

VALUES = np.arange(600, dtype="i4").reshape(60, 10)


def rows(values: Any, count: int) -> list[ts.TensorStore]:
    """Return handles of equal parts of an array."""
    return [ts.array(part.copy()) for part in np.split(values, count)]


def calls(store: ts.TensorStore) -> int:
    """Count the Python functions that a read calls."""
    store.read().result()  # fills the memo
    return len(record_calls(lambda: store.read().result()).python)


def test_extra_layer_costs_no_python_call() -> None:
    few, many = (ts.concat(rows(VALUES, count), axis=0)[:, 3] for count in (2, 20))
    assert calls(many) == calls(few)


@pytest.mark.parametrize("key", [np.s_[:], np.s_[::-3, 2], np.s_[[5, 59, 5, 0]]])
def test_reads_and_writes_of_many_layers(key: Any) -> None:
    layers = rows(VALUES, 20)
    store = ts.concat(layers, axis=0)
    result = VALUES.copy()
    view = store[key] if not isinstance(key, slice) else store
    np.testing.assert_array_equal(view.read().result(), result[key])
    result[key] = 7 + np.arange(result[key].size).reshape(result[key].shape)
    view.write(result[key]).result()
    np.testing.assert_array_equal(np.concatenate([item.read().result() for item in layers]), result)


def test_read_into_memory_of_layers() -> None:
    values = VALUES.copy()
    store = ts.concat([ts.array(values[30:]), ts.array(values[:30])], axis=0)
    store.read(out=values).result()
    np.testing.assert_array_equal(values, np.concatenate([VALUES[30:], VALUES[:30]]))


def test_write_of_memory_of_layers() -> None:
    values = VALUES.copy()
    store = ts.concat([ts.array(values[30:]), ts.array(values[:30])], axis=0)
    store.write(values).result()
    np.testing.assert_array_equal(values, np.concatenate([VALUES[30:], VALUES[:30]]))


def test_layers_of_parts_of_same_array() -> None:
    values = np.zeros((4, 6), "i4")
    whole = ts.array(values)
    ts.concat([whole[:, 3:].translate_to[0, 0], whole[:, :3]], axis=1).write(
        np.arange(24).reshape(4, 6).astype("i4")
    ).result()
    np.testing.assert_array_equal(values[:, 3:], np.arange(24).reshape(4, 6)[:, :3])
    np.testing.assert_array_equal(values[:, :3], np.arange(24).reshape(4, 6)[:, 3:])


def test_layers_of_same_array_twice() -> None:
    """Elements that two layers write come from one layer, never from both."""
    values = np.zeros((1500, 1000), "i2")
    layer = ts.array(values)
    items = np.repeat(np.array([1, 2], "i2"), values.size).reshape(3000, 1000)
    ts.concat([layer, layer], axis=0).write(items).result()
    assert np.unique(values).tolist() == [1]


def test_layers_whose_elements_share_memory() -> None:
    row = np.zeros(4, "i4")
    repeated = np.lib.stride_tricks.as_strided(row, (3, 4), (0, 4))
    layers = [ts.array(repeated), ts.array(np.zeros((3, 4), "i4"))]
    store = ts.concat(layers, axis=0)
    store.write(np.arange(24, dtype="i4").reshape(6, 4)).result()
    assert row.tolist() == [8, 9, 10, 11]  # the last of the overlapping layers
    assert store.read().result()[:4].tolist() == [[8, 9, 10, 11]] * 3 + [[12, 13, 14, 15]]


def test_large_layers() -> None:
    values = np.random.default_rng(0).integers(0, 99, (3, 700, 1000), "i2")
    store = ts.stack([ts.array(item.copy()) for item in values], axis=1)
    expected = values.transpose(1, 0, 2)
    np.testing.assert_array_equal(store.read().result(), expected)
    store.write(expected[::-1]).result()
    np.testing.assert_array_equal(store.read().result(), expected[::-1])


def test_objects_are_checked_before_write() -> None:
    layers = [ts.array(np.array(["a", "b"], "O"), dtype=ts.ustring) for _ in range(2)]
    store = ts.concat(layers, axis=0)
    assert store.read().result().tolist() == ["a", "b", "a", "b"]
    with pytest.raises((ArgumentError, TypeError)):
        store.write(np.array(["c", 1, "d", "e"], "O")).result()


def test_write_with_read_only_layer_writes_nothing() -> None:
    first, fixed = np.zeros(3, "i4"), np.zeros(3, "i4")
    store = ts.concat([ts.array(first), ts.array(fixed, write=False)], axis=0)
    with pytest.raises(ArgumentError, match="layer 1 cannot be written"):
        store.write(np.ones(6, "i4")).result()
    assert first.tolist() == [0, 0, 0]
    store[:3].write(np.ones(3, "i4")).result()
    assert first.tolist() == [1, 1, 1]


def test_arrays_set_read_only_later_are_not_written() -> None:
    first, second = np.zeros(3, "i4"), np.zeros(3, "i4")
    store = ts.concat([ts.array(first), ts.array(second)], axis=0)
    store.write(np.ones(6, "i4")).result()
    second.flags.writeable = False
    with pytest.raises(ArgumentError, match="cannot be written"):
        store.write(np.full(6, 2, "i4")).result()
    assert first.tolist() == [1, 1, 1]


def test_layers_in_memory_and_in_stores() -> None:
    stored = ts.open(
        {"driver": "zarr3", "kvstore": "memory://"}, create=True, dtype=ts.int32, shape=[20, 10]
    ).result()
    stored.write(VALUES[20:40]).result()
    layers = rows(VALUES, 3)
    store = ts.concat([layers[0], stored, layers[2]], axis=0)
    np.testing.assert_array_equal(store.read().result(), VALUES)
    store.write(VALUES + 1).result()
    np.testing.assert_array_equal(stored.read().result(), VALUES[20:40] + 1)
    np.testing.assert_array_equal(store.read().result(), VALUES + 1)


def test_unsupported_operations_of_memory_layers() -> None:
    layers = rows(VALUES, 2)
    store = ts.concat(layers, axis=0, transaction=ts.Transaction())
    with pytest.raises(UnsupportedError):
        store.read().result()
    with pytest.raises(UnsupportedError):
        store.write(VALUES).result()
    np.testing.assert_array_equal(layers[0].read().result(), VALUES[:30])


def test_layer_for_writing_only_is_not_read() -> None:
    spec = {"driver": "array", "dtype": "int32", "array": [1, 2]}
    layers = [ts.open(spec, read=False, write=True).result(), ts.array(np.array([3, 4], "i4"))]
    with pytest.raises(ReadOnlyError):
        ts.concat(layers, axis=0).read().result()


def test_real_parts_are_copied_at_any_position() -> None:
    values = (np.arange(300000).reshape(300, 1000) % 251 - 0.5j).astype("c8")
    for source in (values, values.T, values[::-2, ::3]):
        result = ts.cast(ts.array(source), ts.float32).read().result()
        np.testing.assert_array_equal(result, source.real)


def test_numbers_of_same_type_keep_bits() -> None:
    """The engine copies them: a conversion through another type would lose bits."""
    values = np.array([1.5, 1e30, np.nan, -0.0, 300.25], "f4")
    out = np.empty_like(values)
    _engine.convert(values, out, "f4", "f4")
    assert out.tobytes() == values.tobytes()


def test_position_outside_all_layers_is_refused() -> None:
    beyond = ts.array(np.arange(3)).oindex[[0, 5]]
    store = ts.stack([beyond, ts.array(np.arange(2))])
    for chosen in (store, store[:1]):
        with pytest.raises(ArgumentError, match="cannot read or write"):
            chosen.read().result()
        with pytest.raises(ArgumentError, match="cannot read or write"):
            chosen.write(1).result()


@pytest.mark.parametrize(
    "combine", [ts.overlay, partial(ts.concat, axis=1), partial(ts.stack, axis=-1)]
)
def test_duplicate_labels_are_refused(combine: Any) -> None:
    """A spec or a pickle could not express a domain with labels in another order."""
    item = ts.array(np.arange(8).reshape(2, 2, 2)).label["x", "y", ""]
    for layers in ([item, item.T], [item.spec(), item.T.spec()]):
        with pytest.raises(ValueError, match="stands for several dimensions"):
            combine(layers)
    specs = [item.spec().to_json(), item.T.spec().to_json()]
    with pytest.raises(ValueError, match="stands for several dimensions"):
        ts.open({"driver": "stack", "layers": specs}).result()
    same = combine([item, item.T.label["x", "y", ""]])
    assert pickle.loads(pickle.dumps(same)).domain == same.domain


def test_values_that_share_memory_with_layers_are_copied_once() -> None:
    values = np.arange(1 << 20, dtype="i4").reshape(64, -1)
    expected = values[::-1].copy()
    layers = ts.stack([ts.array(row) for row in values])
    tracemalloc.start()
    layers.write(values[::-1]).result()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.array_equal(values, expected)
    assert peak < 3 * values.nbytes


def test_pickled_layers_keep_separate_stores() -> None:
    spec = {"driver": "zarr3", "kvstore": "memory://a/"}
    apart = [ts.open(spec, create=True, dtype="int32", shape=[3]).result() for _ in range(2)]
    store = pickle.loads(pickle.dumps(ts.stack(apart)))
    store[0] = 7
    assert store.read().result().tolist() == [[7, 7, 7], [0, 0, 0]]


@pytest.mark.parametrize("lower", [0, 3, "-inf"])
@pytest.mark.parametrize("upper", [2**61, "+inf"])
@pytest.mark.parametrize("column", [{"offset": 2}, {"index_array": [[2]]}])
def test_spec_of_infinite_view_has_repeated_elements(lower: Any, upper: Any, column: Any) -> None:
    view = ts.IndexTransform(
        json={
            "input_inclusive_min": [0, lower],
            "input_exclusive_max": [2, upper],
            "output": [{"input_dimension": 0}, column],
        }
    )
    store = ts.array(np.arange(6, dtype="i4").reshape(2, 3))[view]
    spec = store.spec()
    assert spec.to_json()["array"] == [2, 5]
    assert spec.domain == store.domain
    assert "array" in repr(store)
    with pytest.raises((ArgumentError, OutOfMemoryError), match=r"is not finite|no memory"):
        store.read().result()
    with pytest.raises(ArgumentError, match=r"cannot be written.*(not finite|shape \(2, 23058)"):
        store.write(np.zeros(3, "i4")).result()


@pytest.mark.parametrize(("kind", "size"), [("V0", 0), ("V2", 2), ("S3", 3)])
def test_elements_of_several_bytes_are_refused(kind: str, size: int) -> None:
    with pytest.raises(ArgumentError, match=f"{size} bytes, not one"):
        ts.array(np.zeros(2, kind), dtype="byte" if kind[0] == "V" else "char")
