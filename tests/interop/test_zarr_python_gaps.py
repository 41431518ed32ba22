"""Defects and gaps of zarr-python 3.4.2 that Tessarr does not have: a test for each."""

from __future__ import annotations

import json
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessarr
from stores.failing import Failing
from tessarr import codecs
from tessarr.errors import ArgumentError, SelectionError, StoreError, TessarrError, TessarrWarning
from tessarr.stores import LocalStore, MemoryStore

FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])


def grid(n: int = 4, **settings: Any) -> tessarr.Array:
    """Return an array of n × n int32 in chunks of 2 × 2, with different elements."""
    array = tessarr.create_array(None, shape=(n, n), dtype="i4", chunks=(2, 2), **settings)
    array[...] = np.arange(n * n).reshape(n, n) + 100
    return array


# Values that do not fit


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        ((slice(2), slice(2)), (3, 3)),  # zarr-python writes the top left
        (..., (3, 3)),  # zarr-python stores garbage
        (..., (5, 4)),
        ((slice(2), slice(2)), (2, 1, 2)),
        (0, (5,)),
    ],
)
@pytest.mark.parametrize("way", ["basic", "outer", "set_basic", "set_outer", "write"])
def test_value_of_another_shape_changes_nothing(key: Any, shape: Any, way: str) -> None:
    a = grid()
    before = a[...]
    value = np.zeros(shape, "i4")
    ways: dict[str, Any] = {
        "basic": lambda: a.__setitem__(key, value),
        "outer": lambda: a.oindex.__setitem__(key, value),
        "set_basic": lambda: a.set_basic_selection(key, value),
        "set_outer": lambda: a.set_orthogonal_selection(key, value),
        "write": lambda: a.write(key, value).result(),
    }
    with pytest.raises(ValueError, match="shape") as caught:
        ways[way]()
    assert isinstance(caught.value, ArgumentError)
    np.testing.assert_array_equal(a[...], before)


