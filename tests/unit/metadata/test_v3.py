"""Documents of format 3."""

from __future__ import annotations

import copy
import json

import pytest

from tessarr.codecs import Blosc, Bytes, Crc32c, GZip, ShardingIndexed
from tessarr.errors import MetadataError, TessarrWarning, UnsupportedError
from tessarr.format.chunk_key_encoding import DefaultKeys, V2Keys
from tessarr.metadata import GroupMeta, v2, v3

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
MINIMAL = {
    "zarr_format": 3,
    "node_type": "array",
    "shape": [6, 4],
    "data_type": "int32",
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3, 2]}},
    "chunk_key_encoding": {"name": "default"},
    "fill_value": 0,
    "codecs": [LITTLE],
}

GZIP = {"name": "gzip", "configuration": {"level": 1}}


def parse(**changes):
    document = {**MINIMAL, **changes}
    return v3.parse(json.dumps(document).encode(), where="a")


def problems_of(**changes):
    with pytest.raises(MetadataError) as caught:
        parse(**changes)
    return {problem.loc: problem.kind for problem in caught.value.problems}


def grid(*lengths):
    return {"name": "regular", "configuration": {"chunk_shape": list(lengths)}}


def sharding(chunk_shape, codecs=(LITTLE,), index_codecs=(LITTLE, {"name": "crc32c"}), **more):
    configuration = {
        "chunk_shape": chunk_shape,
        "codecs": list(codecs),
        "index_codecs": list(index_codecs),
        **more,
    }
    return {"name": "sharding_indexed", "configuration": configuration}


def transpose(*order):
    return {"name": "transpose", "configuration": {"order": list(order)}}


def test_document_text_is_exact():
    meta = parse(attributes={"b": 1, "a": "ä"}, dimension_names=["x", None])
    assert v3.dump(meta).decode() == (
        '{\n  "zarr_format": 3,\n  "node_type": "array",\n  "shape": [\n    6,\n    4\n  ],\n'
        '  "data_type": "int32",\n  "chunk_grid": {\n    "name": "regular",\n'
        '    "configuration": {\n      "chunk_shape": [\n        3,\n        2\n      ]\n    }\n'
        '  },\n  "chunk_key_encoding": {\n    "name": "default",\n    "configuration": {\n'
        '      "separator": "/"\n    }\n  },\n  "fill_value": 0,\n  "codecs": [\n    {\n'
        '      "name": "bytes",\n      "configuration": {\n        "endian": "little"\n      }\n'
        '    }\n  ],\n  "attributes": {\n    "b": 1,\n    "a": "\\u00e4"\n  },\n'
        '  "dimension_names": [\n    "x",\n    null\n  ]\n}'
    )


def test_error_contains_all_problems():
    problems = problems_of(
        shape=[6, -4],
        data_type="r7",
        chunk_grid=grid(3.5, 2),
        chunk_key_encoding={"name": "default", "configuration": {"separator": "-"}},
        codecs=[LITTLE, {"name": "gzip", "configuration": {"level": 12}}],
        attributes=[],
        dimension_names=["x", 1],
        storage_transformers={},
        extra=1,
    )
    assert problems == {
        "/shape/1": "invalid_value",
        "/data_type": "invalid_value",
        "/chunk_grid/configuration/chunk_shape/0": "wrong_type",
        "/chunk_key_encoding/configuration/separator": "invalid_value",
        "/codecs/1/configuration/level": "invalid_value",
        "/attributes": "wrong_type",
        "/dimension_names/1": "wrong_type",
        "/storage_transformers": "wrong_type",
        "/extra": "unknown_member",
    }


def test_short_forms_mean_same():
    short = parse(chunk_key_encoding="v2", codecs=[LITTLE, "crc32c"], data_type={"name": "int32"})
    assert short.chunk_key_encoding == V2Keys(".")
    assert short.codecs.codecs == (Bytes("little"), Crc32c())
    assert '"name": "crc32c"' in v3.dump(short).decode()


