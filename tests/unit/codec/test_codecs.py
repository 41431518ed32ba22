"""Codec classes: configurations, protocols, and encoded bytes."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from tessarr import codec, dtype
from tessarr.codec import Chain
from tessarr.codecs import (
    LZ4,
    ArraySpec,
    Blosc,
    Bytes,
    Crc32c,
    GZip,
    ShardingIndexed,
    Transpose,
    Zlib,
    Zstd,
)
from tessarr.errors import ArgumentError, DataError, UnsupportedError
from tessarr.metadata.new_codecs import default_codecs

COMPRESSORS = [
    Blosc(),
    Blosc("zstd", 3, "bitshuffle", typesize=4),
    Blosc("blosclz", 9, 0, blocksize=4096),
    GZip(5),
    LZ4(),
    Zlib(1),
    Zlib(-1),
    Zstd(),
    Zstd(-5, checksum=True),
    Crc32c(),
]
DATA = np.arange(1000, dtype="<i4")


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)
def test_protocol_of_numcodecs(compressor):
    config = compressor.get_config()
    assert type(compressor).from_config(config).get_config() == config
    encoded = compressor.encode(DATA)
    assert bytes(compressor.decode(encoded)) == DATA.tobytes()
    out = np.empty_like(DATA)
    assert compressor.decode(encoded, out=out) is out
    np.testing.assert_array_equal(out, DATA)


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)
def test_decode_into_buffer_of_wrong_size_raises(compressor):
    encoded = compressor.encode(DATA)
    for size in (DATA.size - 1, DATA.size + 1):
        with pytest.raises(DataError):
            compressor.decode(encoded, out=np.empty(size, dtype=DATA.dtype))


@pytest.mark.parametrize("rank", [1, 2])
def test_decode_into_strided_array_fills_its_elements(rank: int) -> None:
    values = np.arange(12, dtype="i4").reshape((12,) if rank == 1 else (3, 4))
    target = np.zeros((*values.shape, 2), "i4")[..., 0]
    compressor = Zstd()
    assert compressor.decode(compressor.encode(values), out=target) is target
    assert target.tolist() == values.tolist()


def test_standard_libraries_read_bytes():
    assert gzip.decompress(GZip(3).encode(DATA)) == DATA.tobytes()
    assert zlib.decompress(Zlib(3).encode(DATA)) == DATA.tobytes()


def test_numcodecs_reads_bytes():
    numcodecs = pytest.importorskip("numcodecs")
    for compressor in COMPRESSORS:
        if isinstance(compressor, Crc32c):
            continue
        peer = numcodecs.get_codec(compressor.get_config())
        assert bytes(peer.decode(compressor.encode(DATA))) == DATA.tobytes()
        assert bytes(compressor.decode(peer.encode(DATA))) == DATA.tobytes()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("gzip", GZip()),
        ("lz4", LZ4()),
        ("numcodecs.lz4", LZ4()),
        ("zlib", Zlib()),
        ("zstd:5", Zstd(5)),
        ("zstd:-1", Zstd(-1)),
        ("zstd: level = 3, checksum=true", Zstd(3, checksum=True)),
        ("blosc:lz4hc,7", Blosc("lz4hc", 7)),
        ("blosc:cname=zstd,shuffle=2", Blosc("zstd", shuffle=2)),
        ("numcodecs.lz4:2", LZ4(2)),
        (GZip, GZip()),
        ({"name": "zstd", "configuration": {"level": 3}}, Zstd(3)),
        ({"name": "blosc", "configuration": {"cname": "zstd"}}, Blosc("zstd")),
        ({"id": "blosc", "cname": "zstd", "shuffle": -1}, Blosc("zstd", shuffle=-1)),
        ({"name": "transpose", "configuration": {"order": [1, 0]}}, Transpose((1, 0))),
        ({"name": "bytes", "configuration": {"endian": "big"}}, Bytes("big")),
        ({"id": "crc32c", "location": "end"}, Crc32c()),
    ],
)
def test_user_forms_of_codecs_are_accepted(value, expected):
    assert codec.to_codec(value) == expected


def test_sharding_from_json():
    json = ShardingIndexed((2, 2), ["gzip"], index_location="start").to_json(3)
    assert codec.to_codec(json).to_json(3) == json


@pytest.mark.parametrize(
    "value",
    [
        1,
        {},
        {"name": 1},
        {"name": "gzip", "level": 1},
        {"name": "gzip", "configuration": {"level": 10}},
        {"name": "gzip", "configuration": {"x": 1}},
        {"name": "gzip", "configuration": []},
        {"id": "zlib", "level": "1"},
        "zstd:",
        "zstd:x",
        "zstd:level=",
        "zstd:5,level=5",
        "gzip:1,2,3",
        "gzip:levl=1",
        "transpose",
    ],
)
def test_invalid_codec_raises(value):
    with pytest.raises(ArgumentError):
        codec.to_codec(value)


def test_unknown_codec_is_named():
    for name in ("nope", "nope:5"):
        with pytest.raises(UnsupportedError) as caught:
            codec.to_codec(name)
        assert caught.value.extension == "nope"


@pytest.mark.parametrize("name", ["zst", "zstdd", "zst:5", "ZSTD:level=5"])
def test_unknown_codec_suggests_a_similar_name(name):
    with pytest.raises(UnsupportedError, match="did you mean 'zstd'"):
        codec.to_codec(name)


@pytest.mark.parametrize(
    "make",
    [
        partial(GZip, 10),
        partial(GZip, "1"),
        partial(GZip, True),
        partial(Zstd, 23),
        partial(Blosc, "x"),
        partial(Blosc, clevel=10),
        partial(Blosc, shuffle=3),
        partial(Blosc, shuffle="x"),
        partial(Blosc, typesize=0),
        partial(Bytes, "middle"),
        partial(Transpose, (0, 0)),
        partial(Transpose, "X"),
        partial(ShardingIndexed, (0,)),
        partial(ShardingIndexed, (1,), index_location="middle"),
    ],
    ids=repr,
)
def test_parameters_are_checked(make):
    with pytest.raises(ArgumentError):
        make()


@pytest.mark.parametrize("order", [(1, 2, 0), (2, 0, 1), (0, 2, 1)])
def test_transpose_decode_inverts_encode(order):
    array = np.arange(24).reshape(2, 3, 4)
    spec = ArraySpec(array.shape, dtype.to_data_type(array.dtype))
    codec_ = Transpose(order)
    encoded = codec_.encode(array)
    assert encoded.shape == codec_.encoded(spec).shape == tuple(array.shape[i] for i in order)
    np.testing.assert_array_equal(codec_.decode(encoded, spec), array)


@dataclass(frozen=True)
class AddOne(codec.ArrayArrayCodec):
    name = "test.add_one"
    amount: int = 1

    def encode(self, array):
        return array + self.amount

    def decode(self, array, spec):
        return array - self.amount


@dataclass(frozen=True)
class Xor(codec.BytesBytesCodec):
    name = "test.xor"
    mask: int = 255

    def encode(self, data):
        return bytes(byte ^ self.mask for byte in bytes(data))

    def decode(self, data, out=None):
        return codec.deliver(self.encode(data), out)


class Text(codec.ArrayBytesCodec):
    name = "test.text"

    def encode(self, array):
        return " ".join(map(str, array.ravel().tolist())).encode()

    def decode(self, data, spec):
        numbers = np.array(bytes(data).split(), dtype=spec.data_type.numpy)
        return numbers.reshape(spec.shape)


def run(chain, array):
    """Encode and decode an array like the engine does with foreign codecs."""
    spec = ArraySpec(array.shape, dtype.to_data_type(array.dtype))
    compiled = chain.resolve(spec).compile(spec)
    order = compiled["order"] or range(array.ndim)
    stage = compiled["array_bytes"]["codec"]
    data = stage.encode(memoryview(np.ascontiguousarray(array.transpose(order)).tobytes()))
    for item in compiled["bytes_bytes"]:
        data = item["codec"].encode(data)
    encoded = bytes(data)
    for item in reversed(compiled["bytes_bytes"]):
        data = item["codec"].decode(data, 1000)
    flat = stage.decode(data, array.nbytes)
    shape = tuple(array.shape[axis] for axis in order)
    decoded = np.frombuffer(flat, dtype=array.dtype).reshape(shape).transpose(np.argsort(order))
    return encoded, decoded


@pytest.mark.parametrize(
    "codecs",
    [
        [AddOne(2), "bytes"],
        [Transpose((1, 0)), AddOne(), Transpose((1, 0)), Bytes("big")],
        [Text(), Xor()],
        [AddOne(), Text(), Xor(1), Xor(2)],
    ],
)
def test_codecs_written_in_python(codecs):
    array = np.arange(6, dtype="<i4").reshape(2, 3)
    encoded, decoded = run(Chain.of(codecs), array)
    np.testing.assert_array_equal(decoded, array)
    assert encoded != array.tobytes()


def test_foreign_codec_compiles_to_one_stage():
    spec = ArraySpec((2, 3), dtype.to_data_type("i4"))
    chain = Chain.of([Transpose((1, 0)), AddOne(), Bytes("little"), Zstd(1), Xor()])
    compiled = chain.compile(spec)
    assert compiled["order"] == (1, 0)
    assert compiled["array_bytes"]["name"] == "test.add_one+bytes"
    assert compiled["bytes_bytes"][0] == {"name": "zstd", "level": 1, "checksum": False}
    assert compiled["bytes_bytes"][1]["name"] == "test.xor"


def test_codec_decoding_to_wrong_size_raises():
    chain = Chain.of([AddOne(), "bytes"])
    spec = ArraySpec((2, 3), dtype.to_data_type("i4"))
    stage = chain.resolve(spec).compile(spec)["array_bytes"]["codec"]
    with pytest.raises(DataError):
        stage.decode(b"123", 24)


class Halving(AddOne):
    """A codec that violates its declared shape."""

    def encode(self, array):
        return array[:1]


class Widening(AddOne):
    """A codec that violates its declared data type."""

    def encode(self, array):
        return array.astype("i8")


@pytest.mark.parametrize("broken", [Halving(), Widening()])
def test_codec_result_is_checked_before_store(broken):
    spec = ArraySpec((2, 3), dtype.to_data_type("i4"))
    stage = Chain.of([broken, "bytes"]).resolve(spec).compile(spec)["array_bytes"]["codec"]
    with pytest.raises(ArgumentError, match="promises int32 of shape") as caught:
        stage.encode(bytes(24))
    assert caught.value.kind == "shape_mismatch"
    assert caught.value.codec == "test.add_one"


def test_configuration_of_dataclass_is_its_fields():
    assert Xor(3).get_config() == {"id": "test.xor", "mask": 3}
    assert Xor(3).to_json(3) == {"name": "test.xor", "configuration": {"mask": 3}}
    assert Xor.from_config({"id": "test.xor", "mask": 3}) == Xor(3)


def test_registered_codec_reads_by_name():
    codec.register_codec(Xor)
    assert codec.to_codec({"name": "test.xor", "configuration": {"mask": 3}}) == Xor(3)
    with pytest.raises(ArgumentError):
        codec.to_codec({"name": "test.xor", "configuration": {"no": 3}})
    with pytest.raises(TypeError, match="name"):

        @codec.register_codec
        class Nameless(codec.BytesBytesCodec):
            pass


def test_encoded_size_of_fixed_size_codec_is_known():
    spec = ArraySpec((3,), dtype.to_data_type("uint64"))
    assert Chain.of(["crc32c", "crc32c"]).encoded_bytes(spec) == 32
    assert Chain.of(["zstd"]).encoded_bytes(spec) is None
    assert Chain.of([ShardingIndexed((1,))]).encoded_bytes(spec) is None


@pytest.mark.parametrize("location", ["start", "end"])
def test_shards_after_python_codec_run_in_python(location):
    """NumPy divides the shard; absent subchunks hold the encoded fill value."""
    sharding = ShardingIndexed((2, 2), ["zstd"], index_location=location)
    array = np.arange(24, dtype="<i4").reshape(4, 6)
    _, decoded = run(Chain.of([AddOne(), sharding]), array)
    np.testing.assert_array_equal(decoded, array)
    fill = np.array(7, "<i4").tobytes()
    spec = ArraySpec((4, 6), dtype.to_data_type("i4"), fill)
    index = np.full((2, 3, 2), 2**64 - 1, "<u8")
    encoded = sharding.index_codecs.encode(index, ArraySpec(index.shape, dtype.to_data_type("u8")))
    assert (sharding.decode(encoded, spec) == 7).all()
    for damaged in (b"", encoded[:-1], sharding.index_codecs.encode(index * 0 + 1000, spec)):
        with pytest.raises(DataError):
            sharding.decode(damaged, spec)


def test_default_codec_is_blosc():
    assert default_codecs(dtype.to_data_type("f8")) == (Blosc("lz4", 5, 1),)


def test_parameters_beside_codec_name_error_names_configuration() -> None:
    with pytest.raises(ArgumentError, match=r"'level'; parameters stand in the member .configura"):
        codec.to_codec({"name": "zstd", "level": 3})
