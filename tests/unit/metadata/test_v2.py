"""Documents of format 2."""

from __future__ import annotations

import json
import zlib

import pytest

from tessarr import codec
from tessarr.codecs import Blosc, Bytes, GZip, Transpose, Zlib
from tessarr.errors import MetadataError, TessarrWarning, UnsupportedError
from tessarr.format.chunk_key_encoding import V2Keys
from tessarr.metadata import GroupMeta, v2
from tessarr.metadata.build import build_array_meta

MINIMAL = {
    "zarr_format": 2,
    "shape": [6, 4],
    "chunks": [3, 2],
    "dtype": "<i4",
    "compressor": None,
    "fill_value": 0,
    "order": "C",
    "filters": None,
}


def parse(zattrs=None, **changes):
    document = {**MINIMAL, **changes}
    return v2.parse_array(json.dumps(document).encode(), zattrs, where="a/b")


def problems_of(**changes):
    with pytest.raises(MetadataError) as caught:
        parse(**changes)
    return {problem.loc: problem.kind for problem in caught.value.problems}


def test_members_become_terms_of_format_3():
    meta = parse(
        dtype=">c16",
        order="F",
        filters=[{"id": "zlib", "level": 2}],
        compressor={"id": "gzip", "level": 3},
        dimension_separator="/",
        fill_value=["NaN", -0.0],
    )
    assert meta.codecs.codecs == (Transpose((1, 0)), Bytes("big"), Zlib(2), GZip(3))
    assert meta.chunk_key_encoding == V2Keys("/")
    assert meta.order == "F"
    assert meta.fill_scalar.imag == 0
    assert meta.chunk_shape == (3, 2)
    assert meta.shards is None
    array_bytes = meta.description()["chain"]["array_bytes"]
    assert array_bytes == {"kind": "bytes", "unit_bytes": 8, "swap": False}


def test_error_contains_all_problems():
    problems = problems_of(
        shape=[6, -4],
        dtype="|i4",
        compressor={"id": "blosc", "clevel": 10},
        order="A",
        filters=[{}],
        dimension_separator="-",
    )
    assert problems == {
        "/shape/1": "invalid_value",
        "/dtype": "invalid_value",
        "/compressor/clevel": "invalid_value",
        "/order": "invalid_value",
        "/filters/0": "missing_member",
        "/dimension_separator": "invalid_value",
    }


def test_message_names_document_and_every_problem():
    with pytest.raises(MetadataError) as caught:
        parse(order="A", shape=[1])
    assert str(caught.value).splitlines() == [
        "invalid metadata 'a/b/.zarray': 2 problems",
        "  /chunks: 2 chunk lengths for an array of 1 dimensions",
        "  /order: 'A' is not one of 'C', 'F'",
    ]
    assert caught.value.key == "a/b/.zarray"
    assert caught.value.path == "a/b"


@pytest.mark.parametrize("shape", [[2**63, 1], [2**62, 2], [2**40, 2**40]])
def test_sizes_beyond_63_bits_are_refused(shape):
    assert "too_large" in problems_of(shape=shape).values()
    assert "too_large" in problems_of(chunks=shape, shape=[1, 1]).values()


def test_largest_sizes_are_read():
    assert parse(shape=[2**63 - 1, 1], chunks=[2**59, 1]).grid_shape == (16, 1)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [[], [5], [2, 3, 4]])
def test_order_is_written_back(order, shape):
    meta = parse(shape=shape, chunks=shape, order=order)
    assert json.loads(v2.dump(meta)[".zarray"])["order"] == order
    assert meta.order == order


