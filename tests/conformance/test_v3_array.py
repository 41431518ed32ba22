"""Format 3: the document of an array, its extension points, data types, grid and keys."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import tessarr
from conformance.made import (
    BIG,
    LITTLE,
    V3,
    document,
    gzip,
    keys,
    open_v3,
    problems_v3,
    reading_fails,
    refusal,
    regular,
    rewritten,
    same_bits,
    sharding,
    store_v3,
    tolerated,
    unsupported,
)
from tessarr import stores
from tessarr.errors import ArgumentError, NotFoundError

REQUIRED = ["shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value"]
MAY_BE_IGNORED = {"must_understand": False, "x": [1, None]}


# The document


@pytest.mark.covers("V3-META-01")
@pytest.mark.parametrize(
    "text", [b"", b"{", b'{"zarr_format": 3,}', b"{} {}", b"{'a': 1}", b"// c\n{}", b"\xff{}"]
)
def test_a_document_that_is_not_json_is_an_error(text):
    (problem,) = refusal({"zarr.json": text, ".zgroup": b'{"zarr_format": 2}'}).problems
    assert problem.kind == "invalid_json"


@pytest.mark.covers("V3-META-01")
@pytest.mark.parametrize("text", [b"[]", b"null", b'"group"', b"3", b"true"])
def test_a_document_is_an_object(text):
    (problem,) = refusal({"zarr.json": text}).problems
    assert (problem.loc, problem.kind) == ("", "wrong_type")


@pytest.mark.covers("V3-META-02")
@pytest.mark.parametrize("name", [*REQUIRED, "zarr_format", "node_type"])
def test_each_member_has_to_be_there(name):
    assert problems_v3(name) == {"": "missing_member"}


@pytest.mark.covers("V3-META-02")
def test_without_codecs_a_draft_is_meant():
    with tolerated("member 'codecs' is missing"):
        array = open_v3({"c/0/0": np.arange(6, dtype="<i4").tobytes()}, "codecs")
    assert array[:3, :2].tolist() == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.covers("V3-META-03")
@pytest.mark.parametrize("value", [2, 1, "3", 3.0, 3.1, True, None, [3]])
def test_the_format_is_the_integer_3(value):
    assert problems_v3(zarr_format=value)["/zarr_format"]


@pytest.mark.covers("V3-META-04")
@pytest.mark.parametrize("value", ["Array", "ARRAY", "arrays", "", None, 1])
def test_a_node_is_an_array_or_a_group(value):
    assert list(problems_v3(node_type=value)) == ["/node_type"]


@pytest.mark.covers("V3-META-04")
def test_a_group_is_not_opened_as_an_array():
    group = b'{"zarr_format": 3, "node_type": "group"}'
    with pytest.raises(NotFoundError, match="a group"):
        tessarr.open_array(stores.MemoryStore({"zarr.json": group}), mode="r")
    with pytest.raises(NotFoundError, match="an array"):
        tessarr.open_group(store_v3(), mode="r")


@pytest.mark.covers("V3-META-05")
@pytest.mark.parametrize(
    ("value", "loc", "kind"),
    [
        ([-6, 4], "/shape/0", "invalid_value"),
        ([6, 4.0], "/shape/1", "wrong_type"),
        ([6, "4"], "/shape/1", "wrong_type"),
        ([True, 4], "/shape/0", "wrong_type"),
        ([None, 4], "/shape/0", "wrong_type"),
        (6, "/shape", "wrong_type"),
        (None, "/shape", "wrong_type"),
        ({}, "/shape", "wrong_type"),
    ],
)
def test_the_shape_lists_integers(value, loc, kind):
    assert problems_v3(shape=value)[loc] == kind


@pytest.mark.covers("V3-META-05", "V3-META-15")
def test_no_axes_are_one_element():
    array = open_v3(shape=[], chunk_grid=regular(), fill_value=5)
    assert (array.shape, array.size, array.nchunks) == ((), 1, 1)
    same_bits(array[()], np.int32(5))
    array[...] = 6
    assert keys(array) == {"c"}
    assert array[()] == 6


@pytest.mark.covers("V3-META-06")
@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("i4", 0), ("f8", 0.0), ("bool", False), ("c8", [0.0, 0.0]), ("r16", [0, 0])],
)
def test_the_fill_value_is_always_written(dtype, expected):
    array = tessarr.create_array(None, shape=(2,), dtype=dtype)
    assert json.loads(array.store.get("zarr.json"))["fill_value"] == expected


@pytest.mark.covers("V3-META-07")
@pytest.mark.parametrize("value", ["x", [], 1, None, [["a", 1]], True])
def test_attributes_are_an_object(value):
    assert problems_v3(attributes=value) == {"/attributes": "wrong_type"}


@pytest.mark.covers("V3-META-07")
def test_absent_attributes_are_none():
    assert dict(open_v3().attrs) == {}


@pytest.mark.covers("V3-META-08")
@pytest.mark.parametrize(
    ("value", "loc"),
    [
        ({}, "/storage_transformers"),
        ("x", "/storage_transformers"),
        (None, "/storage_transformers"),
        ([1], "/storage_transformers/0"),
        ([{}], "/storage_transformers/0"),
    ],
)
def test_storage_transformers_are_a_list_of_extensions(value, loc):
    assert list(problems_v3(storage_transformers=value)) == [loc]


@pytest.mark.covers("V3-META-08")
def test_unknown_storage_transformers_are_refused():
    assert open_v3(storage_transformers=[]).shape == (6, 4)
    with unsupported("x.shuffle"):
        open_v3(storage_transformers=[{"name": "x.shuffle"}])


@pytest.mark.covers("V3-META-08", "V3-EXT-07", "V3-TRANSF-01")
def test_a_storage_transformer_that_may_be_ignored_is():
    stated = {"name": "x.cache", "must_understand": False, "configuration": {"a": 1}}
    array = open_v3(storage_transformers=[stated])
    array[...] = 1
    cells = {f"c/{i}/{j}" for i in range(2) for j in range(2)}
    assert set(array.store.list("")) == {"zarr.json"} | cells
    assert rewritten(array)["storage_transformers"] == [stated]


@pytest.mark.covers("V3-META-09")
@pytest.mark.parametrize("value", [["y", "x"], [None, "x"], ["", None], [None, None], ["é", "x"]])
def test_names_of_axes(value):
    array = open_v3(dimension_names=value)
    assert array.dimension_names == tuple(value)
    assert rewritten(array)["dimension_names"] == value


@pytest.mark.covers("V3-META-09")
@pytest.mark.parametrize(
    ("value", "loc"),
    [
        (["x"], "/dimension_names"),
        (["x", "y", "z"], "/dimension_names"),
        ([], "/dimension_names"),
        ("xy", "/dimension_names"),
        (["x", 1], "/dimension_names/1"),
        ({"x": 0}, "/dimension_names"),
    ],
)
def test_what_are_no_names_of_axes(value, loc):
    assert list(problems_v3(dimension_names=value)) == [loc]


@pytest.mark.covers("V3-META-10")
def test_names_of_axes_may_repeat():
    assert open_v3(dimension_names=["x", "x"]).dimension_names == ("x", "x")


@pytest.mark.covers("V3-META-11")
def test_null_for_all_names_of_axes():
    with tolerated("dimension_names: null"):
        array = open_v3(dimension_names=None)
    assert array.dimension_names is None


@pytest.mark.covers("V3-META-12")
@pytest.mark.parametrize(
    ("data_type", "fill"),
    [("uint64", 2**64 - 1), ("int64", -(2**63)), ("int64", 2**53 + 1), ("uint64", 2**63)],
)
def test_integers_stay_exact(data_type, fill):
    array = open_v3(
        data_type=data_type,
        fill_value=fill,
        attributes={"n": fill, "huge": 10**30},
        shape=[2**62 + 1, 1],
        chunk_grid=regular(2**53 + 1, 1),
        codecs=[{"name": "bytes", "configuration": {"endian": "little"}}],
    )
    same_bits(array[0, 0], np.dtype(data_type).type(fill))
    assert array.shape == (2**62 + 1, 1)
    found = rewritten(array)
    assert (found["fill_value"], found["attributes"]["n"]) == (fill, fill)
    assert found["attributes"]["huge"] == 10**30
    assert found["shape"] == [2**62 + 1, 1]
    assert found["chunk_grid"] == regular(2**53 + 1, 1)


@pytest.mark.covers("V3-META-13", "ALL-07")
@pytest.mark.parametrize(
    "more", [b'"fill_value": 1, ', b'"attributes": {"a": 1, "b": 2, "a": 1}, ']
)
def test_a_member_that_occurs_twice_is_refused(more):
    text = document(V3).replace(b"{", b"{" + more, 1)
    (problem,) = refusal({"zarr.json": text}).problems
    assert problem.kind == "invalid_json"
    assert "occurs twice" in problem.message


@pytest.mark.covers("V3-META-14")
def test_order_and_layout_of_a_document_mean_nothing():
    members = json.loads(document(V3, attributes={"ä": "ü"}))
    text = json.dumps(dict(reversed(members.items())), indent=1, ensure_ascii=False)
    text = text.replace("\n", "\r\n\t ")
    array = tessarr.open_array(stores.MemoryStore({"zarr.json": text.encode()}))
    assert array.attrs["ä"] == "ü"
    assert rewritten(array)["attributes"] == {"ä": "ü", "rewritten": True}
    array.store.get("zarr.json").decode("utf-8")


# Extension points


@pytest.mark.covers("V3-EXT-01", "V3-EXT-02", "V3-EXT-04")
@pytest.mark.parametrize(
    "changes",
    [
        {"data_type": {"name": "int32"}},
        {"data_type": {"name": "int32", "configuration": {}}},
        {"chunk_key_encoding": "default"},
        {"chunk_key_encoding": {"name": "default", "configuration": {}}},
        {"codecs": [LITTLE, "crc32c"]},
        {"codecs": [LITTLE, {"name": "crc32c", "configuration": {}}]},
        {"data_type": "uint8", "codecs": ["bytes"]},
        {"data_type": "uint8", "codecs": [{"name": "bytes", "configuration": {}}]},
    ],
)
def test_a_name_alone_or_an_empty_configuration_mean_the_same(changes):
    long = {"data_type": "int32", "chunk_key_encoding": {"name": "default"}, "codecs": [LITTLE]}
    if "codecs" in changes and len(changes["codecs"]) == 2:
        long["codecs"] = [LITTLE, {"name": "crc32c"}]
    if changes.get("data_type") == "uint8":
        long |= {"data_type": "uint8", "codecs": [{"name": "bytes"}]}
    assert open_v3(**changes).metadata == open_v3(**long).metadata


@pytest.mark.covers("V3-EXT-03")
@pytest.mark.parametrize(
    ("value", "loc"),
    [
        ({}, ""),
        ({"configuration": {}}, ""),
        ({"name": ""}, "/name"),
        ({"name": None}, "/name"),
        ({"name": 1}, "/name"),
        ({"name": "bytes", "configuration": []}, "/configuration"),
        ({"name": "bytes", "configuration": "little"}, "/configuration"),
        ({"name": "bytes", "configuration": None}, "/configuration"),
        (1, ""),
        (None, ""),
        ([], ""),
        ("", "/name"),
    ],
)
@pytest.mark.parametrize("point", ["codecs", "data_type", "chunk_grid", "chunk_key_encoding"])
def test_malformed_extensions_are_refused(point, value, loc):
    at = "/codecs/0" if point == "codecs" else f"/{point}"
    assert at + loc in problems_v3(**{point: [value] if point == "codecs" else value})


@pytest.mark.covers("V3-EXT-05")
@pytest.mark.parametrize(
    "changes",
    [
        {"chunk_grid": {**regular(3, 2), "must_understand": True}},
        {"chunk_key_encoding": {"name": "default", "must_understand": True}},
        {"codecs": [{**LITTLE, "must_understand": True}]},
        {"data_type": {"name": "int32", "must_understand": True}},
        {"codecs": [{**LITTLE, "must_understand": False}]},
        {"chunk_grid": {**regular(3, 2), "must_understand": False}},
    ],
)
def test_that_something_known_has_to_be_understood_changes_nothing(changes):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_v3(**changes).metadata == open_v3().metadata


@pytest.mark.covers("V3-EXT-05", "V3-EXT-07")
@pytest.mark.parametrize("more", [{}, {"must_understand": True}])
def test_by_default_an_extension_has_to_be_understood(more):
    with unsupported("x.unknown"):
        open_v3(codecs=[LITTLE, {"name": "x.unknown", **more}])


@pytest.mark.covers("V3-EXT-06")
@pytest.mark.parametrize(
    "value", [1, "x", None, [], {}, {"must_understand": True}, {"must_understand": 0}]
)
def test_unknown_members_are_refused(value):
    assert problems_v3(ours=value) == {"/ours": "unknown_member"}
    group = document({"zarr_format": 3, "node_type": "group"}, ours=value)
    (problem,) = refusal({"zarr.json": group}).problems
    assert (problem.loc, problem.kind) == ("/ours", "unknown_member")


@pytest.mark.covers("V3-EXT-06", "V3-EXT-12")
def test_unknown_members_that_may_be_ignored_are_kept():
    array = open_v3(ours=MAY_BE_IGNORED)
    assert rewritten(array)["ours"] == MAY_BE_IGNORED
    array.resize(9, 9)
    assert json.loads(array.store.get("zarr.json"))["ours"] == MAY_BE_IGNORED
    group = document({"zarr_format": 3, "node_type": "group"}, ours=MAY_BE_IGNORED)
    opened = tessarr.open_group(stores.MemoryStore({"zarr.json": group}), mode="r+")
    opened.attrs["a"] = 1
    assert json.loads(opened.store.get("zarr.json"))["ours"] == MAY_BE_IGNORED


@pytest.mark.covers("V3-EXT-07", "V3-EXT-12")
def test_an_unknown_codec_that_may_be_ignored_is():
    stated = {"name": "x.hint", "configuration": {"a": [1]}, "must_understand": False}
    array = open_v3({"c/0/0": np.arange(6, dtype="<i4").tobytes()}, codecs=[LITTLE, stated])
    assert array[:3, :2].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert rewritten(array)["codecs"] == [LITTLE, stated]


@pytest.mark.covers("V3-EXT-08", "V3-GRID-05", "V3-KEY-05")
@pytest.mark.parametrize("more", [{}, {"must_understand": False}])
@pytest.mark.parametrize("point", ["data_type", "chunk_grid", "chunk_key_encoding"])
def test_types_grids_and_keys_have_to_be_understood(point, more):
    with unsupported("x.unknown"):
        open_v3(**{point: {"name": "x.unknown", **more}})


@pytest.mark.covers("V3-EXT-09")
@pytest.mark.parametrize("name", ["https://example.org/codec", "X-Codec", "Ünknown", "a/b"])
def test_any_string_is_a_name_to_a_reader(name):
    with unsupported(name):
        open_v3(codecs=[LITTLE, name])


@pytest.mark.covers("V3-EXT-09", "V3-EXT-10")
@pytest.mark.parametrize("dtype", ["bool", "i2", "u8", "f2", "c16", "r24"])
@pytest.mark.parametrize("shards", [None, (4, 4)])
def test_what_is_written_suits_readers_of_the_first_version(dtype, shards):
    array = tessarr.create_array(
        None,
        shape=(8, 8),
        chunks=(2, 2),
        shards=shards,
        dtype=dtype,
        filters=[tessarr.codecs.Transpose((1, 0))],
        compressors=["zstd", "crc32c", tessarr.codecs.Blosc(), "gzip"],
    )
    found = json.loads(array.store.get("zarr.json"))
    assert "must_understand" not in json.dumps(found)

    def check(stated):
        assert isinstance(stated, dict)
        assert stated["name"] in {
            *("transpose", "bytes", "zstd", "crc32c", "blosc", "gzip", "sharding_indexed"),
            *("regular", "default"),
        }
        for name in ("codecs", "index_codecs"):
            for codec in stated.get("configuration", {}).get(name, ()):
                check(codec)

    for stated in [*found["codecs"], found["chunk_grid"], found["chunk_key_encoding"]]:
        check(stated)


@pytest.mark.covers("V3-EXT-11")
@pytest.mark.parametrize(
    ("changes", "loc"),
    [
        ({"codecs": [LITTLE, gzip() | {"configuration": {"level": 1, "x": 1}}]}, "/codecs/1"),
        ({"codecs": [LITTLE, {"name": "crc32c", "configuration": {"x": 1}}]}, "/codecs/1"),
        ({"codecs": [{"name": "bytes", "configuration": {"endian": "big", "x": 1}}]}, "/codecs/0"),
        (
            {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3, 2], "x": 1}}},
            "/chunk_grid",
        ),
        (
            {"chunk_key_encoding": {"name": "default", "configuration": {"x": 1}}},
            "/chunk_key_encoding",
        ),
        ({"data_type": {"name": "int32", "configuration": {"x": 1}}}, "/data_type"),
    ],
)
def test_unknown_members_of_a_configuration_are_refused(changes, loc):
    assert problems_v3(**changes) == {f"{loc}/configuration/x": "unknown_member"}


@pytest.mark.covers("V3-EXT-11")
def test_unknown_members_beside_a_configuration_are_refused():
    assert list(problems_v3(codecs=[{**LITTLE, "x": 1}])) == ["/codecs/0/x"]


# Data types


CORE = {
    "bool": "?",
    **{f"{kind}{bits}": f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)},
    **{name: name for name in ("float16", "float32", "float64", "complex64", "complex128")},
    "r8": "V1",
    "r24": "V3",
}


def zero(data_type):
    """Give the fill value of a type that is all zero."""
    if data_type == "bool":
        return False
    if data_type.startswith("complex"):
        return [0, 0]
    return [0] * (int(data_type[1:]) // 8) if data_type.startswith("r") else 0


@pytest.mark.covers("V3-TYPE-01")
@pytest.mark.parametrize("name", CORE)
def test_types_of_the_core(name):
    array = open_v3(data_type=name, fill_value=zero(name))
    assert array.dtype == np.dtype(CORE[name])
    size = array.dtype.itemsize
    data = bytes(range(6 * size)) if name != "bool" else bytes([0, 1, 1, 0, 0, 1])
    array.store.put("c/0/0", data)
    assert array[:3, :2].tobytes() == data
    assert rewritten(array)["data_type"] == name


@pytest.mark.covers("V3-TYPE-01")
@pytest.mark.parametrize(
    "name", ["<i4", "Int32", "INT32", "int", "int7", "uint128", "float", "f8", "boolean", "i4"]
)
def test_other_names_are_no_types(name):
    with unsupported(name):
        open_v3(data_type=name)


@pytest.mark.covers("V3-TYPE-02")
@pytest.mark.parametrize("name", ["r", "r0", "r7", "r12", "r-8"])
def test_raw_types_have_a_multiple_of_8_bits(name):
    assert list(problems_v3(data_type=name, fill_value=[0])) == ["/data_type"]


@pytest.mark.covers("V3-TYPE-02")
@pytest.mark.parametrize("name", ["r8a", "R8", "r8.0"])
def test_what_only_looks_like_a_raw_type_is_not_known(name):
    with unsupported(name):
        open_v3(data_type=name)


# Fill values


@pytest.mark.covers("V3-FILL-01")
@pytest.mark.parametrize("data_type", CORE)
def test_null_is_no_fill_value(data_type):
    assert list(problems_v3(data_type=data_type, fill_value=None)) == ["/fill_value"]


@pytest.mark.covers("V3-FILL-02")
@pytest.mark.parametrize("value", [2, "true", "false", "", [], 0.0, 1.0])
def test_booleans_are_true_or_false(value):
    assert list(problems_v3(data_type="bool", fill_value=value)) == ["/fill_value"]
    same_bits(open_v3(data_type="bool", fill_value=True)[0, 0], np.bool_(True))


@pytest.mark.covers("V3-FILL-02")
@pytest.mark.parametrize("value", [0, 1])
def test_booleans_of_zarrita(value):
    with tolerated(f"written as {value}"):
        assert open_v3(data_type="bool", fill_value=value)[0, 0] == bool(value)


@pytest.mark.covers("V3-FILL-03")
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("kind", ["int", "uint"])
def test_integers_fit_their_type(kind, bits):
    info = np.iinfo(f"{kind}{bits}")
    for value in (int(info.min), int(info.max), 0):
        array = open_v3(data_type=f"{kind}{bits}", fill_value=value)
        same_bits(array[0, 0], info.dtype.type(value))
    for value in (int(info.min) - 1, int(info.max) + 1, 1.0, 1.5, "1", True, [1]):
        assert list(problems_v3(data_type=f"{kind}{bits}", fill_value=value)) == ["/fill_value"]


@pytest.mark.covers("V3-FILL-03")
@pytest.mark.parametrize("text", [b"1.0", b"1e3", b"0.0", b"1E0"])
def test_integers_are_written_without_fraction_and_exponent(text):
    data = document(V3).replace(b'"fill_value": 0', b'"fill_value": ' + text)
    (problem,) = refusal({"zarr.json": data}).problems
    assert problem.loc == "/fill_value"


@pytest.mark.covers("V3-FILL-04")
@pytest.mark.parametrize(
    ("data_type", "value", "bits"),
    [
        ("float32", 0.1, "3dcccccd"),
        ("float32", 1, "3f800000"),
        ("float32", 16777217, "4b800000"),  # a tie: to even
        ("float32", 16777219, "4b800002"),
        ("float32", -0.0, "80000000"),
        ("float32", 1e-45, "00000001"),
        ("float16", 2049, "6800"),
        ("float16", 2051, "6802"),
        ("float64", 9007199254740993, "4340000000000000"),
    ],
)
def test_floats_are_rounded_to_nearest(data_type, value, bits):
    found = np.asarray(open_v3(data_type=data_type, fill_value=value)[0, 0])
    assert found[()].tobytes()[::-1].hex() == bits


@pytest.mark.covers("V3-FILL-04")
@pytest.mark.parametrize(
    ("data_type", "value"),
    [("float16", 65520), ("float32", 1e39), ("float64", 10**400), ("float32", [0])],
)
def test_numbers_beyond_the_type_are_refused(data_type, value):
    assert list(problems_v3(data_type=data_type, fill_value=value)) == ["/fill_value"]


QUIET = {"float16": "7e00", "float32": "7fc00000", "float64": "7ff8000000000000"}


@pytest.mark.covers("V3-FILL-05")
@pytest.mark.parametrize("data_type", QUIET)
def test_nan_is_one_bit_pattern(data_type):
    array = open_v3(data_type=data_type, fill_value="NaN")
    assert array[0, 0].tobytes()[::-1].hex() == QUIET[data_type]
    assert rewritten(array)["fill_value"] == "NaN"
    for value, expected in (("Infinity", np.inf), ("-Infinity", -np.inf)):
        same_bits(
            open_v3(data_type=data_type, fill_value=value)[0, 0], np.array(expected, data_type)
        )


@pytest.mark.covers("V3-FILL-05")
@pytest.mark.parametrize(
    "value", ["+Infinity", "nan", "NAN", "inf", "-NaN", "1.0", "", "0", "infinity", True, {}]
)
def test_other_strings_are_no_floats(value):
    assert list(problems_v3(data_type="float32", fill_value=value)) == ["/fill_value"]


BITS = {
    "float16": ["7e01", "fe00", "7c01", "8000", "3c00", "0001"],
    "float32": ["7fc00001", "ff800001", "7f800001", "80000000", "3f800000", "00000001"],
    "float64": ["7ff8000000000001", "fff0000000000001", "8000000000000000", "3ff0000000000000"],
}
PATTERNS = [(data_type, digits) for data_type, all_ in BITS.items() for digits in all_]


@pytest.mark.covers("V3-FILL-06", "V3-FILL-08", "ALL-01")
@pytest.mark.parametrize(("data_type", "digits"), PATTERNS)
@pytest.mark.parametrize("codec", [LITTLE, BIG])
def test_hexadecimal_fill_values_keep_their_bits(data_type, digits, codec):
    array = open_v3(data_type=data_type, fill_value=f"0x{digits}", codecs=[codec])
    data = bytes.fromhex(digits)
    assert array[...].tobytes() == data[::-1] * 24
    # Also where a chunk is written in parts, and when the document is.
    array[0, 0] = 2
    stored = array.store.get("c/0/0")
    one = data if codec is BIG else data[::-1]
    assert stored[len(one) :] == one * 5
    again = tessarr.open_array(
        stores.MemoryStore({"zarr.json": json.dumps(rewritten(array)).encode()}), mode="r"
    )
    assert again[0, 1].tobytes() == data[::-1]


@pytest.mark.covers("V3-FILL-07")
@pytest.mark.parametrize(
    "value", ["0x", "0x0", "0xg", "0x3f8000000", "0x3f80", "0x3f8000000000000000", "3f800000"]
)
def test_hexadecimal_fill_values_have_as_many_digits_as_the_type(value):
    assert list(problems_v3(data_type="float32", fill_value=value)) == ["/fill_value"]


@pytest.mark.covers("V3-FILL-08")
@pytest.mark.parametrize("data_type", QUIET)
def test_nans_with_a_payload_are_written_as_their_bits(data_type):
    size = np.dtype(data_type).itemsize
    bits = int(QUIET[data_type], 16) + 5
    fill = np.frombuffer(bits.to_bytes(size, "little"), data_type)[0]
    array = tessarr.create_array(None, shape=(2,), dtype=data_type, fill_value=fill)
    stated = json.loads(array.store.get("zarr.json"))["fill_value"]
    assert stated == f"0x{bits:0{2 * size}x}"


@pytest.mark.covers("V3-FILL-09")
@pytest.mark.parametrize(
    ("value", "real", "imag"),
    [
        ([0, 1.5], "00000000", "3fc00000"),
        (["-Infinity", "NaN"], "ff800000", "7fc00000"),
        (["0x7fc00001", -0.0], "7fc00001", "80000000"),
    ],
)
def test_complex_numbers_are_two_floats(value, real, imag):
    array = open_v3(data_type="complex64", fill_value=value)
    assert array[0, 0].tobytes().hex() == (bytes.fromhex(imag + real)[::-1]).hex()
    assert rewritten(array)["fill_value"] == value


@pytest.mark.covers("V3-FILL-09")
@pytest.mark.parametrize("value", [0, "NaN", [0], [0, 1, 2], ["NaN", "x"], "1+2j", [[0, 1]]])
def test_what_is_no_complex_number(value):
    found = problems_v3(data_type="complex64", fill_value=value)
    assert all(loc.startswith("/fill_value") for loc in found)


@pytest.mark.covers("V3-FILL-10", "V3-BYTES-06")
@pytest.mark.parametrize("codec", [{"name": "bytes"}, LITTLE, BIG])
def test_raw_types_list_their_bytes(codec):
    array = open_v3(data_type="r24", fill_value=[1, 255, 0], codecs=[codec])
    assert array[0, 0].tobytes() == b"\x01\xff\0"
    assert rewritten(array)["fill_value"] == [1, 255, 0]
    array[0, 0] = np.void(b"abc")
    assert array.store.get("c/0/0") == b"abc" + 5 * b"\x01\xff\0"


@pytest.mark.covers("V3-FILL-10")
@pytest.mark.parametrize("value", [[1], [1, 2, 3], [1, 256], [1, -1], [1, 1.5], 0, "A"])
def test_what_are_not_the_bytes_of_a_raw_type(value):
    found = problems_v3(data_type="r16", fill_value=value)
    assert all(loc.startswith("/fill_value") for loc in found)


@pytest.mark.covers("V3-FILL-11")
@pytest.mark.parametrize("shards", [False, True])
def test_what_is_absent_is_fill(shards):
    codecs = [sharding(1, 2, codecs=[LITTLE])] if shards else [LITTLE]
    array = open_v3(shape=[5, 3], fill_value=-7, codecs=codecs)
    assert (array[...] == -7).all()
    array[4, 2] = 1
    assert array[3:, 2:].tolist() == [[-7], [1]]
    if not shards:
        stored = np.frombuffer(array.store.get("c/1/1"), "<i4").reshape(3, 2)
        assert stored.tolist() == [[-7, -7], [1, -7], [-7, -7]]


# Grid


@pytest.mark.covers("V3-GRID-01")
@pytest.mark.parametrize(
    ("value", "loc", "kind"),
    [
        (regular(3), "/chunk_grid/configuration/chunk_shape", "mismatch"),
        (regular(3, 2, 1), "/chunk_grid/configuration/chunk_shape", "mismatch"),
        (regular(3, -2), "/chunk_grid/configuration/chunk_shape/1", "invalid_value"),
        (regular(3.5, 2), "/chunk_grid/configuration/chunk_shape/0", "wrong_type"),
        (regular("3", 2), "/chunk_grid/configuration/chunk_shape/0", "wrong_type"),
        ({"name": "regular"}, "/chunk_grid/configuration", "missing_member"),
        ("regular", "/chunk_grid", "missing_member"),
        (
            {"name": "regular", "configuration": {"chunk_shape": 3}},
            "/chunk_grid/configuration/chunk_shape",
            "wrong_type",
        ),
    ],
)
def test_a_regular_grid_has_a_length_per_axis(value, loc, kind):
    assert problems_v3(chunk_grid=value) == {loc: kind}


@pytest.mark.covers("V3-GRID-02")
def test_a_chunk_length_of_0_is_refused_where_there_are_elements():
    found = problems_v3(chunk_grid=regular(0, 2))
    assert found == {"/chunk_grid/configuration/chunk_shape/0": "invalid_value"}


@pytest.mark.covers("V3-GRID-02")
def test_a_chunk_length_of_0_passes_along_an_empty_axis():
    with tolerated("chunk length of 0"):
        array = open_v3(shape=[0, 4], chunk_grid=regular(0, 2))
    assert array[...].shape == (0, 4)


@pytest.mark.covers("V3-GRID-03")
def test_chunks_are_stored_whole_and_may_be_larger_than_the_array():
    array = open_v3(shape=[2, 3], chunk_grid=regular(10, 2))
    array[...] = [[1, 2, 3], [4, 5, 6]]
    assert array.cdata_shape == (1, 2)
    assert {key: len(array.store.get(key)) for key in keys(array)} == {"c/0/0": 80, "c/0/1": 80}
    stored = np.frombuffer(array.store.get("c/0/1"), "<i4").reshape(10, 2)
    assert stored[:2, 0].tolist() == [3, 6]


@pytest.mark.covers("V3-GRID-04")
def test_an_empty_axis_has_no_chunks():
    array = open_v3(shape=[0, 4])
    assert (array.nchunks, array[...].shape) == (0, (0, 4))
    array[...] = 1
    assert keys(array) == set()
    assert array.append(np.ones((2, 4), "i4")) == (2, 4)
    assert keys(array) == {"c/0/0", "c/0/1"}


# Keys


@pytest.mark.covers("V3-KEY-01", "V3-KEY-02", "V3-KEY-03", "V3-KEY-04")
@pytest.mark.parametrize(
    ("encoding", "key", "scalar"),
    [
        ("default", "c/1/10", "c"),
        ({"name": "default"}, "c/1/10", "c"),
        ({"name": "default", "configuration": {"separator": "/"}}, "c/1/10", "c"),
        ({"name": "default", "configuration": {"separator": "."}}, "c.1.10", "c"),
        ("v2", "1.10", "0"),
        ({"name": "v2", "configuration": {"separator": "."}}, "1.10", "0"),
        ({"name": "v2", "configuration": {"separator": "/"}}, "1/10", "0"),
    ],
)
def test_keys_of_chunks(encoding, key, scalar):
    array = open_v3(shape=[6, 40], chunk_key_encoding=encoding)
    array.store.put(key, np.arange(6, dtype="<i4").tobytes())
    assert array[3:, 20:22].tolist() == [[0, 1], [2, 3], [4, 5]]
    array.store.delete(key)
    array[3, 20] = 5
    assert keys(array) == {key}
    single = open_v3(shape=[], chunk_grid=regular(), chunk_key_encoding=encoding)
    single[()] = 5
    assert keys(single) == {scalar}


@pytest.mark.covers("V3-KEY-03")
@pytest.mark.parametrize("separator", ["-", "//", "", None, 1, "c"])
@pytest.mark.parametrize("name", ["default", "v2"])
def test_other_separators_are_refused(name, separator):
    encoding = {"name": name, "configuration": {"separator": separator}}
    loc = "/chunk_key_encoding/configuration/separator"
    assert list(problems_v3(chunk_key_encoding=encoding)) == [loc]


@pytest.mark.covers("V3-KEY-04")
def test_keys_are_below_the_array():
    group = tessarr.create_group(None)
    array = group.create_array("a/b", shape=(200,), chunks=(1,), dtype="u1")
    array[0] = array[100] = 1
    assert keys(array) == {"a/b/c/0", "a/b/c/100"}


@pytest.mark.covers("V3-PIPE-09")
@pytest.mark.parametrize("size", [0, 23, 25])
def test_a_chunk_that_decodes_to_another_size_is_an_error(size):
    import gzip as gz

    array = open_v3({"c/0/0": bytes(size)})
    with reading_fails("wrong_size", "c/0/0"):
        array[0]
    array = open_v3({"c/1/1": gz.compress(bytes(size))}, codecs=[LITTLE, gzip()])
    with reading_fails(key="c/1/1"):
        array[...]


@pytest.mark.covers("ALL-12")
@pytest.mark.parametrize(
    "settings",
    [
        {"shape": (-1,)},
        {"dtype": "i1", "fill_value": 300},
        {"dtype": "bool", "fill_value": 2},
        {"dtype": "f4", "fill_value": 1e40},
        {"chunks": (0,)},
        {"chunks": (3,), "shards": (4,)},
        {"filters": [{"name": "transpose", "configuration": {"order": [1, 0]}}]},
        {"dimension_names": ["a", "b"]},
        {"compressors": [{"name": "gzip", "configuration": {"level": 10}}]},
        {"codecs": ["bytes", "bytes"]},
        {"codecs": ["crc32c", "bytes"]},
        {"attributes": {"nan": float("nan")}},
        {"path": "a/../b"},
        {"path": "__a"},
        {"path": "..."},
        {"path": "zarr.json"},
    ],
)
def test_what_a_reader_refuses_is_not_written(settings):
    store = stores.MemoryStore()
    with pytest.raises(ArgumentError):
        tessarr.create_array(store, **{"shape": (8,), "dtype": "i4", **settings})
    assert store.list("") == []


# Rectilinear grids


def rectilinear(*chunk_shapes, **more):
    configuration = {"kind": "inline", "chunk_shapes": list(chunk_shapes), **more}
    return {"name": "rectilinear", "configuration": configuration}


@pytest.mark.covers("X-RECT-01")
@pytest.mark.parametrize(
    ("lengths", "edges"),
    [([2, 3, 1], [2, 3, 1]), ([[2, 3]], [2, 2, 2]), ([4, [1, 2]], [4, 1, 1]), (4, [4, 4])],
)
def test_edges_of_a_rectilinear_grid(lengths, edges):
    """Lengths one by one, in runs, or one for all; chunks are stored whole."""
    values = np.arange(24, dtype="<i4").reshape(6, 4)
    array = open_v3(chunk_grid=rectilinear(lengths, [1, 3]))
    array[...] = values
    padded = np.zeros((sum(edges), 4), "<i4")
    padded[:6] = values
    start = 0
    for cell, edge in enumerate(edges):
        rows = padded[start : start + edge]
        assert array.store.get(f"c/{cell}/0") == rows[:, :1].tobytes()
        assert array.store.get(f"c/{cell}/1") == rows[:, 1:].tobytes()
        start += edge
    assert len(keys(array)) == 2 * len(edges)
    same_bits(tessarr.open_array(array.store, mode="r")[1:, ::-2], values[1:, ::-2])
    assert rewritten(array)["chunk_grid"]["configuration"]["chunk_shapes"] == [lengths, [1, 3]]


@pytest.mark.covers("X-RECT-01")
@pytest.mark.parametrize(
    ("grid", "loc"),
    [
        (rectilinear([6]), "/chunk_shapes"),
        (rectilinear([6], [4], [1]), "/chunk_shapes"),
        (rectilinear([2, 3], [4]), "/chunk_shapes/0"),
        (rectilinear([6], []), "/chunk_shapes/1"),
        (rectilinear([6, 0], [4]), "/chunk_shapes/0/1"),
        (rectilinear([6, -1], [4]), "/chunk_shapes/0/1"),
        (rectilinear([6.5], [4]), "/chunk_shapes/0/0"),
        (rectilinear(["6"], [4]), "/chunk_shapes/0/0"),
        (rectilinear([[2, 0]], [4]), "/chunk_shapes/0/0"),
        (rectilinear([[2]], [4]), "/chunk_shapes/0/0"),
        (rectilinear([[2, 3, 1]], [4]), "/chunk_shapes/0/0"),
        (rectilinear(0, [4]), "/chunk_shapes/0"),
        (rectilinear(None, [4]), "/chunk_shapes/0"),
        (rectilinear([6], [4], kind="file"), "/kind"),
        (rectilinear([6], [4], x=1), "/x"),
        ({"name": "rectilinear"}, ""),
        ({"name": "rectilinear", "configuration": {"kind": "inline"}}, ""),
    ],
)
def test_malformed_rectilinear_grids_are_refused_in_place(grid, loc):
    found = problems_v3(chunk_grid=grid)
    assert any(at.startswith("/chunk_grid/configuration" + loc) for at in found), found


@pytest.mark.covers("X-RECT-01")
def test_shards_of_a_rectilinear_grid():
    values = np.arange(24, dtype="<i4").reshape(6, 4)
    array = open_v3(chunk_grid=rectilinear([4, 2], [4]), codecs=[sharding(2, 2)])
    array[...] = values
    array[3:5, 1:3] = -values[3:5, 1:3]
    values[3:5, 1:3] *= -1
    same_bits(tessarr.open_array(array.store, mode="r")[...], values)
    assert keys(array) == {"c/0/0", "c/1/0"}
    found = problems_v3(chunk_grid=rectilinear([3, 3], [4]), codecs=[sharding(2, 2)])
    assert "mismatch" in found.values()
