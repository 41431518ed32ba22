"""Format 2: data types and their fill values, byte by byte."""

from __future__ import annotations

import base64
import json
import warnings

import numpy as np
import pytest

import tessarr
from conformance.sample_stores import (
    expect_defect,
    has_same_bits,
    open_v2,
    problems_v2,
    rewrite_document,
    store_v2,
)
from tessarr.errors import MetadataError, UnsupportedError

FIXED = {
    *("|b1", "|i1", "|u1", "|S1", "|S7", "|V1", "|V12", "<U1", ">U5", "<M8[s]", ">m8[25us]"),
    *(order + kind for order in "<>" for kind in ("i2", "i4", "i8", "u2", "u4", "u8")),
    *(order + kind for order in "<>" for kind in ("f2", "f4", "f8", "c8", "c16")),
}


def open_one_chunk(dtype, chunk, fill=None):
    """Open an array of one chunk, which holds these bytes."""
    count = len(chunk) // np.dtype(dtype if isinstance(dtype, str) else fields(dtype)).itemsize
    return open_v2({"0": chunk}, shape=[count], chunks=[count], dtype=dtype, fill_value=fill)


def fields(dtype):
    """Return the NumPy dtype of the fields in a document."""
    return np.dtype(
        [
            (name, fields(kind) if isinstance(kind, list) else kind, *map(tuple, shape))
            for name, kind, *shape in dtype
        ]
    )


@pytest.mark.covers("V2-DTYPE-01", "V2-DTYPE-02")
@pytest.mark.parametrize("dtype", sorted(FIXED))
def test_typestring_is_order_kind_and_size(dtype):
    size = np.dtype(dtype).itemsize
    chunk = (b"\1\0" * 200)[: 6 * size] if dtype != "|b1" else b"\0\1\1\0\0\1"
    if "U" in dtype:
        chunk = np.array(list("abcdef"), dtype).tobytes()
    array = open_one_chunk(dtype, chunk)
    has_same_bits(array[...], np.frombuffer(chunk, dtype))
    assert rewrite_document(array)["dtype"] == dtype


@pytest.mark.covers("V2-DTYPE-01")
@pytest.mark.parametrize(
    "dtype",
    [
        *("", "i4", "<", "<i", "<u9", "<X5", "|Sa", "|S", "<S", "|S0", "<U0", "|V0", "<i04"),
        *("<i-4", "int32", "float", "=", "<i4 ", " <i4", "<i4,<i4", "(2,)<i4", "<f8[s]"),
        *(None, 5, {}, True),
    ],
)
def test_other_strings_are_no_types(dtype):
    assert list(problems_v2(dtype=dtype)) == ["/dtype"]


@pytest.mark.covers("V2-DTYPE-02")
@pytest.mark.parametrize(
    "dtype", ["<f5", "|b2", "<i9", "<i16", "<u3", "<f1", "<f16", "<c4", "<c32", "<f3", "<M4[s]"]
)
def test_other_sizes_are_refused(dtype):
    assert list(problems_v2(dtype=dtype)) == ["/dtype"]


@pytest.mark.covers("V2-DTYPE-03")
@pytest.mark.parametrize("dtype", ["|i2", "|f4", "|c8", "|u8", "|M8[s]", "|U4", "=i4", "=f8"])
def test_types_of_several_bytes_have_byte_order(dtype):
    assert list(problems_v2(dtype=dtype)) == ["/dtype"]


@pytest.mark.covers("V2-DTYPE-03")
@pytest.mark.parametrize("dtype", ["<i1", ">u1", "<b1", ">S3", "<V2"])
def test_byte_order_of_types_without_one_does_no_harm(dtype):
    array = open_v2(dtype=dtype, fill_value=None)
    assert array.dtype == np.dtype("|" + dtype[1:])


UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "25s", "10ns"]


@pytest.mark.covers("V2-DTYPE-04")
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", ["<M8", ">m8"])
def test_times_are_counts_of_unit(kind, unit):
    dtype = f"{kind}[{unit}]"
    counts = np.array([0, 1, -1, 2**62, -(2**63), 2**63 - 1], kind[0] + "i8")
    array = open_one_chunk(dtype, counts.tobytes(), fill=5)
    has_same_bits(array[...], counts.view(dtype))
    assert np.isnat(array[4])
    assert rewrite_document(array)["dtype"] == dtype