def test_values_broadcast_as_in_numpy() -> None:
    a, n = grid(), grid()[...]
    for key, value in (
        ((slice(0, 2), slice(0, 4)), np.arange(4)),
        ((...,), np.ones((1, 4))),
        ((slice(None),), np.arange(4).reshape(4, 1)),
        ((2,), 7),
        ((slice(1, 3), 2), np.array([8])),
    ):
        a[key] = value
        n[key] = value
        np.testing.assert_array_equal(a[...], n)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("u1", np.array([-1.0, 300.0])),
        ("u1", np.array([-1, 0])),
        ("i2", np.array([40000, 0], "u2")),
        ("i4", np.array([1e10, 0])),
        ("i8", np.array([0, np.inf])),
        ("S2", np.array([b"abc", b"d"])),
        ("U2", np.array(["abc", "d"])),
        ("S2", [b"abc", b"d"]),
        ("u1", np.float64(300)),
    ],
)
def test_value_outside_data_type_warns(dtype: str, value: Any) -> None:
    """The results equal NumPy's assignment; zarr-python has no warning."""
    a = tessarr.zeros(2, dtype=dtype)
    n = np.zeros(2, dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        n[:] = np.asarray(value).astype(dtype)
        with pytest.warns(TessarrWarning, match=r"do(es)? not fit"):
            a[:] = value
    np.testing.assert_array_equal(a[:], n)


def test_value_within_data_type_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for dtype, value in (
            ("u1", np.array([0, 255])),
            ("u1", np.array([0.5, 255.9])),
            ("i1", np.array([-128.9, 127.0])),
            ("S2", np.array([b"ab", b""], "S9")),
            ("U2", ["ab", "c"]),
            ("f4", np.array([1e-3, 2.5])),
            ("?", np.array([0, 7])),
            ("u8", np.array([2**63], "f8")),
        ):
            tessarr.zeros(np.shape(value), dtype=dtype)[:] = value


# Records


def records() -> tessarr.Array:
    dtype = [("f", "i4"), ("g", "f8"), ("h", "S3")]
    return tessarr.create_array(None, shape=4, dtype=dtype, chunks=2)


def test_field_is_read_alone() -> None:
    a = records()
    assert a["f"].tolist() == [0, 0, 0, 0]  # the store is empty
    a[1:3] = np.array([(1, 2.5, b"x"), (3, 4.5, b"y")], a.dtype)
    assert a["f"].tolist() == [0, 1, 3, 0]
    assert a["g", 1:3].tolist() == [2.5, 4.5]


def test_write_of_field_keeps_other_fields() -> None:
    a = records()
    a[:] = np.array([(1, 2.5, b"x")] * 4, a.dtype)
    a["f"] = 7
    assert a["f"].tolist() == [7] * 4
    assert a["g"].tolist() == [2.5] * 4
    assert a["h"].tolist() == [b"x"] * 4


# A failed operation changes no stored value


@FORMATS
def test_attributes_without_json_change_nothing(zarr_format: Any) -> None:
    items: dict[str, bytes] = {}
    a = tessarr.zeros(2, store=items, zarr_format=zarr_format, attributes={"x": 1})
    before = dict(items)
    with pytest.raises(ValueError, match="y"):
        a.attrs["y"] = object()
    assert items == before
    assert a.attrs.asdict() == {"x": 1}
    a.attrs["z"] = 2  # zarr-python fails from here on
    assert tessarr.open(items).attrs.asdict() == {"x": 1, "z": 2}


@FORMATS
@pytest.mark.parametrize("left", [0, 1, 2])
def test_failed_append_keeps_shape(zarr_format: Any, left: int) -> None:
    items = Failing()
    a = tessarr.zeros((4,), chunks=2, dtype="i4", store=items, zarr_format=zarr_format)
    a[:] = [1, 2, 3, 4]
    items.changes_left = left
    with pytest.raises(StoreError, match="full"):
        a.append(np.arange(5, 9))
    items.changes_left = 1000
    for handle in (a, tessarr.open_array(items, "r")):
        assert handle.shape == (4,)
        assert handle[:].tolist() == [1, 2, 3, 4]
    a.append([9])
    assert tessarr.open_array(items, "r")[:].tolist() == [1, 2, 3, 4, 9]


@FORMATS
@pytest.mark.parametrize("shards", [None, (30, 30)])
def test_elements_removed_by_shrink_stay_removed(zarr_format: Any, shards: Any) -> None:
    if shards and zarr_format == 2:
        shards = None
    settings = {"shards": shards} if shards else {}
    a = tessarr.zeros((60, 60), chunks=(15, 15), zarr_format=zarr_format, **settings)
    a[:] = 1
    a.resize(40, 40)
    a.resize(60, 60)
    assert a[:].sum() == 40 * 40


# Stores


@pytest.mark.parametrize("key", ["../x", "/abs", "a/../../x", "a//b", "", "a/./b", "a/"])
def test_no_key_leads_out_of_root(tmp_path: Path, key: str) -> None:
    store = LocalStore(tmp_path / "root")
    actions: list[Any] = [
        lambda: store.put(key, b"1"),
        lambda: store.get(key),
        lambda: store.delete(key),
        lambda: store.replace(key, b"1", None),
        lambda: store.size(key),
    ]
    for action in actions:
        with pytest.raises(ArgumentError):
            action()
    assert list(tmp_path.rglob("*")) in ([], [tmp_path / "root"])


def test_memory_store_copies_bytes_of_caller() -> None:
    """zarr-python 3.3 aliased the caller's memory (#4157)."""
    store = MemoryStore()
    buffer = bytearray(b"1234")
    store.put("k", buffer)
    buffer[0] = 0
    assert store.get("k") == b"1234"
    data = np.arange(4, dtype="u1")
    a = tessarr.create_array(None, data=data, chunks=4, compressors=None)
    data[:] = 9
    a[:][:] = 8
    assert a[:].tolist() == [0, 1, 2, 3]


# Documents


def test_nan_in_attributes_is_invalid_json_by_choice_only() -> None:
    items: dict[str, bytes] = {}
    a = tessarr.full(2, np.nan, store=items)
    refused = pytest.raises(ValueError, match="JSON has no nan")
    with tessarr.options(nan_attributes="refuse"), refused:
        a.attrs["x"] = float("nan")

    def refuse(token: str) -> None:
        raise AssertionError(token)

    document = json.loads(items["zarr.json"], parse_constant=refuse)
    assert document["fill_value"] == "NaN"
    assert "x" not in document["attributes"]


@FORMATS
def test_numbers_of_numpy_are_attributes(zarr_format: Any) -> None:
    """zarr-python accepts float64, but not int64."""
    a = tessarr.zeros(2, zarr_format=zarr_format)
    a.attrs.update(i=np.int64(3), f=np.float32(0.5), b=np.True_, a=np.arange(2))
    assert a.attrs.asdict() == {"i": 3, "f": 0.5, "b": True, "a": [0, 1]}


@FORMATS
def test_groups_and_functions_create_same(zarr_format: Any) -> None:
    """zarr-python 3's default compressor depends on the function that creates the array."""
    root = tessarr.create_group(None, zarr_format=zarr_format)
    in_group = root.create_array("a", shape=4, dtype="i4")
    alone = tessarr.create_array(None, shape=4, dtype="i4", zarr_format=zarr_format)
    for array in (root.zeros("b", shape=4, dtype="i4"), root.require_array("c", 4, "i4")):
        assert array.codecs == in_group.codecs == alone.codecs
    assert in_group.compressors == (codecs.Blosc(typesize=4),) or zarr_format == 2


# Indexing


@pytest.mark.parametrize(
    "key",
    [
        slice(None, None, -1),
        (slice(3, 0, -2), slice(None, None, -1)),
        None,
        (None, 1, None, slice(2)),
        np.array([True, False, True, True]),
        (slice(None), np.array([True, False, True, True])),
        np.eye(4, dtype=bool),
        [3, 0, 0],
        (..., -1),
    ],
    ids=str,
)
def test_indexing_is_numpys(key: Any) -> None:
    a, n = grid(), grid()[...]
    np.testing.assert_array_equal(a[key], n[key])
    a[key] = 1
    n[key] = 1
    np.testing.assert_array_equal(a[...], n)


def test_index_beyond_end_is_refused() -> None:
    for key in (4, (0, -5), ([0, 9],), np.ones(3, bool)):
        with pytest.raises(IndexError) as caught:
            grid()[key]
        assert isinstance(caught.value, SelectionError)


def test_single_element_selection_is_scalar() -> None:
    a = grid()
    scalars = [
        a[0, 0],
        a[np.int64(0), 0],
        a[np.uint8(0), np.int32(0)],
        a.get_basic_selection((0, 0)),
        a.oindex[0, 0],
        a.vindex[0, 0],
        a.get_orthogonal_selection((0, 0)),
        a.get_coordinate_selection((0, 0)),
        a.read((0, 0)).result(),
        tessarr.array(100, dtype="i4")[()],
    ]
    assert {type(value) for value in scalars} == {np.int32}
    assert set(scalars) == {100}


def test_arithmetic() -> None:
    a, n = grid(), grid()[...]
    np.testing.assert_array_equal(np.add(a, 1), n + 1)
    np.testing.assert_array_equal(n + a, n + n)
    np.testing.assert_array_equal(a @ n, n @ n)
    np.testing.assert_array_equal(np.sqrt(a), np.sqrt(n))
    assert np.sum(a) == n.sum()


# Settings


def test_options_apply_to_own_block_and_thread() -> None:
    """zarr-python's options are global, and apply long after the call."""
    seen = []
    with tessarr.options(write_empty_chunks=True):
        a = tessarr.zeros(2, chunks=1)
        other = threading.Thread(target=lambda: seen.append(tessarr.zeros(2).write_empty_chunks))
        other.start()
        other.join()
    assert seen == [False]
    assert not tessarr.zeros(2).write_empty_chunks
    a[0] = 0  # the handle's options do not follow later options
    assert a.nchunks_initialized == 1


# Operations that returned wrong data in zarr-python before 3.3


@pytest.mark.parametrize("index_location", ["start", "end"])
@pytest.mark.parametrize("outer", [(), ("gzip",), ("crc32c",)], ids=str)
def test_parts_of_shards(index_location: Any, outer: Any, tmp_path: Path) -> None:
    """Suffix ranges (#4074), codecs around the sharding codec (#4202), order of rows (#4203)."""
    rng = np.random.default_rng(1)
    n = rng.integers(0, 1000, (12, 12)).astype("u2")
    inner = codecs.ShardingIndexed(
        chunk_shape=(2, 3),
        codecs=[codecs.Bytes(), codecs.Zstd(1)],
        index_location=index_location,
    )
    around = [{"gzip": codecs.GZip(1), "crc32c": codecs.Crc32c()}[name] for name in outer]
    for store in (MemoryStore(), LocalStore(tmp_path), {}):
        a = tessarr.create_array(
            store, shape=n.shape, dtype="u2", chunks=(6, 6), codecs=[inner, *around]
        )
        a[:] = n
        rows = np.array([11, 0, 7, 3, 7])
        for handle in (a, tessarr.open_array(store, "r")):
            np.testing.assert_array_equal(handle[3:5, 1], n[3:5, 1])
            np.testing.assert_array_equal(handle.oindex[rows], n[rows])
            np.testing.assert_array_equal(handle.oindex[rows, ::-2], n[rows, ::-2])
            np.testing.assert_array_equal(handle.vindex[rows, rows[::-1]], n[rows, rows[::-1]])


@pytest.mark.parametrize("filters", [[codecs.Delta(dtype="i4")], []], ids=["delta", "none"])
def test_order_of_chunks_goes_through_filters(filters: Any) -> None:
    """Order F passes through Delta, and through variable-length elements (#4116)."""
    n = np.arange(30).reshape(5, 6)
    a = tessarr.create_array(
        None, data=n.astype("i4"), chunks=(2, 4), order="F", filters=filters, zarr_format=2
    )
    np.testing.assert_array_equal(a[:], n)
    np.testing.assert_array_equal(a[1:4, ::-2], n[1:4, ::-2])
    words = n.astype(str).astype(object)
    for zarr_format in (2, 3):
        a = tessarr.create_array(
            None, shape=n.shape, dtype=str, chunks=(2, 4), order="F", zarr_format=zarr_format
        )
        a[:] = words
        assert a[:].tolist() == words.tolist()
        assert a[3:, 2].tolist() == words[3:, 2].tolist()


@FORMATS
@pytest.mark.parametrize("order", ["<", ">"])
def test_byte_order_in_records(zarr_format: Any, order: str) -> None:
    """Each field has its own byte order (#4141)."""
    dtype = np.dtype([("a", f"{order}i4"), ("b", f"{order}f8"), ("c", [("d", f"{order}u2")])])
    n = np.array([(1, 2.5, (3,)), (-4, 5.5, (600,))], dtype)
    items: dict[str, bytes] = {}
    tessarr.create_array(items, data=n, chunks=1, zarr_format=zarr_format)
    records = tessarr.open_array(items, "r")[:]
    for name in ("a", "b"):
        np.testing.assert_array_equal(records[name], n[name])
    np.testing.assert_array_equal(records["c"]["d"], n["c"]["d"])


@FORMATS
def test_arrays_below_path(zarr_format: Any, tmp_path: Path) -> None:
    """Every key contains the prefix of the path (#4204)."""
    for store in (MemoryStore(), tmp_path / "x", {}):
        root = tessarr.open_group(store, path="deep/er", zarr_format=zarr_format)
        root.create_array("a", data=np.arange(4), chunks=2)
        for other in ("b", "a2", "a/b"):
            assert other not in root
        opened = tessarr.open_group(store, path="deep/er", mode="r")
        assert opened["a"][:].tolist() == [0, 1, 2, 3]
        assert tessarr.open_array(store, path="deep/er/a", mode="r").nchunks_initialized == 2
        keys = tessarr.open_group(store)._store.list("")
        assert all(key.startswith("deep/") or "/" not in key for key in keys)


def test_cast_value_after_transpose() -> None:
    n = np.arange(30, dtype="f8").reshape(5, 6)
    chain = [
        {"name": "transpose", "configuration": {"order": [1, 0]}},
        {"name": "cast_value", "configuration": {"data_type": "int16"}},
        "bytes",
    ]
    a = tessarr.create_array(None, data=n, chunks=(2, 4), codecs=chain)
    np.testing.assert_array_equal(a[:], n)
    np.testing.assert_array_equal(a[1:4, 5], n[1:4, 5])


def test_scale_offset_with_offset_0_keeps_values() -> None:
    chain = [{"name": "scale_offset", "configuration": {"offset": 0, "scale": 2}}, "bytes"]
    n = np.arange(6, dtype="f8")
    a = tessarr.create_array(None, data=n, chunks=4, codecs=chain)
    assert a[:].tolist() == n.tolist()


# Features that zarr-python does not implement


def test_moving() -> None:
    root = tessarr.create_group(None)
    root["a/b"] = [1, 2]
    root.move("a", "c")
    assert root["c/b"][:].tolist() == [1, 2]
    assert "a" not in root


def test_copying_hierarchies() -> None:
    root = tessarr.create_group(None)
    root["a/b"] = [1, 2]
    root["a"].attrs["k"] = 1
    target = tessarr.create_group(None, zarr_format=2)
    tessarr.copy(root["a"], target)
    assert target["a/b"][:].tolist() == [1, 2]
    assert target["a"].attrs["k"] == 1
    source, dest = {"x": b"1", "y/z": b"2"}, {}
    tessarr.copy_store(source, dest)
    assert dest == source


def test_loading_group(tmp_path: Path) -> None:
    tessarr.save_group(tmp_path / "g", a=np.arange(3), b=np.ones(2))
    result = tessarr.load(tmp_path / "g")
    assert sorted(result) == ["a", "b"]
    assert result["a"].tolist() == [0, 1, 2]


def test_missing_node_error_is_tessarr_error() -> None:
    for action in (lambda: tessarr.open({}, "r"), lambda: tessarr.open_group({}, "r")):
        with pytest.raises(TessarrError):
            action()
