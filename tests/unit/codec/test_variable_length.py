"""Variable-length codecs: configurations, layouts, damage."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

import tessarr
from tessarr import codec, codecs, dtype
from tessarr.codec import ArraySpec
from tessarr.codec.elements import from_document, join_elements, split_elements, to_document
from tessarr.errors import ArgumentError, DataError, MetadataError, UnsupportedError
from tessarr.format.validation import Members, Problems
from tessarr.metadata import v2

GOOD = {
    "json2": {"encoding": "utf-8", "indent": 2, "separators": [", ", ": "], "strict": False},
    "msgpack2": {"raw": True},
    "pickle": {"protocol": 4},
    "categorize": {"labels": ["a"], "dtype": "|O", "astype": "<u2"},
    "vlen-array": {"dtype": "<i4"},
    "vlen-utf8": {},
    "vlen-bytes": {},
}
BAD = [
    ("json2", {"encoding": "klingon"}, "/encoding"),
    ("json2", {"encoding": 1}, "/encoding"),
    ("json2", {"separators": [","]}, "/separators"),
    ("json2", {"indent": "x"}, "/indent"),
    ("json2", {"strict": 1.5}, "/strict"),
    ("msgpack2", {"raw": "maybe"}, "/raw"),
    ("pickle", {"protocol": 99}, "/protocol"),
    ("categorize", {"labels": ["a"]}, ""),
    ("categorize", {"labels": "ab", "dtype": "|O"}, "/labels"),
    ("categorize", {"labels": [1], "dtype": "|O"}, "/labels"),
    ("categorize", {"labels": ["a"], "dtype": "<f8"}, "/dtype"),
    ("categorize", {"labels": ["a"], "dtype": "|O", "astype": "<f4"}, "/astype"),
    ("categorize", {"labels": ["a"] * 300, "dtype": "|O"}, "/labels"),
    ("vlen-array", {}, ""),
    ("vlen-array", {"dtype": "|O"}, "/dtype"),
    ("vlen-utf8", {"level": 1}, "/level"),
]


@pytest.mark.parametrize("codec_id", GOOD)
def test_configurations_survive(codec_id):
    problems = Problems()
    cls = codec.base.find_codec_by_id(codec_id)
    restored = cls.read(Members(GOOD[codec_id], "", problems), 2)
    assert not problems.found
    assert {**restored.stored_config(), **GOOD[codec_id]} == restored.stored_config()
    assert codec.to_codec(restored.get_config()) == restored
    assert json.loads(json.dumps(restored.to_json(2))) == restored.to_json(2)


@pytest.mark.parametrize(("codec_id", "configuration", "loc"), BAD)
def test_wrong_parameter_problem_has_json_path(codec_id, configuration, loc):
    problems = Problems()
    cls = codec.base.find_codec_by_id(codec_id)
    assert cls.read(Members(configuration, "", problems), 2) is None
    assert [problem.loc for problem in problems.found] == [loc]


def test_layout_length_is_checked_exactly():
    good = join_elements([b"a", b""])
    assert split_elements(good) == split_elements(good, 2) == [b"a", b""]
    for bad in (b"", good[:-1], good + b"x", good[:5], b"\xff\xff\xff\xff"):
        with pytest.raises(DataError):
            split_elements(bad)
    with pytest.raises(DataError, match="2 elements instead of 3"):
        split_elements(good, 3)


DOCUMENTS = [
    None,
    1,
    {},
    [],
    ["a"],
    ["a", "|O"],
    ["a", "|O", "x"],
    ["a", "|O", [2]],
    ["a", "|O", [True]],
]


@pytest.mark.parametrize(
    "document", [*DOCUMENTS, [["a"], ["b", "c"], "|O", [2, 1]], ["a", "|O", [-1]]]
)
def test_other_documents_raise_data_error(document):
    with pytest.raises(DataError):
        from_document(document, (2, 1))


def test_object_document_shape_limits_depth():
    values = np.empty((2, 1), object)
    values[0, 0], values[1, 0] = [1], []
    assert to_document(values) == [[[1]], [[]], "|O", (2, 1)]
    assert from_document(to_document(values), (2, 1)).tolist() == values.tolist()
    single = np.empty((), object)
    single[()] = {"a": 1}
    assert from_document(to_document(single), ()).tolist() == {"a": 1}


@pytest.mark.parametrize(
    ("maker", "data"),
    [
        (codecs.JSON(), b"["),
        (codecs.JSON(), b"\xff"),
        (codecs.JSON(), b"[" * 100_000),
        (codecs.MsgPack(), b"\xc1"),
        (codecs.MsgPack(), b"\x91" * 100_000),
        (codecs.Pickle(), b"nothing"),
        (codecs.Pickle(), pickle.dumps([1])),
        (codecs.Pickle(), pickle.dumps(np.zeros(3))),
        (codecs.VLenUTF8(), join_elements([b"\xff", b""])),
        (codecs.VLenArray("<i4"), join_elements([b"abc", b""])),
    ],
)
def test_damage_is_data_error(maker, data):
    with pytest.raises(DataError):
        maker.decode(data, ArraySpec((2,), maker.object_type()))


def test_elements_of_another_type_are_refused():
    for maker, value in (
        (codecs.VLenUTF8(), b"a"),
        (codecs.VLenBytes(), "a"),
        (codecs.VLenUTF8(), 0),
    ):
        with pytest.raises(ArgumentError) as caught:
            maker.encode(np.array([value], object))
        assert caught.value.kind == "cannot_cast"


def zarray(**members):
    document = {
        "zarr_format": 2,
        "shape": [4],
        "chunks": [2],
        "dtype": "|O",
        "compressor": None,
        "fill_value": None,
        "order": "C",
        "filters": [{"id": "vlen-utf8"}],
    }
    return json.dumps({**document, **members}).encode()


@pytest.mark.parametrize(
    ("members", "kind", "loc"),
    [
        ({"dtype": "<i4"}, "mismatch", "/filters/0"),
        ({"filters": None}, "missing_member", "/dtype"),
        ({"filters": [{"id": "zlib", "level": 1}]}, "missing_member", "/dtype"),
        ({"filters": [{"id": "vlen-utf8"}, {"id": "vlen-utf8"}]}, "mismatch", "/filters/1"),
        (
            {"filters": [{"id": "vlen-utf8"}, {"id": "delta", "dtype": "<i4"}]},
            "mismatch",
            "/filters/1",
        ),
        (
            {"filters": [{"id": "delta", "dtype": "<i4"}, {"id": "vlen-utf8"}]},
            "missing_member",
            "/dtype",
        ),
        ({"fill_value": 7}, "wrong_type", "/fill_value"),
        ({"fill_value": "\ud800"}, "invalid_value", "/fill_value"),
        ({"filters": [{"id": "vlen-bytes"}], "fill_value": "&"}, "invalid_value", "/fill_value"),
    ],
)
def test_invalid_documents_raise(members, kind, loc):
    with pytest.raises(MetadataError) as caught:
        v2.parse_array(zarray(**members), None, where="")
    assert [(problem.kind, problem.loc) for problem in caught.value.problems] == [(kind, loc)]


def test_unknown_filter_is_only_problem():
    with pytest.raises(UnsupportedError) as caught:
        v2.parse_array(zarray(filters=[{"id": "no-such-codec"}]), None, where="")
    assert caught.value.extension == "no-such-codec"


def test_missing_package_error_names_package(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "msgpack", None)
    store = {".zarray": zarray(filters=[{"id": "msgpack2"}])}
    with pytest.raises(UnsupportedError, match="package msgpack") as caught:
        tessarr.open_array(store, mode="r")
    assert caught.value.kind == "missing_package"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(str, "string", id="class str"),
        ("str", "string"),
        ("string", "string"),
        pytest.param(bytes, "bytes", id="class bytes"),
        ("bytes", "bytes"),
        ("variable_length_bytes", "variable_length_bytes"),
        ("array:<i2", "array:<i2"),
        ("array:int32", "array:<i4"),
    ],
)
def test_user_names_of_types_are_accepted(value, expected):
    assert dtype.to_data_type(value).name == expected


def test_objects_need_codec():
    with pytest.raises(ArgumentError, match="object_codec"):
        dtype.to_data_type(object)
    with pytest.raises(ArgumentError, match="differ in length"):
        dtype.to_data_type("array:string")
    with pytest.raises(ArgumentError, match="does not make bytes of objects"):
        tessarr.create_array(None, shape=(1,), dtype=object, object_codec=codecs.Zstd())
    with pytest.raises(UnsupportedError, match="format 3 has no type for such objects"):
        tessarr.create_array(None, shape=(1,), dtype=object, object_codec=codecs.JSON())
    with pytest.raises(ArgumentError, match="items of one size"):
        tessarr.create_array(None, shape=(1,), dtype=str, codecs=[codecs.Bytes("little")])
