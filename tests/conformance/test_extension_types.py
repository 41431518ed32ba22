"""Format 3: data types beyond the core, byte by byte."""

from __future__ import annotations

import base64

import numpy as np
import pytest

import tessarr
from conformance.sample_stores import (
    BIG,
    CRC,
    LITTLE,
    expect_defect,
    gzip,
    has_same_bits,
    named,
    open_chunk_v3,
    open_v3,
    problems_v3,
    rewrite_document,
    sharding,
)
from tessarr.errors import MetadataError, UnsupportedError

BARE = {"name": "bytes"}


def open_chunk(data_type, chunk, fill, count, *chain):
    """Open an array of one chunk of `count` elements, which holds these bytes."""
    return open_chunk_v3(list(chain) or [LITTLE], data_type, fill, count=count, stored=chunk)


# fixed_length_utf32


@pytest.mark.covers("X-UTF32-01")
@pytest.mark.parametrize(("codec", "coding"), [(LITTLE, "utf-32-le"), (BIG, "utf-32-be")])
def test_text_of_fixed_length(codec, coding):
    text = ["ä", "日本語", "", "🦉x"]
    chunk = "".join(item.ljust(3, "\0") for item in text).encode(coding)
    array = open_chunk(named("fixed_length_utf32", length_bytes=12), chunk, "né", 4, codec)
    assert array.dtype == np.dtype("U3")
    assert array[...].tolist() == text
    array[1] = "abc"
    assert array.store.get("c/0")[12:24] == "abc".encode(coding)
    array.store.delete("c/0")
    assert array[0] == "né"
    document = rewrite_document(array)
    assert document["fill_value"] == "né"
    assert document["data_type"] == named("fixed_length_utf32", length_bytes=12)


@pytest.mark.covers("X-UTF32-01")
@pytest.mark.parametrize("size", [0, 6, -4, "7", 4.0, None, True, 2**63])
def test_text_has_multiple_of_four_bytes(size):
    data_type = named("fixed_length_utf32", length_bytes=size)
    problems = problems_v3(data_type=data_type, fill_value="")
    assert list(problems) == ["/data_type/configuration/length_bytes"]


@pytest.mark.covers("X-UTF32-01")
@pytest.mark.parametrize("fill", ["abcd", 0, ["a"]])
def test_fill_values_of_text_fit(fill):
    problems = problems_v3(data_type=named("fixed_length_utf32", length_bytes=12), fill_value=fill)
    assert list(problems) == ["/fill_value"]


@pytest.mark.covers("X-UTF32-01")
def test_text_without_endian_is_read_like_gdal():
    with expect_defect("no endian for fixed_length_utf32, taken for little"):
        array = open_chunk(named("fixed_length_utf32", length_bytes=4), b"a\0\0\0", "", 1, BARE)
    assert array[0] == "a"


# Times


@pytest.mark.covers("X-DT-01")
@pytest.mark.parametrize("name", ["numpy.datetime64", "numpy.timedelta64"])
@pytest.mark.parametrize(
    ("unit", "scale"), [("s", 1), ("ns", 25), ("Y", 1), ("us", 10), ("as", 1), ("h", 2**31 - 1)]
)
@pytest.mark.parametrize(("codec", "order"), [(LITTLE, "<"), (BIG, ">")])
def test_times_are_counts_of_unit(name, unit, scale, codec, order):
    counts = np.array([0, 1, -(2**63), 2**63 - 1], order + "i8")
    data_type = named(name, unit=unit, scale_factor=scale)
    array = open_chunk(data_type, counts.tobytes(), "NaT", 4, codec)
    kind = "M8" if "date" in name else "m8"
    has_same_bits(array[...], counts.astype("i8").view(f"{kind}[{scale}{unit}]"))
    assert rewrite_document(array)["data_type"] == data_type
    array.store.delete("c/0")
    assert np.isnat(array[0])


@pytest.mark.covers("X-DT-01")
def test_generic_unit_and_spellings_of_microseconds():
    array = open_chunk(named("numpy.timedelta64", unit="generic", scale_factor=1), None, 7, 1)
    assert array.dtype == np.dtype("m8")
    assert array[...].view("i8").tolist() == [7]
    for unit in ("us", "μs", "µs"):
        array = open_chunk(named("numpy.datetime64", unit=unit, scale_factor=1), None, 7, 1)
        assert array.dtype == np.dtype("M8[us]")


