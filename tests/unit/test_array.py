"""Arrays for users: attributes, indexing, assignment, futures."""

from __future__ import annotations

import array
import asyncio
import operator
import pickle
from typing import Any

import numpy as np
import pytest

import tessarr
from tessarr.codecs import Blosc, Bytes, GZip, Transpose, Zstd
from tessarr.errors import ArgumentError, ReadOnlyError, SelectionError
from tessarr.stores import MemoryStore


def make(store: Any = None, **settings: Any) -> tessarr.Array:
    settings = {"shape": (7, 10), "dtype": "i4", "chunks": (3, 4), **settings}
    array = tessarr.create_array(store, **settings)
    array[...] = np.arange(array.size).reshape(array.shape)
    return array


REFERENCE = np.arange(70, dtype="i4").reshape(7, 10)


def test_attributes_of_array(store: Any, zarr_format: Any) -> None:
    a = make(store, path="g/a", zarr_format=zarr_format, fill_value=5)
    assert (a.shape, a.ndim, a.size, a.dtype) == ((7, 10), 2, 70, np.dtype("i4"))
    assert (a.itemsize, a.nbytes, a.chunks, a.shards) == (4, 280, (3, 4), None)
    assert (a.cdata_shape, a.nchunks, a.order, a.zarr_format) == ((3, 3), 9, "C", zarr_format)
    assert (a.path, a.name, a.basename, a.store, a.read_only) == ("g/a", "/g/a", "a", store, False)
    assert type(a.fill_value) is np.int32
    assert a.fill_value == 5
    assert a.dimension_names is None
    assert len(a) == 7


def test_fill_value_of_format_2_may_be_open() -> None:
    assert tessarr.empty(3, zarr_format=2).fill_value is None
    assert tessarr.empty(3).fill_value == 0


def test_codecs_of_array_have_roles() -> None:
    a = tessarr.create_array(
        None,
        shape=(8, 8),
        dtype="i2",
        chunks=(4, 4),
        filters=[Transpose((1, 0))],
        compressors=[Zstd(3), "crc32c"],
    )
    assert a.filters == (Transpose((1, 0)),)
    assert isinstance(a.serializer, Bytes)
    assert [codec.name for codec in a.compressors] == ["zstd", "crc32c"]
    assert len(a.codecs) == 4


def test_sharded_array_codecs_are_those_of_subchunks() -> None:
    a = tessarr.create_array(
        None, shape=(8, 8), dtype="i2", chunks=(2, 2), shards=(4, 4), compressors="gzip"
    )
    assert (a.chunks, a.shards) == ((2, 2), (4, 4))
    assert [codec.name for codec in a.codecs] == ["sharding_indexed"]
    assert [codec.name for codec in a.compressors] == ["gzip"]


def test_codecs_of_format_2(store: Any) -> None:
    a = tessarr.create_array(
        store,
        shape=(8, 8),
        dtype="i2",
        zarr_format=2,
        order="F",
        filters=[GZip(1)],
        compressors=GZip(2),
    )
    assert a.order == "F"
    assert a.filters == (GZip(1),)
    assert a.compressors == (GZip(2),)
    again = tessarr.open_array(store)
    assert (again.filters, again.compressors) == (a.filters, a.compressors)


def test_default_compression_is_blosc_lz4_in_both_formats(zarr_format: Any) -> None:
    a = tessarr.create_array(None, shape=10, dtype="i4", zarr_format=zarr_format)
    (codec,) = a.compressors
    assert isinstance(codec, Blosc)
    assert (codec.cname, codec.clevel, codec.shuffle) == ("lz4", 5, 1)


@pytest.mark.parametrize("none", [None, [], ()])
def test_no_compression(zarr_format: Any, none: Any) -> None:
    a = make(zarr_format=zarr_format, compressors=none)
    assert a.compressors == ()
    np.testing.assert_array_equal(a[:], REFERENCE)