@pytest.mark.covers("V2-DTYPE-04")
@pytest.mark.parametrize(
    "dtype", ["<M8", ">m8", "<M8[]", "<M8[q]", "<M8[s", "<m8[1.5s]", "<M8[0s]", "<M8[-1s]"]
)
def test_times_have_unit(dtype):
    assert list(problems_v2(dtype=dtype)) == ["/dtype"]


@pytest.mark.covers("V2-DTYPE-05")
def test_nuls_at_end_of_text_are_padding():
    array = open_one_chunk("|S4", b"ab\0\0abcd\0\0\0\0a\0b\0")
    assert array[...].tolist() == [b"ab", b"abcd", b"", b"a\0b"]
    for order, codec in (("<", "utf-32-le"), (">", "utf-32-be")):
        text = "".join(item.ljust(3, "\0") for item in ("ä", "日本語", "", "🦉x"))
        array = open_one_chunk(f"{order}U3", text.encode(codec))
        assert array[...].tolist() == ["ä", "日本語", "", "🦉x"]
        array[2] = "né"
        assert array.store.get("0")[24:36] == "né\0".encode(codec)


@pytest.mark.covers("V2-DTYPE-06")
def test_raw_bytes_are_unchanged():
    array = open_one_chunk("|V3", b"ab\0\0\0\0a\0b")
    assert [item.tobytes() for item in array[...]] == [b"ab\0", b"\0\0\0", b"a\0b"]
    array[0] = np.void(b"x\0\0")
    assert array.store.get("0")[:3] == b"x\0\0"


NESTED = [
    ["a", "<i2"],
    ["b", [["x", ">f4"], ["y", "|u1", [2, 3]]]],
    ["c", "|S2"],
    ["d", "<M8[s]", [2]],
    ["é", "|b1"],
]


@pytest.mark.covers("V2-DTYPE-07", "V2-DTYPE-09")
def test_structures_are_packed_may_nest_and_hold_arrays():
    dtype = fields(NESTED)
    assert dtype.itemsize == 2 + 4 + 6 + 2 + 16 + 1
    values = np.zeros(3, dtype)
    values["a"] = [1, -2, 3]
    values["b"]["x"] = [0.5, -0.5, 2]
    values["b"]["y"] = np.arange(18).reshape(3, 2, 3)
    values["c"] = [b"a", b"bc", b""]
    values["d"] = np.arange(6).reshape(3, 2).astype("M8[s]")
    values["é"] = [True, False, True]
    array = open_one_chunk(NESTED, values.tobytes())
    assert array.dtype == dtype
    has_same_bits(array[...], values)
    assert array[1]["b"]["y"].tolist() == [[6, 7, 8], [9, 10, 11]]
    array[0] = values[2]
    assert array.store.get("0") == values[[2, 1, 2]].tobytes()
    assert rewrite_document(array)["dtype"] == NESTED


@pytest.mark.covers("V2-DTYPE-09", "V2-CHUNK-09")
def test_each_field_has_its_own_byte_order():
    chunk = bytes.fromhex("010201020000010202010000")
    array = open_one_chunk([["a", "<u2"], ["b", ">u2"], ["c", ">u4"], ["d", "<u4"]], chunk)
    assert array[0].item() == (0x0201, 0x0102, 0x0102, 0x0102)
    array[0] = (1, 2, 3, 4)
    assert array.store.get("0") == bytes.fromhex("010000020000000304000000")


@pytest.mark.covers("V2-DTYPE-08")
@pytest.mark.parametrize(
    ("dtype", "loc"),
    [
        ([], "/dtype"),
        ([["a"]], "/dtype/0"),
        ([["a", "<i4", [1], 1]], "/dtype/0"),
        (["a", "<i4"], "/dtype/0"),
        ([["a", "<i4"], ["a", "<i4"]], "/dtype/1"),
        ([["", "<i4"]], "/dtype/0/0"),
        ([[1, "<i4"]], "/dtype/0/0"),
        ([[None, "<i4"]], "/dtype/0/0"),
        ([["a", 4]], "/dtype/0/1"),
        ([["a", None]], "/dtype/0/1"),
        ([["a", "i4"]], "/dtype/0/1"),
        ([["a", []]], "/dtype/0/1"),
        ([["a", [["b", "|i2"]]]], "/dtype/0/1/0/1"),
        ([["a", "<i4", [-1]]], "/dtype/0/2/0"),
        ([["a", "<i4", ["2"]]], "/dtype/0/2/0"),
        ([["a", "<i4", "2"]], "/dtype/0/2"),
        ([["a", "<f8", [2**40, 2**40]]], "/dtype"),
        ([["a", "<f8", [2**64]]], "/dtype/0/2/0"),
    ],
)
def test_malformed_field_problems_have_json_path(dtype, loc):
    with pytest.raises(MetadataError) as caught:
        open_v2(dtype=dtype, fill_value=None)
    assert loc in {problem.loc for problem in caught.value.problems}