@pytest.mark.covers("X-DT-01")
@pytest.mark.parametrize(
    ("configuration", "loc"),
    [
        ({"unit": "s", "scale_factor": 0}, "/scale_factor"),
        ({"unit": "s", "scale_factor": 2**31}, "/scale_factor"),
        ({"unit": "s", "scale_factor": 1.0}, "/scale_factor"),
        ({"unit": "s", "scale_factor": "0"}, "/scale_factor"),
        ({"unit": "q", "scale_factor": 1}, "/unit"),
        ({"unit": 1, "scale_factor": 1}, "/unit"),
        ({"unit": "s"}, ""),
        ({"scale_factor": 1}, ""),
        ({}, ""),
        ({"unit": "s", "scale_factor": 1, "x": 1}, "/x"),
    ],
)
def test_units_are_checked(configuration, loc):
    data_type = {"name": "numpy.datetime64", "configuration": configuration}
    problems = problems_v3(data_type=data_type, fill_value=0)
    assert "/data_type/configuration" + loc in problems


@pytest.mark.covers("X-DT-01")
@pytest.mark.parametrize("fill", ["2020-01-01", 1.5, True, 2**63, "nat"])
def test_fill_values_of_times(fill):
    data_type = named("numpy.datetime64", unit="s", scale_factor=1)
    assert list(problems_v3(data_type=data_type, fill_value=fill)) == ["/fill_value"]


# Structures


def struct(*fields):
    listed = [{"name": name, "data_type": data_type} for name, data_type in fields]
    return named("struct", fields=listed)


POINT = struct(
    ("x", "int16"), ("y", "float32"), ("in", struct(("flag", "bool"), ("c", "complex64")))
)
FILL = {"x": -1, "y": "NaN", "in": {"flag": True, "c": [0.5, "-Infinity"]}}
DTYPE = np.dtype([("x", "i2"), ("y", "f4"), ("in", [("flag", "?"), ("c", "c8")])])


@pytest.mark.covers("X-STRUCT-01")
@pytest.mark.parametrize(("codec", "order"), [(LITTLE, "<"), (BIG, ">")])
def test_structures_are_packed_in_order(codec, order):
    values = np.zeros(3, DTYPE)
    values["x"], values["y"] = [1, -2, 3], [0.5, -0.0, 1e-45]
    values["in"]["flag"], values["in"]["c"] = [True, False, True], [1j, 2, -1 - 1j]
    chunk = values.astype(DTYPE.newbyteorder(order)).tobytes()
    assert len(chunk) == 3 * 15
    array = open_chunk(POINT, chunk, FILL, 3, codec)
    assert array.dtype == DTYPE
    has_same_bits(array[...], values)
    array[0] = values[2]
    assert array.store.get("c/0")[:15] == chunk[30:]
    array.store.delete("c/0")
    result = array[0].item()
    assert result[0] == -1
    assert np.isnan(result[1])
    assert result[2] == (True, complex(0.5, -np.inf))
    document = rewrite_document(array)
    assert (document["data_type"], document["fill_value"]) == (POINT, FILL)


@pytest.mark.covers("X-STRUCT-01")
@pytest.mark.parametrize(
    ("data_type", "loc"),
    [
        (struct(), "/data_type/configuration/fields"),
        ({"name": "struct", "configuration": {}}, "/data_type/configuration"),
        (named("struct", fields={}), "/data_type/configuration/fields"),
        (named("struct", fields=[["x", "int16"]]), "/data_type/configuration/fields/0"),
        (struct(("x", "int16"), ("x", "int8")), "/data_type/configuration/fields/1"),
        (struct(("", "int16")), "/data_type/configuration/fields/0/name"),
        (struct((1, "int16")), "/data_type/configuration/fields/0/name"),
        (struct(("x", "r7")), "/data_type/configuration/fields/0/data_type"),
        (struct(("x", 1)), "/data_type/configuration/fields/0/data_type"),
        (named("struct", fields=[{"name": "x"}]), "/data_type/configuration/fields/0"),
        (
            named("struct", fields=[{"name": "x", "data_type": "int8", "y": 1}]),
            "/data_type/configuration/fields/0/y",
        ),
    ],
)
def test_malformed_structure_problems_have_json_path(data_type, loc):
    with pytest.raises(MetadataError) as caught:
        open_v3(data_type=data_type, fill_value={"x": 0})
    assert loc in {problem.loc for problem in caught.value.problems}


