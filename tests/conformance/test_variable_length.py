"""Elements of variable length in both formats, byte by byte."""

from __future__ import annotations

import json
import struct
import warnings

import numpy as np
import pytest

import tessarr
from conformance.sample_stores import (
    CRC,
    LITTLE,
    expect_read_error,
    gzip,
    has_same_bits,
    named,
    open_chunk_v2,
    open_chunk_v3,
    open_v3,
    problems_v2,
    problems_v3,
    regular,
    rewrite_document,
    sharding,
    write_chunk,
    zstd,
)
from tessarr.errors import MetadataError, UnsupportedError

BARE = {"name": "bytes"}


def vlen(*items):
    return struct.pack("<I", len(items)) + b"".join(
        struct.pack("<I", len(item)) + item for item in items
    )


# Format 2


TEXT = ["", "a", "é日🦉", "\0"]
BYTES = [b"", b"a", b"\xff\0", bytes(1000)]


@pytest.mark.covers("V2-FILT-10", "V2-DTYPE-10")
@pytest.mark.parametrize(("codec_id", "values"), [("vlen-utf8", TEXT), ("vlen-bytes", BYTES)])
def test_elements_of_variable_length(codec_id, values):
    encoded = [item.encode() if isinstance(item, str) else item for item in values]
    array = open_chunk_v2(vlen(*encoded), "|O", count=4, fill="", filters=[{"id": codec_id}])
    assert array.dtype == np.dtype(object)
    assert array[...].tolist() == values
    assert write_chunk(array, np.array(values[::-1], object)) == vlen(*encoded[::-1])
    array[1] = values[1]
    assert array[...].tolist() == [values[3], values[1], values[1], values[0]]
    assert rewrite_document(array)["filters"] == [{"id": codec_id}]


@pytest.mark.covers("V2-FILT-10")
def test_arrays_of_variable_length():
    values = [np.array(item, "<i2") for item in ([], [1], [1, 2, 3], [-1, 0])]
    codec = {"id": "vlen-array", "dtype": "<i2"}
    stored = vlen(*(item.tobytes() for item in values))
    array = open_chunk_v2(stored, "|O", count=4, filters=[codec])
    for element, expected in zip(array[...], values, strict=True):
        has_same_bits(element, expected)
    held = np.empty(4, object)
    held[:] = values
    assert write_chunk(array, held) == stored


@pytest.mark.covers("V2-FILT-10")
@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"\1\0",
        vlen(b"a"),
        vlen(b"a", b"b", b"c"),
        vlen(b"a", b"b")[:-1],
        vlen(b"a", b"b") + b"\0",
        struct.pack("<III", 2, 2**32 - 1, 0),
        struct.pack("<IIIB", 2, 0, 2, 0),
        struct.pack("<I", 2**32 - 1),
        vlen(b"\xff", b"b"),
        vlen(b"\xed\xa0\x80", b"b"),
    ],
)
def test_damaged_elements_of_variable_length_are_errors(stored):
    array = open_chunk_v2(stored, "|O", count=2, fill="", filters=[{"id": "vlen-utf8"}])
    with expect_read_error(key="0"):
        array[...]


@pytest.mark.covers("V2-FILL-10")
@pytest.mark.parametrize(("value", "expected"), [("x", "x"), ("", ""), (0, ""), (None, "")])
def test_fill_values_of_text_of_variable_length(value, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tessarr.errors.TessarrWarning)
        array = open_chunk_v2(None, "|O", count=2, fill=value, filters=[{"id": "vlen-utf8"}])
    assert array[...].tolist() == [expected, expected]


@pytest.mark.covers("V2-FILL-10")
def test_fill_values_of_bytes_of_variable_length():
    array = open_chunk_v2(None, "|O", count=1, fill="YQD/", filters=[{"id": "vlen-bytes"}])
    assert array[0] == b"a\0\xff"
    assert list(problems_v2(dtype="|O", fill_value=5, filters=[{"id": "vlen-utf8"}])) == [
        "/fill_value"
    ]


JSON_ITEMS = ["a", 1, None, {"k": [1.5, True]}, [], "é"]


@pytest.mark.covers("V2-FILT-11")
def test_json2_holds_items_type_and_shape():
    stored = json.dumps([*JSON_ITEMS, "|O", [6]]).encode()
    array = open_chunk_v2(stored, "|O", filters=[{"id": "json2"}])
    assert array[...].tolist() == JSON_ITEMS
    held = np.empty(6, object)
    held[:] = JSON_ITEMS[::-1]
    assert json.loads(write_chunk(array, held)) == [*JSON_ITEMS[::-1], "|O", [6]]
    assert array[...].tolist() == JSON_ITEMS[::-1]


@pytest.mark.covers("V2-FILT-11")
def test_msgpack2_holds_items_type_and_shape():
    msgpack = pytest.importorskip("msgpack", reason="msgpack is an optional package")
    stored = msgpack.packb([*JSON_ITEMS, "|O", [6]])
    array = open_chunk_v2(stored, "|O", filters=[{"id": "msgpack2"}])
    assert array[...].tolist() == JSON_ITEMS
    held = np.empty(6, object)
    held[:] = JSON_ITEMS[::-1]
    assert msgpack.unpackb(write_chunk(array, held)) == [*JSON_ITEMS[::-1], "|O", [6]]


@pytest.mark.covers("V2-FILT-11")
@pytest.mark.parametrize(
    "stored", [b"", b"{}", b"[", b'["a"]', b'["a", "|O", [1]]', b'["a", "b", "|O", "2"]', b"\xff"]
)
def test_damaged_documents_of_elements_are_errors(stored):
    array = open_chunk_v2(stored, "|O", count=2, filters=[{"id": "json2"}])
    with expect_read_error(key="0"):
        array[...]