@pytest.mark.covers("V2-DTYPE-08")
def test_fields_have_fixed_size():
    with pytest.raises((MetadataError, UnsupportedError), match="/dtype"):
        open_v2(dtype=[["a", "|O"]], fill_value=None, filters=[{"id": "vlen-utf8"}])


@pytest.mark.covers("V2-DTYPE-11")
@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "int2"])
def test_type_names_of_tensorstore_are_read(dtype):
    array = open_v2(dtype=dtype, fill_value=1)
    assert array.metadata.data_type.name == dtype
    assert array[...].astype("f4").max() == 1


@pytest.mark.covers("V2-DTYPE-11")
@pytest.mark.parametrize("dtype", ["uint4", "float8_e4m3", "complex_bfloat16"])
def test_other_names_of_format_3_are_no_types(dtype):
    with pytest.raises((MetadataError, UnsupportedError), match=dtype):
        open_v2(dtype=dtype, fill_value=0)


# Fill values


@pytest.mark.covers("V2-FILL-01")
@pytest.mark.parametrize("dtype", ["|S3", "<U2", "|V4", "<M8[s]", ">m8[ns]", [["a", "<i4"]]])
def test_null_leaves_elements_open(dtype):
    array = open_v2(dtype=dtype, fill_value=None)
    assert array.fill_value is None
    assert array[...].shape == (5, 4)
    assert rewrite_document(array)["fill_value"] is None


def b64(data):
    return base64.standard_b64encode(data).decode()


@pytest.mark.covers("V2-FILL-06")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *((b64(data), data) for data in (b"abc", b"a\0b", b"\xfb\xff\xfe", b"ab", b"")),
        (b64(b"a\0\0"), b"a"),
    ],
)
def test_fill_values_of_byte_strings_are_base64(text, expected):
    array = open_v2(dtype="|S3", fill_value=text)
    assert array[0, 0] == expected
    assert tessarr.open_array(array.store, mode="r")[0, 0] == expected
    decoded = base64.b64decode(rewrite_document(array)["fill_value"])
    assert decoded.ljust(3, b"\0") == expected.ljust(3, b"\0")


@pytest.mark.covers("V2-FILL-06", "V2-FILL-07", "V2-FILL-08")
@pytest.mark.parametrize(
    ("dtype", "empty"), [("|S3", b""), ("<U3", ""), ([["a", "<i2"], ["b", "|S1"]], (0, b""))]
)
def test_zero_of_old_writers_is_empty_element(dtype, empty):
    with expect_defect("written as 0"):
        array = open_v2(dtype=dtype, fill_value=0)
    assert array[0, 0].item() == empty


@pytest.mark.covers("V2-FILL-06", "V2-FILL-07")
@pytest.mark.parametrize("dtype", ["|S3", "|V3", [["a", "|u1", [3]]]])
@pytest.mark.parametrize(
    "value", ["x", "====", "YWJj*", "YWJjZA==", "_-__", 10, True, [97, 98, 99], {"a": 1}]
)
def test_other_values_are_not_base64(dtype, value):
    assert list(problems_v2(dtype=dtype, fill_value=value)) == ["/fill_value"]


@pytest.mark.covers("V2-FILL-07")
@pytest.mark.parametrize("data", [b"", b"a", b"abcde", b"abcdefghijk"])
@pytest.mark.parametrize("dtype", ["|V10", [["a", "<i8"], ["b", ">u2"]]])
def test_structures_and_raw_bytes_state_exactly_one_element(dtype, data):
    assert list(problems_v2(dtype=dtype, fill_value=b64(data))) == ["/fill_value"]