@pytest.mark.parametrize(
    "codec",
    [Zstd(3), {"name": "zstd", "configuration": {"level": 3}}, {"id": "zstd", "level": 3}, "zstd"],
)
def test_codecs_are_accepted_in_every_form(codec: Any) -> None:
    a = make(compressors=codec)
    assert isinstance(a.compressors[0], Zstd)
    np.testing.assert_array_equal(a[:], REFERENCE)


KEYS: list[Any] = [
    ..., (), 3, -1, (2, 5), slice(None), slice(1, 6, 2), slice(None, None, -1),
    (slice(5, 1, -2), 3), (..., 2), (None, 2), (slice(2), None, slice(3)), [1, 5, 2],
    ([0, 6], [1, 9]), np.array([[1], [2]]),
    REFERENCE > 30, np.arange(7) % 2 == 0, (slice(None), [True, False] * 5), (2, [1, 1, 3]),
    (slice(9, 20), slice(3)), np.int64(3), (np.int8(1), slice(None)), [],
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_reading_is_numpys(key: Any) -> None:
    a = make()
    actual, expected = a[key], REFERENCE[key]
    assert type(actual) is type(expected)
    assert actual.shape == expected.shape
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(a.read(key).result(10), expected)


@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_writing_is_numpys(key: Any) -> None:
    for value in (7, np.arange(10) if np.shape(REFERENCE[key])[-1:] == (10,) else 8.0):
        a, expected = make(), REFERENCE.copy()
        a[key] = value
        expected[key] = value
        np.testing.assert_array_equal(a[...], expected)
        b = make()
        assert b.write(key, value).result(10) is None
        np.testing.assert_array_equal(b[...], expected)


@pytest.mark.parametrize("key", [10, -8, (0, 10), (0, 0, 0), "x", 1.5, (..., ...), [7], [[True]]])
def test_bad_keys(key: Any) -> None:
    a = make()
    with pytest.raises(SelectionError):
        a[key]
    with pytest.raises(SelectionError):
        a[key] = 1
    with pytest.raises(SelectionError):
        a.read(key)
    np.testing.assert_array_equal(a[...], REFERENCE)


# Defects of zarr-python (its issues 2469, 2512): silent truncation, garbage, no broadcast.


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ((slice(2), slice(2)), np.zeros((3, 3))),
        (slice(None), np.zeros((3, 3))),
        (slice(None), np.zeros((7, 9))),
        ((slice(2), slice(4)), np.zeros(3)),
        ([0, 1], np.zeros((3, 10))),
        (0, np.zeros((2, 10))),
        ((0, 0), [1, 2]),
        (slice(None), [[1], [2, 3]]),
        (slice(None), "word"),
        (slice(None), object()),
    ],
)
def test_value_of_wrong_shape_stores_nothing(key: Any, value: Any) -> None:
    a = make()
    before = {k: a.store.get(k) for k in a.store.list("")}
    with pytest.raises((ValueError, TypeError)):
        a[key] = value
    with pytest.raises((ValueError, TypeError)):
        a.write(key, value)
    assert {k: a.store.get(k) for k in a.store.list("")} == before


@pytest.mark.parametrize("name", ["oindex", "vindex", "blocks"])
def test_accessors_refuse_value_of_wrong_shape(name: str) -> None:
    a = make()
    with pytest.raises(ArgumentError) as caught:
        getattr(a, name)[(0, 1) if name == "blocks" else ([0, 1], [2, 3])] = np.zeros((5, 5))
    assert caught.value.kind == "shape_mismatch"
    np.testing.assert_array_equal(a[...], REFERENCE)


def test_values_broadcast() -> None:
    a, expected = make(), REFERENCE.copy()
    for key, value in (
        ((slice(2), slice(4)), np.arange(4)),
        (slice(None), np.ones((1, 10))),
        (slice(3), np.arange(3)[:, None]),
        (1, np.ones((1, 1, 10))),
    ):
        a[key] = value
        expected[key] = value
        np.testing.assert_array_equal(a[...], expected)


def test_full_integer_index_gives_scalar() -> None:
    a = make()
    for key in ((1, 2), (np.int64(1), 2), (-6, -8)):
        assert type(a[key]) is np.int32
        assert type(a.read(key).result()) is np.int32
        assert type(a.get_basic_selection(key)) is np.int32
        assert a[key] == 12