@pytest.mark.covers("V2-DTYPE-10")
@pytest.mark.parametrize("codec", [{"id": "pickle"}, {"id": "pickle", "protocol": 5}])
def test_pickle_is_refused_by_name(codec):
    with pytest.raises((MetadataError, UnsupportedError), match="pickle"):
        open_chunk_v2(b"", "|O", filters=[codec])


@pytest.mark.covers("V2-FILT-05")
@pytest.mark.parametrize("dtype", ["<U3", "|O"])
def test_categorize_counts_labels_from_1(dtype):
    codec = {"id": "categorize", "labels": ["no", "yes"], "dtype": dtype, "astype": "|u1"}
    array = open_chunk_v2(b"\2\1\0\2", dtype, count=4, fill="", filters=[codec])
    assert array[...].tolist() == ["yes", "no", "", "yes"]
    assert write_chunk(array, np.array(["no", "yes", "?", ""], object)) == b"\1\2\0\0"


# Format 3


@pytest.mark.covers("X-STR-01")
@pytest.mark.parametrize("fill", ["", "né", "0", "NaN"])
def test_text_of_format_3(fill):
    items = ["", "a", "é日🦉", "x\0y"]
    array = open_chunk_v3([named("vlen-utf8")], "string", fill, count=4)
    assert array[...].tolist() == [fill] * 4
    assert write_chunk(array, np.array(items, object)) == vlen(*(item.encode() for item in items))
    assert array[...].tolist() == items
    array[1] = fill
    assert array[1] == fill
    document = rewrite_document(array)
    assert (document["data_type"], document["fill_value"]) == ("string", fill)
    assert document["codecs"] == [named("vlen-utf8")]


@pytest.mark.covers("X-STR-01")
@pytest.mark.parametrize("fill", [1, ["a"], True])
def test_fill_values_of_text_of_format_3(fill):
    problems = problems_v3(data_type="string", fill_value=fill, codecs=[named("vlen-utf8")])
    assert list(problems) == ["/fill_value"]


@pytest.mark.covers("X-STR-01", "X-BIN-01")
@pytest.mark.parametrize("data_type", ["string", "bytes"])
@pytest.mark.parametrize("codec", [LITTLE, BARE, sharding(3, 2)])
def test_elements_of_variable_length_need_their_codec(data_type, codec):
    with pytest.raises(MetadataError) as caught:
        open_v3(data_type=data_type, fill_value="", codecs=[codec])
    assert all(problem.loc.startswith("/codecs/0") for problem in caught.value.problems)


@pytest.mark.covers("X-STR-01", "X-BIN-01")
@pytest.mark.parametrize("codec", ["vlen-utf8", "vlen-bytes"])
def test_variable_length_codec_refuses_numbers(codec):
    assert all(loc.startswith("/codecs/0") for loc in problems_v3(codecs=[named(codec)]))


@pytest.mark.covers("X-BIN-01")
@pytest.mark.parametrize("name", ["bytes", "variable_length_bytes"])
@pytest.mark.parametrize(("fill", "expected"), [("", b""), ("YQD/", b"a\0\xff"), ([97, 0], b"a\0")])
def test_bytes_of_format_3(name, fill, expected):
    items = [b"", b"a", b"\xff\0", bytes(1000)]
    array = open_chunk_v3([named("vlen-bytes")], name, fill, count=4)
    assert array[...].tolist() == [expected] * 4
    assert write_chunk(array, np.array(items, object)) == vlen(*items)
    assert array[...].tolist() == items
    assert rewrite_document(array)["data_type"] == name


@pytest.mark.covers("X-BIN-01")
@pytest.mark.parametrize("fill", [1, [256], "*", True])
def test_fill_values_of_bytes_of_format_3(fill):
    problems = problems_v3(data_type="bytes", fill_value=fill, codecs=[named("vlen-bytes")])
    assert all(loc.startswith("/fill_value") for loc in problems)


@pytest.mark.covers("X-STR-01")
@pytest.mark.parametrize(
    "stored", [b"", vlen(b"a"), vlen(b"a", b"b")[:-1], vlen(b"a", b"b") + b"\0", vlen(b"\xff", b"")]
)
@pytest.mark.parametrize("more", [[], [gzip()]], ids=["plain", "gzip"])
def test_damaged_text_is_error(stored, more):
    import gzip as gz

    data = gz.compress(stored) if more else stored
    array = open_chunk_v3([named("vlen-utf8"), *more], "string", "", count=2, stored=data)
    with expect_read_error(key="c/0"):
        array[...]


@pytest.mark.covers("X-STR-01", "V3-SHARD-13", "V3-TRANS-02")
@pytest.mark.parametrize(
    "chain",
    [
        [sharding(3, 2, codecs=[named("vlen-utf8"), zstd(level=1)])],
        [{"name": "transpose", "configuration": {"order": [1, 0]}}, named("vlen-utf8"), gzip()],
        [named("vlen-utf8"), zstd(level=3), CRC],
    ],
    ids=["shards", "transpose", "zstd"],
)
def test_text_goes_through_codecs_and_shards(chain):
    array = open_v3(
        shape=[7, 5], chunk_grid=regular(6, 4), data_type="string", fill_value="-", codecs=chain
    )
    expected = np.full((7, 5), "-", object)
    array[1:6, 2:] = expected[1:6, 2:] = np.array(
        [["é" * (i * j) for j in range(3)] for i in range(5)], object
    )
    array[::2, 1] = expected[::2, 1] = "x"
    assert tessarr.open_array(array.store, mode="r")[...].tolist() == expected.tolist()