@pytest.mark.covers("V2-FILL-07")
def test_fields_of_fill_value_have_their_byte_order():
    data = bytes.fromhex("010000023f800000")
    dtype = [["a", "<u2"], ["b", ">u2"], ["c", ">f4"]]
    array = open_v2(dtype=dtype, fill_value=b64(data))
    assert array[0, 0].item() == (1, 2, 1.0)
    assert rewrite_document(array)["fill_value"] == b64(data)
    array = open_v2(dtype="|V3", fill_value=b64(b"a\0\0"))
    assert array[0, 0].tobytes() == b"a\0\0"


@pytest.mark.covers("V2-FILL-08")
@pytest.mark.parametrize("text", ["", "ab", "ä日🦉", "0", "NaN"])
@pytest.mark.parametrize("order", "<>")
def test_fill_values_of_text_are_strings(order, text):
    array = open_v2(dtype=f"{order}U3", fill_value=text)
    assert array[0, 0] == text
    assert rewrite_document(array)["fill_value"] == text


@pytest.mark.covers("V2-FILL-08")
@pytest.mark.parametrize("value", ["abcd", ["a"], 1, True, {}, 0.5])
def test_invalid_text_fill_value_is_refused(value):
    assert list(problems_v2(dtype="<U3", fill_value=value)) == ["/fill_value"]


@pytest.mark.covers("V2-FILL-09")
@pytest.mark.parametrize("dtype", ["<M8[s]", ">m8[10ms]"])
@pytest.mark.parametrize("value", [0, 5, -1, 2**63 - 1, "NaT", -(2**63)])
def test_fill_values_of_times(dtype, value):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        array = open_v2(dtype=dtype, fill_value=value)
    count = -(2**63) if value == "NaT" else value
    assert array[...].view(f"{dtype[0]}i8")[0, 0] == count
    assert rewrite_document(array)["fill_value"] in {value, count}


@pytest.mark.covers("V2-FILL-09")
@pytest.mark.parametrize("value", ["2020-01-01", 1.5, "nat", True, 2**63, [0]])
def test_invalid_time_fill_value_is_refused(value):
    assert list(problems_v2(dtype="<M8[s]", fill_value=value)) == ["/fill_value"]


@pytest.mark.covers("ALL-01")
@pytest.mark.parametrize("dtype", ["<M8[ns]", "|S5", "<U3", "|V7", [["a", "<f4"], ["b", "|S2"]]])
def test_bits_survive_partial_writes(dtype):
    of = np.dtype(dtype if isinstance(dtype, str) else fields(dtype))
    if of.kind == "U":
        values = np.array(["a", "", "\0b", "xyz", "日", "é"] * 3, of)
    else:
        values = np.frombuffer(np.random.default_rng(1).bytes(18 * of.itemsize), of)
    array = tessarr.create_array(None, shape=(18,), chunks=(4,), dtype=of, zarr_format=2)
    array[...] = values
    array[3:9] = values[3:9]
    array[17] = values[17]
    assert array[...].tobytes() == values.tobytes()


@pytest.mark.covers("V2-DTYPE-10")
def test_objects_need_object_codec():
    with pytest.raises((MetadataError, UnsupportedError), match=r"dtype|filters"):
        open_v2(dtype="|O", fill_value=None)
    with pytest.raises((MetadataError, UnsupportedError), match=r"dtype|filters"):
        open_v2(dtype="|O", fill_value=None, filters=[{"id": "zlib", "level": 1}])


@pytest.mark.covers("V2-DTYPE-10")
def test_pickles_load_only_with_allow_pickle():
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("a pickle was loaded",))

    import pickle

    chunk = pickle.dumps(np.array([Trap()] * 6, object))
    store = store_v2({"0.0": chunk}, dtype="|O", fill_value=None, filters=[{"id": "pickle"}])
    with pytest.raises((MetadataError, UnsupportedError)) as caught:
        tessarr.open_array(store, mode="r")[...]
    assert "pickle" in str(caught.value)


def test_document_of_structure_is_json():
    array = tessarr.create_array(None, shape=(2,), dtype=[("a", "<i4")], zarr_format=2)
    assert json.loads(array.store.get(".zarray"))["dtype"] == [["a", "<i4"]]
