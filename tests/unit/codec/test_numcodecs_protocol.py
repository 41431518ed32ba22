"""Separate codecs, as in numcodecs: protocol, registry and representation."""

from __future__ import annotations

import json
import lzma
import zlib
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
import pytest

import tessarr
from tessarr import codecs
from tessarr.codec.base import deliver
from tessarr.codec.read import read_v2, read_v3
from tessarr.codecs import BytesBytesCodec, register_codec
from tessarr.errors import ArgumentError, UnsupportedError
from tessarr.format.validation import Problems

NUMBERS = np.arange(1000, dtype="i4")

EXAMPLES: dict[str, tuple[Any, Any, str]] = {
    "Blosc": (tessarr.Blosc("zstd", 3, 2), NUMBERS, "Blosc(cname='zstd', clevel=3, shuffle=2)"),
    "Blosc, blocks": (
        tessarr.Blosc(blocksize=512),
        NUMBERS,
        "Blosc(cname='lz4', clevel=5, shuffle=1, blocksize=512)",
    ),
    "Zlib": (tessarr.Zlib(level=1), NUMBERS, "Zlib(level=1)"),
    "GZip": (tessarr.GZip(), NUMBERS, "GZip(level=1)"),
    "BZ2": (tessarr.BZ2(2), NUMBERS, "BZ2(level=2)"),
    "LZMA": (
        tessarr.LZMA(
            filters=[
                {"id": lzma.FILTER_DELTA, "dist": 4},
                {"id": lzma.FILTER_LZMA2, "preset": 1},
            ]
        ),
        NUMBERS,
        "LZMA(format=1, check=-1, preset=None, filters=[{'dist': 4, 'id': 3}, {'id': 33, 'preset': 1}])",  # noqa: E501
    ),
    "Zstd": (tessarr.Zstd(3), NUMBERS, "Zstd(level=3, checksum=False)"),
    "LZ4": (tessarr.LZ4(), NUMBERS, "LZ4(acceleration=1)"),
    "Delta": (tessarr.Delta(dtype="i4"), NUMBERS, "Delta(dtype=int32)"),
    "Delta, narrow": (
        tessarr.Delta("i8", "i1"),
        np.arange(9),
        "Delta(dtype=int64, astype=int8)",
    ),
    "FixedScaleOffset": (
        tessarr.FixedScaleOffset(offset=1000, scale=10, dtype="f8", astype="u1"),
        np.linspace(1000, 1001, 11),
        "FixedScaleOffset(scale=10, offset=1000, dtype=float64, astype=uint8)",
    ),
    "Quantize": (
        tessarr.Quantize(digits=1, dtype="f8"),
        np.linspace(0, 1, 9),
        "Quantize(digits=1, dtype=float64)",
    ),
    "PackBits": (tessarr.PackBits(), np.array([True, False, False, True]), "PackBitsV2()"),
    "Categorize": (
        tessarr.Categorize(labels=[b"female", b"male"], dtype="S6"),
        np.array([b"male", b"female"]),
        "Categorize(dtype='|S6', astype='|u1', labels=['female', 'male'])",
    ),
}

EVERY = pytest.mark.parametrize("name", EXAMPLES)


@EVERY
def test_encode_decode_round_trips(name: str) -> None:
    codec, values, _ = EXAMPLES[name]
    decoded = codec.decode(codec.encode(values))
    assert np.array_equal(np.frombuffer(decoded, values.dtype), values)


@EVERY
def test_configuration_equality_and_text(name: str) -> None:
    codec, _, text = EXAMPLES[name]
    config = codec.get_config()
    assert config["id"] == codec.codec_id == type(codec).codec_id
    again = codecs.get_codec(config)
    assert again == codec == type(codec).from_config(config)
    assert hash(again) == hash(codec)
    assert codec != tessarr.Zlib(9)
    assert repr(codec) == text
    assert codecs.codec_registry[codec.codec_id] is type(codec)


@EVERY
def test_decoding_into_buffer(name: str) -> None:
    codec, values, _ = EXAMPLES[name]
    out = np.empty_like(values)
    decoded = codec.decode(codec.encode(values), out=out)
    assert decoded is out or np.shares_memory(decoded, out)
    assert np.array_equal(out, values)


