"""Rules of every format: bits, partial writes, sizes, documents."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

import tessarr
from conformance.sample_stores import (
    CRC,
    LITTLE,
    V2,
    V3,
    blosc,
    chunk_keys,
    document,
    expect_defect,
    expect_read_error,
    gzip,
    open_v2,
    open_v3,
    problems_v2,
    problems_v3,
    regular,
    sharding,
    zstd,
)
from tessarr import codecs, stores
from tessarr.errors import ArgumentError, DataError, MetadataError, UnsupportedError

FORMATS = [2, 3]


@pytest.mark.covers("ALL-01")
@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize("shards", [None, (8,)])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "i8", "V3"])
def test_every_bit_survives(zarr_format, shards, dtype):
    if (zarr_format == 2 and shards) or (zarr_format == 2 and dtype == "V3"):
        shards = None
    dice = np.random.default_rng(1)
    size = np.dtype(dtype).itemsize
    data = bytearray(dice.bytes(16 * size))
    data[: 4 * size] = bytes.fromhex("ff" * size + "00" * size) * 2
    values = np.frombuffer(bytes(data), dtype)
    try:
        array = tessarr.create_array(
            None, shape=(16,), chunks=(4,), shards=shards, dtype=dtype, zarr_format=zarr_format
        )
    except UnsupportedError:
        assert (zarr_format, dtype) == (2, "V3")
        return
    array[...] = values
    assert tessarr.open_array(array.store, mode="r")[...].tobytes() == values.tobytes()
    array[1:3] = values[1:3]
    array[5] = values[5]
    assert array[...].tobytes() == values.tobytes()


@pytest.mark.covers("ALL-02")
@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize("shards", [None, (6, 6)])
def test_partial_writes_keep_rest(zarr_format, shards):
    array = tessarr.create_array(
        None,
        shape=(7, 7),
        chunks=(3, 3),
        shards=shards if zarr_format == 3 else None,
        dtype="i4",
        fill_value=-1,
        zarr_format=zarr_format,
    )
    expected = np.full((7, 7), -1, "i4")
    for count, key in enumerate([np.s_[1, 1], np.s_[2:5, 2:4], np.s_[::3, 6], np.s_[6, :]]):
        array[key] = expected[key] = count
        assert array[...].tolist() == expected.tolist()


@pytest.mark.covers("ALL-03")
@pytest.mark.parametrize("zarr_format", FORMATS)
def test_array_shrunk_and_regrown_reads_fill_outside(zarr_format):
    """By default no element returns; with ``trim=False``, elements of stored chunks return."""
    for trim, after in ((True, [1, 1, 1, 0, 0, 0]), (False, [1, 1, 1, 1, 0, 0])):
        array = tessarr.create_array(
            None, shape=(6,), chunks=(4,), dtype="u1", zarr_format=zarr_format
        )
        array[...] = 1
        array.resize(3, trim=trim)
        assert len(chunk_keys(array)) == 1
        array.resize(6, trim=trim)
        assert array[...].tolist() == after


@pytest.mark.covers("ALL-04")
@pytest.mark.parametrize("shards", [None, (64,)])
@pytest.mark.parametrize("kind", ["memory", "local"])
def test_concurrent_writers_lose_nothing(tmp_path, shards, kind):
    store = stores.MemoryStore() if kind == "memory" else stores.LocalStore(tmp_path)
    array = tessarr.create_array(store, shape=(64,), chunks=(8,), shards=shards, dtype="i4")

    def write(first):
        for position in range(first, 64, 4):
            array[position] = position + 1

    threads = [threading.Thread(target=write, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert array[...].tolist() == list(range(1, 65))


HUGE = 2**62


@pytest.mark.covers("ALL-05")
@pytest.mark.parametrize(
    ("changes", "loc"),
    [
        ({"shape": [2**63, 1]}, "/shape/0"),
        ({"shape": [10**30, 1]}, "/shape/0"),
        ({"shape": [HUGE, HUGE]}, "/chunk_grid/configuration/chunk_shape"),
        ({"shape": [2**33, 2**33], "chunk_grid": regular(2**16, 2**16)}, "/shape"),
        ({"chunk_grid": regular(HUGE, 8)}, "/chunk_grid/configuration/chunk_shape"),
        ({"chunk_grid": regular(2**64, 1)}, "/chunk_grid/configuration/chunk_shape/0"),
        (
            {"chunk_grid": regular(2**40, 1), "codecs": [sharding(1, 1)]},
            "/codecs/0/configuration/chunk_shape",
        ),
    ],
)
def test_sizes_of_format_3_are_checked(changes, loc):
    assert problems_v3(**changes)[loc] == "too_large"


@pytest.mark.covers("ALL-05")
@pytest.mark.parametrize(
    ("changes", "loc"),
    [
        ({"shape": [2**63, 1]}, "/shape/0"),
        ({"shape": [HUGE, HUGE]}, "/chunks"),
        ({"shape": [2**33, 2**33], "chunks": [2**16, 2**16]}, "/shape"),
        ({"chunks": [HUGE, 8]}, "/chunks"),
        ({"chunks": [2**64, 1]}, "/chunks/0"),
    ],
)
def test_sizes_of_format_2_are_checked(changes, loc):
    assert problems_v2(**changes)[loc] == "too_large"


@pytest.mark.covers("ALL-05")
def test_result_larger_than_memory_raises():
    array = open_v3(shape=[2**40, 2**20], chunk_grid=regular(2**20, 1))
    with pytest.raises((MemoryError, ArgumentError, ValueError)):
        array[...]
    assert array[2**40 - 1, 2**20 - 1] == 0


@pytest.mark.covers("ALL-06")
@pytest.mark.parametrize("codec", [gzip(), zstd(level=1), blosc()], ids=lambda codec: codec["name"])
def test_decoding_is_bounded_by_expected_size(codec):
    """Tessarr stops decoding half a gigabyte of zeros, stored in a few bytes, for a chunk of 24."""
    import resource

    makers = {
        "gzip": codecs.GZip(9),
        "zstd": codecs.Zstd(9),
        "blosc": codecs.Blosc(cname="zstd", clevel=9),
    }
    bomb = makers[codec["name"]].encode(bytes(1 << 29))
    assert len(bomb) < 1 << 20
    array = open_v3({"c/0/0": bomb}, codecs=[LITTLE, codec])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with expect_read_error(key="c/0/0"):
        array[0, 0]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 17


HOSTILE = {
    "nested lists": b"[" * 100_000,
    "nested objects": b'{"a":' * 100_000,
    "nested attributes": document(V3).replace(b"{", b'{"attributes": {"a": ' + b"[" * 5000, 1),
    "long number": b'{"zarr_format": ' + b"9" * 100_000 + b"}",
    "long exponent": b'{"zarr_format": 1e' + b"9" * 1000 + b"}",
    "invalid utf-8": b'{"zarr_format": 3, "node_type": "\xff"}',
    "lone surrogate": b'{"zarr_format": 3, "node_type": "\\ud800"}',
    "utf-16": '{"zarr_format": 3}'.encode("utf-16"),
    "nul": b'{"zarr_format": 3\0}',
    "nothing": b"",
    "twice": b'{"zarr_format": 3, "zarr_format": 3}',
}


@pytest.mark.covers("ALL-07", "V3-META-13")
@pytest.mark.parametrize("key", ["zarr.json", ".zarray", ".zgroup", ".zattrs"])
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_documents_are_errors(key, text):
    items = {key: text} | ({".zarray": document(V2)} if key == ".zattrs" else {})
    if key == ".zattrs" and text == HOSTILE["lone surrogate"]:
        tessarr.open(stores.MemoryStore(items), mode="r")  # attributes hold any JSON
        return
    if key == ".zattrs" and not text:
        with expect_defect("it is empty"):
            assert not tessarr.open(stores.MemoryStore(items), mode="r").attrs
        return
    with pytest.raises(MetadataError):
        tessarr.open(stores.MemoryStore(items), mode="r")


@pytest.mark.covers("ALL-07")
def test_lone_surrogates_in_attributes_survive():
    array = open_v3(attributes={"a": "\ud800", "\udfff": 1})
    array.attrs["b"] = 1
    again = tessarr.open_array(array.store, mode="r")
    assert dict(again.attrs) == {"a": "\ud800", "\udfff": 1, "b": 1}


@pytest.mark.covers("ALL-09", "V2-COMP-10")
@pytest.mark.parametrize("stored", [b"", b"\0", b"not what a codec made", bytes(24)])
@pytest.mark.parametrize("codec", [gzip(), zstd(level=1), blosc(), CRC], ids=lambda c: c["name"])
def test_only_absent_chunks_read_as_fill(stored, codec):
    array = open_v3({"c/0/0": stored}, fill_value=5, codecs=[LITTLE, codec])
    assert (array[3:] == 5).all()
    with expect_read_error(key="c/0/0"):
        array[0]
    before = array.store.get("c/0/0")
    with pytest.raises(DataError):
        array[0, 0] = 1
    assert array.store.get("c/0/0") == before
    array[:3, :2] = 1  # a write of the whole chunk reads nothing
    assert (array[:3, :2] == 1).all()


@pytest.mark.covers("ALL-11")
@pytest.mark.parametrize("zarr_format", FORMATS)
@pytest.mark.parametrize(("fill", "bits"), [(0.0, 0x80000000), ("NaN", 0x7FC00001), (-0.0, 0)])
def test_fill_comparison_is_bitwise(zarr_format, fill, bits):
    array = tessarr.create_array(
        None, shape=(4,), chunks=(2,), dtype="f4", fill_value=fill, zarr_format=zarr_format
    )
    value = np.array([bits], "u4").view("f4")[0]
    array[:2] = value
    assert len(chunk_keys(array)) == 1
    assert array[:2].tobytes() == value.tobytes() * 2
    array[:2] = array.fill_value
    assert chunk_keys(array) == set()


@pytest.mark.covers("ALL-08")
def test_without_any_document_no_node_exists():
    store = stores.MemoryStore({"c/0/0": b"", ".zattrs": b"{}", "0.0": b""})
    with pytest.raises(tessarr.errors.NotFoundError):
        tessarr.open(store, mode="r")


@pytest.mark.covers("ALL-12")
@pytest.mark.parametrize(
    "settings",
    [
        {"order": "A"},
        {"dimension_separator": "-"},
        {"compressors": [{"id": "zlib", "level": 10}]},
        {"dtype": "i1", "fill_value": -129},
        {"path": "a/../b"},
        {"chunks": (0, 1)},
        {"shards": (4, 4)},
    ],
)
def test_written_format_2_documents_are_valid(settings):
    store = stores.MemoryStore()
    with pytest.raises((ArgumentError, ValueError)):
        tessarr.create_array(
            store, **{"shape": (8, 8), "dtype": "i4", "zarr_format": 2, **settings}
        )
    assert store.list("") == []


@pytest.mark.covers("V2-META-12", "V3-META-14")
@pytest.mark.parametrize("zarr_format", FORMATS)
def test_documents_are_deterministic(zarr_format):
    arrays = [
        tessarr.create_array(
            None, shape=(8,), dtype="f4", zarr_format=zarr_format, attributes={"b": 1, "a": 2}
        )
        for _ in range(2)
    ]
    contents = [{key: array.store.get(key) for key in array.store.list("")} for array in arrays]
    assert contents[0] == contents[1]
    assert all(json.loads(text) is not None for text in contents[0].values())


@pytest.mark.covers("V2-CHUNK-06")
def test_opened_member_reads_current_document():
    array = open_v2()
    assert not array[...].any()
    array.store.put("0.0", np.arange(6, dtype="<i4").tobytes())
    assert array[0, :3].tolist() == [0, 1, 2]