@pytest.mark.covers("X-STRUCT-01")
@pytest.mark.parametrize("inner", ["string", "bytes"])
def test_fields_have_fixed_size(inner):
    with pytest.raises((MetadataError, UnsupportedError), match="/data_type/configuration/fields"):
        open_v3(data_type=struct(("x", inner)), fill_value={"x": ""}, codecs=[LITTLE])


@pytest.mark.covers("X-STRUCT-01")
@pytest.mark.parametrize(
    ("fill", "loc"),
    [
        ({"x": 1}, "/fill_value"),
        ({"x": 1, "y": 1.0, "z": 1}, "/fill_value/z"),
        ({"x": 40000, "y": 1.0}, "/fill_value/x"),
        ({"x": 1, "y": "nan"}, "/fill_value/y"),
        ([1, 1.0], "/fill_value"),
        (0, "/fill_value"),
    ],
)
def test_fill_values_of_structures_have_every_field(fill, loc):
    data_type = struct(("x", "int16"), ("y", "float32"))
    assert list(problems_v3(data_type=data_type, fill_value=fill)) == [loc]


@pytest.mark.covers("X-STRUCT-01")
def test_structures_of_bytes_need_no_endian():
    array = open_chunk(
        struct(("a", "uint8"), ("b", "bool")), b"\1\1\2\0", {"a": 0, "b": False}, 2, BARE
    )
    assert array[...].tolist() == [(1, True), (2, False)]
    with expect_defect("no endian"):
        open_v3(data_type=struct(("a", "int16")), fill_value={"a": 0}, codecs=[BARE])


@pytest.mark.covers("X-STRUCT-02")
@pytest.mark.parametrize(("codec", "order"), [(LITTLE, "<"), (BIG, ">"), (BARE, "<")])
def test_structures_of_first_zarr_python_are_read(codec, order):
    data_type = named("structured", fields=[["x", "int16"], ["y", "float32"]])
    dtype = np.dtype([("x", order + "i2"), ("y", order + "f4")])
    chunk = np.array([(1, 0.5), (-2, 2.0)], dtype).tobytes()
    fill = base64.b64encode(np.array((7, 1.5), dtype).tobytes()).decode()
    with pytest.warns(tessarr.errors.TessarrWarning):
        array = open_chunk(data_type, chunk, fill, 2, codec)
    assert array[...].tolist() == [(1, 0.5), (-2, 2.0)]
    array.store.delete("c/0")
    assert array[0].item() == (7, 1.5)


# Bytes of fixed length, as zarr-python names them


@pytest.mark.covers("X-NAME-01")
def test_bytes_of_fixed_length():
    data_type = named("null_terminated_bytes", length_bytes=3)
    array = open_chunk(data_type, b"a\0\0abc", base64.b64encode(b"xy").decode(), 2, BARE)
    assert array.dtype == np.dtype("S3")
    assert array[...].tolist() == [b"a", b"abc"]
    array.store.delete("c/0")
    assert array[0] == b"xy"
    data_type = named("raw_bytes", length_bytes=3)
    array = open_chunk(data_type, b"a\0\0abc", base64.b64encode(b"xy\0").decode(), 2, BARE)
    assert [item.tobytes() for item in array[...]] == [b"a\0\0", b"abc"]
    array.store.delete("c/0")
    assert array[0].tobytes() == b"xy\0"


@pytest.mark.covers("X-UTF32-01", "X-DT-01", "X-STRUCT-01")
@pytest.mark.parametrize(
    ("data_type", "fill"),
    [
        (named("fixed_length_utf32", length_bytes=8), "é"),
        (named("numpy.datetime64", unit="ms", scale_factor=10), "NaT"),
        (POINT, FILL),
        (named("null_terminated_bytes", length_bytes=5), "YWI="),
    ],
    ids=["text", "times", "structures", "bytes"],
)
@pytest.mark.parametrize(
    "chain",
    [[BIG, gzip()], [sharding(2, codecs=[BIG, CRC])], [LITTLE, CRC]],
    ids=["gzip", "shards", "crc32c"],
)
def test_extension_types_pass_codecs_and_shards(data_type, fill, chain):
    array = open_chunk(data_type, None, fill, 8, *chain)
    before = array[...].copy()
    array[3:6] = array[:3]
    values = before.copy()
    if array.dtype.kind == "U":
        values[2:4] = ["x", "日本"]
    else:
        values.view("u1").reshape(8, -1)[2:4] = 1
    array[2:4] = values[2:4]
    has_same_bits(tessarr.open_array(array.store, mode="r")[...], values)
