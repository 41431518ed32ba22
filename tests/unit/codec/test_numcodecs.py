"""Codecs of numcodecs: Tessarr has the same bytes and values, also in the engine."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tessarr
from tessarr import codec, dtype
from tessarr.codec import ArraySpec, Chain
from tessarr.codecs import (
    BZ2,
    CRC32,
    LZMA,
    Adler32,
    AsType,
    Base64,
    BitRound,
    Blosc,
    Crc32c,
    Delta,
    FixedScaleOffset,
    Fletcher32,
    GZip,
    JenkinsLookup3,
    PackBitsV2,
    Quantize,
    Shuffle,
    Zstd,
)
from tessarr.errors import ArgumentError, DataError

numcodecs = pytest.importorskip("numcodecs")

LZMA_FILTERS = [{"id": 3, "dist": 4}, {"id": 33, "preset": 1}]
BYTES_BYTES = [
    Adler32(),
    Adler32("end"),
    CRC32(),
    CRC32("end"),
    Crc32c(),
    Crc32c("start"),
    Fletcher32(),
    JenkinsLookup3(),
    JenkinsLookup3(initval=2**31 + 5),
    Base64(),
    BZ2(),
    BZ2(9),
    LZMA(preset=1),
    LZMA(preset=0, check=10),
    LZMA(format=2, preset=1),
    LZMA(format=3, filters=LZMA_FILTERS),
    *(Shuffle(n) for n in (0, 1, 2, 4, 8)),
]

INTEGERS = ("|i1", "|u1", "<i2", ">u2", "<u4", ">i4", "<i8", "<u8", ">u8")


def peer_of(ours):
    """Return numcodecs' codec with the same configuration."""
    return numcodecs.get_codec(ours.get_config())


def arrays(dtypes, **elements):
    shapes = hnp.array_shapes(min_dims=1, max_dims=3, max_side=9)
    return st.sampled_from(dtypes).flatmap(
        lambda name: hnp.arrays(name, shapes, elements=elements or None)
    )


def in_the_engine(ours, array):
    """Store an array with a single codec, check that it reads back, and return its chunk."""
    data_type = dtype.to_data_type(array.dtype)
    spec = ArraySpec(array.shape, data_type)
    chain = Chain((ours, codec.Bytes())).resolve(spec, 2)
    stages = chain.compile(spec, 2)["bytes_bytes"]
    if not stages:
        return None
    data = array.tobytes()
    for stage in stages:
        data = tessarr._engine.encode(stage, data)
    return data


@pytest.mark.parametrize("ours", BYTES_BYTES, ids=str)
@given(size=st.integers(1, 300), seed=st.integers(0, 2**32 - 1))
def test_bytes_equal_those_of_numcodecs(ours, size, seed):
    data = np.random.default_rng(seed).integers(0, 4, 8 * size, "u1").tobytes()
    theirs = peer_of(ours)
    encoded = bytes(ours.encode(data))
    assert encoded == bytes(theirs.encode(data))
    assert bytes(ours.decode(encoded)) == data
    assert bytes(ours.decode_at_most(encoded, len(data))) == data
    with pytest.raises(DataError):
        ours.decode(encoded, out=bytearray(len(data) - 1))


@pytest.mark.parametrize("ours", BYTES_BYTES, ids=str)
def test_empty_array_is_encoded(ours):
    """Numcodecs' Fletcher32 fails here."""
    assert bytes(ours.decode(ours.encode(b""))) == b""


