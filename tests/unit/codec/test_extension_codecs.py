"""The registered codecs of format 3: each number of their specifications."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tessarr
import tessarr.codec
from tessarr import dtype
from tessarr.codec import ArraySpec, Chain
from tessarr.codec.read import read_v3
from tessarr.codecs import (
    ZFP,
    ZFPY,
    BitRound,
    Bytes,
    CastValue,
    Conditional,
    Delta,
    N5Default,
    PackBits,
    PackBitsV2,
    PCodec,
    Reshape,
    ScaleOffset,
    ShardingIndexed,
    Shuffle,
    Transpose,
    Zstd,
)
from tessarr.errors import ArgumentError, DataError, MetadataError, UnsupportedError
from tessarr.format.validation import Problems
from tessarr.metadata import v3


def spec_of(array, fill=None):
    return ArraySpec(array.shape, dtype.to_data_type(array.dtype), fill)


def stored(array, *codecs, **arguments):
    """Store an array through codecs, in two chunks along each axis; return its elements."""
    chunks = tuple(-(-n // 2) or 1 for n in array.shape)
    codec = tessarr.create_array(
        None, shape=array.shape, dtype=array.dtype, chunks=chunks, codecs=codecs, **arguments
    )
    codec[...] = array
    return codec[...]


def problems_of(codec, spec):
    """Return the locations of the problems of a codec for arrays of `spec`."""
    problems = Problems()
    codec.check(spec, "", problems)
    return [problem.loc for problem in problems.found]


# packbits


def packed(values, bits, first=0):
    """Pack numbers bit by bit, as in the specification."""
    sequence = [int(value) >> (first + bit) & 1 for value in values for bit in range(bits)]
    data = bytearray(-(-len(sequence) // 8))
    for position, bit in enumerate(sequence):
        data[position // 8] |= bit << position % 8
    return bytes(data)


@given(
    st.sampled_from(("|i1", "|u1", "<i2", ">u2", "<u4", "<i8", "<u8")),
    st.lists(st.integers(0, 2**63), max_size=20),
    st.integers(0, 63),
    st.integers(1, 64),
    st.sampled_from(("none", "first_byte", "last_byte")),
)
def test_packbits_of_integers(name, numbers, first, bits, padding):
    width = 8 * np.dtype(name).itemsize
    first, last = first % width, min(first % width + bits, width) - 1
    bits = last - first + 1
    array = np.array([n % 2**width for n in numbers], "u8").astype(name)
    codec = PackBits(padding, first, last)
    encoded = codec.encode(array)
    unsigned = array.astype(array.dtype.newbyteorder("=")).view(f"u{array.itemsize}")
    body = packed(unsigned, bits, first)
    unused = bytes([-bits * len(numbers) % 8])
    expected = {"none": body, "first_byte": unused + body, "last_byte": body + unused}
    assert encoded == expected[padding]
    assert codec.encoded_bytes(spec_of(array)) == len(encoded)
    decoded = codec.decode(encoded, spec_of(array))
    mask = (1 << bits) - 1
    values = [int(v) >> first & mask for v in unsigned]
    if array.dtype.kind == "i":
        values = [v - (mask + 1) if v >> (bits - 1) else v for v in values]
    assert decoded.dtype == array.dtype
    assert decoded.astype(object).tolist() == [v << first for v in values]


@given(hnp.arrays(bool, hnp.array_shapes(min_dims=0, max_dims=3, max_side=5)))
def test_packbits_of_booleans(array):
    encoded = PackBits().encode(array)
    assert encoded == packed(array.reshape(-1), 1)
    np.testing.assert_array_equal(PackBits().decode(encoded, spec_of(array)), array)


@pytest.mark.parametrize("name", ["f2", "f4", "f8", "c8", "c16"])
def test_packbits_of_all_bits_are_bytes(name):
    array = np.arange(6, dtype=name).reshape(2, 3) / 7
    array = array.astype(name)
    assert PackBits().encode(array) == array.astype(f"<{name}").tobytes()
    np.testing.assert_array_equal(stored(array, PackBits("last_byte")), array)
    part = PackBits(first_bit=array.itemsize * 4 // (2 if name[0] == "c" else 1))
    assert part.decode(part.encode(array), spec_of(array)).shape == (2, 3)


def test_packbits_of_damaged_bytes():
    spec = ArraySpec((3,), dtype.to_data_type(bool))
    for codec, damaged in [
        (PackBits(), b""),
        (PackBits(), b"\1\2"),
        (PackBits("first_byte"), b"\4\1"),
        (PackBits("last_byte"), b"\1\xff"),
    ]:
        with pytest.raises(DataError):
            codec.decode(damaged, spec)


def test_packbits_of_both_formats_differ():
    assert tessarr.codec.to_codec("packbits") == PackBits()
    assert (
        tessarr.codec.to_codec({"id": "packbits"})
        == tessarr.codec.to_codec("numcodecs.packbits")
        == PackBitsV2()
    )
    assert PackBitsV2().to_json(3) == {"name": "numcodecs.packbits", "configuration": {}}


# bitround


@given(hnp.arrays("u2", 20), st.integers(1, 17))
def test_bitround_of_integers(array, keepbits):
    """The codec keeps the highest set bits: the nearest number with as many bits, ties to even."""
    for value, rounded in zip(
        array.tolist(), BitRound(keepbits).encode(array).tolist(), strict=True
    ):
        dropped = max(value.bit_length() - keepbits, 0)
        unit = 1 << dropped
        below, rest = value // unit, value % unit
        up = rest * 2 > unit or (rest * 2 == unit and below % 2)
        expected = (below + up) * unit
        assert rounded == (expected if expected < 2**16 else 0xFFFF // unit * unit)


def test_bitround_of_complex_numbers_rounds_both_parts():
    array = np.array([1.26 + 1.8j, -1.1 + 3j], "c8")
    np.testing.assert_array_equal(BitRound(1).encode(array), [1.5 + 2j, -1 + 3j])
    for name in ("c8", ">c8", "c16", "i4", ">i4", "f2"):
        assert stored(np.arange(5).astype(name), BitRound(2), Bytes()).tolist()[:4] == [0, 1, 2, 3]


# reshape


@pytest.mark.parametrize(
    ("shape", "given_shape", "expected"),
    [
        ([[0, 1], [2], 3], (10, 5, 6, 3), (50, 6, 3)),
        ([[0, 1], 10, [3, 4]], (2, 3, 10, 4, 5), (6, 10, 20)),
        ([-1], (), (1,)),
        ([], (1, 1), ()),
        ([2, -1, 3], (4, 6), (2, 4, 3)),
        ([[], [0]], (4,), (1, 4)),
    ],
)
def test_reshape(shape, given_shape, expected):
    array = np.arange(np.prod(given_shape, dtype=int)).reshape(given_shape)
    codec = Reshape(shape)
    assert problems_of(codec, spec_of(array)) == []
    encoded = codec.encode(array)
    assert encoded.shape == codec.encoded(spec_of(array)).shape == expected
    np.testing.assert_array_equal(codec.decode(encoded, spec_of(array)), array)
    document = {"name": "reshape", "configuration": {"shape": shape}}
    assert codec.to_json(3) == document
    assert read_v3(document, "", Problems()) == codec


@pytest.mark.parametrize(
    ("shape", "where"),
    [
        ([5], "/shape"),
        ([-1, 5], "/shape"),
        ([[0, 1], [2, 3]], "/shape/1"),
        ([[1], -1], "/shape/0"),
        ([4, [1], 2], "/shape/1"),
        ([[0], 4, [2]], "/shape"),
    ],
)
def test_reshape_to_other_size_is_problem(shape, where):
    assert problems_of(Reshape(shape), ArraySpec((2, 3, 4), dtype.to_data_type("i4")))[:1] == [
        where
    ]


def test_reshape_compiles_to_no_stage():
    spec = ArraySpec((4, 6), dtype.to_data_type("i4"))
    for endian in ("little", "big"):
        compiled = Chain.of([Transpose((1, 0)), Reshape([-1]), Bytes(endian)]).compile(spec)
        assert compiled["array_bytes"]["kind"] == "bytes"
        assert compiled["bytes_bytes"] == []
    array = np.arange(24, dtype="i4").reshape(4, 6)
    np.testing.assert_array_equal(stored(array, Reshape([-1]), Delta(), Bytes("big")), array)
    np.testing.assert_array_equal(stored(array, Reshape([[0, 1]]), ShardingIndexed((2,))), array)


def test_text_of_any_length_can_be_reshaped():
    array = np.array([["a", "bc"], ["", "déf"]], object)
    codec = tessarr.create_array(
        None,
        shape=(2, 2),
        dtype="string",
        chunks=(2, 2),
        filters=[Reshape([-1])],
        compressors=[Shuffle()],
    )
    codec[...] = array
    assert codec[...].tolist() == array.tolist()


# scale_offset


@given(
    st.sampled_from(("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")).flatmap(
        lambda name: st.tuples(
            hnp.arrays(name, st.integers(0, 5)),
            *[st.integers(*tessarr.codec.casting.integer_limits(dtype.to_data_type(name)))] * 2,
        )
    )
)
def test_scale_offset_of_integers(drawn):
    """All numbers are exact and read back, or the write raises an error."""
    array, offset, scale = drawn
    scale = scale % 5 - 2 if array.dtype.kind == "i" else scale % 5
    assume(scale)
    codec, spec = ScaleOffset(offset, scale), spec_of(array)
    assert problems_of(codec, spec) == []
    low, high = tessarr.codec.casting.integer_limits(spec.data_type)
    steps = [[int(x) - offset, (int(x) - offset) * scale] for x in array]
    if all(low <= number <= high for step in steps for number in step):
        encoded = codec.encode(array)
        assert encoded.astype(object).tolist() == [step[1] for step in steps]
        np.testing.assert_array_equal(codec.decode(encoded, spec), array)
    else:
        with pytest.raises(ArgumentError, match="does not fit"):
            codec.encode(array)


def test_scale_offset_undecodable_data_raises():
    spec = ArraySpec((2,), dtype.to_data_type("i1"))
    for codec, data in [(ScaleOffset(0, 2), [2, 3]), (ScaleOffset(100, 1), [0, 100])]:
        with pytest.raises(DataError):
            codec.decode(np.array(data, "i1"), spec)


def test_scale_offset_of_floats():
    array = np.array([0.5, np.nan, np.inf, -0.0, 1e30], "f4")
    codec = ScaleOffset(offset=0.25, scale="0x40000000")  # 2.0
    encoded = codec.encode(array)
    assert encoded.dtype == array.dtype
    np.testing.assert_array_equal(encoded, (array - np.float32(0.25)) * np.float32(2))
    np.testing.assert_array_equal(stored(array, codec, Bytes()), array)


# The transformation also applies to the fill value.


def test_fill_value_is_encoded_for_following_codecs():
    """Missing subchunks of a shard hold the transformed fill value."""
    codecs = [
        ScaleOffset(offset=-10, scale=0.1),
        CastValue("uint8", scalar_map={"encode": [["NaN", 0]], "decode": [[0, "NaN"]]}),
        ShardingIndexed((2,)),
    ]
    array = tessarr.create_array(
        None, shape=(8,), dtype="f8", chunks=(4,), codecs=codecs, fill_value=np.nan
    )
    meta = array._meta
    spec = meta.codecs.encoded_spec(meta.chunk_spec)
    assert (spec.data_type.name, spec.fill) == ("uint8", b"\0")
    array[1:3] = [20.0, 2540.0]
    np.testing.assert_array_equal(array[:], [np.nan, 20, 2540, *[np.nan] * 5])
    empty = codecs[2].index_codecs.encode(
        np.full((2, 2), 2**64 - 1, "<u8"), ArraySpec((2, 2), dtype.to_data_type("u8"))
    )
    chunk = meta.codecs.decode(empty, meta.chunk_spec)
    np.testing.assert_array_equal(chunk, [np.nan] * 4)


def document(name, configuration, data_type, fill):
    made_of_bytes = ("packbits", "n5_default", "zfp", "numcodecs.pcodec", "numcodecs.zfpy")
    extension = {"name": name}
    if configuration is not None:
        extension["configuration"] = configuration
    bytes_ = {"name": "bytes", "configuration": {"endian": "little"}}
    codecs = [extension] if name in made_of_bytes else [extension, bytes_]
    members = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [4],
        "data_type": data_type,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4]}},
        "chunk_key_encoding": {"name": "default"},
        "fill_value": 0 if fill is None else fill,
        "codecs": codecs[::-1] if name == "conditional" else codecs,
    }
    return json.dumps(members).encode()


@pytest.mark.parametrize(
    ("name", "configuration", "data_type", "fill", "where"),
    [
        ("cast_value", None, "float64", None, ""),
        ("cast_value", {"data_type": "nope"}, "float64", None, "/data_type"),
        ("cast_value", {"data_type": "bool"}, "float64", None, "/data_type"),
        ("cast_value", {"data_type": "int8", "x": 1}, "float64", None, "/x"),
        ("cast_value", {"data_type": "int8", "rounding": "up"}, "float64", None, "/rounding"),
        (
            "cast_value",
            {"data_type": "float32", "out_of_range": "wrap"},
            "float64",
            None,
            "/out_of_range",
        ),
        ("cast_value", {"data_type": "int8", "scalar_map": [1]}, "float64", None, "/scalar_map"),
        (
            "cast_value",
            {"data_type": "int8", "scalar_map": {"encode": [[1]]}},
            "float64",
            None,
            "/scalar_map",
        ),
        (
            "cast_value",
            {"data_type": "int8", "scalar_map": {"encode": [["x", 1]]}},
            "float64",
            None,
            "/scalar_map/encode/0/0",
        ),
        (
            "cast_value",
            {"data_type": "int8", "scalar_map": {"decode": [[300, 1]]}},
            "float64",
            None,
            "/scalar_map/decode/0/0",
        ),
        ("cast_value", {"data_type": "int8"}, "float64", "NaN", ""),
        ("cast_value", {"data_type": "int8"}, "float64", 0.5, ""),
        ("cast_value", {"data_type": "int8"}, "complex64", [0, 0], ""),
        ("scale_offset", {"x": 1}, "float64", None, "/x"),
        ("scale_offset", {"offset": "x"}, "float64", None, "/offset"),
        ("scale_offset", {"scale": [1]}, "float64", None, "/scale"),
        ("scale_offset", {"scale": 0}, "float64", None, "/scale"),
        ("scale_offset", {"scale": 300}, "uint8", None, "/scale"),
        ("scale_offset", {"offset": 1}, "uint8", None, ""),
        ("scale_offset", None, "bool", False, ""),
        ("bitround", {"keepbits": 0}, "float64", None, "/keepbits"),
        ("bitround", None, "float64", None, ""),
        ("bitround", {"keepbits": 3}, "bool", False, ""),
        ("reshape", {}, "float64", None, ""),
        ("reshape", {"shape": 4}, "float64", None, "/shape"),
        ("reshape", {"shape": [-1, -1]}, "float64", None, "/shape"),
        ("reshape", {"shape": [[1], [0]]}, "float64", None, "/shape"),
        ("reshape", {"shape": [0]}, "float64", None, "/shape"),
        ("reshape", {"shape": [3]}, "float64", None, "/shape"),
        ("packbits", {"padding_encoding": "start_byte"}, "float64", None, "/padding_encoding"),
        ("packbits", {"first_bit": 5, "last_bit": 4}, "float64", None, "/last_bit"),
        ("packbits", {"last_bit": 8}, "uint8", None, "/last_bit"),
        ("packbits", None, "r16", [0, 0], ""),
        ("n5_default", None, "float64", None, ""),
        (
            "n5_default",
            {"codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]},
            "float64",
            None,
            "/codecs/0",
        ),
        (
            "n5_default",
            {
                "codecs": [
                    {"name": "transpose", "configuration": {"order": [0]}},
                    {"name": "bytes", "configuration": {"endian": "little"}},
                ]
            },
            "float64",
            None,
            "/codecs/1",
        ),
        ("conditional", None, "uint8", None, ""),
        ("conditional", {"codecs": ["nope"]}, "uint8", None, "/codecs/0"),
        ("conditional", {"codecs": ["bytes"]}, "uint8", None, "/codecs/0"),
        ("conditional", {"codecs": ["crc32c"], "header_bits": 12}, "uint8", None, "/header_bits"),
        ("zfp", None, "float64", None, ""),
        ("zfp", {"mode": "best"}, "float64", None, "/mode"),
        ("zfp", {"mode": "reversible", "rate": 3}, "float64", None, "/rate"),
        ("zfp", {"mode": "fixed_rate"}, "float64", None, "/rate"),
        ("zfp", {"mode": "expert", "minbits": 1}, "float64", None, "/maxbits"),
        ("zfp", {"mode": "reversible"}, "complex64", [0, 0], ""),
        ("numcodecs.pcodec", {"level": 13}, "float64", None, "/level"),
        (
            "numcodecs.pcodec",
            {"delta_encoding_order": 2, "delta_spec": "none"},
            "float64",
            None,
            "/delta_encoding_order",
        ),
        ("numcodecs.zfpy", {"mode": 2}, "float64", None, "/rate"),
        ("numcodecs.zfpy", {"mode": 7}, "float64", None, "/mode"),
    ],
)
def test_invalid_configuration_error_has_json_path(name, configuration, data_type, fill, where):
    with pytest.raises((MetadataError, UnsupportedError)) as caught:
        v3.parse(document(name, configuration, data_type, fill), where="")
    path = f"/codecs/{int(name == 'conditional')}/configuration{where}"
    if isinstance(caught.value, MetadataError):
        assert [problem.loc for problem in caught.value.problems] == [path]
    else:
        assert path in str(caught.value)


# n5_default


def test_n5_block_has_header_and_big_endian_elements():
    """The header of the N5 specification, then big-endian elements in Fortran order."""
    array = np.arange(6, dtype="<u2").reshape(2, 3)
    encoded = N5Default().encode(array)
    assert encoded[:12] == struct.pack(">HHII", 0, 2, 2, 3)
    assert encoded[12:] == array.T.astype(">u2").tobytes()
    np.testing.assert_array_equal(stored(array, N5Default(["gzip"])), array)
    configuration = N5Default(["zstd"]).resolve(spec_of(array), 3).to_json(3)["configuration"]
    assert configuration["codecs"] == [
        {"name": "transpose", "configuration": {"order": [1, 0]}},
        {"name": "bytes", "configuration": {"endian": "big"}},
        {"name": "zstd", "configuration": {"level": 0, "checksum": False}},
    ]


def test_edge_block_of_other_length_decodes():
    spec = ArraySpec((3, 2), dtype.to_data_type("i4"), np.array(7, "i4").tobytes())
    block = np.arange(1, 5, dtype="i4").reshape(2, 2)
    decoded = N5Default().decode(N5Default().encode(block), spec)
    np.testing.assert_array_equal(decoded, [[1, 2], [3, 4], [7, 7]])
    longer = np.arange(20, dtype="i4").reshape(4, 5)
    np.testing.assert_array_equal(
        N5Default().decode(N5Default().encode(longer), spec), longer[:3, :2]
    )


def test_damaged_blocks_of_n5():
    spec = ArraySpec((2,), dtype.to_data_type("i4"))
    good = N5Default().encode(np.arange(2, dtype="i4"))
    huge = struct.pack(">HHI", 0, 1, 2**32 - 1)
    for damaged in (b"", good[:7], b"\0\1" + good[2:], b"\0\0\0\2" + good[4:], huge, good[:-1]):
        with pytest.raises(DataError):
            N5Default().decode(damaged, spec)


# conditional


def test_conditional_applies_codecs_that_shrink_chunk():
    conditional = Conditional([Shuffle(4), Zstd()])
    plain = np.arange(1000, dtype="<i4").tobytes()
    noise = np.random.default_rng(1).bytes(1000)
    assert conditional.encode(plain)[0] == 3
    assert conditional.encode(noise) == b"\0" + noise
    assert Conditional(["zstd"], decide="always").encode(noise)[0] == 1
    assert Conditional(["zstd"], decide="never").encode(plain)[0] == 0
    chosen = Conditional(conditional.codecs, 16, decide=lambda codec, *_: codec == Zstd())
    assert chosen.encode(plain)[:2] == b"\2\0"
    for codec_ in (conditional, chosen):
        for data in (plain, noise, b""):
            assert bytes(codec_.decode(codec_.encode(data))) == data
    array = np.arange(100, dtype="i4")
    np.testing.assert_array_equal(stored(array, Bytes("little"), conditional), array)
    assert chosen.to_json(3)["configuration"]["header_bits"] == 16
    assert read_v3(chosen.to_json(3), "", Problems()) == chosen


def test_conditional_of_damaged_bytes():
    codec = Conditional(["zstd"])
    bomb = codec.encode(bytes(1 << 20))
    for damaged in (b"", b"\4abc", b"\1abc"):
        with pytest.raises(DataError):
            codec.decode(damaged)
    with pytest.raises(DataError):
        codec.decode_at_most(bomb, 1000)


# pcodec, zfpy and zfp


@pytest.mark.parametrize("shape", [(), (5,), (6, 7), (3, 4, 5), (2, 3, 4, 5)])
def test_zfp(shape):
    pytest.importorskip("zfpy")
    for name in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"):
        array = np.asarray(np.random.default_rng(5).random(shape) * 100).astype(name)
        exact = ZFP("reversible")
        np.testing.assert_array_equal(exact.decode(exact.encode(array), spec_of(array)), array)
        if name[0] == "f":
            for codec in (
                ZFP("fixed_accuracy", tolerance=0.05),
                ZFP("fixed_rate", rate=24),
                ZFP("fixed_precision", precision=20),
                ZFP("expert", minbits=1, maxbits=16658, maxprec=64, minexp=-5),
            ):
                decoded = codec.decode(codec.encode(array), spec_of(array))
                assert np.abs(decoded.astype("f8") - array.astype("f8")).max() < 0.06


@pytest.mark.parametrize(
    "codec", [ZFPY(tolerance=0.01), ZFPY(2, rate=16), ZFP("fixed_rate", rate=16)]
)
def test_damaged_streams_of_zfp(codec):
    pytest.importorskip("zfpy")
    array = np.random.default_rng(5).random((9, 9))
    encoded = codec.encode(array)
    other = ArraySpec((9, 8), dtype.to_data_type("f8"))
    for damaged in (b"", encoded[:5], b"\xff" * len(encoded)):
        try:
            assert codec.decode(damaged, spec_of(array)).shape == (9, 9)
        except DataError:
            continue
    if isinstance(codec, ZFPY):
        with pytest.raises(DataError, match="shape"):
            codec.decode(encoded, other)
    with pytest.raises(UnsupportedError, match="expert"):
        ZFP("expert", minbits=3, maxbits=100, maxprec=10, minexp=-3).encode(array)
    with pytest.raises(ArgumentError, match="more than"):
        ZFP("reversible").encode(np.array([2**32 - 1], "u4"))


@pytest.mark.parametrize("name", ["i2", "u4", "i8", "f2", "f4", ">f8"])
def test_pcodec(name):
    pytest.importorskip("pcodec")
    array = np.arange(60).reshape(5, 12).astype(name)
    for codec in (PCodec(), PCodec(3, delta_encoding_order=2, mode_spec="classic")):
        encoded = codec.encode(array)
        np.testing.assert_array_equal(codec.decode(encoded, spec_of(array)), array)
        for damaged in (b"", encoded[:20], encoded[:-2], b"\xff" * 40):
            with pytest.raises(DataError):
                codec.decode(damaged, spec_of(array))
        for shape in ((59,), (61,)):
            with pytest.raises(DataError):
                codec.decode(encoded, ArraySpec(shape, dtype.to_data_type(name)))


def test_missing_package_error_names_package(monkeypatch):
    for codec, package in [(PCodec(), "pcodec"), (ZFP("reversible"), "zfpy")]:
        monkeypatch.setitem(__import__("sys").modules, package, None)
        with pytest.raises(UnsupportedError, match="tessarr\\[codecs\\]") as caught:
            codec.encode(np.zeros(3))
        assert caught.value.kind == "missing_package"


# Types of few bits, which are those of ml_dtypes


@pytest.mark.parametrize(
    "name", ["int2", "uint2", "int4", "uint4", "float4_e2m1fn", "float6_e3m2fn"]
)
def test_packbits_of_types_of_few_bits(name):
    pytest.importorskip("ml_dtypes")
    data_type = dtype.to_data_type(name)
    bits = int("".join(c for c in name.split("_")[0] if c.isdigit()))
    patterns = np.random.default_rng(1).integers(0, 2**bits, (3, 5), "u1")
    array = patterns.view(data_type.numpy)
    encoded = PackBits().encode(array)
    assert encoded == packed(patterns.reshape(-1), bits)
    decoded = PackBits().decode(encoded, spec_of(array))
    assert decoded.dtype == data_type.numpy
    assert decoded.tobytes() == array.tobytes()


def test_codecs_of_types_of_few_bits():
    pytest.importorskip("ml_dtypes")
    for name, codecs in [
        ("int4", [ScaleOffset(offset=-3, scale=2), Bytes()]),
        ("int4", [CastValue("int8"), Bytes()]),
        ("int8", [CastValue("int4"), PackBits()]),
        ("bfloat16", [BitRound(4), Bytes("big")]),
        ("bfloat16", [ScaleOffset(offset=1, scale=2), CastValue("float32"), Bytes("little")]),
        ("float32", [CastValue("float8_e5m2"), Bytes()]),
        ("complex_bfloat16", [BitRound(4), PackBits("first_byte")]),
    ]:
        array = np.array([-3, -2, 0, 0], dtype.to_data_type(name).numpy)
        assert stored(array, *codecs).tobytes() == array.tobytes()


# Names and registration


def test_codec_module_name_is_codec_name():
    """The registry finds modules by name, and imports them only if a document names the codec."""
    import subprocess
    import sys

    from tessarr import codecs
    from tessarr.codec.base import find_codec, find_codec_by_id

    classes = [
        value
        for value in vars(codecs).values()
        if isinstance(value, type) and issubclass(value, tessarr.codec.Codec) and value.name
    ]
    assert len(classes) >= 32
    for cls in classes:
        for name in (cls.name, *cls.aliases):
            assert find_codec(name) is cls
        if cls.codec_id is not None:
            assert find_codec_by_id(cls.codec_id or cls.name) is cls
        else:
            assert find_codec_by_id(cls.name) in (None, PackBitsV2)
    code = (
        "import sys; from tessarr.codec.base import find_codec, find_codec_by_id; "
        f"names = {[cls.name for cls in classes]!r}; "
        "print(all(find_codec(n) for n in names), find_codec('base'), find_codec('a.b'),"
        " 'tessarr.codecs' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "None", "None", "False"]


def test_builtin_codecs_do_not_replace_registered_ones(monkeypatch):
    """The order of imports has no effect."""
    from tessarr.codec import base

    class Theirs(tessarr.codec.BytesBytesCodec):
        name = "numcodecs.delta"
        codec_id = "delta"

        def encode(self, data):
            return data

        def decode(self, data, out=None):
            return data

    before = (base._names[Delta.name], base._ids["delta"])
    try:
        tessarr.codec.register_codec(Theirs)
        tessarr.codec.register_codec(Delta)
        assert base.find_codec("numcodecs.delta") is base.find_codec_by_id("delta") is Theirs
    finally:
        base._names[Delta.name] = before[0]
        base._ids["delta"] = before[1]


def test_user_codec_name_is_written():
    document = {"name": "numcodecs.bitround", "configuration": {"keepbits": 5}}
    a = tessarr.create_array(None, shape=4, dtype="f4", filters=[document])
    a.resize(6)
    assert json.loads(a.store.get("zarr.json"))["codecs"][0] == document