@pytest.mark.parametrize("encoding", ["default", {"name": "default", "configuration": {}}])
def test_default_separator_is_slash(encoding):
    assert parse(chunk_key_encoding=encoding).chunk_key_encoding == DefaultKeys("/")


@pytest.mark.parametrize(
    ("changes", "kind", "extension"),
    [
        ({"data_type": "float128"}, "unsupported_data_type", "float128"),
        ({"codecs": [LITTLE, {"name": "nope"}]}, "unsupported_codec", "nope"),
        ({"chunk_grid": {"name": "odd"}}, "unsupported_chunk_grid", "odd"),
        ({"chunk_key_encoding": "odd"}, "unsupported_chunk_key_encoding", "odd"),
        ({"storage_transformers": ["odd"]}, "unsupported_storage_transformer", "odd"),
    ],
)
def test_unknown_extensions_are_named(changes, kind, extension):
    with pytest.raises(UnsupportedError) as caught:
        parse(**changes)
    assert (caught.value.kind, caught.value.extension) == (kind, extension)


def test_unsupported_extension_is_one_problem_of_several():
    problems = problems_of(data_type="float128", shape=[1])
    assert problems["/data_type"] == "unsupported_data_type"
    assert len(problems) == 2


def test_must_understand_false_extension_survives():
    extra = {"must_understand": False, "x": [1]}
    transformer = {"name": "odd", "must_understand": False}
    codec = {"name": "odd", "must_understand": False, "configuration": {"a": 1}}
    meta = parse(ours=extra, storage_transformers=[transformer], codecs=[LITTLE, codec])
    document = json.loads(v3.dump(meta))
    assert document["ours"] == extra
    assert document["storage_transformers"] == [transformer]
    assert document["codecs"] == [LITTLE, codec]
    assert v3.parse(v3.dump(meta), where="a") == meta
    assert meta.description()["chain"]["bytes_bytes"] == []


@pytest.mark.parametrize("value", [1, "x", None, [], {}, {"must_understand": True}])
def test_unknown_member_without_must_understand_false_raises(value):
    assert problems_of(ours=value) == {"/ours": "unknown_member"}


@pytest.mark.parametrize("value", [0, "false", None])
def test_must_understand_is_boolean(value):
    assert problems_of(ours={"must_understand": value}) == {"/ours": "unknown_member"}
    codecs = [LITTLE, {"name": "odd", "must_understand": value}]
    assert problems_of(codecs=codecs) == {"/codecs/1/must_understand": "wrong_type"}


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"codecs": [{"name": "bytes"}]}, "no endian"),
        ({"codecs": [{"name": "endian", "configuration": {"endian": "big"}}]}, "called 'endian'"),
        ({"codecs": [{"name": "gzip", "configuration": {"level": 1}}]}, "taken for 'bytes'"),
        ({"codecs": []}, "taken for 'bytes'"),
        ({"dimension_names": None}, "null"),
        ({"data_type": "bool", "fill_value": 0, "codecs": ["bytes"]}, "boolean"),
        ({"shape": [0, 4], "chunk_grid": grid(0, 2)}, "chunk length of 0"),
    ],
)
def test_defects_of_real_writers_are_read_with_one_warning(changes, warning):
    with pytest.warns(TessarrWarning, match=warning) as caught:
        meta = parse(**changes)
    assert len(caught) == 1
    assert v3.parse(v3.dump(meta), where="a") == meta  # and written without the defect


def test_missing_codecs_mean_bytes():
    document = copy.deepcopy(MINIMAL)
    del document["codecs"]
    with pytest.warns(TessarrWarning, match="'codecs' is missing"):
        meta = v3.parse(json.dumps(document).encode(), where="a")
    assert meta.codecs.codecs == (Bytes("little"),)