@pytest.mark.parametrize(
    ("filters", "compressor"),
    [
        (None, None),
        (None, {"id": "zlib", "level": 1}),
        ([{"id": "zlib", "level": 1}], None),
        ([{"id": "gzip", "level": 2}], {"id": "zlib", "level": 1}),
        ([{"id": "crc32c"}, {"id": "gzip", "level": 2}], None),
        (None, {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": -1}),
        (None, {"id": "zstd", "level": 3, "checksum": True}),
    ],
)
def test_filters_and_compressor_are_written_back(filters, compressor):
    meta = parse(filters=filters, compressor=compressor)
    document = json.loads(v2.dump(meta)[".zarray"])
    assert document["filters"] == filters
    assert document["compressor"] == compressor


def test_unknown_members_survive():
    meta = parse(_nczarr_array={"x": 1})
    assert meta.extra == {"_nczarr_array": {"x": 1}}
    assert json.loads(v2.dump(meta)[".zarray"])["_nczarr_array"] == {"x": 1}


def test_null_fill_value_means_none():
    meta = parse(fill_value=None)
    assert meta.fill_value is None
    assert meta.fill_scalar is None
    assert meta.description()["fill"] == bytes(4)
    assert json.loads(v2.dump(meta)[".zarray"])["fill_value"] is None


def test_attributes_have_separate_document():
    assert parse(zattrs=b'{"b": 1, "a": 1.0}').attributes == {"b": 1, "a": 1.0}
    with pytest.raises(MetadataError, match=r"'a/b/\.zattrs'"):
        parse(zattrs=b"[]")
    assert str(parse(zattrs=b'{"a": NaN}').attributes["a"]) == "nan"
    with pytest.warns(TessarrWarning, match="byte order mark"):
        assert parse(zattrs=b'\xef\xbb\xbf{"a": 1}').attributes == {"a": 1}


def test_attributes_survive_rewrite():
    text = b'{"z": null, "a": [true, 1, 1.0, 12345678901234567890], "\\u00e4": {"x": "\\ud800"}}'
    meta = parse(zattrs=text)
    again = parse(zattrs=v2.dump(meta)[".zattrs"])
    assert again.attributes == meta.attributes
    assert [type(item) for item in again.attributes["a"]] == [bool, int, float, int]


@pytest.mark.parametrize(
    ("size", "arguments"),
    [
        (323, {"shape": (10000, 10000), "chunks": (1000, 1000), "dtype": "i4"}),
        (323, {"shape": (10000, 10000), "chunks": (1000, 1000)}),
        (323, {"shape": (20000, 10000), "chunks": (1000, 1000)}),
        (322, {"shape": (30000, 1000), "chunks": (1000, 1000)}),
        (324, {"shape": (10000, 10000), "chunks": (1000, 1000), "fill_value": 42}),
        (301, {"shape": 100000000, "chunks": 1000000, "dtype": "i4"}),
        (
            302,
            {
                "shape": 100000000,
                "chunks": 1000000,
                "compressors": Blosc(cname="zstd", clevel=1, shuffle=1),
            },
        ),
        (209, {"shape": 100000000, "chunks": 1000000, "compressors": None}),
        (319, {"shape": (1000, 1000), "chunks": (100, 100), "dtype": "i4"}),
        (290, {"shape": 100, "chunks": 10}),
        (
            324,
            {
                "shape": (10000, 10000),
                "chunks": (1000, 1000),
                "dtype": "i4",
                "compressors": Blosc(cname="zstd", clevel=1, shuffle=1),
            },
        ),
        (
            275,
            {
                "shape": (10000, 10000),
                "chunks": (1000, 1000),
                "dtype": "i4",
                "compressors": Zlib(1),
            },
        ),
    ],
)
def test_document_sizes_match_tutorial(size, arguments):
    written = v2.dump(build_array_meta(zarr_format=2, **arguments))
    assert sum(map(len, written.values())) == size


def test_document_text_is_exact():
    meta = build_array_meta(
        shape=(20, 20),
        chunks=(10, 10),
        dtype="i4",
        fill_value=42,
        compressors=Zlib(1),
        zarr_format=2,
    )
    assert v2.dump(meta)[".zarray"].decode() == (
        '{\n    "chunks": [\n        10,\n        10\n    ],\n    "compressor": {\n'
        '        "id": "zlib",\n        "level": 1\n    },\n    "dtype": "<i4",\n'
        '    "fill_value": 42,\n    "filters": null,\n    "order": "C",\n    "shape": [\n'
        '        20,\n        20\n    ],\n    "zarr_format": 2\n}'
    )
    assert v2.dump(GroupMeta(2)) == {".zgroup": b'{\n    "zarr_format": 2\n}', ".zattrs": b"{}"}


def test_unknown_codecs_run_through_numcodecs(monkeypatch):
    """Tessarr calls numcodecs for codecs that Tessarr lacks."""
    numcodecs = pytest.importorskip("numcodecs")

    class Theirs(numcodecs.Zlib):
        codec_id = "test.theirs"

    monkeypatch.setitem(numcodecs.registry.codec_registry, Theirs.codec_id, Theirs)
    meta = parse(filters=[{"id": "delta", "dtype": "<i4"}], compressor={"id": "test.theirs"})
    chain = meta.description()["chain"]["bytes_bytes"]
    assert [item["name"] for item in chain] == ["delta", "test.theirs"]
    data = bytes(range(24))
    encoded = chain[1]["codec"].encode(data)
    assert zlib.decompress(encoded) == data
    assert bytes(chain[1]["codec"].decode(encoded, 100)) == data
    assert json.loads(v2.dump(meta)[".zarray"])["compressor"] == {"id": "test.theirs"}


def test_unknown_codec_of_format_2_raises():
    with pytest.raises(UnsupportedError) as caught:
        parse(filters=[{"id": "no-such-codec"}])
    assert caught.value.extension == "no-such-codec"


@pytest.mark.parametrize("codec_id", ["pickle", "vlen-utf8", "json2"])
def test_object_codecs_reject_other_elements(codec_id):
    with pytest.raises(MetadataError) as caught:
        parse(filters=[{"id": codec_id}])
    assert caught.value.problems[0].kind == "mismatch"


def test_missing_package_error_names_package(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "numcodecs", None)
    with pytest.raises(UnsupportedError, match="package numcodecs is not installed"):
        parse(compressor={"id": "not-ours", "level": 1})


def test_package_import_error_names_package(monkeypatch, tmp_path):
    """The import of numcodecs fails beside packages with an unknown version."""
    (tmp_path / "numcodecs.py").write_text("int('post0')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "numcodecs", raising=False)
    with pytest.raises(UnsupportedError, match="installed numcodecs cannot be imported") as caught:
        parse(compressor={"id": "not-ours", "level": 1})
    assert caught.value.kind == "missing_package"


def test_registered_user_codec_is_available_by_id():
    @codec.register_codec
    class Upside(codec.ArrayArrayCodec):
        name = "example.upside"

        def encode(self, array):
            return array[::-1]

        def decode(self, array, spec):
            return array[::-1]

    meta = parse(filters=[{"id": "example.upside"}], compressor={"id": "zlib", "level": 1})
    stage = meta.description()["chain"]["array_bytes"]
    assert stage["kind"] == "foreign"
    assert json.loads(v2.dump(meta)[".zarray"])["filters"] == [{"id": "example.upside"}]
    problems = problems_of(filters=[{"id": "zlib"}, {"id": "example.upside"}])
    assert problems == {"/filters/1": "mismatch"}


@pytest.mark.parametrize("text", [b"{}", b'{"zarr_format": 3}', b"[]", b"{", b"null"])
def test_groups_state_their_format(text):
    with pytest.raises(MetadataError):
        v2.parse_group(text, None, where="")


def test_groups_keep_their_attributes():
    group = v2.parse_group(b'{"zarr_format": 2}', b'{"a": 1}', where="")
    written = v2.dump(group)
    assert v2.parse_group(written[".zgroup"], written[".zattrs"], where="") == group


def test_chunk_length_true_reads_as_one():
    with pytest.warns(TessarrWarning, match="/chunks/0: true, taken for 1"):
        meta = parse(chunks=[True, 2])
    assert meta.chunk_shape == (1, 2)