def test_array_without_axes(store: Any, zarr_format: Any) -> None:
    a = tessarr.create_array(store, shape=(), dtype="f8", zarr_format=zarr_format)
    assert a[()] == 0
    a[()] = 2.5
    assert a[()] == 2.5
    assert isinstance(a[()], np.float64)
    assert a[...].shape == ()
    assert (a.size, a.nchunks, a.nchunks_initialized) == (1, 1, 1)
    with pytest.raises(TypeError):
        len(a)
    with pytest.raises(SelectionError):
        a[0]


def test_array_of_length_zero(store: Any, zarr_format: Any) -> None:
    a = tessarr.create_array(store, shape=(0, 3), dtype="f8", zarr_format=zarr_format)
    assert a[:].shape == (0, 3)
    a[:] = 1
    assert (a.nchunks, a.nchunks_initialized) == (0, 0)
    assert list(a) == []


def test_read_result_is_writable_copy() -> None:
    a = make()
    actual = a[:]
    actual[:] = 0
    assert actual.flags.owndata
    np.testing.assert_array_equal(a[:], REFERENCE)


def test_outer_points_blocks() -> None:
    a, expected = make(), REFERENCE.copy()
    np.testing.assert_array_equal(a.oindex[[0, 3], [1, 5, 9]], expected[np.ix_([0, 3], [1, 5, 9])])
    np.testing.assert_array_equal(a.vindex[[0, 3], [1, 5]], expected[[0, 3], [1, 5]])
    np.testing.assert_array_equal(a.blocks[1, 1:3], expected[3:6, 4:10])
    a.oindex[[0, 3], [1, 5]] = 100
    expected[np.ix_([0, 3], [1, 5])] = 100
    a.vindex[[1, 2], [3, 4]] = [200, 300]
    expected[[1, 2], [3, 4]] = [200, 300]
    a.blocks[2, 2] = -1
    expected[6:, 8:] = -1
    np.testing.assert_array_equal(a[:], expected)


def test_named_selections_read_into_out() -> None:
    a = make()
    mask = REFERENCE % 3 == 0
    cases: list[tuple[str, Any, Any]] = [
        ("basic", (slice(1, 3), None), REFERENCE[1:3, None]),
        ("orthogonal", ([0, 2], [1, 3]), REFERENCE[np.ix_([0, 2], [1, 3])]),
        ("coordinate", ([[0], [2]], [[1], [3]]), REFERENCE[[[0], [2]], [[1], [3]]]),
        ("mask", mask, REFERENCE[mask]),
        ("block", (0, 1), REFERENCE[:3, 4:8]),
    ]
    for name, key, expected in cases:
        get, set_ = getattr(a, f"get_{name}_selection"), getattr(a, f"set_{name}_selection")
        np.testing.assert_array_equal(get(key), expected)
        out = np.empty_like(expected)
        assert get(key, out=out) is out
        np.testing.assert_array_equal(out, expected)
        set_(key, expected)
    np.testing.assert_array_equal(a[:], REFERENCE)


def test_out_may_be_strided() -> None:
    a = make()
    room = np.zeros((14, 20), "i4", order="F")
    out = room[::2, ::-2]
    assert a.read(..., out=out).result() is out
    np.testing.assert_array_equal(out, REFERENCE)
    assert not room[1::2].any()


def test_out_of_joint_axes_may_be_strided() -> None:
    a = make()
    room = np.zeros((2, 6), "i4")
    out = room[:, ::2]
    key = ([[0, 1, 2], [3, 4, 5]], [[0, 1, 2], [3, 4, 5]])
    assert a.read(key, out=out).result() is out
    np.testing.assert_array_equal(out, REFERENCE[key])


@pytest.mark.parametrize(
    "out",
    [
        np.empty((7, 9), "i4"),
        np.empty((7, 10), "u1"),
        np.empty((7, 10), "M8[s]"),
        [[0] * 10] * 7,
        5,
    ],
)
def test_out_of_wrong_shape_is_refused(out: Any) -> None:
    with pytest.raises(ArgumentError):
        make().read(..., out=out)