@pytest.mark.parametrize("ours", BYTES_BYTES, ids=str)
def test_damage_is_data_error(ours):
    data = bytes(range(256)) * 8
    encoded = bytes(ours.encode(data))
    cut = encoded[:-3]
    if isinstance(ours, Shuffle) and ours.elementsize <= 1:
        with pytest.raises(DataError):
            ours.decode(cut, out=bytearray(len(data)))
        return
    with pytest.raises(DataError):
        ours.decode(cut)
    if isinstance(ours, Base64):
        with pytest.raises(DataError):
            ours.decode(b"*" + encoded[1:])
    elif not isinstance(ours, Shuffle):
        flipped = bytearray(encoded)
        flipped[len(flipped) // 2] ^= 0x55
        if ours == LZMA(format=2, preset=1) or (isinstance(ours, LZMA) and ours.format == 3):
            return  # has no checksum
        with pytest.raises(DataError):
            ours.decode(flipped)


@pytest.mark.parametrize("ours", [BZ2(9), LZMA(preset=1), LZMA(format=3, filters=LZMA_FILTERS)])
def test_decompression_bomb_raises(ours):
    bomb = ours.encode(bytes(1 << 24))
    with pytest.raises(DataError, match="more than 1000 bytes") as caught:
        ours.decode_at_most(bomb, 1000)
    assert caught.value.kind == "wrong_size"


def test_concatenated_streams_decode_and_trailing_bytes_raise():
    for ours in (BZ2(), LZMA(preset=1)):
        twice = bytes(ours.encode(b"abc")) + bytes(ours.encode(b"def"))
        assert bytes(ours.decode(twice)) == b"abcdef"
        with pytest.raises(DataError):
            ours.decode(twice + b"junk")


@given(arrays(INTEGERS), st.sampled_from(INTEGERS))
def test_delta_of_integers(array, astype):
    """In numcodecs the first item has to fit; Tessarr's wraps around."""
    array.flat[0] %= 100
    check_items(Delta(array.dtype, astype), array)


@given(arrays(("<f4", ">f4", "<f8", ">f8"), min_value=-(2.0**60), max_value=2.0**60))
def test_delta_of_floats(array):
    check_items(Delta(array.dtype), array)


def check_items(ours, array):
    """Compare the codec with numcodecs, and the engine with both."""
    theirs = peer_of(ours)
    with np.errstate(all="ignore"):
        expected = theirs.encode(array)
        again = theirs.decode(expected)
    encoded = ours.encode(array)
    assert encoded.dtype == np.dtype(expected.dtype) or isinstance(ours, BitRound)
    assert encoded.tobytes() == expected.tobytes()
    spec = ArraySpec(array.shape, dtype.to_data_type(array.dtype))
    assert ours.encoded(spec).shape == encoded.shape
    decoded = ours.decode(encoded, spec)
    assert (decoded.dtype, decoded.shape) == (array.dtype, array.shape)
    assert decoded.tobytes() == again.tobytes()
    if not isinstance(ours, BitRound):  # the codec does not know the element type for its view
        assert ours.decode(encoded.tobytes()).tobytes() == again.tobytes()
    stored = in_the_engine(ours, array)
    if stored is not None:
        assert stored == expected.tobytes()


@given(arrays(("<f2", "<f4", "<f8")), st.integers(0, 10))
def test_bitround(array, keepbits):
    """Tessarr supports the other byte order, which numcodecs lacks."""
    ours = BitRound(keepbits)
    check_items(ours, array)
    swapped = array.astype(array.dtype.newbyteorder(">"))
    encoded = ours.encode(swapped)
    assert encoded.astype(array.dtype).tobytes() == ours.encode(array).tobytes()
    assert in_the_engine(ours, swapped) == encoded.tobytes()


@given(
    arrays(("<f4", "<f8", ">f8"), min_value=-1000, max_value=1000),
    st.integers(-3, 12),
    st.sampled_from(("<f2", "<f4", "<f8", ">f4")),
)
def test_quantize(array, digits, astype):
    check_items(Quantize(digits, array.dtype, astype), array)


@given(
    arrays(("<f4", "<f8", ">f4"), min_value=-1000, max_value=1000),
    st.sampled_from((0, 1, -5.5, 1000)),
    st.sampled_from((1, 10, 0.25, 100)),
    st.sampled_from(("<i4", "<i8", ">i4", "<f4", "<f8")),
)
def test_fixedscaleoffset(array, offset, scale, astype):
    check_items(FixedScaleOffset(offset, scale, array.dtype, astype), array)


@given(arrays(INTEGERS), st.sampled_from((*INTEGERS, "<f4", "<f8")))
def test_astype(array, encode_dtype):
    check_items(AsType(encode_dtype, array.dtype), array)


@given(arrays(("|b1",)))
def test_packbits(array):
    check_items(PackBitsV2(), array)


def test_packbits_of_damaged_bytes():
    spec = ArraySpec((10,), dtype.to_data_type(bool))
    for damaged in ([], [0, 1, 2], [7, 1, 2], [200, 0, 0]):
        with pytest.raises(DataError):
            PackBitsV2().decode(np.array(damaged, "u1"), spec)


def test_filters_see_bytes_as_their_own_items():
    """As in format 2, a filter's type may differ from the array's."""
    array = np.arange(12, dtype="<i4").reshape(3, 4)
    for ours in (Delta("u1"), Delta("<i8"), AsType("<u4", ">u2"), Quantize(2, "<f4")):
        check_items(ours, array)


@pytest.mark.parametrize(
    ("config", "where"),
    [
        ({"id": "bz2", "level": 0}, "/level"),
        ({"id": "bz2", "level": "x"}, "/level"),
        ({"id": "lzma", "format": 7}, "/format"),
        ({"id": "lzma", "format": 3}, "/filters"),
        ({"id": "lzma", "preset": 10}, "/preset"),
        ({"id": "lzma", "preset": 1, "filters": [{"id": 33}]}, "/preset"),
        ({"id": "lzma", "filters": [{"id": 33, "dict_size": 2**40}]}, "/filters"),
        ({"id": "lzma", "filters": "x"}, "/filters"),
        ({"id": "crc32", "location": "middle"}, "/location"),
        ({"id": "jenkins_lookup3", "initval": -1}, "/initval"),
        ({"id": "jenkins_lookup3", "prefix": "x"}, "/prefix"),
        ({"id": "shuffle", "elementsize": -1}, "/elementsize"),
        ({"id": "shuffle", "elementsize": "x"}, "/elementsize"),
        ({"id": "delta", "dtype": "<U3"}, "/dtype"),
        ({"id": "delta", "dtype": "i4,i4"}, "/dtype"),
        ({"id": "delta", "dtype": 4}, "/dtype"),
        ({"id": "delta", "dtype": "<i4", "astype": "O"}, "/astype"),
        ({"id": "fixedscaleoffset", "scale": 0, "offset": 0}, "/scale"),
        ({"id": "fixedscaleoffset", "scale": 1}, ""),
        ({"id": "fixedscaleoffset", "scale": 10**400, "offset": 0}, "/scale"),
        ({"id": "fixedscaleoffset", "scale": True, "offset": 0}, "/scale"),
        ({"id": "quantize", "digits": 2, "dtype": "<i4"}, "/dtype"),
        ({"id": "quantize", "digits": 400, "dtype": "<f4"}, "/digits"),
        ({"id": "astype", "decode_dtype": "<f4"}, ""),
        ({"id": "bitround"}, ""),
        ({"id": "bitround", "keepbits": -1}, "/keepbits"),
    ],
)
def test_configuration_problems_have_json_path(config, where):
    problems = tessarr.format.validation.Problems()
    read = importlib.import_module("tessarr.codec.read").read_v2
    assert read(config, "/filters/0", problems, first=True) is None
    assert [problem.loc for problem in problems.found] == [f"/filters/0{where}"]
    with pytest.raises(ArgumentError):
        codec.to_codec(config)


def test_defaults_are_numcodecs_defaults():
    for config, expected in [
        ({"id": "bz2"}, BZ2(1)),
        ({"id": "lzma"}, LZMA()),
        ({"id": "crc32"}, CRC32("start")),
        ({"id": "crc32c", "location": "start"}, Crc32c("start")),
        ({"id": "jenkins_lookup3", "initval": 0, "prefix": None}, JenkinsLookup3()),
        ({"id": "delta", "dtype": "i4"}, Delta("<i4", "<i4")),
    ]:
        assert codec.to_codec(config) == expected


@pytest.mark.parametrize(
    ("name", "configuration", "expected"),
    [
        ("numcodecs.blosc", {"cname": "zstd", "clevel": 3, "shuffle": -1}, Blosc("zstd", 3, -1)),
        ("numcodecs.zstd", {"level": 3}, Zstd(3)),
        ("numcodecs.gzip", {"level": -1}, GZip(-1)),
        ("numcodecs.crc32c", {}, Crc32c()),
        ("numcodecs.crc32c", {"location": "start"}, Crc32c("start")),
        ("numcodecs.bitround", {"keepbits": 3}, BitRound(3)),
    ],
)
def test_codec_alias_survives_rewrite(name, configuration, expected):
    """The writer of the array may know no other name of the same codec."""
    problems = tessarr.format.validation.Problems()
    document = {"name": name, "configuration": configuration}
    read = importlib.import_module("tessarr.codec.read").read_v3(document, "", problems)
    assert read == expected
    spec = ArraySpec((4,), dtype.to_data_type("f4"))
    assert read.resolve(spec, 3).to_json(3) == document
    assert expected.resolve(spec, 2).to_json(2)["id"] == name.removeprefix("numcodecs.")