@pytest.mark.parametrize(
    ("codecs", "location"),
    [
        ([LITTLE, LITTLE], "/codecs/1"),
        (["crc32c", LITTLE], "/codecs/0"),
        ([LITTLE, transpose(1, 0)], "/codecs/1"),
        ([transpose(0, 1, 2), LITTLE], "/codecs/0/configuration/order"),
        ([transpose(0, 0), LITTLE], "/codecs/0/configuration/order"),
        ([{"name": "transpose"}, LITTLE], "/codecs/0/configuration"),
        ([{"name": "transpose", "configuration": {"order": "f"}}, LITTLE], "/codecs/0"),
        ([sharding([2, 2])], "/codecs/0/configuration/chunk_shape/0"),
        ([sharding([3])], "/codecs/0/configuration/chunk_shape"),
        ([sharding([3, 0])], "/codecs/0/configuration/chunk_shape/1"),
        ([sharding([3, 1], codecs=[])], "/codecs/0/configuration/codecs"),
        ([sharding([3, 1], index_codecs=[])], "/codecs/0/configuration/index_codecs"),
        (
            [
                sharding(
                    [3, 1], index_codecs=[LITTLE, {"name": "gzip", "configuration": {"level": 1}}]
                )
            ],
            "/codecs/0/configuration/index_codecs",
        ),
        ([sharding([3, 1], index_codecs=["bytes"])], "/codecs/0/configuration/index_codecs/0"),
        ([sharding([3, 1], index_location="middle")], "/codecs/0/configuration/index_location"),
        (
            [sharding([3, 2], codecs=[sharding([3, 2], codecs=[sharding([2, 2])])])],
            "/codecs/0/configuration/codecs/0/configuration/codecs/0/configuration/chunk_shape/0",
        ),
    ],
)
def test_chain_problems_have_json_path(codecs, location):
    problems = problems_of(codecs=codecs)
    assert len(problems) == 1
    assert next(iter(problems)).startswith(location)


def test_subchunks_divide_transposed_shard():
    codecs = [transpose(1, 0), sharding([1, 3])]
    meta = parse(codecs=codecs)  # the shard is (3, 2); transposed (2, 3)
    assert meta.chunk_shape == (3, 1)
    assert meta.shards == (3, 2)
    chain = meta.description()["chain"]
    assert chain["order"] == (1, 0)
    assert chain["array_bytes"]["subchunk_shape"] == (1, 3)
    assert problems_of(codecs=[transpose(1, 0), sharding([3, 1])])


def test_shards_in_shards_and_codecs_after_them():
    inner = sharding([2, 2], codecs=[transpose(1, 0), LITTLE, "crc32c"], index_location="start")
    codecs = [sharding([4, 4], codecs=[inner]), {"name": "gzip", "configuration": {"level": 1}}]
    meta = parse(chunk_grid=grid(8, 8), codecs=codecs)
    outer, after = meta.codecs.codecs
    assert isinstance(outer, ShardingIndexed)
    assert after == GZip(1)
    assert meta.chunk_shape == (2, 2)
    assert meta.shards == (8, 8)
    assert meta.order == "F"
    chain = meta.description()["chain"]["array_bytes"]
    assert chain["chain"]["array_bytes"]["index_location"] == "start"
    assert chain["index_chain"]["array_bytes"] == {"kind": "bytes", "unit_bytes": 8, "swap": False}
    assert v3.parse(v3.dump(meta), where="a") == meta


def test_transposes_compose_into_one_order():
    codecs = [transpose(1, 2, 0), transpose(1, 2, 0), LITTLE]
    meta = parse(shape=[2, 3, 4], chunk_grid=grid(2, 3, 4), codecs=codecs)
    assert meta.description()["chain"]["order"] == (2, 0, 1)
    identity = [transpose(1, 2, 0)] * 3 + [LITTLE]
    meta = parse(shape=[2, 3, 4], chunk_grid=grid(2, 3, 4), codecs=identity)
    assert meta.description()["chain"]["order"] is None