@pytest.mark.parametrize(
    ("codec", "values"),
    [
        (codecs.JSON(), [["a", None], [1, [2]]]),
        (codecs.MsgPack(), [["a", None], [1, [2]]]),
        (codecs.Pickle(), [["a", None], [1, [2]]]),
        (codecs.VLenUTF8(), ["a", "é"]),
        (codecs.VLenBytes(), [b"a", b""]),
    ],
)
def test_codecs_of_objects(codec: Any, values: Any) -> None:
    shape = (2, 2) if isinstance(values[0], list) else (2,)
    objects = np.empty(shape, object)
    for index in np.ndindex(shape):
        objects[index] = values[index[0]][index[1]] if len(shape) == 2 else values[index[0]]
    stored = codec.encode(objects)
    assert codec.decode(stored).tolist() == values
    out = np.empty(shape, object)
    codec.decode(stored, out=out)
    assert out.tolist() == values
    assert codecs.get_codec(codec.get_config()) == codec


def test_numcodecs_reads_and_writes_same() -> None:
    numcodecs = pytest.importorskip("numcodecs")
    for codec, values, _ in EXAMPLES.values():
        peer = numcodecs.get_codec(codec.get_config()) if codec.codec_id != "categorize" else None
        if peer is not None:
            stored = peer.encode(values)
            assert np.array_equal(np.frombuffer(codec.decode(stored), values.dtype), values)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (tessarr.Blosc("zstd", 3, 2), {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2}),
        (tessarr.Blosc(blocksize=512), {"id": "blosc", "blocksize": 512}),
        (tessarr.Zstd(3), {"id": "zstd", "level": 3}),
        (tessarr.GZip(3), {"id": "gzip", "level": 3}),
        (tessarr.Delta("<i4"), {"id": "delta", "dtype": "<i4"}),
        (codecs.JSON(), {"id": "json2"}),
        (codecs.VLenUTF8(), {"id": "vlen-utf8"}),
    ],
    ids=["blosc", "blosc, blocks", "zstd", "gzip", "delta", "json2", "vlen-utf8"],
)
def test_codec_equals_codec_of_numcodecs(ours: Any, theirs: dict[str, Any]) -> None:
    numcodecs = pytest.importorskip("numcodecs")
    same = numcodecs.get_codec(dict(theirs))
    assert ours == same
    assert same == ours
    assert ours != numcodecs.Zlib(9)
    assert ours.get_config() == same.get_config()


def test_stored_compressor_equals_codec_of_numcodecs() -> None:
    numcodecs = pytest.importorskip("numcodecs")
    codec = numcodecs.Blosc(cname="zstd", clevel=3, shuffle=2)
    array = tessarr.create_array(shape=3, dtype="f8", zarr_format=2, compressors=codec)
    assert array.compressors == (codec,)
    assert (codec,) == array.compressors
    assert "blocksize" not in json.loads(array.store.get(".zarray"))["compressor"]


def test_blosc_shuffles_elements_of_input_array() -> None:
    assert len(tessarr.Blosc().encode(NUMBERS)) < len(tessarr.Blosc(typesize=1).encode(NUMBERS))
    assert tessarr.array(NUMBERS).compressors == (tessarr.Blosc(),)


class Deflated(codecs.Codec):
    """A codec in the style of zarr-python 2."""

    codec_id = "test.deflated"

    def __init__(self, level: int = 1) -> None:
        if not 0 <= level <= 9:
            raise ValueError(f"level {level} is not 0 to 9")
        self.level = level

    def encode(self, buf: Any) -> bytes:
        return zlib.compress(buf, self.level)

    def decode(self, buf: Any, out: Any = None) -> Any:
        return codecs.deliver(zlib.decompress(buf), out)


def test_codec_repr_matches_zarr_python_2() -> None:
    codecs.codec_registry[Deflated.codec_id] = Deflated
    assert "test.deflated" in codecs.codec_registry
    assert (Deflated(3), Deflated(3).get_config()) == (
        Deflated(3),
        {"id": "test.deflated", "level": 3},
    )
    store: dict[str, bytes] = {}
    for argument in (Deflated(3), {"id": "test.deflated", "level": 3}):
        a = tessarr.array(NUMBERS, store=store, zarr_format=2, compressor=argument, overwrite=True)
        assert np.array_equal(a[:], NUMBERS)
        assert zlib.decompress(store["0"]) == NUMBERS.tobytes()
        assert np.array_equal(tessarr.open_array(store, "r")[:], NUMBERS)
    b = tessarr.array(NUMBERS, zarr_format=2, filters=[Deflated()], compressor=None)
    assert np.array_equal(b[:], NUMBERS)
    c = tessarr.zeros(3, zarr_format=2, compression="test.deflated", compression_opts=2)
    assert c.compressors[0].get_config() == {"id": "test.deflated", "level": 2}
    with pytest.raises(ArgumentError, match="level 11"):
        codecs.get_codec({"id": "test.deflated", "level": 11})
    with pytest.raises(UnsupportedError, match="zarr_format=2"):
        tessarr.zeros(3, zarr_format=3, compressor=Deflated())


