"""Format 3: codecs beyond the core, byte by byte."""

from __future__ import annotations

import bz2
import json
import lzma
import struct
import zlib

import numpy as np
import pytest

import tessarr
from conformance.sample_stores import (
    BIG,
    LITTLE,
    expect_defect,
    has_same_bits,
    named,
    open_chunk_v3,
    open_v3,
    problems_v3,
    regular,
    rewrite_document,
    write_chunk,
)
from tessarr.errors import ArgumentError, DataError, MetadataError, UnsupportedError

BARE = {"name": "bytes"}
VALUES = np.arange(1, 7, dtype="<i4")
RAW = VALUES.tobytes()


# packbits, bitround, reshape


@pytest.mark.covers("X-PACK-01")
@pytest.mark.parametrize(
    ("padding", "expected"),
    [("none", "2d01"), ("first_byte", "072d01"), ("last_byte", "2d0107")],
)
def test_packbits_begins_with_lowest_bit(padding, expected):
    values = np.array([1, 0, 1, 1, 0, 1, 0, 0, 1], bool)
    array = open_chunk_v3([named("packbits", padding_encoding=padding)], "bool", False, count=9)
    assert write_chunk(array, values).hex() == expected
    has_same_bits(tessarr.open_array(array.store, mode="r")[...], values)


@pytest.mark.covers("X-PACK-01")
@pytest.mark.parametrize(
    ("first", "last", "expected"), [(0, 3, "2143"), (None, 3, "2143"), (0, 7, "01020304")]
)
def test_packbits_keeps_some_bits(first, last, expected):
    members = {"first_bit": first, "last_bit": last}
    codec = named("packbits", **{name: item for name, item in members.items() if item is not None})
    array = open_chunk_v3([codec], "uint8", 0, count=4)
    assert write_chunk(array, np.array([1, 2, 3, 4], "u1")).hex() == expected
    assert array[...].tolist() == [1, 2, 3, 4]


@pytest.mark.covers("X-PACK-01")
def test_packbits_extends_sign():
    array = open_chunk_v3([named("packbits", last_bit=3)], "int16", 0, count=4)
    assert write_chunk(array, np.array([-1, -8, 7, 0], "i2")).hex() == "8f07"
    assert array[...].tolist() == [-1, -8, 7, 0]


@pytest.mark.covers("X-PACK-01")
@pytest.mark.parametrize(
    "configuration",
    [
        {"padding_encoding": "middle"},
        {"padding_encoding": None},
        {"first_bit": -1},
        {"last_bit": "x"},
        {"first_bit": 5, "last_bit": 3},
        {"last_bit": 32},
        {"bits": 3},
    ],
)
def test_parameters_of_packbits(configuration):
    problems = problems_v3(codecs=[named("packbits", **configuration)])
    assert all(loc.startswith("/codecs/0/configuration") for loc in problems)


@pytest.mark.covers("X-BITR-01")
@pytest.mark.parametrize("name", ["bitround", "numcodecs.bitround"])
def test_bitround(name):
    values = np.array([1.1, 3.14159, -1e10, 0.0, np.inf, 7.0], "f4")
    array = open_chunk_v3([named(name, keepbits=3), LITTLE], "float32", 0.0)
    stored = np.frombuffer(write_chunk(array, values), "<f4")
    assert not (stored.view("u4") & 0xFFFFF).any()
    assert np.allclose(stored[:3], values[:3], rtol=0.07)
    array.store.put("c/0", values.tobytes())
    has_same_bits(array[...], values)


@pytest.mark.covers("X-BITR-01")
@pytest.mark.parametrize("keepbits", [-1, "x", 3.0, None])
def test_parameters_of_bitround(keepbits):
    problems = problems_v3(
        data_type="float32", codecs=[named("bitround", keepbits=keepbits), LITTLE]
    )
    assert all(loc.startswith("/codecs/0/configuration") for loc in problems)


@pytest.mark.covers("X-RESH-01")
@pytest.mark.parametrize(
    ("shape", "result"),
    [([24], (24,)), ([[0, 1], 4], (6, 4)), ([[0], -1], (2, 12)), ([2, 3, 2, 2], (2, 3, 2, 2))],
)
def test_reshape_keeps_elements_in_order(shape, result):
    values = np.arange(24, dtype="<i4").reshape(2, 3, 4)
    order = list(range(len(result)))[::-1]
    chain = [
        named("reshape", shape=shape),
        {"name": "transpose", "configuration": {"order": order}},
        LITTLE,
    ]
    array = open_v3(shape=[2, 3, 4], chunk_grid=regular(2, 3, 4), codecs=chain)
    array[...] = values
    assert array.store.get("c/0/0/0") == values.reshape(result).T.tobytes()
    has_same_bits(array[...], values)