@pytest.mark.parametrize("dtype", ["i8", ">i4", "f8", "i2", object])
@pytest.mark.parametrize("key", [..., (slice(None, None, -2), 3), ([[0, 1]], [[2, 3]]), (1, 1)])
def test_out_of_another_type_is_cast(dtype: Any, key: Any) -> None:
    expected = REFERENCE[key].astype(dtype)
    out = np.empty_like(np.asarray(expected))
    assert make().read(key, out=out).result() is out
    np.testing.assert_array_equal(out, expected)


def test_out_accepts_any_buffer(tmp_path: Any) -> None:
    """Python buffers, other libraries' arrays and stored arrays are valid."""
    a = make()
    buffer = array.array("i", [0] * 10)
    assert a.get_basic_selection(1, out=buffer) is buffer
    assert list(buffer) == REFERENCE[1].tolist()
    view = memoryview(bytearray(280)).cast("i", (7, 10))
    a.get_basic_selection(out=view)
    assert view.tolist() == REFERENCE.tolist()
    mapped = np.memmap(tmp_path / "mapped", "i4", "w+", shape=(7, 10))
    assert a.read(out=mapped).result() is mapped
    np.testing.assert_array_equal(mapped, REFERENCE)
    stored = tessarr.zeros((7, 10), chunks=3, dtype="f4")
    assert a.get_basic_selection(out=stored) is stored
    np.testing.assert_array_equal(stored[:], REFERENCE)

    class Tensor:
        """Another library's array, whose memory is accessible only through DLPack."""

        def __init__(self) -> None:
            self.memory = np.zeros((7, 10), "i4")
            self.shape, self.dtype = self.memory.shape, self.memory.dtype

        def __setitem__(self, key: Any, value: Any) -> None:
            raise AssertionError

        def __dlpack__(self, **options: Any) -> Any:
            return self.memory.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return self.memory.__dlpack_device__()

    tensor = Tensor()
    a.get_basic_selection(out=tensor)
    np.testing.assert_array_equal(tensor.memory, REFERENCE)
    with pytest.raises(ArgumentError, match="writable"):
        a.get_basic_selection(0, out=memoryview(bytes(40)).cast("i"))


def test_read_only_out_is_refused() -> None:
    out = np.empty((7, 10), "i4")
    out.flags.writeable = False
    with pytest.raises(ArgumentError, match="writable"):
        make().read(..., out=out)


def test_futures_are_awaitable(store: Any) -> None:
    a = make(store)

    async def both() -> Any:
        await a.write(0, 5)
        return await asyncio.gather(*(a.read(i) for i in range(7)))

    rows = asyncio.run(both())
    np.testing.assert_array_equal(rows, [[5] * 10, *REFERENCE[1:].tolist()])


def test_big_endian_of_format_2_keeps_byte_order() -> None:
    a = make(dtype=">i4", zarr_format=2)
    assert a.dtype == np.dtype(">i4")
    assert a[:].dtype == np.dtype(">i4")
    np.testing.assert_array_equal(a[:], REFERENCE)


def test_big_endian_of_format_3_reads_as_native() -> None:
    a = make(dtype=">i4", compressors=None)
    assert a[:].dtype == np.dtype("i4")
    assert a.store.get("c/0/0")[:8] == np.array([0, 1], ">i4").tobytes()


def test_fill_value_comparison_is_bitwise() -> None:
    a = tessarr.create_array(None, shape=4, dtype="f8", chunks=1, fill_value=0.0)
    a[:] = [0.0, -0.0, np.nan, 1]
    assert a.nchunks_initialized == 3
    assert np.signbit(a[1])
    b = tessarr.create_array(None, shape=2, dtype="f8", chunks=1, fill_value=np.nan)
    b[:] = [np.nan, 0]
    assert b.nchunks_initialized == 1