def test_big_endian_is_swapped():
    big = {"name": "bytes", "configuration": {"endian": "big"}}
    array_bytes = parse(codecs=[big]).description()["chain"]["array_bytes"]
    assert array_bytes == {"kind": "bytes", "unit_bytes": 4, "swap": True}
    meta = parse(data_type="complex128", fill_value=[0, 0], codecs=[big])
    array_bytes = meta.description()["chain"]["array_bytes"]
    assert array_bytes == {"kind": "bytes", "unit_bytes": 8, "swap": True}
    meta = parse(data_type="r32", fill_value=[0, 0, 0, 0], codecs=[big])
    assert meta.description()["chain"]["array_bytes"]["swap"] is False


@pytest.mark.parametrize(
    ("configuration", "location"),
    [
        ({"clevel": 10}, "/clevel"),
        ({"cname": "x"}, "/cname"),
        ({"shuffle": 1}, "/shuffle"),
        ({"shuffle": None}, "/shuffle"),
        ({"blocksize": -1}, "/blocksize"),
        ({"typesize": -1}, "/typesize"),
        ({"x": 1}, "/x"),
    ],
)
def test_faults_of_blosc(configuration, location):
    good = {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}
    codec = {"name": "blosc", "configuration": {**good, **configuration}}
    problems = problems_of(codecs=[LITTLE, codec])
    assert set(problems) == {f"/codecs/1/configuration{location}"}
    for name in good:
        less = {key: value for key, value in good.items() if key != name}
        codec = {"name": "blosc", "configuration": less}
        assert problems_of(codecs=[LITTLE, codec]) == {"/codecs/1/configuration": "missing_member"}


def test_blosc_without_shuffle_needs_no_typesize():
    codec = {"cname": "lz4", "clevel": 5, "shuffle": "noshuffle", "blocksize": 0}
    meta = parse(codecs=[LITTLE, {"name": "blosc", "configuration": codec}])
    assert meta.codecs.codecs[1] == Blosc("lz4", 5, 0, 0, 4)


@pytest.mark.parametrize("length", [2**63, 2**64 - 1, 10**30])
def test_sizes_beyond_63_bits_are_refused(length):
    assert problems_of(shape=[length, 1]) == {"/shape/0": "too_large"}
    assert "too_large" in problems_of(chunk_grid=grid(length, 1)).values()


def test_products_beyond_63_bits_are_refused():
    assert "/shape" in problems_of(shape=[2**40, 2**40], chunk_grid=grid(2**20, 2**20))
    assert problems_of(shape=[2**40, 2**40]) == {
        "/chunk_grid/configuration/chunk_shape": "too_large"
    }
    assert "too_large" in problems_of(chunk_grid=grid(2**40, 2**40)).values()
    codecs = [sharding([1, 1])]
    assert "too_large" in problems_of(chunk_grid=grid(2**30, 2**30), codecs=codecs).values()
    assert "too_large" in problems_of(chunk_grid=grid(2**16, 2**15), codecs=codecs).values()
    parse(chunk_grid=grid(2**15, 2**15), codecs=codecs)


def test_rank_0():
    meta = parse(shape=[], chunk_grid=grid(), codecs=[transpose(), LITTLE])
    assert meta.chunk_shape == meta.grid_shape == ()
    assert meta.description()["chain"]["order"] is None
    assert v3.parse(v3.dump(meta), where="a") == meta


@pytest.mark.parametrize("names", [["x", "x"], ["", None], [None, None]])
def test_names_of_axes(names):
    assert parse(dimension_names=names).dimension_names == tuple(names)


def test_groups():
    group = v3.parse(
        b'{"zarr_format": 3, "node_type": "group", "attributes": {"a": 1}, '
        b'"consolidated_metadata": {"kind": "inline", "must_understand": false, "metadata": {}}, '
        b'"x": {"must_understand": false}}',
        where="",
    )
    assert isinstance(group, GroupMeta)
    assert group.consolidated["kind"] == "inline"
    assert group.extra == {"x": {"must_understand": False}}
    assert v3.parse(v3.dump(group), where="") == group
    null = b'{"zarr_format": 3, "node_type": "group", "consolidated_metadata": null}'
    assert v3.parse(null, where="").consolidated is None


