"""Format 3: the document of an array, and its extension points."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import tessarr
from conformance.sample_stores import (
    LITTLE,
    V3,
    chunk_keys,
    document,
    expect_defect,
    expect_refusal,
    expect_unsupported,
    gzip,
    has_same_bits,
    open_v3,
    problems_v3,
    regular,
    rewrite_document,
    store_v3,
)
from tessarr import stores
from tessarr.errors import NotFoundError

REQUIRED = ["shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value"]
MAY_BE_IGNORED = {"must_understand": False, "x": [1, None]}


# The document


@pytest.mark.covers("V3-META-01")
@pytest.mark.parametrize(
    "text", [b"", b"{", b'{"zarr_format": 3,}', b"{} {}", b"{'a': 1}", b"// c\n{}", b"\xff{}"]
)
def test_document_without_json_raises(text):
    (problem,) = expect_refusal({"zarr.json": text, ".zgroup": b'{"zarr_format": 2}'}).problems
    assert problem.kind == "invalid_json"


@pytest.mark.covers("V3-META-01")
@pytest.mark.parametrize("text", [b"[]", b"null", b'"group"', b"3", b"true"])
def test_document_is_object(text):
    (problem,) = expect_refusal({"zarr.json": text}).problems
    assert (problem.loc, problem.kind) == ("", "wrong_type")


@pytest.mark.covers("V3-META-02")
@pytest.mark.parametrize("name", [*REQUIRED, "zarr_format", "node_type"])
def test_every_member_is_required(name):
    assert problems_v3(name) == {"": "missing_member"}


@pytest.mark.covers("V3-META-02")
def test_absent_codecs_mean_draft_default():
    with expect_defect("member 'codecs' is missing"):
        array = open_v3({"c/0/0": np.arange(6, dtype="<i4").tobytes()}, "codecs")
    assert array[:3, :2].tolist() == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.covers("V3-META-03")
@pytest.mark.parametrize("value", [2, 1, "3", 3.0, 3.1, True, None, [3]])
def test_format_is_integer_3(value):
    assert problems_v3(zarr_format=value)["/zarr_format"]


@pytest.mark.covers("V3-META-04")
@pytest.mark.parametrize("value", ["Array", "ARRAY", "arrays", "", None, 1])
def test_node_is_array_or_group(value):
    assert list(problems_v3(node_type=value)) == ["/node_type"]


@pytest.mark.covers("V3-META-04")
def test_group_is_not_opened_as_array():
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
def test_shape_lists_integers(value, loc, kind):
    assert problems_v3(shape=value)[loc] == kind


@pytest.mark.covers("V3-META-05", "V3-META-15")
def test_no_axes_are_one_element():
    array = open_v3(shape=[], chunk_grid=regular(), fill_value=5)
    assert (array.shape, array.size, array.nchunks) == ((), 1, 1)
    has_same_bits(array[()], np.int32(5))
    array[...] = 6
    assert chunk_keys(array) == {"c"}
    assert array[()] == 6


@pytest.mark.covers("V3-META-06")
@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("i4", 0), ("f8", 0.0), ("bool", False), ("c8", [0.0, 0.0]), ("r16", [0, 0])],
)
def test_fill_value_is_always_written(dtype, expected):
    array = tessarr.create_array(None, shape=(2,), dtype=dtype)
    assert json.loads(array.store.get("zarr.json"))["fill_value"] == expected


@pytest.mark.covers("V3-META-07")
@pytest.mark.parametrize("value", ["x", [], 1, None, [["a", 1]], True])
def test_attributes_are_object(value):
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
def test_storage_transformers_are_list_of_extensions(value, loc):
    assert list(problems_v3(storage_transformers=value)) == [loc]


@pytest.mark.covers("V3-META-08")
def test_unknown_storage_transformers_are_refused():
    assert open_v3(storage_transformers=[]).shape == (6, 4)
    with expect_unsupported("x.shuffle"):
        open_v3(storage_transformers=[{"name": "x.shuffle"}])


@pytest.mark.covers("V3-META-08", "V3-EXT-07", "V3-TRANSF-01")
def test_ignorable_storage_transformer_is_ignored():
    extension = {"name": "x.cache", "must_understand": False, "configuration": {"a": 1}}
    array = open_v3(storage_transformers=[extension])
    array[...] = 1
    cells = {f"c/{i}/{j}" for i in range(2) for j in range(2)}
    assert set(array.store.list("")) == {"zarr.json"} | cells
    assert rewrite_document(array)["storage_transformers"] == [extension]


@pytest.mark.covers("V3-META-09")
@pytest.mark.parametrize("value", [["y", "x"], [None, "x"], ["", None], [None, None], ["é", "x"]])
def test_names_of_axes(value):
    array = open_v3(dimension_names=value)
    assert array.dimension_names == tuple(value)
    assert rewrite_document(array)["dimension_names"] == value


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
def test_invalid_dimension_names_are_refused(value, loc):
    assert list(problems_v3(dimension_names=value)) == [loc]


@pytest.mark.covers("V3-META-10")
def test_names_of_axes_may_repeat():
    assert open_v3(dimension_names=["x", "x"]).dimension_names == ("x", "x")


@pytest.mark.covers("V3-META-11")
def test_null_for_all_names_of_axes():
    with expect_defect("dimension_names: null"):
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
    has_same_bits(array[0, 0], np.dtype(data_type).type(fill))
    assert array.shape == (2**62 + 1, 1)
    document = rewrite_document(array)
    assert (document["fill_value"], document["attributes"]["n"]) == (fill, fill)
    assert document["attributes"]["huge"] == 10**30
    assert document["shape"] == [2**62 + 1, 1]
    assert document["chunk_grid"] == regular(2**53 + 1, 1)


@pytest.mark.covers("V3-META-13", "ALL-07")
@pytest.mark.parametrize(
    "more", [b'"fill_value": 1, ', b'"attributes": {"a": 1, "b": 2, "a": 1}, ']
)
def test_duplicate_member_is_refused(more):
    text = document(V3).replace(b"{", b"{" + more, 1)
    (problem,) = expect_refusal({"zarr.json": text}).problems
    assert problem.kind == "invalid_json"
    assert "occurs twice" in problem.message


@pytest.mark.covers("V3-META-14")
def test_order_and_layout_of_document_are_ignored():
    members = json.loads(document(V3, attributes={"ä": "ü"}))
    text = json.dumps(dict(reversed(members.items())), indent=1, ensure_ascii=False)
    text = text.replace("\n", "\r\n\t ")
    array = tessarr.open_array(stores.MemoryStore({"zarr.json": text.encode()}))
    assert array.attrs["ä"] == "ü"
    assert rewrite_document(array)["attributes"] == {"ä": "ü", "rewritten": True}
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
def test_bare_name_equals_empty_configuration(changes):
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
    path = "/codecs/0" if point == "codecs" else f"/{point}"
    assert path + loc in problems_v3(**{point: [value] if point == "codecs" else value})


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
def test_must_understand_of_known_extension_has_no_effect(changes):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_v3(**changes).metadata == open_v3().metadata


@pytest.mark.covers("V3-EXT-05", "V3-EXT-07")
@pytest.mark.parametrize("more", [{}, {"must_understand": True}])
def test_unknown_extension_is_refused_by_default(more):
    with expect_unsupported("x.unknown"):
        open_v3(codecs=[LITTLE, {"name": "x.unknown", **more}])


@pytest.mark.covers("V3-EXT-06")
@pytest.mark.parametrize(
    "value", [1, "x", None, [], {}, {"must_understand": True}, {"must_understand": 0}]
)
def test_unknown_members_are_refused(value):
    assert problems_v3(ours=value) == {"/ours": "unknown_member"}
    group = document({"zarr_format": 3, "node_type": "group"}, ours=value)
    (problem,) = expect_refusal({"zarr.json": group}).problems
    assert (problem.loc, problem.kind) == ("/ours", "unknown_member")


@pytest.mark.covers("V3-EXT-06", "V3-EXT-12")
def test_unknown_members_with_must_understand_false_survive():
    array = open_v3(ours=MAY_BE_IGNORED)
    assert rewrite_document(array)["ours"] == MAY_BE_IGNORED
    array.resize(9, 9)
    assert json.loads(array.store.get("zarr.json"))["ours"] == MAY_BE_IGNORED
    group = document({"zarr_format": 3, "node_type": "group"}, ours=MAY_BE_IGNORED)
    opened = tessarr.open_group(stores.MemoryStore({"zarr.json": group}), mode="r+")
    opened.attrs["a"] = 1
    assert json.loads(opened.store.get("zarr.json"))["ours"] == MAY_BE_IGNORED


@pytest.mark.covers("V3-EXT-07", "V3-EXT-12")
def test_ignorable_unknown_codec_is_ignored():
    extension = {"name": "x.hint", "configuration": {"a": [1]}, "must_understand": False}
    array = open_v3({"c/0/0": np.arange(6, dtype="<i4").tobytes()}, codecs=[LITTLE, extension])
    assert array[:3, :2].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert rewrite_document(array)["codecs"] == [LITTLE, extension]


@pytest.mark.covers("V3-EXT-08", "V3-GRID-05", "V3-KEY-05")
@pytest.mark.parametrize("more", [{}, {"must_understand": False}])
@pytest.mark.parametrize("point", ["data_type", "chunk_grid", "chunk_key_encoding"])
def test_unknown_types_grids_and_keys_are_refused(point, more):
    with expect_unsupported("x.unknown"):
        open_v3(**{point: {"name": "x.unknown", **more}})


@pytest.mark.covers("V3-EXT-09")
@pytest.mark.parametrize("name", ["https://example.org/codec", "X-Codec", "Ünknown", "a/b"])
def test_any_member_name_is_read(name):
    with expect_unsupported(name):
        open_v3(codecs=[LITTLE, name])


@pytest.mark.covers("V3-EXT-09", "V3-EXT-10")
@pytest.mark.parametrize("dtype", ["bool", "i2", "u8", "f2", "c16", "r24"])
@pytest.mark.parametrize("shards", [None, (4, 4)])
def test_written_document_suits_readers_of_first_version(dtype, shards):
    array = tessarr.create_array(
        None,
        shape=(8, 8),
        chunks=(2, 2),
        shards=shards,
        dtype=dtype,
        filters=[tessarr.codecs.Transpose((1, 0))],
        compressors=["zstd", "crc32c", tessarr.codecs.Blosc(), "gzip"],
    )
    document = json.loads(array.store.get("zarr.json"))
    assert "must_understand" not in json.dumps(document)

    def check(extension):
        assert isinstance(extension, dict)
        assert extension["name"] in {
            *("transpose", "bytes", "zstd", "crc32c", "blosc", "gzip", "sharding_indexed"),
            *("regular", "default"),
        }
        for name in ("codecs", "index_codecs"):
            for codec in extension.get("configuration", {}).get(name, ()):
                check(codec)

    for extension in [*document["codecs"], document["chunk_grid"], document["chunk_key_encoding"]]:
        check(extension)


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
def test_unknown_members_of_configuration_are_refused(changes, loc):
    assert problems_v3(**changes) == {f"{loc}/configuration/x": "unknown_member"}


@pytest.mark.covers("V3-EXT-11")
def test_unknown_members_beside_configuration_are_refused():
    assert list(problems_v3(codecs=[{**LITTLE, "x": 1}])) == ["/codecs/0/x"]