def test_numpy_functions_accept_array() -> None:
    a = make()
    np.testing.assert_array_equal(np.asarray(a), REFERENCE)
    assert np.asarray(a, dtype="f4").dtype == np.dtype("f4")
    assert np.sum(a) == REFERENCE.sum()
    with pytest.raises(ValueError, match="copy"):
        np.array(a, copy=False)


def test_another_array_can_be_assigned() -> None:
    a, b = make(), tessarr.create_array(None, shape=(7, 10), dtype="i8")
    b[:] = a
    np.testing.assert_array_equal(b[:], REFERENCE)


def test_iteration_reads_each_chunk_once() -> None:
    from tessarr.store import MemoryStore
    from tessarr.store.wrappers.instrumented import CountingStore

    counting = CountingStore(MemoryStore())
    a = make(counting)
    before = sum(counting.counts().values())
    for row, expected in zip(a, REFERENCE, strict=True):
        np.testing.assert_array_equal(row, expected)
    assert sum(counting.counts().values()) - before <= 9 * 2


def test_equal_arrays_and_hash(store: Any) -> None:
    a = make(store, path="a")
    assert a == tessarr.open_array(store, path="a")
    assert hash(a) == hash(tessarr.open_array(store, path="a", mode="r"))
    assert a != make(store, path="b")
    assert a != "a"


def test_repr_is_one_line_without_requests(zarr_format: Any) -> None:
    a = tessarr.create_array(
        None, shape=(10000, 10000), dtype="i4", chunks=(1000, 1000), zarr_format=zarr_format
    )
    assert repr(a) == "Array((10000, 10000), int32, chunks=(1000, 1000), order=C)"
    b = tessarr.create_array(None, path="foo/bar", shape=4, dtype="u1", chunks=2, shards=4)
    assert repr(b) == "Array(/foo/bar, (4,), uint8, chunks=(2,), shards=(4,), order=C)"


def test_info_counts_stored_chunks(store: Any) -> None:
    a = tessarr.create_array(store, shape=(7, 10), dtype="i4", chunks=(3, 4))
    empty = a.nbytes_stored
    assert (a.nchunks_initialized, empty) == (0, len(store.get("zarr.json")))
    a[:3] = 1
    assert a.nchunks_initialized == 3
    assert a.nbytes_stored > empty
    assert "initialized: 3/9" in str(a.info)


def test_chunks_in_shards_are_counted() -> None:
    a = tessarr.create_array(None, shape=(10, 10), dtype="i4", chunks=(2, 2), shards=(4, 4))
    a[0, 0] = 1
    assert (a.nchunks, a.nchunks_initialized) == (25, 4)
    a[9, 9] = 1
    assert a.nchunks_initialized == 5  # the last shard has one chunk inside of the array
    a[:] = 1
    assert a.nchunks_initialized == 25


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_pickle(store: Any, zarr_format: Any, mode: Any) -> None:
    make(store, path="x/a", zarr_format=zarr_format, attributes={"k": [1]})
    a = tessarr.open_array(store, mode, path="x/a", write_empty_chunks=True)
    b = pickle.loads(pickle.dumps(a))
    # The pickle of an unnamed memory store contains its values.
    assert b == a or isinstance(store, MemoryStore)
    assert (b.read_only, b.attrs, b.write_empty_chunks) == (mode == "r", a.attrs, True)
    np.testing.assert_array_equal(b[:], REFERENCE)


def test_reading_only(store: Any) -> None:
    make(store)
    a = tessarr.open_array(store, "r")
    attempts: list[Any] = [
        lambda: a.__setitem__(0, 1),
        lambda: a.__setitem__([0, 1], 1),
        lambda: a.__setitem__(..., REFERENCE),
        lambda: a.write(0, 1),
        lambda: a.oindex.__setitem__([0], 1),
        lambda: a.set_basic_selection(0, 1),
        lambda: a.resize(1, 1),
        lambda: a.append(np.zeros((1, 10))),
        lambda: a.attrs.update(x=1),
    ]
    for attempt in attempts:
        with pytest.raises(ReadOnlyError):
            attempt()
    np.testing.assert_array_equal(a[:], REFERENCE)