def test_registry_lists_registered_codecs() -> None:
    assert {"blosc", "zlib", "delta", "json2", "vlen-utf8"} <= set(codecs.codec_registry)
    assert len(codecs.codec_registry) == len(list(codecs.codec_registry))
    with pytest.raises(KeyError):
        codecs.codec_registry["test.nothing"]
    with pytest.raises(UnsupportedError, match=r"test\.nothing"):
        codecs.get_codec({"id": "test.nothing"})
    with pytest.raises(TypeError, match="codec_id"):
        codecs.register_codec(type("Nameless", (), {}))


def test_builtin_codec_can_be_replaced_and_restored() -> None:
    class Louder(Deflated):
        codec_id = "bz2"

    try:
        codecs.register_codec(Louder)
        a = tessarr.array(NUMBERS, zarr_format=2, compressor={"id": "bz2", "level": 1})
        assert zlib.decompress(a.store.get("0")) == NUMBERS.tobytes()
    finally:
        codecs.codec_registry["bz2"] = tessarr.BZ2
    assert codecs.get_codec({"id": "bz2"}) == tessarr.BZ2()


BYTES = [
    *(tessarr.Blosc(), tessarr.Zlib(), tessarr.GZip(), tessarr.BZ2(), tessarr.LZMA()),
    *(tessarr.Zstd(), tessarr.LZ4(), codecs.Base64(), codecs.Crc32c()),
]


@pytest.mark.parametrize("codec", BYTES, ids=repr)
@pytest.mark.parametrize(
    "values",
    [
        np.arange(12).reshape(3, 4, order="F"),
        np.arange(20)[::3],
        np.array(["2020-01-01", "NaT"], "M8[D]"),
        np.zeros(2, [("a", "i4"), ("b", "m8[s]")]),
        np.array(7),
        np.zeros((0, 3)),
    ],
    ids=["F", "gaps", "dates", "records", "no axes", "empty"],
)
def test_arrays_encode_in_memory_order(codec: Any, values: Any) -> None:
    """The order equals that of numcodecs."""
    assert bytes(codec.decode(codec.encode(values))) == values.tobytes("A")


def test_names_of_shuffles() -> None:
    """Users of numcodecs write Blosc.BITSHUFFLE."""
    assert tessarr.Blosc(shuffle=tessarr.Blosc.BITSHUFFLE) == tessarr.Blosc(shuffle="bitshuffle")  # type: ignore[arg-type]
    names = ("NOSHUFFLE", "SHUFFLE", "BITSHUFFLE", "AUTOSHUFFLE")
    assert [getattr(tessarr.Blosc, name) for name in names] == [0, 1, 2, -1]
    assert "SHUFFLE" not in tessarr.Blosc().get_config()


@dataclass(frozen=True)
class Weighted(BytesBytesCodec):
    """A user's codec with a parameter of every kind that a document may hold as text."""

    name = "test.weighted"
    count: int
    factor: float = 1.0
    strict: bool = False
    label: str = ""
    limit: Optional[int] = None  # noqa: UP045 (users write it so)
    levels: tuple[int, ...] = ()

    def encode(self, data: Any) -> Any:
        return data

    def decode(self, data: Any, out: Any = None) -> Any:
        return deliver(data, out)


def test_registered_codec_parameters_follow_annotations() -> None:
    """Numbers and booleans in text, and unknown members, follow the rules of builtin codecs."""
    register_codec(Weighted)
    configuration = {
        "count": "4",
        "factor": "2.5",
        "strict": "YES",
        "label": "7",
        "limit": "9",
        "x": 1,
    }
    problems = Problems()
    codec_ = read_v2({"id": "test.weighted", **configuration}, "/compressor", problems, first=True)
    assert codec_ == Weighted(4, 2.5, strict=True, label="7", limit=9)
    assert not problems.found
    assert problems.defects == [
        "/compressor/count: the text '4', taken for 4",
        "/compressor/factor: the text '2.5', taken for 2.5",
        "/compressor/strict: the text 'YES', taken for true",
        "/compressor/limit: the text '9', taken for 9",
        "/compressor/x: unknown member 'x', ignored",
    ]
    problems = Problems()
    del configuration["x"]
    document = {"name": "test.weighted", "configuration": configuration}
    assert read_v3(document, "/codecs/1", problems) == codec_
    assert len(problems.defects) == 4
    problems = Problems(strict=True)
    assert read_v2({"id": "test.weighted", "count": "4"}, "", problems, first=True) is None
    assert [problem.loc for problem in problems.found] == ["/count"]
