"""Views: stored chunks with another data type or filters, and casts of elements."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr import codecs
from tessarr.errors import ArgumentError, ReadOnlyError, UnsupportedError


def test_view_without_filters_reads_stored_bytes() -> None:
    """The example of zarr-python 2: writable numbers of categories."""
    labels = [b"female", b"male"]
    data = np.random.default_rng(42).choice(labels, size=10000)
    filters = [codecs.Categorize(labels=labels, dtype=data.dtype, astype="u1")]
    a = tessarr.create_array(data=data, chunks=1000, filters=filters, zarr_format=2)
    v = a.view(dtype="u1", filters=[])
    assert (v.is_view, v.base, a.is_view, a.base) == (True, a, False, None)
    np.testing.assert_array_equal(v[:], np.where(data == b"male", 2, 1))
    x = v[:]
    x.sort()
    v[:] = x
    np.testing.assert_array_equal(v[:], x)
    np.testing.assert_array_equal(a[:], np.sort(data))
    assert a.view(dtype="u1", filters=[]).filters == ()


def test_view_of_same_item_size_matches_numpy(zarr_format: Any) -> None:
    data = np.random.default_rng(1).integers(0, 2, 10000, "u1")
    a = tessarr.create_array(data=data, chunks=1000, zarr_format=zarr_format)
    np.testing.assert_array_equal(a.view(dtype=bool)[:], data.view(bool))
    b = tessarr.create_array(data=np.linspace(0, 1, 50), chunks=20, zarr_format=zarr_format)
    np.testing.assert_array_equal(b.view(dtype="i8")[:], b[:].view("i8"))
    swapped = b.view(dtype=">f8")
    np.testing.assert_array_equal(swapped[:].astype("f8"), b[:].view(">f8").astype("f8"))
    ones = tessarr.ones(50, dtype="i4", zarr_format=zarr_format).view(dtype=">i4")
    assert ones[0] == 1 << 24


@pytest.mark.parametrize("shards", [None, 2000])
def test_view_of_shorter_items_needs_shape_and_chunks(zarr_format: Any, shards: Any) -> None:
    if shards and zarr_format == 2:
        return
    data = np.arange(10000, dtype="u2")
    a = tessarr.create_array(data=data, chunks=1000, shards=shards, zarr_format=zarr_format)
    if shards:
        with pytest.raises(ArgumentError, match="shards"):
            a.view(dtype="u1", shape=20000, chunks=2000)
        return
    v = a.view(dtype="u1", shape=20000, chunks=2000)
    np.testing.assert_array_equal(v[:], data.view("u1"))
    v[:2] = 1
    assert a[0] == 257
    square = a.view(shape=(100, 100), chunks=(10, 100))
    assert square.attrs == a.attrs
    with pytest.raises(ArgumentError):
        a.view(shape=(100, 100))
    with pytest.raises(ArgumentError, match="have 2000 bytes, those of the view 4000"):
        a.view(dtype="u4")


def test_view_of_shards_has_their_filters(zarr_format: Any) -> None:
    if zarr_format == 2:
        return
    a = tessarr.create_array(
        data=np.arange(100, dtype="i4"), chunks=5, shards=20, filters=[codecs.Delta("i4")]
    )
    stored = np.concatenate([[a[5 * i], *np.diff(a[5 * i : 5 * i + 5])] for i in range(20)])
    np.testing.assert_array_equal(a.view(filters=[])[:], stored)


def test_view_of_order_f_keeps_order(zarr_format: Any) -> None:
    data = np.arange(12, dtype="i4").reshape(3, 4)
    a = tessarr.create_array(data=data, chunks=(2, 3), order="F", zarr_format=zarr_format)
    v = a.view(dtype="f4")
    np.testing.assert_array_equal(v[:], data.view("f4"))
    assert v.order == "F"


def test_view_fill_value_replaces_array_fill_value(zarr_format: Any) -> None:
    a = tessarr.full(100, chunks=10, fill_value=-1, dtype="i1", zarr_format=zarr_format)
    a[5] = 3
    v = a.view(fill_value=42)
    assert (v[5], v[95], v.fill_value, a[95]) == (3, 42, 42, -1)
    assert a.view(dtype="u1")[95] == 255  # the same byte
    assert a.view(dtype=bool)[95]
    assert a.view(dtype="i2", chunks=5, shape=50).fill_value == -1  # the same number
    v[95] = 42  # the view does not store its fill value
    assert a.nchunks_initialized == 1
    v[95:97] = [1, 2]
    assert a[90:100].tolist() == [42] * 5 + [1, 2] + [42] * 3


def test_views_are_not_resized(zarr_format: Any) -> None:
    a = tessarr.empty(100, zarr_format=zarr_format)
    v = a.view()
    changes: list[Any] = [
        lambda: v.resize(200),
        lambda: v.append([1]),
        lambda: setattr(v, "shape", (3,)),
        lambda: setattr(v, "fill_value", 3),
    ]
    for change in changes:
        with pytest.raises(PermissionError) as caught:
            change()
        assert str(caught.value) == "not permitted for views"
    a.resize(50)
    v.refresh()
    assert (v.shape, a.shape) == ((100,), (50,))


def test_view_may_be_read_only_and_have_synchronizer() -> None:
    a = tessarr.zeros(4)
    v = a.view(read_only=True)
    with pytest.raises(ReadOnlyError):
        v[0] = 1
    a[0] = 1
    assert v[0] == 1
    synchronizer = tessarr.ThreadSynchronizer()
    assert a.view(synchronizer=synchronizer).synchronizer is synchronizer
    b = tessarr.Array(a.store, read_only=True)
    assert b.view().read_only
    assert not a.view().read_only


def test_view_shares_attributes_of_array(zarr_format: Any) -> None:
    a = tessarr.zeros(4, zarr_format=zarr_format)
    a.view(dtype="i8").attrs["x"] = 1
    assert tessarr.Array(a.store).attrs["x"] == 1
    assert tessarr.Array(a.store).dtype == "f8"


def test_views_are_pickled(zarr_format: Any, tmp_path: Any) -> None:
    data = np.arange(6, dtype="u2")
    a = tessarr.create_array(tmp_path, data=data, chunks=3, zarr_format=zarr_format)
    v = a.view(dtype="u1", shape=12, chunks=6)
    for view in (v, v.view(dtype="i1"), a.astype("f4"), v.astype("f4").view(read_only=True)):
        again = pickle.loads(pickle.dumps(view))
        np.testing.assert_array_equal(again[:], view[:])
        assert (again.dtype, again.is_view, again.read_only) == (view.dtype, True, view.read_only)


@pytest.mark.parametrize("dtype", ["f4", "i8", "u1", "c8", "S3", "U4", bool, ">i2", "f2"])
@pytest.mark.parametrize("shards", [None, 8])
def test_view_casts_elements_on_read(zarr_format: Any, shards: Any, dtype: Any) -> None:
    shards = None if zarr_format == 2 else shards
    data = np.arange(100, 117, dtype="i2")
    a = tessarr.create_array(
        data=data, chunks=4, shards=shards, zarr_format=zarr_format, fill_value=7
    )
    a.resize(30)
    v = a.astype(dtype)
    np.testing.assert_array_equal(v[:], a[:].astype(dtype))
    np.testing.assert_array_equal(v[3:20:2], a[3:20:2].astype(dtype))
    assert (v.dtype, v.is_view, v.read_only) == (np.dtype(dtype), True, True)
    with pytest.raises(ReadOnlyError):
        v[0] = 0
    assert "AsType" in str(v.info)


@pytest.mark.parametrize(
    ("source", "target", "is_native"),
    [
        ("i2", "f4", True),
        ("f8", "u1", True),
        ("f4", "c16", True),
        (bool, "f2", True),
        (">i4", "f8", True),
        (">c8", "c16", True),
        (">f8", "f4", True),
        ("f8", "f2", False),  # the engine would round twice
        ("i2", "S3", False),
        ("M8[s]", "i8", False),
    ],
)
def test_engine_casts_numbers(zarr_format: Any, source: str, target: str, is_native: bool) -> None:
    """No chunk passes through Python."""
    view = tessarr.zeros(20, chunks=5, dtype=source, zarr_format=zarr_format).astype(target)
    assert view._is_native is is_native


def test_chunks_of_other_shapes_are_cast(zarr_format: Any) -> None:
    data = np.arange(60, dtype=">u2").reshape(6, 10)
    shapes = [[1, 5], [4, 6]] if zarr_format == 3 else (4, 3)
    a = tessarr.create_array(data=data, chunks=shapes, zarr_format=zarr_format)
    for key in (..., (2, slice(None, None, -3)), ([4, 0, 4], 3), (slice(1, 5), [9, 9, 0])):
        np.testing.assert_array_equal(a.astype("f8")[key], data.astype("f8")[key])


def test_write_to_writable_view_of_a_cast_is_cast_back(zarr_format: Any) -> None:
    a = tessarr.create_array(data=np.arange(6, dtype="i2"), chunks=3, zarr_format=zarr_format)
    v = a.astype("f8").view(read_only=False)
    v[1] = 7.0
    assert a[:].tolist() == v[:].tolist() == [0, 7, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        ({}, {"chunks": 7}),
        ({}, {"dtype": "f8"}),
        ({}, {"dtype": "u2", "shape": 50}),
        ({"compressors": None}, {"chunks": 7}),
        ({"filters": [codecs.PackBitsV2()], "dtype": bool, "zarr_format": 2}, {"filters": []}),
    ],
)
def test_chunks_of_another_length_are_no_view(
    zarr_format: Any, settings: Any, changes: Any
) -> None:
    """The array could not read the values that the view writes."""
    created = {"dtype": "u1", "chunks": 10, "zarr_format": zarr_format, **settings}
    a = tessarr.create_array(data=np.arange(100) % 2, **created)
    with pytest.raises(ArgumentError, match="the stored chunks have"):
        a.view(**changes)


def test_parts_of_shards_of_another_length_are_no_view() -> None:
    a = tessarr.create_array(shape=40, dtype="u1", chunks=10, shards=20)
    with pytest.raises(ArgumentError, match="have 10 bytes, those of the view 20"):
        a.view(dtype="u2")
    assert a.view(dtype="i1").dtype == "i1"


def test_view_without_codecs_of_any_length_is_not_refused() -> None:
    """Tessarr cannot know their output length: the view's own filters define it."""
    filters = [codecs.Delta("u1"), codecs.Zlib(1)]
    a = tessarr.create_array(
        data=np.arange(20, dtype="u1"),
        chunks=20,
        filters=filters,
        compressors=None,
        zarr_format=2,
    )
    size = a.store.get("0")
    raw = a.view(dtype="u1", shape=len(size), chunks=len(size), filters=[])
    assert bytes(raw[:]) == bytes(size)


def test_text_of_any_length_is_not_cast() -> None:
    a = tessarr.create_array(data=["a", "b"], dtype=str)
    for attempt in (lambda: a.astype("S1"), lambda: tessarr.zeros(3).astype(str)):
        with pytest.raises(UnsupportedError, match="NumPy's astype"):
            attempt()


def test_view_invalid_arguments_raise() -> None:
    a = tessarr.zeros((4, 4), chunks=2)
    for arguments in (
        {"shape": -1},
        {"chunks": (1, 1, 1)},
        {"filters": ["zstd"]},
        {"dtype": "what"},
        {"fill_value": "x"},
    ):
        with pytest.raises(ValueError):
            a.view(**arguments)
    with pytest.raises(UnsupportedError, match="nothing"):
        a.view(filters=["nothing"])
    with pytest.raises(TypeError, match="colour"):
        a.view(colour="red")  # type: ignore[call-arg]
