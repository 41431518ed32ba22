"""Format 2: the document of an array, and its chunks. One test per requirement, at least."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tessarr
from conformance.sample_stores import (
    chunk_keys,
    expect_defect,
    expect_read_error,
    expect_refusal,
    has_same_bits,
    open_v2,
    problems_v2,
    rewrite_document,
    store_v2,
)
from tessarr.errors import MetadataError

REQUIRED = ["shape", "chunks", "dtype", "order"]
OPTIONAL = ["compressor", "fill_value", "filters"]


# The document


@pytest.mark.covers("V2-META-01")
@pytest.mark.parametrize("name", [*REQUIRED, "zarr_format"])
def test_every_member_is_required(name):
    assert problems_v2(name) == {"": "missing_member"}


@pytest.mark.covers("V2-META-01")
@pytest.mark.parametrize("text", [b"[]", b"null", b"3", b'"array"'])
def test_document_is_object(text):
    (problem,) = expect_refusal({".zarray": text}).problems
    assert (problem.loc, problem.kind) == ("", "wrong_type")


@pytest.mark.covers("V2-META-02")
@pytest.mark.parametrize("value", [1, 3, "2", 2.0, None, True, [2]])
def test_format_is_integer_2(value):
    assert set(problems_v2(zarr_format=value)) == {"/zarr_format"}


@pytest.mark.covers("V2-META-03")
@pytest.mark.parametrize(
    ("value", "loc", "kind"),
    [
        ([-5, 4], "/shape/0", "invalid_value"),
        ([5, 4.0], "/shape/1", "wrong_type"),
        ([5, True], "/shape/1", "wrong_type"),
        (["5", 4], "/shape/0", "wrong_type"),
        ([5, None], "/shape/1", "wrong_type"),
        (5, "/shape", "wrong_type"),
        ("54", "/shape", "wrong_type"),
        (None, "/shape", "wrong_type"),
    ],
)
def test_shape_lists_integers(value, loc, kind):
    assert problems_v2(shape=value)[loc] == kind


@pytest.mark.covers("V2-META-04")
@pytest.mark.parametrize("value", [[2], [2, 3, 4], []])
def test_chunks_have_one_length_per_axis(value):
    assert problems_v2(chunks=value) == {"/chunks": "mismatch"}


@pytest.mark.covers("V2-META-04")
@pytest.mark.parametrize(
    ("value", "loc"),
    [([-2, 3], "/chunks/0"), ([2, 3.5], "/chunks/1"), (None, "/chunks"), (2, "/chunks")],
)
def test_chunk_lengths_are_integers(value, loc):
    assert loc in problems_v2(chunks=value)


@pytest.mark.covers("V2-META-05")
def test_chunk_length_0_along_nonempty_axis_is_refused():
    assert problems_v2(chunks=[2, 0]) == {"/chunks/1": "invalid_value"}


@pytest.mark.covers("V2-META-05")
def test_chunk_length_of_0_passes_along_empty_axis():
    with expect_defect("chunk length of 0"):
        array = open_v2(shape=[5, 0], chunks=[2, 0])
    assert array[...].shape == (5, 0)


@pytest.mark.covers("V2-META-06")
@pytest.mark.parametrize(
    ("value", "loc", "kind"),
    [
        ("zlib", "/compressor", "wrong_type"),
        ([], "/compressor", "wrong_type"),
        (False, "/compressor", "wrong_type"),
        ({"level": 1}, "/compressor", "missing_member"),
        ({"id": 5}, "/compressor/id", "wrong_type"),
        ({"id": None}, "/compressor/id", "wrong_type"),
    ],
)
def test_compressor_is_null_or_object_with_id(value, loc, kind):
    assert problems_v2(compressor=value) == {loc: kind}


@pytest.mark.covers("V2-META-07")
@pytest.mark.parametrize(
    ("value", "loc", "kind"),
    [
        ({"id": "zlib"}, "/filters", "wrong_type"),
        ("zlib", "/filters", "wrong_type"),
        ([5], "/filters/0", "wrong_type"),
        ([{"id": "zlib"}, {}], "/filters/1", "missing_member"),
        ([{"id": 1}], "/filters/0/id", "wrong_type"),
    ],
)
def test_filters_are_null_or_list_of_objects_with_ids(value, loc, kind):
    assert problems_v2(filters=value) == {loc: kind}


@pytest.mark.covers("V2-META-07")
def test_empty_list_of_filters_means_none():
    with expect_defect("an empty list instead of null"):
        assert open_v2(filters=[]).filters == ()


@pytest.mark.covers("V2-META-08")
@pytest.mark.parametrize("value", ["A", "c", "", "CF", None, 0, ["C"]])
def test_order_is_c_or_f(value):
    assert list(problems_v2(order=value)) == ["/order"]


@pytest.mark.covers("V2-META-09")
@pytest.mark.parametrize("value", ["", "-", "//", None, 0])
def test_separator_is_dot_or_slash(value):
    assert list(problems_v2(dimension_separator=value)) == ["/dimension_separator"]


@pytest.mark.covers("V2-META-09", "V2-CHUNK-01")
@pytest.mark.parametrize(("separator", "key"), [(None, "1.0"), (".", "1.0"), ("/", "1/0")])
def test_absent_separator_is_dot(separator, key):
    array = open_v2(**({} if separator is None else {"dimension_separator": separator}))
    array[2, 0] = 7
    assert chunk_keys(array) == {key}


@pytest.mark.covers("V2-META-09")
@pytest.mark.parametrize("separator", [None, ".", "/"])
def test_separator_survives_rewrite(separator):
    array = open_v2(**({} if separator is None else {"dimension_separator": separator}))
    assert rewrite_document(array).get("dimension_separator") == separator


@pytest.mark.covers("V2-META-10")
def test_unknown_members_survive():
    array = open_v2(_ours={"x": [1]}, note=None)
    assert array.shape == (5, 4)
    document = rewrite_document(array)
    assert (document["_ours"], document["note"]) == ({"x": [1]}, None)


@pytest.mark.covers("V2-META-10", "V2-META-12")
@pytest.mark.parametrize("separator", [None, ".", "/"])
def test_written_document_has_members_of_specification(separator):
    array = tessarr.create_array(
        None, shape=(5,), dtype="i4", zarr_format=2, dimension_separator=separator
    )
    text = array.store.get(".zarray")
    document = json.loads(text)
    expected = {*REQUIRED, *OPTIONAL, "zarr_format"} | (
        {"dimension_separator"} if separator else set()
    )
    assert set(document) == expected
    assert text == json.dumps(document, indent=4, sort_keys=True).encode()


@pytest.mark.covers("V2-META-11")
@pytest.mark.parametrize(
    "text", [b"", b"{", b'{"zarr_format": 2,}', b"{'zarr_format': 2}", b"\xff\xfe{}", b"// x\n{}"]
)
def test_document_without_json_raises(text):
    (problem,) = expect_refusal({".zarray": text, ".zgroup": b'{"zarr_format": 2}'}).problems
    assert problem.kind == "invalid_json"


@pytest.mark.covers("V2-META-12")
def test_any_order_of_members_and_any_white_space_are_read():
    document = json.loads(store_v2().get(".zarray"))
    text = json.dumps(dict(reversed(document.items())), indent=1).replace("\n", "\r\n\t")
    array = tessarr.open_array(tessarr.stores.MemoryStore({".zarray": text.encode()}), mode="r")
    assert array.shape == (5, 4)


# Fill values of core types


@pytest.mark.covers("V2-FILL-01")
@pytest.mark.parametrize("dtype", ["|b1", "<i4", ">f8", "<c16", "|u1"])
def test_null_leaves_elements_open(dtype):
    array = open_v2(dtype=dtype, fill_value=None)
    assert array.fill_value is None
    assert array[...].shape == (5, 4)
    assert rewrite_document(array)["fill_value"] is None


@pytest.mark.covers("V2-FILL-02")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("NaN", np.nan),
        ("Infinity", np.inf),
        ("-Infinity", -np.inf),
        (1, 1.0),
        (-0.0, -0.0),
        (1e-310, 1e-310),
        (0.1, 0.1),
    ],
)
def test_float_fill_values_are_read(value, expected):
    has_same_bits(open_v2(dtype=">f8", fill_value=value)[0, 0], np.float64(expected))


@pytest.mark.covers("V2-FILL-02")
@pytest.mark.parametrize("value", ["nan", "inf", "+Infinity", "", "1.", "0x7fc00000", True, [0]])
def test_other_strings_are_no_floats(value):
    assert list(problems_v2(dtype="<f4", fill_value=value)) == ["/fill_value"]


@pytest.mark.covers("V2-FILL-03")
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("|i1", 128),
        ("|i1", -129),
        ("|u1", -1),
        ("<u2", 65536),
        ("<i8", 2**63),
        (">u8", 2**64),
        ("<i4", "0.5"),
        ("<i4", ""),
        ("<i4", 1.5),
        ("<i4", True),
        ("<i4", [0]),
    ],
)
def test_integer_fill_value_out_of_range_is_refused(dtype, value):
    assert list(problems_v2(dtype=dtype, fill_value=value)) == ["/fill_value"]


@pytest.mark.covers("V2-FILL-03")
def test_whole_float_is_taken_for_integer():
    with expect_defect("written as 5.0"):
        assert open_v2(fill_value=5.0)[0, 0] == 5


@pytest.mark.covers("V2-FILL-04")
@pytest.mark.parametrize("value", [True, False])
def test_booleans(value):
    assert open_v2(dtype="|b1", fill_value=value)[0, 0] == value


@pytest.mark.covers("V2-FILL-04")
@pytest.mark.parametrize("value", [0, 1])
def test_booleans_of_old_writers(value):
    with expect_defect(f"written as {value}"):
        assert open_v2(dtype="|b1", fill_value=value)[0, 0] == bool(value)


@pytest.mark.covers("V2-FILL-04")
@pytest.mark.parametrize("value", [2, -1, "maybe", "", [], 0.5])
def test_invalid_boolean_fill_value_is_refused(value):
    assert list(problems_v2(dtype="|b1", fill_value=value)) == ["/fill_value"]


@pytest.mark.covers("V2-FILL-05")
@pytest.mark.parametrize(
    ("value", "real", "imag"),
    [
        ([1, 2.5], 1.0, 2.5),
        ([1.0, "-Infinity"], 1.0, -np.inf),
        (["Infinity", "NaN"], np.inf, np.nan),
        ([-0.0, 0.0], -0.0, 0.0),
    ],
)
def test_complex_fill_values_keep_their_parts(value, real, imag):
    value_read = open_v2(dtype=">c16", fill_value=value)[0, 0]
    has_same_bits(value_read.real, np.float64(real))
    has_same_bits(value_read.imag, np.float64(imag))


@pytest.mark.covers("V2-FILL-05")
@pytest.mark.parametrize("value", [True, "Infinity", [1], [1, 2, 3], ["x", 0], "1+2j"])
def test_invalid_complex_fill_value_is_refused(value):
    assert all(loc.startswith("/fill_value") for loc in problems_v2(dtype="<c8", fill_value=value))


@pytest.mark.covers("V2-FILL-11")
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("<i8", -(2**63)),
        (">i8", 2**63 - 1),
        ("<u8", 2**64 - 1),
        (">f8", -0.0),
        ("<f8", 5e-324),
        ("<f4", 1.401298464324817e-45),
        ("<f8", 0.1),
        ("<f8", 1.7976931348623157e308),
        (">c16", ["NaN", -0.0]),
    ],
)
def test_fill_value_survives_rewrite(dtype, value):
    array = open_v2(dtype=dtype, fill_value=value)
    before = array.fill_value
    document = rewrite_document(array)
    assert document["fill_value"] == value
    assert json.dumps(document["fill_value"]) == json.dumps(value)
    has_same_bits(tessarr.open_array(array.store, mode="r").fill_value, before)


# Chunks


@pytest.mark.covers("V2-CHUNK-01")
def test_keys_are_decimal_and_below_array():
    group = tessarr.create_group(None, zarr_format=2)
    array = group.create_array("a/b", shape=(30, 30), chunks=(1, 7), dtype="u1")
    array[12, 7] = array[0, 0] = array[29, 29] = 1
    assert chunk_keys(array) == {"a/b/12.1", "a/b/0.0", "a/b/29.4"}


@pytest.mark.covers("V2-CHUNK-02")
@pytest.mark.parametrize("separator", [".", "/"])
def test_array_without_axes_has_one_chunk(separator):
    array = open_v2(
        {"0": b"\x07\0\0\0"}, shape=[], chunks=[], dimension_separator=separator, order="F"
    )
    assert array[()] == 7
    array[()] = 9
    assert array.store.get("0") == b"\x09\0\0\0"
    assert chunk_keys(array) == {"0"}


@pytest.mark.covers("V2-CHUNK-03")
@pytest.mark.parametrize(
    ("shape", "chunks", "grid"),
    [([5, 4], [2, 3], (3, 2)), ([6, 3], [2, 3], (3, 1)), ([1, 1], [9, 9], (1, 1))],
)
def test_chunks_are_counted_upwards(shape, chunks, grid):
    array = open_v2(shape=shape, chunks=chunks)
    assert array.cdata_shape == grid
    array[...] = 1
    assert len(chunk_keys(array)) == array.nchunks == grid[0] * grid[1]


@pytest.mark.covers("V2-CHUNK-03")
def test_empty_axis_has_no_chunks():
    array = open_v2({"0.0": bytes(24)}, shape=[5, 0])
    assert array.nchunks == 0
    assert array[...].shape == (5, 0)
    array[...] = 1
    assert chunk_keys(array) == {"0.0"}


@pytest.mark.covers("V2-CHUNK-04")
@pytest.mark.parametrize("size", [0, 1, 23, 25, 48])
@pytest.mark.parametrize("key", ["0.0", "2.1"])
def test_chunk_has_its_full_size(key, size):
    array = open_v2({key: bytes(size)})
    with expect_read_error("wrong_size", key):
        array[...]


@pytest.mark.covers("V2-CHUNK-04", "V2-CHUNK-05")
def test_chunks_at_edge_are_whole_and_hold_fill_beyond_it():
    array = open_v2(fill_value=-1)
    array[...] = 8
    stored = np.frombuffer(array.store.get("2.1"), "<i4").reshape(2, 3)
    assert stored.tolist() == [[8, -1, -1], [-1, -1, -1]]


@pytest.mark.covers("V2-CHUNK-05")
def test_elements_beyond_edge_are_never_read():
    chunk = np.arange(6, dtype="<i4").tobytes()
    array = open_v2({"2.1": chunk}, fill_value=-1)
    assert array[4].tolist() == [-1, -1, -1, 0]
    assert array[4, ::-1].tolist() == [0, -1, -1, -1]
    array.resize(6, 6)
    array.resize(5, 4)
    array.resize(6, 6)
    assert array[4:, 3:].tolist() == [[0, -1, -1], [-1, -1, -1]]


@pytest.mark.covers("V2-CHUNK-06", "ALL-09")
def test_absent_chunk_is_fill_and_failing_store_is_error():
    class Failing(dict):
        def __getitem__(self, key):
            if key == "0.1":
                raise PermissionError(key)
            return super().__getitem__(key)

    store = Failing({".zarray": store_v2(fill_value=3).get(".zarray")})
    array = tessarr.open_array(store, mode="r")
    assert (array[:, :3] == 3).all()
    with pytest.raises(PermissionError):
        array[...]


@pytest.mark.covers("V2-CHUNK-07")
def test_order_f_is_column_major():
    chunk = np.array([[1, 2, 3], [4, 5, 6]], "<i4")
    array = open_v2({"0.0": chunk.tobytes("F")}, order="F")
    assert array[:2, :3].tolist() == chunk.tolist()
    array[2:4, :3] = chunk
    assert array.store.get("1.0") == chunk.tobytes("F")


@pytest.mark.covers("V2-CHUNK-08")
def test_filters_apply_in_order_and_then_compressor():
    import gzip
    import zlib

    array = open_v2(filters=[{"id": "zlib", "level": 1}], compressor={"id": "gzip", "level": 1})
    array[0, 0] = 5
    stored = array.store.get("0.0")
    raw = np.array([5, 0, 0, 0, 0, 0], "<i4").tobytes()
    assert zlib.decompress(gzip.decompress(stored)) == raw
    array.store.put("1.0", gzip.compress(zlib.compress(raw)))
    assert array[2, 0] == 5


@pytest.mark.covers("V2-CHUNK-09")
@pytest.mark.parametrize("dtype", ["<i2", ">i2", "<f8", ">f8", ">c8", "<u4"])
def test_bytes_have_byte_order_of_type(dtype):
    chunk = np.arange(6).astype(dtype)
    array = open_v2({"0.0": chunk.tobytes()}, dtype=dtype, fill_value=None)
    assert array.dtype == np.dtype(dtype)
    assert array[:2, :3].ravel().tolist() == list(range(6))
    array[2:4, :3] = chunk.reshape(2, 3)
    assert array.store.get("1.0") == chunk.tobytes()


@pytest.mark.covers("V2-CHUNK-10")
def test_chunks_outside_of_grid_are_ignored():
    array = open_v2({"3.0": b"?", "0.2": b"?", "0.0.0": b"?", "-1.0": b"?", "00.0": b"?"})
    assert not array[...].any()
    assert array.nchunks_initialized == 0


@pytest.mark.covers("V2-CHUNK-11")
def test_slash_makes_folders(tmp_path):
    array = tessarr.create_array(
        tmp_path, shape=(4, 4), chunks=(2, 2), dtype="u1", zarr_format=2, dimension_separator="/"
    )
    array[3, 3] = 1
    assert (tmp_path / "1" / "1").is_file()


def test_error_names_all_faults():
    problems = problems_v2("order", shape=[-1, 4], dtype="<i9", chunks=[2, "3"], filters=5)
    assert set(problems) == {"", "/shape/0", "/dtype", "/chunks/1", "/filters"}


def test_errors_name_document():
    with pytest.raises(MetadataError) as caught:
        open_v2(order="A")
    assert caught.value.key == ".zarray"