@pytest.mark.covers("X-RESH-01")
@pytest.mark.parametrize(
    "shape", [[5], [-1, -1], [-2], [[1, 0], -1], [[0, 0], -1], [[2], -1], ["6"], 6, None, [0, -1]]
)
def test_shapes_of_reshape(shape):
    problems = problems_v3(codecs=[named("reshape", shape=shape), LITTLE])
    assert all(loc.startswith("/codecs/0/configuration") for loc in problems)


# cast_value and scale_offset


@pytest.mark.covers("X-CAST-01")
def test_cast_value_stores_another_type():
    array = open_chunk_v3([named("cast_value", data_type="int8"), BARE], "float64", 7.0)
    stored = write_chunk(array, np.array([1, -2, 100, 0.5, 1.5, 2.5]))
    assert np.frombuffer(stored, "i1").tolist() == [1, -2, 100, 0, 2, 2]
    assert array[...].tolist() == [1, -2, 100, 0, 2, 2]
    array.store.delete("c/0")
    assert array[...].tolist() == [7.0] * 6
    array[0] = 1
    assert np.frombuffer(array.store.get("c/0"), "i1").tolist() == [1, 7, 7, 7, 7, 7]


@pytest.mark.covers("X-CAST-01")
@pytest.mark.parametrize("value", [128, -129, np.nan, np.inf])
def test_unrepresentable_numbers_raise(value):
    array = open_chunk_v3([named("cast_value", data_type="int8"), BARE], "float64", 0.0)
    with pytest.raises((ArgumentError, DataError)):
        array[0] = value
    assert array.store.get("c/0") is None


@pytest.mark.covers("X-CAST-01")
def test_cast_value_can_clamp_and_map():
    configuration = {
        "data_type": "uint8",
        "out_of_range": "clamp",
        "rounding": "towards-zero",
        "scalar_map": {"encode": [["NaN", 9]], "decode": [[9, "NaN"]]},
    }
    array = open_chunk_v3([named("cast_value", **configuration), BARE], "float32", "NaN")
    assert list(write_chunk(array, np.array([300, -1, 1.9, np.nan, 0, 5], "f4"))) == [
        255,
        0,
        1,
        9,
        0,
        5,
    ]
    result = array[...]
    assert np.isnan(result[3])
    assert result[[0, 1, 2]].tolist() == [255, 0, 1]
    array.store.delete("c/0")
    assert np.isnan(array[...]).all()


@pytest.mark.covers("X-CAST-01")
def test_fill_value_goes_through_scale_offset():
    chain = [
        named("scale_offset", offset=100, scale=2),
        named("cast_value", data_type="uint8"),
        BARE,
    ]
    array = open_chunk_v3(chain, "int32", 110)
    array[0] = 101
    assert list(array.store.get("c/0")) == [2, 20, 20, 20, 20, 20]
    assert array[...].tolist() == [101, 110, 110, 110, 110, 110]
    array[0] = 110
    assert array.store.get("c/0") is None


@pytest.mark.covers("X-CAST-01")
@pytest.mark.parametrize(
    ("codec", "fill"),
    [
        (named("cast_value", data_type="int8", x=1), 0),
        (named("cast_value"), 0),
        (named("cast_value", data_type="nope"), 0),
        (named("cast_value", data_type="int8", rounding="up"), 0),
        (named("cast_value", data_type="int8", out_of_range="ignore"), 0),
        (named("cast_value", data_type="int8"), 1000),
        (named("scale_offset", scale=2, x=1), 0),
        (named("scale_offset", scale="x"), 0),
        (named("scale_offset", scale=1.5), 0),
    ],
)
def test_parameters_of_cast_value_and_scale_offset(codec, fill):
    with pytest.raises((MetadataError, UnsupportedError)) as caught:
        open_v3(fill_value=fill, codecs=[codec, LITTLE])
    assert "/codecs/0" in str(caught.value) or "/fill_value" in str(caught.value)


# Codecs of numcodecs


STREAMS = {
    "numcodecs.zlib": ({"level": 1}, zlib.compress(RAW)),
    "numcodecs.bz2": ({"level": 1}, bz2.compress(RAW)),
    "numcodecs.lzma": ({}, lzma.compress(RAW)),
    "numcodecs.lz4": ({"acceleration": 1}, struct.pack("<I", 24) + bytes([0xF0, 9]) + RAW),
    "numcodecs.crc32": ({}, struct.pack("<I", zlib.crc32(RAW)) + RAW),
    "numcodecs.adler32": ({}, struct.pack("<I", zlib.adler32(RAW)) + RAW),
    "numcodecs.shuffle": (
        {"elementsize": 4},
        np.frombuffer(RAW, "u1").reshape(6, 4).T.tobytes(),
    ),
}


