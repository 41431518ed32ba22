"""Metadata of new arrays: every form of every argument, and all problems at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tessarr.codecs import (
    BZ2,
    ArrayArrayCodec,
    Blosc,
    Bytes,
    Crc32c,
    Delta,
    GZip,
    ShardingIndexed,
    Shuffle,
    Transpose,
    Zlib,
    Zstd,
)
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.format.chunk_key_encoding import DefaultKeys, V2Keys
from tessarr.metadata import v2, v3
from tessarr.metadata.attributes import normalize_attributes
from tessarr.metadata.build import build_array_meta
from tessarr.metadata.from_user import read_user_metadata
from tessarr.metadata.node import GroupMeta


def survives(meta):
    if meta.zarr_format == 3:
        return v3.parse(v3.dump(meta), where="") == meta
    written = v2.dump(meta)
    return v2.parse_array(written[".zarray"], written[".zattrs"], where="") == meta


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype", ["bool", "i1", "<u2", ">i4", "f2", ">f8", "c8", ">c16", "V3"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(), (10,), (0, 5), (10, 20, 30)])
def test_built_metadata_reads_back_equal(zarr_format, dtype, order, shape):
    meta = build_array_meta(shape=shape, dtype=dtype, order=order, zarr_format=zarr_format)
    assert survives(meta)
    assert meta.fill_value == bytes(meta.data_type.item_bytes)
    description = meta.description()
    swapped = description["chain"]["array_bytes"]["swap"]
    assert swapped == (zarr_format == 3 and dtype[0] == ">")
    assert description["dtype"] == (np.dtype(dtype) if zarr_format == 2 else meta.data_type.numpy)


def test_defaults():
    meta = build_array_meta(shape=(10000, 10000), dtype="int32")
    assert meta.zarr_format == 3
    assert meta.chunk_shape == (313, 313)
    assert meta.codecs.codecs == (Bytes("little"), Blosc("lz4", 5, 1, typesize=4))
    assert meta.chunk_key_encoding == DefaultKeys("/")
    assert meta.attributes == {}
    assert build_array_meta(shape=3, dtype="u1").codecs.array_bytes == Bytes(None)
    old = build_array_meta(shape=3, dtype="i4", zarr_format=2)
    assert old.codecs.bytes_bytes == (Blosc("lz4", 5, 1, typesize=4),)
    assert old.chunk_key_encoding == V2Keys(".")


@pytest.mark.parametrize("none", [None, [], ()])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_none_means_no_compression(none, zarr_format):
    meta = build_array_meta(shape=3, compressors=none, filters=none, zarr_format=zarr_format)
    assert meta.codecs.codecs == (Bytes("little"),)
    assert survives(meta)


@pytest.mark.parametrize(
    "compressors",
    [
        GZip(3),
        [GZip(3)],
        {"name": "gzip", "configuration": {"level": 3}},
        {"id": "gzip", "level": 3},
        [{"id": "gzip", "level": 3}],
    ],
)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_forms_of_codec(compressors, zarr_format):
    meta = build_array_meta(shape=3, compressors=compressors, zarr_format=zarr_format)
    assert meta.codecs.bytes_bytes == (GZip(3),)
    assert survives(meta)


def test_codecs_of_numcodecs(monkeypatch):
    numcodecs = pytest.importorskip("numcodecs")
    meta = build_array_meta(shape=3, compressors=numcodecs.Blosc("zstd", 3, 2), zarr_format=2)
    assert meta.codecs.bytes_bytes == (Blosc("zstd", 3, 2, typesize=8),)
    filters = [numcodecs.Delta("f8")]
    meta = build_array_meta(shape=3, compressors=numcodecs.Zlib(3), filters=filters, zarr_format=2)
    assert meta.codecs.codecs == (Delta("f8"), Bytes("little"), Zlib(3))
    assert survives(meta)
    meta = build_array_meta(shape=3, compressors=numcodecs.BZ2())
    assert meta.codecs.bytes_bytes == (BZ2(),)
    monkeypatch.setitem(numcodecs.registry.codec_registry, "test.theirs", numcodecs.Zlib)
    with pytest.raises(UnsupportedError, match="format 3"):
        build_array_meta(shape=3, compressors={"id": "test.theirs"})


def test_codecs_of_format_2_may_stand_anywhere():
    """Filters, and even the compressor, may be of any kind; they keep their roles."""
    for arguments, filters, compressor in [
        ({"filters": [Delta("i4")], "compressors": None}, ["delta"], None),
        ({"filters": None, "compressors": Delta("i4")}, [], "delta"),
        ({"filters": [Delta("i4"), Shuffle(4)], "compressors": None}, ["delta", "shuffle"], None),
        ({"codecs": [Delta("i4")]}, ["delta"], None),
        ({"codecs": [Shuffle(4), Zlib()]}, ["shuffle"], "zlib"),
        ({"filters": [Transpose("F")], "compressors": None}, [], None),
    ]:
        meta = build_array_meta(shape=(3, 4), dtype="i4", zarr_format=2, **arguments)
        document = v2.to_json(meta)
        assert [codec["id"] for codec in document["filters"] or []] == filters
        assert (document["compressor"] or {"id": None})["id"] == compressor
        assert survives(meta)
    with pytest.raises(ArgumentError, match="'delta' takes an array"):
        build_array_meta(shape=3, filters=[Shuffle(8), Delta("f8")], zarr_format=2)


def test_choices_are_recorded():
    meta = build_array_meta(shape=3, dtype="u1", compressors=Blosc(shuffle=-1))
    assert meta.codecs.bytes_bytes == (Blosc(shuffle="bitshuffle", typesize=1),)
    meta = build_array_meta(shape=3, dtype="c16", compressors=Blosc(shuffle=-1))
    assert meta.codecs.bytes_bytes == (Blosc(shuffle="shuffle", typesize=16),)
    meta = build_array_meta(shape=3, dtype="u1", compressors=Blosc(shuffle=-1), zarr_format=2)
    assert meta.codecs.bytes_bytes == (Blosc(shuffle=-1, typesize=1),)
    assert meta.description()["chain"]["bytes_bytes"][0]["shuffle"] == 2
    meta = build_array_meta(shape=3, dtype="V300", compressors=Blosc())
    assert meta.description()["chain"]["bytes_bytes"][0]["typesize"] == 1
    assert survives(meta)


def test_codecs_are_whole_chain():
    meta = build_array_meta(shape=(3, 4), codecs=[Transpose("F"), "zstd", "crc32c"])
    assert meta.codecs.codecs == (Transpose((1, 0)), Bytes("little"), Zstd(0), Crc32c())
    assert meta.order == "F"
    old = build_array_meta(
        shape=(3, 4), codecs=[Transpose("F"), Bytes("big"), Zlib(2)], zarr_format=2
    )
    assert old.data_type.numpy == np.dtype(">f8")
    assert v2.to_json(old)["order"] == "F"
    assert survives(old)
    with pytest.raises(ArgumentError, match="together with codecs"):
        build_array_meta(shape=3, codecs=["bytes"], compressors=None)
    with pytest.raises(ArgumentError, match="takes bytes"):
        build_array_meta(shape=3, codecs=["zstd", "bytes"])


def test_shards():
    meta = build_array_meta(
        shape=(100, 100), chunks=(10, 10), shards=(50, 50), order="F", compressors=[]
    )
    assert meta.shards == (50, 50)
    assert meta.chunk_shape == (10, 10)
    sharding = meta.codecs.array_bytes
    assert isinstance(sharding, ShardingIndexed)
    assert sharding.codecs.codecs == (Transpose((1, 0)), Bytes("little"))
    assert sharding.index_codecs.codecs == (Bytes("little"), Crc32c())
    assert survives(meta)


@pytest.mark.parametrize(
    ("chunks", "shards", "expected"),
    [
        ((10, 10), (None, 20), ((10, 10), (110, 20))),
        ((10, 10), -1, ((10, 10), (110, 60))),
        (10, 20, ((10, 10), (20, 20))),
        (None, (80, 60), ((80, 60), (80, 60))),
    ],
)
def test_forms_of_shards(chunks, shards, expected):
    meta = build_array_meta(shape=(105, 60), dtype="u1", chunks=chunks, shards=shards)
    assert (meta.chunk_shape, meta.shards) == expected


def test_default_subchunks_divide_shard():
    meta = build_array_meta(shape=(10**5, 10**5), dtype="u2", shards=(9999, 1000))
    assert all(s % c == 0 for s, c in zip(meta.shards, meta.chunk_shape, strict=True))


def test_error_names_all_faults():
    with pytest.raises(ArgumentError) as caught:
        build_array_meta(
            shape=(10, -1),
            dtype="u1",
            fill_value=300,
            compressors=[{"name": "gzip", "configuration": {"level": 12}}],
            filters=["crc32c"],
            chunk_key_encoding="default",
            dimension_separator="/",
            attributes={"a": {1, 2}, "b": 1j},
            order="A",
        )
    lines = str(caught.value).splitlines()
    assert lines[0] == "cannot create an array: 8 problems"
    names = [line.strip().split(":")[0] for line in lines[1:]]
    assert names == [
        "shape",
        "filters",
        "compressors",
        "fill_value",
        "dimension_separator",
        "attributes/a",
        "attributes/b",
        "order",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"chunks": (3, 3)}, "more lengths than the 1 axes"),
        ({"chunks": 3, "shards": 10}, "do not divide"),
        ({"chunks": 3, "shards": "many"}, "'many' is not an integer"),
        ({"shards": {"shape": 4, "index_location": "middle"}}, "middle"),
        ({"chunks": 0, "shards": "auto"}, "at least 1"),
        ({"shards": 4, "zarr_format": 2}, "no shards"),
        ({"dimension_names": ["x"], "zarr_format": 2}, "no dimension names"),
        ({"dimension_names": "x"}, "not a sequence"),
        ({"chunk_key_encoding": "default", "zarr_format": 2}, "those of .v2"),
        ({"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "-"}}}, "separator"),
        ({"dimension_separator": "-"}, "'-'"),
        ({"zarr_format": 4}, "not 2 or 3"),
        ({"filters": "packbits", "zarr_format": 2}, "calls so is tessarr.codecs.PackBitsV2"),
        ({"codecs": [Transpose((1, 0)), "bytes"]}, "2 axes for chunks of 1"),
        ({"codecs": [Delta(), Transpose("F")], "zarr_format": 2}, "no codec 'transpose'"),
        (
            {"codecs": [ShardingIndexed((2,))], "zarr_format": 2},
            "no codec 'sharding_indexed'",
        ),
        ({"codecs": [ShardingIndexed((3,))], "chunks": 10}, "does not divide"),
        (
            {"codecs": [ShardingIndexed((2,))], "shards": 10, "chunks": 5},
            "cannot be given together",
        ),
        ({"serializer": "zstd"}, "not one from arrays to bytes"),
        ({"compressors": "bytes"}, "not one from bytes to bytes"),
        ({"compressors": "no-such-codec"}, "no-such-codec"),
        ({"shape": 2**40, "chunks": 2**31, "dtype": "u1"}, "too many for blosc"),
        ({"shape": (2**62, 2**62), "chunks": (2**60, 2**60)}, "2\\*\\*63"),
        ({"dtype": "g"}, "float128"),
        ({"dtype": "M8", "zarr_format": 2}, "without a unit"),
        ({"dtype": [("a", "f4", 2)]}, "no fields that are arrays, such as 'a'"),
    ],
)
def test_faults(arguments, message):
    with pytest.raises((ArgumentError, UnsupportedError), match=message):
        build_array_meta(**{"shape": 10, **arguments})


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        (None, DefaultKeys("/")),
        ("v2", V2Keys(".")),
        ({"name": "default", "separator": "."}, DefaultKeys(".")),
        ({"name": "v2", "configuration": {"separator": "/"}}, V2Keys("/")),
        (V2Keys("/"), V2Keys("/")),
    ],
)
def test_forms_of_key_encodings(encoding, expected):
    meta = build_array_meta(shape=3, chunk_key_encoding=encoding)
    assert meta.chunk_key_encoding == expected
    assert survives(meta)


def test_fill_values():
    nan = np.frombuffer(b"\1\0\xc0\x7f", "<f4")[0]
    assert build_array_meta(shape=3, dtype="f4", fill_value=nan).fill_value == b"\1\0\xc0\x7f"
    assert (
        build_array_meta(shape=3, dtype="f4", fill_value="0x7fc00001").fill_value == b"\1\0\xc0\x7f"
    )
    old = build_array_meta(shape=3, dtype="f4", fill_value=nan, zarr_format=2)
    assert old.fill_value == np.float32("nan").tobytes()  # format 2 has only one NaN
    assert survives(old)
    assert build_array_meta(shape=3, fill_value=None).fill_value == bytes(8)
    assert build_array_meta(shape=3, fill_value=None, zarr_format=2).fill_value is None
    big = build_array_meta(shape=3, dtype=">i2", fill_value=1)
    assert big.fill_value == np.int16(1).tobytes()
    assert build_array_meta(shape=3, dtype=">i2", fill_value=1, zarr_format=2).fill_value == b"\0\1"


def test_attributes():
    assert normalize_attributes({"a": np.float32(0.5), "b": (1,)}) == {"a": 0.5, "b": [1]}
    with pytest.raises(ArgumentError, match="attributes/a: a value of type complex"):
        normalize_attributes({"a": 1j})
    assert normalize_attributes(None) == {}


def test_names_of_axes():
    meta = build_array_meta(shape=(3, 4), dimension_names=["x", None])
    assert meta.dimension_names == ("x", None)
    assert survives(meta)


def test_dimension_names_are_absent_in_format_2():
    meta = build_array_meta(shape=(3, 4), zarr_format=2)
    assert not hasattr(meta, "dimension_names")
    assert survives(meta)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_metadata_as_dict_is_its_documents(zarr_format):
    attributes = {"a": [1]}
    group = GroupMeta(zarr_format, attributes)
    array = build_array_meta(shape=(3, 4), zarr_format=zarr_format, attributes=attributes)
    for meta in (group, array):
        document = meta.to_dict()
        assert read_user_metadata(document, "") == meta
        document["attributes"]["a"].append(2)
        assert meta.attributes == {"a": [1]}


@dataclass(frozen=True)
class _Plus(ArrayArrayCodec):
    name = "test.plus"

    def encode(self, array):
        return array + 1

    def decode(self, array, spec):
        return array - 1


@pytest.mark.parametrize("shards", ["auto", True])
def test_auto_shards_have_expected_shape(shards):
    meta = build_array_meta(shape=(10**5, 10**5), dtype="u2", shards=shards)
    assert all(s % c == 0 for s, c in zip(meta.shards, meta.chunk_shape, strict=True))
    assert 2**18 <= np.prod(meta.chunk_shape) * 2 <= 2**20
    assert 2**25 < np.prod(meta.shards) * 2 <= 2**26
    explicit = build_array_meta(shape=(100, 10), dtype="u1", chunks=(30, 10), shards=shards)
    assert (explicit.chunk_shape, explicit.shards) == ((30, 10), (120, 10))
    assert build_array_meta(shape=(), dtype="u1", shards=shards).shards == ()
    assert build_array_meta(shape=(0, 5), dtype="u1", shards=shards).shards == (1, 5)


def test_shards_with_their_index_at_start():
    settings = {"shape": (4,), "index_location": "start"}
    meta = build_array_meta(shape=8, chunks=2, shards=settings)
    assert meta.shards == (4,)
    assert meta.codecs.array_bytes.index_location == "start"


def test_python_codec_before_shards_works():
    """The smallest separately readable part is then the shard."""
    meta = build_array_meta(shape=8, chunks=8, codecs=[_Plus(), ShardingIndexed((4,))])
    assert meta.chunk_shape == (8,)
    assert build_array_meta(shape=8, chunks=4, shards=8, filters=[_Plus()]).shards == (8,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"compressors": "nope"}, "compressors: codec 'nope' is not supported"),
        ({"compressors": ""}, "compressors: codec '' is not supported"),
        ({"dtype": "g"}, "dtype: data type 'float128' is not supported"),
        ({"chunk_key_encoding": "x"}, "chunk key encoding 'x' is not supported"),
        ({"filters": {"id": "shuffle"}}, "codec 'shuffle' is not one from arrays to arrays"),
        ({"chunks": "x"}, "chunks 'x' is not an integer"),
        (
            {"compressors": {"name": "zstd", "configuration": {"foo": 1}}},
            "codec 'zstd': got an unexpected keyword argument 'foo'",
        ),
    ],
)
def test_messages_contain_user_value(arguments, message):
    with pytest.raises((ArgumentError, UnsupportedError)) as caught:
        build_array_meta(shape=8, **arguments)
    assert message in str(caught.value)