@pytest.mark.parametrize("text", [b"{}", b"[]", b"1", b"", b'{"zarr_format": true}'])
def test_invalid_node_document_raises(text):
    with pytest.raises(MetadataError):
        v3.parse(text, where="")


def test_values_are_compared_by_content():
    assert parse() == parse(chunk_key_encoding="default")
    assert hash(parse()) == hash(parse(chunk_key_encoding="default"))
    assert parse() != parse(attributes={"a": 1})
    assert len({parse(), parse(), parse(shape=[7, 4])}) == 2


@pytest.mark.parametrize(
    ("chunk", "codecs"),
    [
        ([2**60, 1], None),
        ([2**16, 2**15], {"name": "sharding_indexed", "configuration": {
            "chunk_shape": [1, 1], "codecs": ["bytes"],
            "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}}),
    ],
)  # fmt: skip
def test_size_beyond_engine_limit_is_problem(chunk, codecs):
    changes = {"data_type": "int32", "fill_value": 0, "chunk_grid": grid(*chunk)}
    if codecs is not None:
        changes["codecs"] = [codecs]
    assert "too_large" in problems_of(shape=chunk, **changes).values()


@pytest.mark.parametrize("later", [4, 17, 2**70])
def test_later_format_is_unsupported_not_invalid(later):
    """The document has no further problems, because Tessarr does not know its rules."""
    for document in ({"zarr_format": later}, {"zarr_format": later, "novel": [], "shape": "?"}):
        with pytest.raises(UnsupportedError) as caught:
            v3.parse(json.dumps(document).encode(), where="a")
        error = caught.value
        assert (error.kind, error.extension, error.key) == (
            "unsupported_format",
            str(later),
            "a/zarr.json",
        )
        assert f"Zarr format '{later}' is not supported" in str(error)
        assert "newer" in str(error)


def test_document_of_other_format_error_names_right_document():
    with pytest.raises(MetadataError, match=r"2 is not 3: .* are called \.zarray"):
        v3.parse(b'{"zarr_format": 2, "node_type": "group"}', where="")
    with pytest.raises(MetadataError, match=r"3 is not 2: .* is called zarr\.json"):
        v2.parse_group(b'{"zarr_format": 3}', None, where="")


def rectilinear(*axes):
    return {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": list(axes)}}


@pytest.mark.parametrize(
    ("changes", "defect", "same_as"),
    [
        ({"chunk_grid": grid(True, 2)}, "/chunk_shape/0: true, taken for 1", grid(1, 2)),
        (
            {"chunk_grid": grid(2, [1, 3])},
            "/chunk_shape: lists of lengths, taken for the grid 'rectilinear'",
            rectilinear(2, [1, 3]),
        ),
        (
            {"chunk_grid": rectilinear([True, 5.0], [[2.0, 2]])},
            r"0/0: true, taken for 1; .*0/1: 5\.0, taken for 5; .*2\.0, taken for 2",
            rectilinear([1, 5], [[2, 2]]),
        ),
    ],
)
def test_chunk_lengths_in_zarr_python_forms_read(changes, defect, same_as):
    with pytest.warns(TessarrWarning, match=defect) as caught:
        meta = parse(**changes)
    assert len(caught) == 1
    assert meta == parse(chunk_grid=same_as)
    assert json.loads(v3.dump(meta))["chunk_grid"] == same_as


def test_subchunk_lengths_in_zarr_python_forms_read():
    with pytest.warns(TessarrWarning, match="true, taken for 1"):
        meta = parse(codecs=[sharding([True, 2])])
    assert meta == parse(codecs=[sharding([1, 2])])


@pytest.mark.parametrize(
    "lengths", [grid(False, 2), grid(3.0, 2), rectilinear([0.5], [4]), rectilinear([[3, 2.0]], [4])]
)
def test_invalid_lengths_are_problems(lengths):
    with pytest.raises(MetadataError):
        parse(chunk_grid=lengths)