@pytest.mark.covers("X-NUMC-01")
@pytest.mark.parametrize("name", STREAMS)
def test_numcodecs_codecs_store_same_bytes_as_in_format_2(name):
    configuration, stored = STREAMS[name]
    codec = named(name, **configuration)
    array = open_chunk_v3([LITTLE, codec], stored=stored)
    has_same_bits(array[...], VALUES)
    array[0] = 9
    assert tessarr.open_array(array.store, mode="r")[...].tolist() == [9, 2, 3, 4, 5, 6]
    assert rewrite_document(array)["codecs"] == [LITTLE, codec]


@pytest.mark.covers("X-NUMC-01")
@pytest.mark.parametrize("name", ["fletcher32", "jenkins_lookup3", "zstd", "gzip", "blosc"])
def test_other_codecs_of_numcodecs_agree_with_format_2(name):
    parameters = {
        "zstd": {"level": 1},
        "gzip": {"level": 1},
        "blosc": {"cname": "lz4", "clevel": 5, "shuffle": 1},
    }.get(name, {})
    array = open_chunk_v3([LITTLE, named(f"numcodecs.{name}", **parameters)])
    stored = write_chunk(array, VALUES)
    old = {
        ".zarray": json.dumps(
            {
                "zarr_format": 2,
                "shape": [6],
                "chunks": [6],
                "dtype": "<i4",
                "fill_value": 0,
                "order": "C",
                "filters": None,
                "compressor": {"id": name, **parameters},
            }
        ).encode(),
        "0": stored,
    }
    has_same_bits(tessarr.open_array(tessarr.stores.MemoryStore(old), mode="r")[...], VALUES)


@pytest.mark.covers("X-NUMC-01")
@pytest.mark.parametrize(
    ("codec", "data_type", "values", "stored"),
    [
        (named("numcodecs.delta", dtype="<i4"), "int32", [5, 6, 4], np.array([5, 1, -2], "<i4")),
        (
            named("numcodecs.fixedscaleoffset", scale=10, offset=1, dtype="<f8", astype="<i2"),
            "float64",
            [1.5, 0.9, 1],
            np.array([5, -1, 0], "<i2"),
        ),
        (
            named("numcodecs.astype", encode_dtype="<f4", decode_dtype="<f8"),
            "float64",
            [1.5, -2, 0],
            np.array([1.5, -2, 0], "<f4"),
        ),
        (
            named("numcodecs.quantize", digits=1, dtype="<f8"),
            "float64",
            [0.125, 2.6875, 0],
            np.array([0.125, 2.6875, 0], "<f8"),
        ),
    ],
    ids=["delta", "fixedscaleoffset", "astype", "quantize"],
)
def test_filters_of_numcodecs(codec, data_type, values, stored):
    array = open_chunk_v3([codec, LITTLE], data_type, count=3)
    data = np.array(values, data_type)
    assert write_chunk(array, data) == stored.tobytes()
    has_same_bits(tessarr.open_array(array.store, mode="r")[...], data)
    assert rewrite_document(array)["codecs"] == [codec, LITTLE]


@pytest.mark.covers("X-NUMC-01", "V2-FILT-04")
def test_packbits_of_numcodecs_begins_with_highest_bit():
    values = np.array([1, 0, 1, 1, 0, 1, 0, 0, 1], bool)
    array = open_chunk_v3([named("numcodecs.packbits"), BARE], "bool", False, count=9)
    assert write_chunk(array, values).hex() == "07b480"
    has_same_bits(array[...], values)


# Other names


@pytest.mark.covers("X-NAME-01", "V3-BYTES-05")
@pytest.mark.parametrize("name", ["endian", "binary"])
def test_older_names_of_codec_bytes_are_read(name):
    with expect_defect(name):
        array = open_chunk_v3([named(name, endian="big")], stored=VALUES.astype(">i4").tobytes())
    has_same_bits(array[...], VALUES)


@pytest.mark.covers("X-NAME-01")
def test_big_endian_bytes_keep_order():
    array = open_chunk_v3([BIG], stored=VALUES.astype(">i4").tobytes())
    has_same_bits(array[...], VALUES)
    assert rewrite_document(array)["codecs"] == [BIG]