def test_empty_chunks_are_stored_on_request_only(store: Any) -> None:
    a = tessarr.create_array(store, shape=4, dtype="u1", chunks=2)
    a[:] = [0, 0, 1, 1]
    assert a.nchunks_initialized == 1
    a[2:] = 0
    assert a.nchunks_initialized == 0
    b = tessarr.open_array(store, write_empty_chunks=True)
    b[:] = 0
    assert b.nchunks_initialized == 2


@pytest.mark.parametrize("key", [..., slice(1, 3), slice(None, None, -1), [0, 2]])
@pytest.mark.parametrize("shards", [None, 4])
def test_byte_masks_are_stored_as_booleans(key: Any, shards: Any) -> None:
    """NumPy treats any byte but 0 as true; such bytes would be damage in a stored array."""
    mask = np.array([0, 2, 255, 1], "u1").view(bool)
    for compressors in ([], "zstd"):
        a = tessarr.create_array(
            None, shape=4, dtype=bool, chunks=2, shards=shards, compressors=compressors
        )
        a[key] = mask[key]
        expected = np.zeros(4, bool)
        expected[key] = mask[key]
        np.testing.assert_array_equal(a[...], expected)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("value", [0, 3])
def test_one_element_array_converts_to_number(shape: Any, value: int) -> None:
    """Conversions of one-element arrays equal NumPy's."""
    a = make(shape=shape, chunks=shape)
    a[...] = value
    assert (int(a), float(a), complex(a)) == (value, float(value), complex(value))
    assert bool(a) is bool(value)
    assert (value in a, value + 1 in a) == (True, False)
    if shape == ():
        assert operator.index(a) == value
        assert ["a", "b", "c", "d"][a] == "abcd"[value]
        assert REFERENCE[a, a] == REFERENCE[value, value]
    else:
        with pytest.raises(TypeError):
            operator.index(a)


def test_several_elements_are_no_number() -> None:
    """The error is the one that NumPy raises."""
    for a in (make(), make(shape=(0,), chunks=(1,))):
        numbers: list[Any] = [int, float, complex, operator.index]
        for convert in numbers:
            with pytest.raises(TypeError):
                convert(a)
        with pytest.raises(ValueError, match="elements"):
            bool(a)
    with pytest.raises(TypeError):
        operator.index(make(shape=(), chunks=(), dtype="f4"))


def test_contains_compares_elements() -> None:
    """`in` has NumPy's meaning, and reads only as much as necessary."""
    a = make()
    for item in (0, 69, 70, -1, 3.0, 3.5, "x", None):
        assert (item in a) is (item in REFERENCE)
    a.store.put("c/2/0", b"damaged")
    assert 59 in a
    assert 3 not in make(shape=(0, 4), chunks=(1, 4))


def test_arrays_of_same_node_are_equal() -> None:
    """The comparison is of nodes, as in zarr-python, and not of elements."""
    a = make(path="a")
    assert a == tessarr.open_array(a.store, path="a")
    assert (a != make(path="a"), a == 5, hash(a) == hash(a)) == (True, False, True)
    assert (np.asarray(a) == REFERENCE).all()
    with pytest.raises(TypeError):
        _ = a < 5  # type: ignore[operator]


def test_array_is_index_array() -> None:
    """A stored array of indices or booleans is a selection, in Tessarr and in NumPy."""
    a = make()
    rows = make(shape=(3,), chunks=(2,))
    np.testing.assert_array_equal(a[rows], REFERENCE[[0, 1, 2]])
    np.testing.assert_array_equal(a.oindex[:, rows], REFERENCE[:, [0, 1, 2]])
    np.testing.assert_array_equal(REFERENCE[np.asarray(rows)], REFERENCE[[0, 1, 2]])
    mask = tessarr.array(REFERENCE > 66)
    np.testing.assert_array_equal(a[mask], REFERENCE[REFERENCE > 66])
    scalar = make(shape=(), chunks=())
    np.testing.assert_array_equal(a[scalar], REFERENCE[0])
